"""
Selects by the position along a tile axis: where comparisons with constants decide them, the result is a concatenation.

`select(p <= 0, x, select(p <= 1, y, z))` along an axis of size 3 -> `loop.concat x, y, z`: no mask is made, and no
value is stretched along the axis. The transforms of Winograd's convolution select the sums of their rows in this way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index

_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
}


@dataclass(frozen=True)
class Pieces:
    """The values at the positions along an axis, each of size 1 there, or a scalar."""

    axis: int
    values: tuple[SSAValue, ...]


def holding(op: loop.CompareOp, e: Index, sizes: Sequence[int]) -> tuple[int, tuple[bool, ...]] | None:
    """
    The tile axis along which the comparison of an index with a constant is known, and the positions at which it holds.

    None where it depends on anything else, or along the last axis, whose positions are the lanes of vectors.
    """
    number, compare = op.b.owner, _HOLDS.get(op.predicate.data)
    if compare is None or not isinstance(number, arith.ConstantOp) or not isinstance(number.value, IntegerAttr):
        return None
    used = e.dims()
    if len(used) != 1 or not 0 <= (axis := -1 - min(used)) < len(sizes) - 1:
        return None
    constant = number.value.value.data
    return axis, tuple(compare(e.evaluate({-1 - axis: p}), constant) for p in range(sizes[axis]))


def pieces(
    known: tuple[int, tuple[bool, ...]], chosen: SSAValue | Pieces, otherwise: SSAValue | Pieces
) -> Pieces | None:
    """What a select yields at each position; None where a value differs along the axis in another way."""
    axis, holds = known
    sides = [_along(axis, len(holds), side) for side in (otherwise, chosen)]
    if sides[0] is None or sides[1] is None:
        return None
    return Pieces(axis, tuple((sides[1] if here else sides[0])[p] for p, here in enumerate(holds)))


def _along(axis: int, size: int, value: SSAValue | Pieces) -> Sequence[SSAValue] | None:
    if isinstance(value, Pieces):
        return value.values if value.axis == axis else None
    shape = loop.shape_of(value.type)
    return [value] * size if not shape or shape[axis] == 1 else None
