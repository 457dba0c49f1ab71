"""Whether a value is known at compile time, and the number that a constant of one element is."""

from __future__ import annotations

from xdsl.dialects.builtin import f16
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.graph import BandOp, ConstantOp, FullOp, GraphOp, IotaOp, ParamOp, shape_of
from mlc.dialects.graph.canonicalize import splat
from mlc.dialects.graph.types import element_of, is_static

SOURCES = (ParamOp, ConstantOp, FullOp, IotaOp, BandOp)
DEPTH = 32
"""Ops in a row, at most, that compute a value which counts as constant."""

__all__ = [
    "SOURCES",
    "constant_ops",
    "element_of",
    "is_constant",
    "is_short",
    "is_static",
    "scalar",
    "splat",
]


def is_constant(value: SSAValue) -> bool:
    """Whether a value depends on weights and constants only, so that graph-fold-constant can compute it."""
    return constant_ops(value) is not None


def constant_ops(value: SSAValue) -> set[GraphOp] | None:
    """
    The ops that compute a value from weights and constants, these included; None where it depends on others.

    A value that more than `DEPTH` ops in a row compute counts as one that depends on others: without the limit each
    question about an activation would walk up to the model's inputs, and the work of a pass would be quadratic.
    """
    found: set[GraphOp] = set()
    left = [(value, 0)]
    while left:
        value, depth = left.pop()
        owner = value.owner
        if not isinstance(owner, GraphOp) or depth == DEPTH:
            return None
        if owner not in found:
            found.add(owner)
            left += [(operand, depth + 1) for operand in reversed(owner.operands)]
    return found


def scalar(value: SSAValue) -> float | None:
    """The number, if the value is a constant with one element."""
    if any(size != 1 for size in shape_of(value.type)):
        return None
    return splat(value)


def is_short(type: Attribute) -> bool:
    """Whether the elements are f16, whose largest number is 65504: reordering products could make infinities."""
    return getattr(type, "element_type", type) == f16
