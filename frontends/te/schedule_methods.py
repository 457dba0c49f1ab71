"""
The directives of `mlc.Schedule`: a method for each op of the sched dialect that the directives' table lists.

A method takes what its op declares, in this order: operands (handles), then properties (numbers, texts, attributes).
An op that has a function `make` is made by that, with its parameters. So a new op becomes a method by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, f64, i64
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    OperandDef,
    OptOperandDef,
    OptPropertyDef,
    PropertyDef,
    RangeLengthConstraint,
    RangeOf,
    VarOperandDef,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.types import DTypeLike, element_type
from mlc.dialects.index import Index, const, tile
from mlc.dialects.sched.handles import I64
from mlc.passes.loop.directives import DIRECTIVES
from mlc.support.errors import UserError

Argument: TypeAlias = (
    "SSAValue | Attribute | Index | int | float | str | Sequence[Argument] | Callable[..., Any] | None"
)
"""What a directive takes, with the handles replaced by their values."""

_FOUND = ("block", "loops", "child")  # the schedule has methods of its own for these
ALIASES = {"annotate": "pragma"}
"""Further names that TVM has for a directive."""


def directive_ops() -> dict[str, type[IRDLOperation]]:
    """The directives by the name of their method."""
    names = {op.name.removeprefix("sched."): op for op in DIRECTIVES if issubclass(op, IRDLOperation)}
    found = {name: op for name, op in names.items() if name not in _FOUND}
    return found | {alias: found[name] for alias, name in ALIASES.items()}


def signature_of(op: type[IRDLOperation]) -> inspect.Signature:
    """The parameters of a directive's method, as its op declares them."""
    if (make := getattr(op, "make", None)) is not None:
        return inspect.Signature(list(inspect.signature(make).parameters.values()))
    definition = op.get_irdl_definition()
    plain, several = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    found = [
        inspect.Parameter(name, several if isinstance(operand, VarOperandDef) else plain)
        for name, operand in definition.operands
    ]
    found += [
        inspect.Parameter(name, plain, default=None if isinstance(given, OptPropertyDef) else inspect.Parameter.empty)
        for name, given in definition.properties.items()
    ]
    return inspect.Signature(sorted(found, key=lambda p: p.kind is several))


def shown_signature(op: type[IRDLOperation]) -> inspect.Signature:
    """The signature of a method as `help` shows it."""
    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    last = inspect.Parameter("names", inspect.Parameter.KEYWORD_ONLY, default=())
    return inspect.Signature([first, *signature_of(op).parameters.values(), last])


def make_op(op: type[IRDLOperation], args: Sequence[Argument], named: Mapping[str, Argument]) -> Operation:
    """
    The op of a directive with these arguments.

    Raises UserError for a wrong number of arguments, and for one of a wrong kind.
    """
    signature = signature_of(op)
    form = f"{op.name.removeprefix('sched.')}({', '.join(map(_parameter, signature.parameters.values()))})"
    try:
        bound = signature.bind(*args, **named)
        make = getattr(op, "make", None)
        new = make(*bound.args, **bound.kwargs) if make is not None else _declared(op, bound.arguments)
        new.verify()
    except VerifyException as error:
        raise UserError(f"{op.name}: {error}") from None
    except (TypeError, AttributeError) as error:
        got = ", ".join([*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in named.items())])
        detail = f": {error}" if "argument" in str(error) else ""
        raise UserError(f"{op.name}: expected {form}, but got ({got}){detail}") from None
    return new


def _parameter(parameter: inspect.Parameter) -> str:
    return f"*{parameter.name}" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else parameter.name


def _shown(value: object) -> str:
    """An argument in a message: handles by their names."""
    if isinstance(value, SSAValue):
        return f"%{value.name_hint}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_shown, cast('Sequence[object]', value)))}]"
    return repr(value)


