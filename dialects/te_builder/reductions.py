"""Reductions: the whole body of a stage, by a combiner with a name or by a reducer of the user's own."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Region

from mlc.dialects import scalar, te
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import DTypeLike, dtype_name
from mlc.dialects.te_builder.guards import if_then_else
from mlc.dialects.te_builder.indices import (
    Condition,
    IndexExpr,
    ReduceAxis,
    StageBuilder,
    check_name,
    condition,
    current_stage,
    writing,
)
from mlc.dialects.te_builder.scalars import Scalar, cast, holds
from mlc.dialects.te_builder.tensors import element_of_dtype
from mlc.support.errors import UserError


@dataclass(frozen=True)
class Reduction:
    """The result of a reduction stage's body: the combiner, the reduction axes, the value(s) of one point."""

    combiner: str | te.CustomReducer
    axes: tuple[ReduceAxis, ...]
    values: tuple[Scalar, ...]

    def __repr__(self) -> str:
        name = self.combiner.name if isinstance(self.combiner, te.CustomReducer) else f"te.{self.combiner}"
        return f"{name}(..., axis={', '.join(axis.name for axis in self.axes)})"

    def _refuse(self, *others: object) -> NoReturn:
        raise UserError(f"expected {self!r} to be the whole body of a stage; compute with its result in another stage")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse


def _reduction(name: str) -> Callable[..., Reduction]:
    def reduction(value: Scalar, axis: ReduceAxis | Sequence[ReduceAxis] = ()) -> Reduction:
        return Reduction(name, _axes(name, axis), (_element(name, value),))

    reduction.__doc__ = f"The {name} of the value over one or several axes; must be the whole body of a stage."
    return reduction


def any(*values: Scalar | Condition, axis: ReduceAxis | Sequence[ReduceAxis] = ()) -> Scalar | Reduction:
    """With an axis, whether one value along it is true: the whole body of a stage; else whether a condition holds."""
    return _of_booleans("any", "max", values, axis)


def all(*values: Scalar | Condition, axis: ReduceAxis | Sequence[ReduceAxis] = ()) -> Scalar | Condition | Reduction:
    """With an axis, whether all values along it are true: the whole body of a stage; else whether all conditions do."""
    if axis == () and values and builtins.all(isinstance(v, Condition) for v in values):
        return condition(v for v in values if isinstance(v, Condition))
    return _of_booleans("all", "min", values, axis)


def _of_booleans(
    name: str, combiner: str, values: Sequence[Scalar | Condition], axis: ReduceAxis | Sequence[ReduceAxis]
) -> Scalar | Reduction:
    found = [holds(v) if isinstance(v, Condition) else v for v in values]
    wrong = next((v for v in found if not isinstance(v, Scalar)), None)  # pyright: ignore[reportUnnecessaryIsInstance] - from users
    if wrong is not None or not found:
        raise UserError(f"expected te.{name} of conditions, or of elements along an axis, but got {wrong!r}")
    found = [cast(v, "bool") for v in found]
    if axis != ():
        if len(found) != 1:
            raise UserError(f"expected te.{name} of one value along an axis, but got {len(found)}")
        return Reduction(combiner, _axes(name, axis), (found[0],))
    return reduce((lambda a, b: a | b) if name == "any" else (lambda a, b: a & b), found)


def _pair(name: str) -> Callable[..., Reduction]:
    def reduction(
        value: Scalar, axis: ReduceAxis | Sequence[ReduceAxis] = (), index: Scalar | None = None
    ) -> Reduction:
        axes = _axes(name, axis)
        return Reduction(name, axes, (_element(name, value), cast(axes[0], "int64") if index is None else index))

    reduction.__doc__ = f"(the best value, its first index) over an axis: {name}; a stage of two results."
    return reduction


def reduce_axis(extent: Dim | tuple[int, int], name: str = "k") -> ReduceAxis:
    """A reduction axis for te.sum, te.max, ...; it runs from 0 to `extent`. Raises UserError for another extent."""
    if isinstance(extent, tuple):
        if extent[0] != 0:
            raise UserError(f"expected a reduction axis from 0, but got one from {extent[0]}; add it to the index")
        extent = extent[1]
    size = isinstance(extent, int | DimExpr)  # pyright: ignore[reportUnnecessaryIsInstance] - from users
    if not size or (isinstance(extent, int) and extent < 1):
        raise UserError(f"expected the extent of a reduction axis to be a size of at least 1, but got {extent!r}")
    check_name(name)
    return ReduceAxis(extent, name)


def size(n: Dim) -> IndexExpr:
    """A size as an index of the current stage."""
    stage = current_stage()
    return IndexExpr(stage, stage.index(n))


def _element(name: str, value: Scalar) -> Scalar:
    if not isinstance(value, Scalar):  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        raise UserError(f"expected te.{name} of an element of a tensor, but got {value!r}; use te.cast of an index")
    return value


