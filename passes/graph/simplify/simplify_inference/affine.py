"""
Batch norm becomes a scale and a shift; scales and shifts fold into the weights and bias of the op before them.

The new weights are written as graph ops on the old ones; graph-fold-constant computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BatchMatmulOp,
    BatchNormOp,
    BiasAddOp,
    BroadcastToOp,
    ConstantOp,
    Conv2dOp,
    Conv2dTransposeOp,
    DenseOp,
    DivideOp,
    MultiplyOp,
    NegOp,
    ReshapeOp,
    SqrtOp,
    SubtractOp,
    TransposeOp,
    shape_of,
)
from mlc.dialects.graph.types import FLOATS, Dim, axis_of, is_float, product
from mlc.passes.graph.shared.constants import element_of, is_constant, is_short, scalar
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

AFFINE = Rules()
Linear: TypeAlias = Conv2dOp | Conv2dTransposeOp | DenseOp
Sum: TypeAlias = AddOp | SubtractOp
Product: TypeAlias = MultiplyOp | DivideOp


@AFFINE.on(BatchNormOp)
def batch_norm(op: BatchNormOp, rw: Rewriter) -> Replacement:
    """`batch_norm(x, g, b, m, v) -> bias_add(x * s, b - m * s)` with `s = g / sqrt(v + epsilon)`."""
    x, gamma, beta, mean, var = op.operands
    rank = len(shape_of(x.type))
    axis = axis_of(op.axis, rank)
    epsilon = rw.insert(ConstantOp.make(op.epsilon, dtype=op.type.element_type))
    deviation = rw.make(SqrtOp, rw.make(AddOp, var, epsilon))
    scale = rw.make(DivideOp, gamma, deviation)
    shift = rw.make(SubtractOp, beta, rw.make(MultiplyOp, mean, scale))
    scaled = rw.make(MultiplyOp, x, along(rw, scale, axis, rank))
    return rw.make(BiasAddOp, scaled, shift, axis=axis)


@AFFINE.on(MultiplyOp, DivideOp)
def scale_into_weights(op: MultiplyOp | DivideOp, rw: Rewriter) -> Replacement:
    """`conv2d(x, w) * c -> conv2d(x, w * c)` for a constant c per output channel; dense alike, through a bias."""
    found = _linear_and_vector(op, rw)
    if found is None:
        return None
    _, linear, bias, vector = found
    weight = linear.operands[1]
    axis = 1 if isinstance(linear, Conv2dTransposeOp) else 0
    scaled = rw.make(type(op), weight, along(rw, vector, axis, len(shape_of(weight.type))))
    result = rw.clone(linear, linear.operands[0], scaled)
    return result if bias is None else _biased(rw, result, rw.make(type(op), bias.operands[1], vector), bias)


@AFFINE.on(AddOp, SubtractOp)
def shift_into_bias(op: AddOp | SubtractOp, rw: Rewriter) -> Replacement:
    """`conv2d(x, w) + c -> bias_add(conv2d(x, w), c)` for a constant c per output channel; dense alike."""
    found = _linear_and_vector(op, rw, narrow=True)
    if found is None:
        return None
    value, linear, bias, vector = found
    if bias is not None:
        return _biased(rw, bias.operands[0], rw.make(type(op), bias.operands[1], vector), bias)
    vector = rw.make(NegOp, vector) if isinstance(op, SubtractOp) else vector
    return rw.make(BiasAddOp, value, vector, axis=_channels(linear)[1])


def _linear_and_vector(
    op: Sum | Product, rw: Rewriter, narrow: bool = False
) -> tuple[SSAValue, Linear, BiasAddOp | None, SSAValue] | None:
    """(value, the linear op that computes it, its bias_add or None, the other operand as a vector of channels)."""
    for value, other in _sides(op):
        found = _linear(value)
        if found is None:
            continue
        linear, bias = found
        if not narrow and element_of(linear.operands[1]) != linear.type.element_type:
            continue  # a scaled weight of a narrow type would be rounded a second time
        vector = channel_vector(rw, other, *_channels(linear))
        if vector is not None:
            return value, linear, bias, vector
    return None


@AFFINE.on(BiasAddOp)
def bias_of_bias(op: BiasAddOp, rw: Rewriter) -> Replacement:
    """`bias_add(bias_add(x, a), b) -> bias_add(x, a + b)` for constants on the same axis."""
    inner = op.operands[0].owner
    if not isinstance(inner, BiasAddOp) or not op.operands[0].has_one_use():
        return None
    if not is_constant(op.operands[1]) or not is_constant(inner.operands[1]):
        return None
    rank = len(shape_of(op.type))
    if axis_of(op.axis, rank) != axis_of(inner.axis, rank):
        return None
    total = rw.make(AddOp, inner.operands[1], op.operands[1])
    return rw.make(BiasAddOp, inner.operands[0], total, axis=op.axis)


@AFFINE.on(BatchMatmulOp)
def dense_from_matmul(op: BatchMatmulOp, rw: Rewriter) -> Replacement:
    """`batch_matmul(x, w) -> dense(x, transpose(w))` for one constant matrix w."""
    x, w = op.operands
    shape = shape_of(w.type)
    batch = shape[:-2]
    if op.transpose_a or any(size != 1 for size in batch) or len(shape) > len(shape_of(x.type)) or not is_constant(w):
        return None
    matrix = rw.make(ReshapeOp, w, shape=shape[-2:]) if batch else w
    return rw.make(DenseOp, x, matrix if op.transpose_b else rw.make(TransposeOp, matrix, axes=(1, 0)))


def along(rw: Rewriter, vector: SSAValue, axis: int, rank: int) -> SSAValue:
    """The vector in the shape that broadcasts along `axis` of a tensor of this rank."""
    size = shape_of(vector.type)[0]
    shape = (size, *(1,) * (rank - axis - 1))
    return vector if len(shape) == 1 else rw.make(ReshapeOp, vector, shape=shape)


def channel_vector(rw: Rewriter, value: SSAValue, rank: int, axis: int, size: Dim) -> SSAValue | None:
    """A constant that varies along this axis only, as a vector of the axis's size; None for other values."""
    shape = shape_of(value.type)
    if not isinstance(element_of(value), FLOATS) or len(shape) > rank or not is_constant(value):
        return None
    if product(shape) == 1:
        flat = rw.make(ReshapeOp, value, shape=(1,)) if shape != (1,) else value
        return rw.make(BroadcastToOp, flat, shape=(size,)) if size != 1 else flat
    place = axis - (rank - len(shape))
    if place < 0 or shape[place] != size or product(shape) != size:
        return None
    return value if len(shape) == 1 else rw.make(ReshapeOp, value, shape=(size,))


