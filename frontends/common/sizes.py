"""
Arithmetic on sizes during import: the result of Shape, where sizes are symbolic, is an array of size expressions.

Such an array has numpy's dtype `object`; its elements are integers and `DimExpr`s, and stand for int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim, DimExpr, greatest, least
from mlc.frontends.common.values import Array
from mlc.support.errors import UserError
from mlc.support.limits import limits

EXPECTED_SIZES = "expected a tuple of whole numbers and names as its shape"
"""What is said of an input in `shapes=` whose sizes are none."""
LARGEST_SIZE = 10**9 - 1
"""The largest extent of an axis; a larger bound of a slice means the end of the axis."""
Span: TypeAlias = "tuple[int, int]"
"""The lowest and the highest value of a symbol."""


def identifier(name: str) -> str | None:
    """A name as an identifier of the text format; None if it cannot be made one."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return cleaned if re.fullmatch(r"[A-Za-z_]\w*", cleaned) else None


def check_shapes(shapes: object) -> None:
    """UserError unless `shapes`, an argument that need not be typed, is None or maps names of inputs to sizes."""
    check_mapping(shapes)
    for name, sizes in cast("Mapping[object, object]", shapes or {}).items():
        check_listed(sizes, f"input '{name}'")


def check_mapping(shapes: object) -> None:
    """UserError unless `shapes`, an argument that need not be typed, is None or a mapping."""
    if shapes is not None and not isinstance(shapes, Mapping):
        raise UserError(f"expected shapes as a dict of input name -> sizes, but got {type(shapes).__name__}")


def check_listed(sizes: object, what: str) -> None:
    """UserError unless the sizes of one input, an argument that need not be typed, are listed."""
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise UserError(f"{what}: {EXPECTED_SIZES}, but got {sizes!r}")


def check_sizes(shape: Iterable[Any], what: str) -> None:
    """UserError unless a tensor of this shape is within the limits; symbolic sizes are checked at run time."""
    sizes = list(shape)
    known = [size for size in sizes if isinstance(size, int)]
    most = limits.tensor_elements
    if len(sizes) > limits.rank or any(size < 0 for size in known) or math.prod(max(n, 1) for n in known) > most:
        text = "x".join(map(str, sizes[: limits.rank + 1]))
        raise UserError(
            f"{what}: expected at most {limits.rank} dims, each >= 0, of {most} elements in all, but got {text}"
        )


def applied(size: Dim, substitution: Mapping[str, Dim]) -> Dim:
    """A size after a substitution of symbols."""
    return size.evaluate(substitution) if isinstance(size, DimExpr) else size


def size_array(sizes: Dim | Sequence[Dim] | Array) -> Array:
    """An array of sizes: int64 if all are known, else of size expressions; booleans are returned as they are."""
    if isinstance(sizes, np.ndarray) and sizes.dtype == bool:
        return sizes
    array = np.array(sizes, object)
    return array if any(isinstance(v, DimExpr) for v in array.reshape(-1)) else array.astype(np.int64)


def holds_sizes(array: Array | None) -> bool:
    """Whether an array holds size expressions."""
    return array is not None and array.dtype == object


class Undecided(ValueError):
    """A comparison of sizes whose result depends on the inputs."""


def fold_sizes(op: GraphOp, arrays: Sequence[Array], spans: Mapping[str, Span]) -> list[Array] | None:
    """
    The results of an op on arrays of which some hold size expressions; None for an op without a rule for them.

    Comparisons are decided by the ranges of the symbols; `Undecided` is raised where these do not suffice.
    """
    if isinstance(op, COMPARISONS):
        ends = {name: DimExpr.symbol(name, *span) for name, span in spans.items()}
        arrays = [np.asarray(np.frompyfunc(lambda size: applied(size, ends), 1, 1)(a)) for a in arrays]
    if isinstance(op, MOVEMENTS):
        return [size_array(a) for a in op.evaluate(np, *arrays)]
    if isinstance(op, g.CastOp) and not str(op.type.element_type).startswith(("i", "si", "ui")):
        return None
    rule = FOLD_RULES.get(type(op))
    return None if rule is None else [size_array(rule(op, arrays))]


FoldRule: TypeAlias = "Callable[[Any, Sequence[Array]], Array]"
"""(op, operands) -> the result; the op is Any because each rule reads the attributes of its own class."""


def _elementwise(compute: Callable[..., Dim | bool]) -> FoldRule:
    """A function of elements."""
    return lambda op, arrays: np.asarray(np.frompyfunc(compute, len(arrays), 1)(*arrays))


def _quotient(a: Dim, b: Dim) -> Dim:
    """`a / b` rounded toward 0; an expression that may have either sign is taken as not negative, as sizes are."""
    if isinstance(b, int) and b < 0:
        return -_quotient(a, -b)
    high = a.bounds()[1] if isinstance(a, DimExpr) else a
    return a // b if high > 0 else -(-a // b)