def _axes(name: str, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[ReduceAxis, ...]:
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    found = tuple(a for a in axes if isinstance(a, ReduceAxis))
    if len(found) < len(axes):
        wrong = next(a for a in axes if not isinstance(a, ReduceAxis))
        raise UserError(f"expected axis to be made by te.reduce_axis, but got {wrong!r}")
    if not found:
        raise UserError(f"expected te.{name} to have an axis: k = te.reduce_axis(n) before, then te.{name}(.., axis=k)")
    return found


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Reduction]:
    """
    A reducer of the user's own: `reducer(value, axis=k)`, the whole body of a stage, or `reducer((a, b), axis=k)`.

    `fcombine(x, y)` combines what was reduced so far with a new value: two elements, or two tuples of them, to one.
    It must be commutative and associative. `fidentity(dtype, ...)` gives its neutral element for these element types,
    numbers such as `te.min_value(dtype)`: one, or a tuple. `reducer(..., where=condition)` leaves values out.
    """

    def reducer(
        value: Scalar | Sequence[Scalar],
        axis: ReduceAxis | Sequence[ReduceAxis] = (),
        where: Scalar | Condition | None = None,
    ) -> Reduction:
        given = [value] if isinstance(value, Scalar) or not isinstance(value, Sequence) else value  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        axes, values = _axes(name, axis), tuple(_element(name, v) for v in given)
        made = _reducer(fcombine, fidentity, name, values, given is value)
        if where is not None:
            held = [a.value.data for a in made.identity if isinstance(a, FloatAttr | IntegerAttr)]
            values = tuple(if_then_else(where, v, h) for v, h in zip(values, held, strict=True))
        return Reduction(made, axes, values)

    reducer.__name__, reducer.__doc__ = name, fcombine.__doc__
    return reducer


def _reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str, values: tuple[Scalar, ...], several: bool
) -> te.CustomReducer:
    """The reducer for values of these types, traced to a region."""
    stage = StageBuilder([], [])
    arguments = [
        Scalar(stage, stage.block.insert_arg(v.type, len(stage.block.args)), v.unsigned) for v in (*values, *values)
    ]
    halves = arguments[: len(values)], arguments[len(values) :]
    given = [tuple(half) if several else half[0] for half in halves]
    with writing(stage):
        found = _as_tuple(fcombine(*given))
    if len(found) != len(values):
        raise UserError(f"expected '{name}' to combine to {len(values)} values, but got {len(found)}")
    for k, (got, value) in enumerate(zip(found, values, strict=True)):
        if not isinstance(got, Scalar) or got.type != value.type:
            got = got.type if isinstance(got, Scalar) else repr(got)
            raise UserError(f"expected '{name}' to combine to a value of type {value.type} at {k}, but got {got}")
    stage.block.add_op(te.YieldOp.create(operands=[v.value for v in found]))
    return te.CustomReducer(name, Region(stage.block), _identity(fidentity, name, values))


def _identity(fidentity: Callable[..., Any], name: str, values: tuple[Scalar, ...]) -> tuple[Attribute, ...]:
    """The neutral elements as attributes of the types of the values."""
    given = fidentity(*(_dtype(v) for v in values))
    numbers = _as_tuple(given)
    if len(numbers) != len(values) or not builtins.all(isinstance(n, int | float) for n in numbers):
        raise UserError(f"expected the neutral elements of '{name}' to be {len(values)} numbers, but got {given!r}")
    constants = [scalar.constant(n, v.type) for n, v in zip(numbers, values, strict=True)]
    return tuple(op.value for op in constants if isinstance(op, arith.ConstantOp))


def _as_tuple(given: Any) -> tuple[Any, ...]:
    """What a function of the user's gives, one value or several."""
    return tuple(given) if isinstance(given, tuple | list) else (given,)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _dtype(value: Scalar) -> str:
    """The name of a value's element type, as numpy calls it."""
    name = dtype_name(value.type)
    return f"u{name}" if value.unsigned and not name.startswith("u") else name


def min_value(dtype: DTypeLike) -> int | float:
    """The lowest finite value of an element type: `te.min_value("float32")` is -3.4028...e38."""
    return _extreme(dtype, lowest=True)


def max_value(dtype: DTypeLike) -> int | float:
    """The highest finite value of an element type."""
    return _extreme(dtype, lowest=False)


def _extreme(dtype: DTypeLike, *, lowest: bool) -> int | float:
    element, unsigned = element_of_dtype(dtype)
    if element == i1:
        return 0 if lowest else 1
    if isinstance(element, IntegerType):
        bits = element.width.data
        low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return low if lowest else high
    highest = _HIGHEST.get(str(element))
    if highest is None:
        raise UserError(f"expected a type of real numbers, but got {dtype!r}")
    return -highest if lowest else highest


_HIGHEST = {
    "f16": 65504.0,
    "bf16": (2 - 2**-7) * 2.0**127,
    "f32": (2 - 2**-23) * 2.0**127,
    "f64": sys.float_info.max,
}
"""The highest finite number of each float type."""


def as_signed(result: Reduction) -> tuple[Reduction, Callable[[Scalar], Scalar] | None]:
    """
    An equivalent reduction on signed numbers, and the function that converts its result back.

    Booleans become 0 and 1 (their sum is "any", their product "all"); unsigned numbers have the highest bit flipped,
    which preserves their order.
    """
    value = result.values[0]
    if isinstance(result.combiner, te.CustomReducer):
        return result, None
    if value.type == i1:
        combiner = {"sum": "max", "prod": "min"}.get(result.combiner, result.combiner)
        return Reduction(combiner, result.axes, (cast(value, "int8"), *result.values[1:])), lambda x: cast(x, "bool")
    if not value.unsigned or result.combiner in ("sum", "prod"):
        return result, None
    assert isinstance(value.type, IntegerType)
    high = 1 << (value.type.width.data - 1)
    ordered = Scalar(value.stage, (value ^ high).value)

    def back(x: Scalar) -> Scalar:
        return Scalar(x.stage, (x ^ high).value, True)

    return Reduction(result.combiner, result.axes, (ordered, *result.values[1:])), back


sum, prod, max, min = (_reduction(name) for name in COMBINERS)
argmax, argmin = (_pair(name) for name in PAIR_COMBINERS)
