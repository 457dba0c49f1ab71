"""
Weights that are held in fewer bytes than f32 and widened by the model: `w == cast(numbers) * scale`.

graph-fold-constant computes such a weight in f32, and keeps the numbers and scales that it came from beside it in the
weight store, so that a product may read the numbers instead (graph-narrow-weights).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32

from mlc.dialects.graph import (
    CastOp,
    GraphOp,
    MultiplyOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
    static_shape,
)
from mlc.dialects.graph.types import Array

MOST_BITS = 16
"""Bits of an integer, at most: f32 has all of them."""


@dataclass(frozen=True)
class NarrowWeight:
    """
    A weight of f32 as numbers of 1 or 2 bytes, times a scale of as many axes, each of size 1 or the weight's; a weight
    without a scale is None.
    """

    numbers: Array
    scale: Array | None = None


@dataclass(frozen=True)
class Source:
    """A constant operand: its values in its own type, and the narrow weight that it was computed from, if any."""

    array: Array
    narrow: NarrowWeight | None = None


def narrow_result(op: GraphOp, operands: Sequence[Source]) -> NarrowWeight | None:
    """The result of an op on constant operands as a narrow weight; None where no rule applies."""
    if len(op.results) != 1 or getattr(op.results[0].type, "element_type", None) != f32:
        return None
    first = operands[0]
    if isinstance(op, CastOp):
        return NarrowWeight(first.array) if _is_narrow(first.array) else None
    if isinstance(op, MultiplyOp):
        pairs = [(operands[0], operands[1]), (operands[1], operands[0])]
        return next((made for a, b in pairs if a.narrow and (made := _scaled(op, a.narrow, b.array)) is not None), None)
    if first.narrow is None:
        return None
    if isinstance(op, SubtractOp):
        return _shifted(op, first.narrow, operands[1].array)
    return _moved(op, first.narrow) if isinstance(op, TransposeOp | ReshapeOp | SliceOp) else None


def _is_narrow(array: Array) -> bool:
    """Whether the elements have at most 16 bits, and all values of their type are f32."""
    return 1 <= array.dtype.itemsize * 8 <= MOST_BITS and array.dtype.kind != "b"


def _scaled(op: GraphOp, weight: NarrowWeight, factor: Array) -> NarrowWeight | None:
    """`(numbers * s) * factor == numbers * (s * factor)`."""
    numbers = weight.numbers
    if static_shape(op.results[0].type) != numbers.shape or factor.size * 2 > numbers.size:
        return None
    factor = factor.reshape((1,) * (numbers.ndim - factor.ndim) + factor.shape)
    return NarrowWeight(numbers, factor if weight.scale is None else weight.scale * factor)


def _shifted(op: GraphOp, weight: NarrowWeight, zero: Array) -> NarrowWeight | None:
    """`numbers - zero` in the narrowest signed type that has all differences."""
    import numpy as np

    numbers = weight.numbers
    if weight.scale is not None or numbers.dtype.kind not in "iu" or numbers.size == 0:
        return None
    if static_shape(op.results[0].type) != numbers.shape or not np.array_equal(zero, np.rint(zero)):
        return None
    if np.abs(zero).max(initial=0) > np.iinfo(np.int16).max:
        return None
    differences = numbers.astype(np.int32) - zero.astype(np.int32)
    least, most = int(differences.min()), int(differences.max())
    for dtype in (np.int8, np.int16):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return NarrowWeight(differences.astype(dtype))
    return None


def _moved(op: GraphOp, weight: NarrowWeight) -> NarrowWeight:
    """The numbers and their scales, moved alike."""
    import numpy as np

    def moved(array: Array) -> Array:
        return np.asarray(op.evaluate(np, array)[0])

    numbers = moved(weight.numbers)
    if weight.scale is None:
        return NarrowWeight(numbers)
    if weight.scale.size == 1:
        return NarrowWeight(numbers, weight.scale.reshape((1,) * numbers.ndim))
    return NarrowWeight(numbers, _compact(moved(np.broadcast_to(weight.scale, weight.numbers.shape))))


def _compact(scale: Array) -> Array:
    """The scale with size 1 along each axis on which it does not change."""
    for axis in range(scale.ndim):
        first = scale.take([0], axis) if scale.shape[axis] else scale
        scale = first if bool((scale == first).all()) else scale
    return scale.copy()