def _declared(op: type[IRDLOperation], given: Mapping[str, Any]) -> Operation:
    """An op without `make`, by its declaration."""
    definition = op.get_irdl_definition()
    operands: list[SSAValue] = []
    for name, operand in definition.operands:
        if isinstance(operand, OptOperandDef) and given.get(name) is None:
            continue
        values = _flat(given.get(name, ()))
        operands += [_operand(op, name, v, operand) for v in values]
    properties = {
        name: _property(op, name, given[name], wanted)
        for name, wanted in definition.properties.items()
        if not isinstance(wanted, OptPropertyDef) or given.get(name) is not None
    }
    results = [_type(result.constr) for _, result in definition.results]
    return op.create(operands=operands, properties=properties, result_types=results)


def _flat(value: object) -> Iterator[object]:
    if isinstance(value, tuple | list):
        for one in cast("Sequence[object]", value):
            yield from _flat(one)
    else:
        yield value


def _operand(op: type[IRDLOperation], name: str, value: object, wanted: OperandDef) -> SSAValue:
    kind = _type(cast("object", wanted.constr))
    if isinstance(value, SSAValue) and value.type == kind:
        return value
    got = cast("SSAValue", value).type.name.removeprefix("sched.") if isinstance(value, SSAValue) else repr(value)
    raise UserError(f"{op.name}: expected a {kind.name.removeprefix('sched.')} as {name}, but got {got}")


def _type(constraint: object) -> Attribute:
    """The one type that a constraint of the sched dialect admits."""
    if isinstance(constraint, RangeLengthConstraint):
        constraint = constraint.constraint
    if isinstance(constraint, RangeOf):
        constraint = cast("object", constraint.constr)
    assert isinstance(constraint, EqAttrConstraint)
    return cast("Attribute", constraint.attr)


_TYPE = BaseAttr(TypeAttribute)
_KINDS: dict[object, str] = {I64: "a whole number", BaseAttr(StringAttr): "a text", _TYPE: "a dtype"}
"""What the constraints of properties admit, in messages."""


def _property(op: type[IRDLOperation], name: str, value: object, wanted: PropertyDef) -> Attribute:
    try:
        attribute = element_type(cast("DTypeLike", value)) if wanted.constr == _TYPE else attribute_of(value)
        if attribute is None:
            raise VerifyException("")
        wanted.constr.verify(attribute, VerificationContext())
    except VerifyException:
        what = _KINDS.get(wanted.constr, "an attribute")
        raise UserError(f"{op.name}: expected {what} as {name}, but got {value!r}") from None
    return attribute


def attribute_of(value: object) -> Attribute | None:
    """The attribute of a Python value; None where there is none."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, int):
        return IntegerAttr(int(value), i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return StringAttr(value) if isinstance(value, str) else None


class _Axis:
    """A dimension of a buffer in the function of `transform_layout`: `lambda i, j: [i // 16, j, i % 16]`."""

    def __init__(self, index: Index) -> None:
        self.index = index

    def __add__(self, other: _Axis | int) -> _Axis:
        return _Axis(self.index + (other.index if isinstance(other, _Axis) else other))

    __radd__ = __add__

    def __sub__(self, other: _Axis | int) -> _Axis:
        return _Axis(self.index - (other.index if isinstance(other, _Axis) else other))

    def __mul__(self, other: int) -> _Axis:
        return _Axis(self.index * other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> _Axis:
        return _Axis(self.index.floordiv(other))

    def __mod__(self, other: int) -> _Axis:
        return _Axis(self.index.mod(other))


def layout(function: Callable[..., Any]) -> list[Index]:
    """The expressions of a layout that is given as a function of the old dimensions."""
    axes = [_Axis(tile(k)) for k in range(len(inspect.signature(function).parameters))]
    found = function(*axes)
    parts = list(cast("Sequence[Any]", found)) if isinstance(found, tuple | list) else [found]
    if not all(isinstance(part, _Axis | int) for part in parts):
        raise UserError(f"expected a list of expressions of the dimensions as layout, but got {found!r}")
    return [part.index if isinstance(part, _Axis) else const(part) for part in parts]
