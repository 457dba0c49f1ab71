"""Whether a value is known at compile time, and the number that a constant of one element is."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.graph import BandOp, ConstantOp, FullOp, GraphOp, IotaOp, ParamOp, shape_of
from mlc.dialects.graph.canonicalize import splat
from mlc.dialects.graph.types import element_of, is_static

SOURCES = (ParamOp, ConstantOp, FullOp, IotaOp, BandOp)

__all__ = ["SOURCES", "element_of", "is_constant", "is_short", "is_static", "scalar", "splat", "unit_axes"]


def is_constant(value: SSAValue, depth: int = 32) -> bool:
    """Whether a value depends on weights and constants only, so that graph-fold-constant can compute it."""
    owner = value.owner
    if isinstance(owner, SOURCES):
        return True
    if not isinstance(owner, GraphOp) or depth == 0:
        return False
    return all(is_constant(operand, depth - 1) for operand in owner.operands)


def scalar(value: SSAValue) -> float | None:
    """The number, if the value is a constant with one element."""
    if any(size != 1 for size in shape_of(value.type)):
        return None
    return splat(value)


def is_short(type: Attribute) -> bool:
    """Whether the elements are f16, whose largest number is 65504: reordering products could make infinities."""
    return getattr(type, "element_type", type) == f16


def unit_axes(shape: Sequence[object]) -> tuple[int, ...]:
    """The axes of size 1."""
    return tuple(axis for axis, size in enumerate(shape) if size == 1)
