"""Running sums and products along an axis."""

from __future__ import annotations

from typing import Literal, TypeAlias

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import full
from mlc.frontends.common.movement import concat, slice_axis
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like

Combine: TypeAlias = Literal["add", "mul"]
MAX_UNROLLED_SCAN = 32
"""Elements of the longest axis whose running sum is log2(n) shifted additions, which fuse with the ops around them."""


def cumulative(
    node: SourceNode, x: Value, axis: int, combine: Combine, exclusive: bool = False, backward: bool = False
) -> Value:
    """
    The running sum or product of `x`; `exclusive` leaves each element itself out, `backward` runs from the end.

    A short axis is scanned in steps of 1, 2, 4, ...: each element is combined with the one that far before it.
    """
    op, neutral = (g.AddOp, 0.0) if combine == "add" else (g.MultiplyOp, 1.0)
    axis = axis_of(axis, len(x.shape))
    size = x.shape[axis]
    if size == 0:
        return x
    if not isinstance(size, int) or size > MAX_UNROLLED_SCAN:
        return node.emit(g.CumulativeOp, x, axis=axis, combine=combine, exclusive=exclusive, backward=backward)
    x = node.emit(g.FlipOp, x, axes=(axis,)) if backward else x
    if exclusive:
        x = _shifted(node, x, axis, 1, neutral)
    step = 1
    while step < size:
        x = node.emit(op, x, _shifted(node, x, axis, step, neutral))
        step *= 2
    return node.emit(g.FlipOp, x, axes=(axis,)) if backward else x


def _shifted(node: SourceNode, x: Value, axis: int, by: int, filler: float) -> Value:
    """`x` shifted up by some elements along an axis, with the filler in the first ones."""
    front = full(node, [*x.shape[:axis], by, *x.shape[axis + 1 :]], filler, dtype_like(x))
    return concat(node, [front, slice_axis(node, x, axis, 0, x.shape[axis] - by)], axis)
