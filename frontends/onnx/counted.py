"""
Values of which only a bound of one size is known at import: that many elements are computed, and a count beside them.

An op takes such a value if each of its results up to the count needs nothing beyond the count: elementwise ops,
movements that keep the axis whole, gathers at such indices. The model's outputs are cut to the count when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of

if TYPE_CHECKING:
    from mlc.frontends.onnx.node import Node, Value

HINT = "; only elementwise ops, transposes, gathers and the like work on such a value, or it is an output"


@dataclass(frozen=True)
class Count:
    """Along `axis` only the first `value` elements are there."""

    axis: int
    value: Any


def plain(value: Value) -> Value:
    """The value with all of its bound."""
    return value if value.counted is None else replace(value, counted=None)


def result_count(cls: Any, operands: Sequence[Value], attrs: dict[str, Any], shape: Sequence[Any]) -> Count | None:
    """What is there of an op's result, of this shape; None where the op cannot work on a bound."""
    counts = [v.counted for v in operands]
    known = [c for c in counts if c is not None]
    if issubclass(cls, g.UnaryOp | g.CastOp | g.ClipOp | g.IdentityOp | g.PreluOp | g.BinaryOp | g.WhereOp):
        return _aligned(operands, len(shape))
    if any(c.value is not known[0].value for c in known):
        return None
    rule = _RULES.get(cls)
    axis = None if rule is None else rule(operands, counts, attrs, shape)
    return None if axis is None else Count(axis, known[0].value)


def _aligned(operands: Sequence[Value], rank: int) -> Count | None:
    """Of operands that are broadcast: all have the same part along the axis, or one element."""
    found: Count | None = None
    for v in operands:
        if v.counted is not None:
            one = Count(v.counted.axis + rank - len(v.shape), v.counted.value)
            if found is not None and (found.axis != one.axis or found.value is not one.value):
                return None
            found = one
    assert found is not None
    for v in operands:
        axis = found.axis - rank + len(v.shape)
        if v.counted is None and axis >= 0 and v.shape[axis] != 1:
            return None
    return found


def _transpose(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    return list(attrs["axes"]).index(counts[0].axis)


def _reshape(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """The axis that has the same size, and as many elements before it."""
    source, axis = operands[0].shape, counts[0].axis
    for place, size in enumerate(shape):
        if size == source[axis] and np.prod(shape[:place]) == np.prod(source[:axis]):
            return place
    return None


def _take(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Of the indices, or of what is not indexed."""
    axis = axis_of(attrs.get("axis", 0), len(operands[0].shape))
    if counts[0] is None:
        return axis + counts[1].axis
    if counts[1] is not None or counts[0].axis == axis:
        return None
    return counts[0].axis if counts[0].axis < axis else counts[0].axis + len(operands[1].shape) - 1


def _concatenate(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    axes = {None if c is None else c.axis for c in counts}
    axis = axis_of(attrs.get("axis", 0), len(shape))
    return axes.pop() if len(axes) == 1 and axis not in axes else None


def _same(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """An axis that keeps its size."""
    axis = counts[0].axis
    return axis if len(shape) == len(operands[0].shape) and shape[axis] == operands[0].shape[axis] else None


def _rows(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Rows at indices: an axis of theirs."""
    return counts[1].axis if counts[0] is None else None


_RULES: dict[Any, Callable[[Any, Any, Any, Any], int | None]] = {
    g.TransposeOp: _transpose,
    g.ReshapeOp: _reshape,
    g.TakeOp: _take,
    g.ConcatenateOp: _concatenate,
    g.SliceOp: _same,
    g.BroadcastToOp: _same,
    g.GatherRowsOp: _rows,
}

# Ops whose converters do not take a bound for a size.
ALLOWED = frozenset(
    "Identity Cast Abs Neg Exp Log Sqrt Sin Cos Tan Tanh Sigmoid Relu Erf Floor Ceil Round Sign Not Reciprocal Clip "
    "Add Sub Mul Div Mod Pow Min Max And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where BitwiseAnd "
    "Transpose Squeeze Unsqueeze Gather GatherND Concat Flatten Shape Size If Loop Scan".split()
)


def check(node: Node) -> None:
    """Refuse an op that would take a bound for a size."""
    for index, value in enumerate(node.inputs):
        if value is not None and value.counted is not None and node.proto.op_type not in ALLOWED:
            raise node.fail(
                f"expected input {index} ('{value.name}') of a size known at import, but got up to "
                f"{value.shape[value.counted.axis]} elements{HINT}"
            )


def marked(value: Value, axis: int, count: Value) -> Value:
    """A value of which along an axis only a part is there."""
    return replace(value, counted=Count(axis, count))