def _compared(decide: Callable[[float, float], bool | None]) -> FoldRule:
    def decided(a: Dim, b: Dim) -> bool:
        difference = a - b
        low, high = difference.bounds() if isinstance(difference, DimExpr) else (difference, difference)
        if (result := decide(low, high)) is None:
            raise Undecided(f"expected sizes that compare whatever they are, but got {a} and {b}")
        return result

    return lambda op, arrays: _elementwise(decided)(op, arrays).astype(bool)


def _less(low: float, high: float) -> bool | None:
    """Whether a difference is less than 0; None if that depends on the symbols."""
    return True if high < 0 else False if low >= 0 else None


def _zero(low: float, high: float) -> bool | None:
    return low == 0 if low == high else None if low <= 0 <= high else False


def _clipped(op: Any, arrays: Sequence[Array]) -> Array:
    def clip(size: Dim) -> Dim:
        size = size if op.min == -np.inf else greatest(size, int(op.min))
        return size if op.max == np.inf else least(size, int(op.max))

    return _elementwise(clip)(op, arrays)


def _reduced(choose: Callable[[Dim, Dim], Dim]) -> FoldRule:
    fold = np.frompyfunc(choose, 2, 1)

    def rule(op: Any, arrays: Sequence[Array]) -> Array:
        return np.asarray(fold.reduce(arrays[0].reshape(-1))).reshape(g.static_shape(op.type))

    return rule


def _remainder(op: Any, arrays: Sequence[Array]) -> Array:
    def remainder(a: Dim, b: Dim) -> Dim:
        return _left(a, b, op.truncated)

    return _elementwise(remainder)(op, arrays)


def _left(a: Dim, b: Dim, truncated: bool) -> Dim:
    """`a % b`; `b` may be symbolic only if it is never less than the absolute value of the number `a`, as in `roll`."""
    if isinstance(b, int):
        return a - _quotient(a, b) * b if truncated else a % b
    low = b.bounds()[0]
    if not isinstance(a, int) or not (-low < a < low or (a == -low and not truncated)):
        raise ValueError(f"expected a remainder that is the same for all sizes, but got {a} % ({b})")
    return a if a >= 0 or truncated else a + b


def _where(op: Any, arrays: Sequence[Array]) -> Array:
    condition, x, y = arrays
    return np.where(condition.astype(bool), x, y)


def _sum(op: Any, arrays: Sequence[Array]) -> Array:
    return np.asarray(np.sum(arrays[0], axis=tuple(op.reduced_axes), keepdims=op.keepdims))


def _product(op: Any, arrays: Sequence[Array]) -> Array:
    return np.asarray(np.prod(arrays[0], axis=tuple(op.reduced_axes), keepdims=op.keepdims))


def _reshaped(op: Any, arrays: Sequence[Array]) -> Array:
    return arrays[0].reshape(g.static_shape(op.type))


def _inverted(op: Any, arrays: Sequence[Array]) -> Array:
    return ~arrays[0].astype(bool)


MOVEMENTS = (
    g.TakeOp, g.ConcatenateOp, g.SliceOp, g.TransposeOp, g.BroadcastToOp, g.SplitOp, g.TileOp,
)  # fmt: skip
COMPARISONS = (g.EqualOp, g.LessOp, g.LessEqualOp, g.GreaterOp, g.GreaterEqualOp)
FOLD_RULES: Mapping[type[GraphOp], FoldRule] = {
    g.AddOp: lambda op, arrays: arrays[0] + arrays[1],
    g.SubtractOp: lambda op, arrays: arrays[0] - arrays[1],
    g.MultiplyOp: lambda op, arrays: arrays[0] * arrays[1],
    g.DivideOp: _elementwise(_quotient),
    g.ModOp: _remainder,
    g.NegOp: lambda op, arrays: -arrays[0],
    g.MinimumOp: _elementwise(least),
    g.MaximumOp: _elementwise(greatest),
    g.ClipOp: _clipped,
    g.EqualOp: _compared(_zero),
    g.LessOp: _compared(_less),
    g.LessEqualOp: _compared(lambda low, high: _less(low - 1, high - 1)),
    g.GreaterOp: _compared(lambda low, high: _less(-high, -low)),
    g.GreaterEqualOp: _compared(lambda low, high: _less(-high - 1, -low - 1)),
    g.LogicalNotOp: _inverted,
    g.WhereOp: _where,
    g.CastOp: lambda op, arrays: arrays[0],
    g.ReshapeOp: _reshaped,
    g.ProdOp: _product,
    g.SumOp: _sum,
    g.MinOp: _reduced(least),
    g.MaxOp: _reduced(greatest),
}
"""Ops of sizes -> the function that folds them."""


__all__ = [
    "LARGEST_SIZE",
    "Span",
    "Undecided",
    "applied",
    "check_sizes",
    "fold_sizes",
    "holds_sizes",
    "identifier",
    "size_array",
]
