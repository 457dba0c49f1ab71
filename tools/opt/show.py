"""--show-dialects, --show-passes, --show-pipeline: lists of dialects and passes with their documentation."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import cast

from xdsl.dialects import get_all_dialects
from xdsl.passes import ModulePass

from mlc.dialects import DIALECTS
from mlc.driver.pipeline.pipelines import PIPELINES, pipeline
from mlc.driver.pipeline.registry import (
    PASSES,
    USER_DIALECTS,
    USER_PASSES,
    import_target,
    pass_class,
    pass_names,
    xdsl_passes,
)
from mlc.driver.pipeline.text import option_types, type_text
from mlc.support.errors import UserError, did_you_mean
from mlc.support.registered.plugins import entry_points


def show_dialects() -> str:
    """One line for each dialect of mlc and its plugins, and the names of xDSL's."""
    lines = ["mlc:"]
    for name, target in DIALECTS.items():
        try:
            import_target(f"dialect '{name}'", target)
            doc = (import_module(target.partition(":")[0]).__doc__ or "").strip()
        except UserError as error:
            doc = f"not available: {error}"
        lines.append(f"  {name:<10} {doc.partition(chr(10))[0]}".rstrip())
    others = [*USER_DIALECTS, *entry_points("mlc.dialects")]
    if others:
        lines += ["plugins:", *(f"  {name}" for name in others)]
    return "\n".join([*lines, "xDSL:", f"  {', '.join(sorted(get_all_dialects()))}"])


def show_passes(name: str) -> str:
    """The passes of mlc and its plugins with their options; with a name, only that pass, whosever it is."""
    if name:
        if name not in (known := pass_names()):
            raise UserError(f"unknown pass '{name}'{did_you_mean(name, known)}")
        return "\n".join(_describe(name))
    lines = ["mlc:"]
    for own in PASSES:
        lines += _indented(own)
    others = [*USER_PASSES, *entry_points("mlc.passes")]
    if others:
        lines.append("plugins:")
    for other in others:
        lines += _indented(other)
    if PIPELINES:
        lines += ["pipelines (--show-pipeline=NAME):", f"  {', '.join(PIPELINES)}"]
    return "\n".join([*lines, "xDSL (--show-passes=NAME):", f"  {', '.join(sorted(xdsl_passes()))}"])


def _indented(name: str) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in _describe(name))


def _describe(name: str) -> Iterator[str]:
    yield name
    try:
        cls = pass_class(name)
    except UserError as error:
        yield f"    not available: {error}"
        return
    # A dataclass without a docstring gets its signature as one.
    doc = cls.__doc__ or ""
    if not doc.startswith(f"{cls.__name__}("):
        yield from (f"    {line}".rstrip() for line in inspect.cleandoc(doc).splitlines())
    yield from _describe_options(cls)


def _describe_options(cls: type[ModulePass]) -> Iterator[str]:
    types = option_types(cls)
    for field in dataclasses.fields(cls):
        if field.name not in types:
            continue
        default = ""
        if field.default is not dataclasses.MISSING:
            default = f" = {_value(field.default)}"
        elif field.default_factory is not dataclasses.MISSING:
            default = f" = {_value(field.default_factory())}"
        yield f"    {field.name.replace('_', '-')}: {type_text(types[field.name])}{default}"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


def show_pipeline(name: str) -> str:
    """A named pipeline, one pass a line, as --pass-pipeline takes it."""
    return "builtin.module(\n" + ",\n".join(f"  {spec}" for spec in _flatten(name, ())) + "\n)"


def _flatten(name: str, inside: tuple[str, ...]) -> Iterator[str]:
    if name in inside:
        raise UserError(f"pipeline '{name}' contains itself")
    for spec in pipeline(name):
        if spec in PIPELINES:
            yield from _flatten(spec, (*inside, name))
        else:
            yield spec
