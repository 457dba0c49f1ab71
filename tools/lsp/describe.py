"""What ops, their attributes, passes and their options are for: their docstrings, as Markdown."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from xdsl.context import Context
from xdsl.dialects.func import Func
from xdsl.ir import Operation, TypeAttribute
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.passes import ModulePass

from mlc.driver.pipeline.pipelines import PIPELINES
from mlc.driver.pipeline.registry import is_pass, pass_class
from mlc.driver.pipeline.text import option_types, type_text
from mlc.support.errors import UserError
from mlc.tools.opt.show import show_passes, show_pipeline


@dataclasses.dataclass(frozen=True)
class Described:
    """A name that may be written, what it is in a few words, and more about it in Markdown."""

    name: str
    detail: str = ""
    text: str = ""


def op_class(context: Context, name: str) -> type[Operation] | None:
    """The class of an op by the name in a text, where `func.` and `builtin.` may be left out."""
    spelled = name.strip('"')
    return context.get_optional_op(spelled, dialect_stack=("builtin", Func.name))


def op_text(cls: type[Operation]) -> str:
    """An op's docstring, and its attributes."""
    doc = docstring(cls)
    rows = [f"- `{one.name}`: {one.text or one.detail}".rstrip(": ") for one in attributes_of(cls)]
    attributes = "\n".join(["attributes:", *rows]) if rows else ""
    return "\n\n".join(filter(None, (f"**`{cls.name}`**", doc, attributes)))


def docstring(cls: type[Any]) -> str:
    """The docstring of a class; empty for one that Python made up, the signature of a dataclass."""
    doc = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    return "" if doc.startswith(f"{cls.__name__}(") else doc


def attributes_of(cls: type[Operation]) -> list[Described]:
    """The attributes that a text may give an op."""
    declared: dict[str, Any] = getattr(cls, "declared", {})
    if declared:
        return [Described(name, _default(one.default), str(one.what)) for name, one in declared.items()]
    if (definition := _definition(cls)) is None:
        return []
    hidden = {"operandSegmentSizes", "resultSegmentSizes"}
    return [Described(name) for name in (*definition.properties, *definition.attributes) if name not in hidden]


def has_regions(cls: type[Operation]) -> bool:
    """Whether an op is declared with regions."""
    definition = _definition(cls)
    return definition is not None and bool(definition.regions)


def _definition(cls: type[Operation]) -> OpDef | None:
    """An op's declaration; None for an op that is none of irdl's."""
    if not issubclass(cls, IRDLOperation):
        return None
    try:
        return cls.get_irdl_definition()
    except (AttributeError, NotImplementedError):
        return None  # an abstract class


def _default(value: Any) -> str:
    return "" if value is None else f"default {value}"


def named_attribute_text(context: Context, spelled: str) -> str:
    """The docstring of an attribute or a type of a dialect: `#graph.dims`, `!sched.block`."""
    name = spelled[1:]
    found: type[Any] | None = context.get_optional_attr(name) or context.get_optional_type(name)
    if found is None:
        return ""
    kind = "type" if issubclass(found, TypeAttribute) else "attribute"
    return f"**`{spelled}`** ({kind})\n\n{docstring(found)}".rstrip()


def pass_text_of(name: str) -> str:
    """A pass with its docstring and options, or the passes of a pipeline."""
    try:
        if is_pass(name):
            lines = show_passes(name).split("\n")
            return "\n".join([f"**`{name}`**", "", *(line.removeprefix("    ") + "  " for line in lines[1:])])
        if name in PIPELINES:
            return f"**`{name}`** (pipeline)\n\n```\n{show_pipeline(name)}\n```"
    except UserError as error:
        return f"**`{name}`**: {error}"
    return ""


def options_of(name: str) -> list[Described]:
    """The options of a pass; none for what is no pass."""
    cls = _pass(name)
    if cls is None:
        return []
    return [
        Described(field.replace("_", "-"), type_text(hint), _option_default(cls, field))
        for field, hint in option_types(cls).items()
    ]


def _option_default(cls: type[ModulePass], name: str) -> str:
    field = next(f for f in dataclasses.fields(cls) if f.name == name)
    return "" if field.default is dataclasses.MISSING else f"default `{field.default}`"


def values_of(name: str, option: str) -> Iterator[str]:
    """The words that an option of a pass may be, where they are few."""
    cls = _pass(name)
    hint = option_types(cls).get(option.replace("-", "_")) if cls is not None else None
    if hint is bool:
        yield from ("true", "false")
    for one in (hint, *get_args(hint)):
        if get_origin(one) is Literal:
            yield from map(str, get_args(one))


def _pass(name: str) -> type[ModulePass] | None:
    try:
        return pass_class(name) if is_pass(name) else None
    except UserError:
        return None