def _sides(op: Sum | Product) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The operands as (result of a linear op, constant): both orders where the op commutes."""
    a, b = op.operands
    sides = ((a, b), (b, a)) if isinstance(op, AddOp | MultiplyOp) else ((a, b),)
    # The constant must not broadcast the result to a larger shape.
    return [side for side in sides if side[0].type == op.type]


def _linear(value: SSAValue) -> tuple[Linear, BiasAddOp | None] | None:
    """The linear op that computes a value, and the bias_add between them; without other readers, weights constant."""
    bias = defining_op(value, BiasAddOp)
    if bias is not None and value.has_one_use() and is_constant(bias.operands[1]):
        linear = _plain_linear(bias.operands[0])
        if linear is not None and _channels(linear)[1] == axis_of(bias.axis, _channels(linear)[0]):
            return linear, bias
    linear = _plain_linear(value)
    return None if linear is None else (linear, None)


def _plain_linear(value: SSAValue) -> Linear | None:
    """The linear op that computes a value, if the value is used once and the weight is constant, in a plain layout."""
    op = value.owner
    if isinstance(op, Conv2dTransposeOp):
        plain = op.groups == 1
    elif isinstance(op, Conv2dOp):
        plain = op.data_layout == "NCHW" and op.kernel_layout == "OIHW"
    elif isinstance(op, DenseOp):
        plain = op.kernel_layout == "OI"
    else:
        return None
    return op if plain and value.has_one_use() and is_constant(op.operands[1]) else None


def _channels(linear: Linear) -> tuple[int, int, Dim]:
    """Rank of the result, the axis of its output channels, and their number."""
    shape = shape_of(linear.type)
    axis = len(shape) - 1 if isinstance(linear, DenseOp) else 1
    return len(shape), axis, shape[axis]


def _biased(rw: Rewriter, value: SSAValue, vector: SSAValue, bias: BiasAddOp) -> SSAValue:
    return rw.make(BiasAddOp, value, vector, axis=bias.axis, location=bias.location)


@AFFINE.on(BatchMatmulOp)
def scale_behind_product(op: BatchMatmulOp, rw: Rewriter) -> Replacement:
    """`batch_matmul(x * c, y) -> batch_matmul(x, y) * c` for one number c, so that the product can fuse with it."""
    for index, value in enumerate(op.operands):
        scaled = defining_op(value, MultiplyOp)
        if scaled is None or not is_float(op.type) or is_short(op.type):
            continue
        for x, c in (scaled.operands, scaled.operands[::-1]):
            if scalar(c) is not None and shape_of(x.type) == shape_of(value.type):
                operands = [x if i == index else v for i, v in enumerate(op.operands)]
                product_ = rw.make(BatchMatmulOp, *operands, transpose_a=op.transpose_a, transpose_b=op.transpose_b)
                return rw.make(MultiplyOp, product_, c)
    return None
