"""
Scales: constants that multiply a tensor along the channels of the op that computes or reads it.

A scale has the rank of the tensor, with sizes of 1 on all axes along which it does not vary; in a blocked layout it
varies along the outer and the inner channels. Its values are known if the module has its weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, OpResult, SSAValue

from mlc.dialects.graph import (
    BroadcastToOp,
    ConstantOp,
    Conv2dOp,
    Conv2dTransposeOp,
    DenseOp,
    FullOp,
    GraphOp,
    MultiplyOp,
    ParamOp,
    ReciprocalOp,
    ReshapeOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.layout import Layout, layout
from mlc.dialects.graph.types import Array, Dim
from mlc.passes.graph.shared.constants import is_constant, is_short, is_static
from mlc.passes.rewriting import Rewriter
from mlc.support.weights import WeightStore

Linear: TypeAlias = Conv2dOp | Conv2dTransposeOp | DenseOp
MAX_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Scale:
    """A constant of full rank, and the axes along which it varies."""

    value: SSAValue
    axes: frozenset[int]


def scale_of(rw: Rewriter, value: SSAValue, rank: int, reciprocal: bool = False) -> Scale:
    """A constant operand, or its reciprocal, as a scale of a tensor of this rank."""
    shape = static_shape(value.type)
    full = (*(1,) * (rank - len(shape)), *shape)
    if reciprocal:
        value = rw.make(ReciprocalOp, value)
    if full != shape:
        value = rw.insert(ReshapeOp.make(value, shape=full))
    return Scale(value, varying(full))


def varying(shape: Sequence[Dim]) -> frozenset[int]:
    """The axes of a constant's shape along which it varies."""
    return frozenset(axis for axis, size in enumerate(shape) if size != 1)


def can_scale(value: SSAValue, like: Attribute) -> bool:
    """Whether a value is a constant that a tensor of this type can be multiplied by."""
    shape, wanted = shape_of(value.type), shape_of(like)
    if not is_static(shape) or len(shape) > len(wanted) or not is_constant(value) or is_short(like):
        return False
    return all(size == 1 or size == want for size, want in zip(reversed(shape), reversed(wanted), strict=False))


def output_axes(op: Linear) -> frozenset[int]:
    """The axes of a linear op's result that are its output channels."""
    if isinstance(op, Conv2dOp):
        return letter_axes(layout(op.out_layout), "C")
    return frozenset({1 if isinstance(op, Conv2dTransposeOp) else len(shape_of(op.type)) - 1})


def input_axes(op: Linear) -> frozenset[int]:
    """The axes of a linear op's data that are its input channels."""
    if isinstance(op, Conv2dOp):
        return letter_axes(layout(op.data_layout), "C")
    return frozenset({1 if isinstance(op, Conv2dTransposeOp) else len(shape_of(op.operands[0].type)) - 1})


def letter_axes(order: Layout, letters: str) -> frozenset[int]:
    """The axes of a tensor in a layout that belong to some letters, their blocks included."""
    return frozenset(i for i, (name, _) in enumerate(order.parts) if name in letters)


def output_letter(op: Linear) -> str | None:
    """The kernel's letter of the output channels; None where a scale of them cannot go into the weight."""
    if not _can_change_weight(op):
        return None
    if isinstance(op, DenseOp):
        return "O" if not op.units or op.units == op.weight_sizes()["O"] else None
    return "O" if isinstance(op, Conv2dOp) or op.groups == 1 else None


def input_letter(op: Linear) -> str | None:
    """The kernel's letter of the input channels: I, or O of a depthwise kernel; None where groups share channels."""
    if not _can_change_weight(op) or (isinstance(op, Conv2dTransposeOp) and op.groups != 1):
        return None
    if isinstance(op, DenseOp):
        return "I" if op.weight_sizes()["I"] == shape_of(op.operands[0].type)[-1] else None
    if isinstance(op, Conv2dOp) and op.groups != 1:
        return "O" if op.is_depthwise else None
    return "I"


def _can_change_weight(op: Linear) -> bool:
    """Whether the weight is a constant of static sizes and of the type of data and result."""
    data, weight = op.input_types
    same = weight.element_type == data.element_type == op.type.element_type
    return same and is_static(shape_of(weight)) and is_constant(op.operands[1])


def with_scaled_weight(
    rw: Rewriter, op: Linear, data: SSAValue, scale: Scale, letter: str, like: Attribute
) -> SSAValue:
    """The linear op on `data`, with its weight multiplied along a letter by a scale of a tensor of type `like`."""
    weight, factor = op.operands[1], scale.value
    if scale.axes:
        order = layout("IOHW" if isinstance(op, Conv2dTransposeOp) else op.kernel_layout)
        places = letter_axes(order, letter)
        sizes = [size if axis in places else 1 for axis, size in enumerate(static_shape(weight.type))]
        channels = output_axes(op) if like is op.type else input_axes(op)
        wide = tuple(size if axis in channels else 1 for axis, size in enumerate(shape_of(like)))
        if wide != shape_of(factor.type):
            factor = rw.insert(BroadcastToOp.make(factor, shape=wide))
        factor = rw.insert(ReshapeOp.make(factor, shape=tuple(sizes)))
    else:
        factor = rw.insert(ReshapeOp.make(factor, shape=(1,)))
    return rw.clone(op, data, rw.make(MultiplyOp, weight, factor))


def known_values(value: SSAValue, store: WeightStore | None, depth: int = 8) -> Array | None:
    """The numpy array of a small constant; None if the module lacks weights that it is computed from."""
    import numpy as np

    op = value.owner
    if (
        not isinstance(op, GraphOp)
        or not isinstance(value, OpResult)
        or depth == 0
        or not is_static(shape := shape_of(value.type))
        or np.prod(shape) > MAX_ELEMENTS
    ):
        return None
    if isinstance(op, ConstantOp | FullOp):
        return op.array() if isinstance(op, ConstantOp) else np.full(static_shape(op.type), op.value)
    if isinstance(op, ParamOp):
        return store.array(op.entry) if store is not None and op.entry in store else None
    arrays = [array for v in op.operands if (array := known_values(v, store, depth - 1)) is not None]
    if not op.operands or len(arrays) < len(op.operands):
        return None
    from mlc.dialects.graph.graph_numpy import evaluate

    return evaluate(op, arrays)[value.index]
