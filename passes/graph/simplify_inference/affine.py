"""
Scales and shifts: batch norm becomes a scale and a shift, and both move into the weights and bias before them.

The new weights are written as graph ops on the old ones; graph-fold-constant computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from mlc.dialects.graph.types import FLOATS, axis_of, is_float, product
from mlc.passes.graph.shared.constants import element_of, is_constant, is_short, scalar
from mlc.passes.rewriting import Replacement, Rewriter, producer, rules_table

AFFINE, on = rules_table()
LINEAR = (Conv2dOp, Conv2dTransposeOp, DenseOp)


@on(BatchNormOp)
def batch_norm(op: Any, rw: Rewriter) -> Replacement:
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


@on(MultiplyOp, DivideOp)
def scale_into_weights(op: Any, rw: Rewriter) -> Replacement:
    """`conv2d(x, w) * c -> conv2d(x, w * c)` for a constant c per output channel; dense alike, through a bias."""
    found = _linear_and_vector(op, rw)
    if found is None:
        return None
    _, linear, bias, vector = found
    weight = linear.operands[1]
    axis = 1 if isinstance(linear, Conv2dTransposeOp) else 0
    scaled = rw.make(type(op), weight, along(rw, vector, axis, len(shape_of(weight.type))))
    result = rw.again(linear, linear.operands[0], scaled)
    return result if bias is None else _biased(rw, result, rw.make(type(op), bias.operands[1], vector), bias)


@on(AddOp, SubtractOp)
def shift_into_bias(op: Any, rw: Rewriter) -> Replacement:
    """`conv2d(x, w) + c -> bias_add(conv2d(x, w), c)` for a constant c per output channel; dense alike."""
    found = _linear_and_vector(op, rw, narrow=True)
    if found is None:
        return None
    value, linear, bias, vector = found
    if bias is not None:
        return _biased(rw, bias.operands[0], rw.make(type(op), bias.operands[1], vector), bias)
    vector = rw.make(NegOp, vector) if isinstance(op, SubtractOp) else vector
    return rw.make(BiasAddOp, value, vector, axis=_channels(linear)[1])


def _linear_and_vector(op: Any, rw: Rewriter, narrow: bool = False) -> tuple[SSAValue, Any, Any, SSAValue] | None:
    """(value, the linear op that computes it, its bias_add or None, the other operand as a vector of channels)."""
    for value, other in _sides(op):
        linear, bias = _linear(value)
        if linear is None or (not narrow and element_of(linear.operands[1]) != linear.type.element_type):
            continue  # a narrow weight would be rounded once more
        vector = channel_vector(rw, other, *_channels(linear))
        if vector is not None:
            return value, linear, bias, vector
    return None


@on(BiasAddOp)
def bias_of_bias(op: Any, rw: Rewriter) -> Replacement:
    """`bias_add(bias_add(x, a), b) -> bias_add(x, a + b)` for constants on the same axis."""
    inner = op.operands[0].owner
    if not isinstance(inner, BiasAddOp) or not op.operands[0].has_one_use() or not _constants(op, inner):
        return None
    rank = len(shape_of(op.type))
    if axis_of(op.axis, rank) != axis_of(inner.axis, rank):
        return None
    total = rw.make(AddOp, inner.operands[1], op.operands[1])
    return rw.make(BiasAddOp, inner.operands[0], total, axis=op.axis)


@on(BatchMatmulOp)
def dense_from_matmul(op: Any, rw: Rewriter) -> Replacement:
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


def channel_vector(rw: Rewriter, value: SSAValue, rank: int, axis: int, size: Any) -> SSAValue | None:
    """A constant that varies along one axis only, as a vector of that axis's size; None for anything else."""
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


def _sides(op: Any) -> Sequence[tuple[SSAValue, SSAValue]]:
    """(what may hold a product, the other operand); on both sides where the op commutes."""
    a, b = op.operands
    sides = ((a, b), (b, a)) if isinstance(op, AddOp | MultiplyOp) else ((a, b),)
    # The constant must not make the result larger than the product.
    return [side for side in sides if side[0].type == op.type]


def _linear(value: SSAValue) -> tuple[Any, Any]:
    """The convolution or dense behind a value, and the bias_add between them; used here alone, weights constant."""
    owner: Any = value.owner
    bias = None
    if isinstance(owner, BiasAddOp) and value.has_one_use() and is_constant(owner.operands[1]):
        linear: Any = owner.operands[0].owner
        if isinstance(linear, LINEAR) and _channels(linear)[1] == axis_of(owner.axis, _channels(linear)[0]):
            bias, value, owner = owner, owner.operands[0], linear
    if not _is_plain(owner) or not value.has_one_use() or not is_constant(owner.operands[1]):
        return None, None
    return owner, bias


def _is_plain(owner: Any) -> bool:
    """Whether an op is linear in a weight whose layout is the plain one, in one group where it is a transpose."""
    if isinstance(owner, Conv2dTransposeOp):
        return owner.groups == 1
    if isinstance(owner, Conv2dOp):
        return owner.data_layout == "NCHW" and owner.kernel_layout == "OIHW"
    return isinstance(owner, DenseOp) and owner.kernel_layout == "OI"


def _channels(linear: Any) -> tuple[int, int, Any]:
    """Rank of the result, the axis of its output channels, and their number."""
    shape = shape_of(linear.type)
    axis = len(shape) - 1 if isinstance(linear, DenseOp) else 1
    return len(shape), axis, shape[axis]


def _biased(rw: Rewriter, value: SSAValue, vector: SSAValue, bias: Any) -> SSAValue:
    return rw.make(BiasAddOp, value, vector, axis=bias.axis, location=bias.location)


def _constants(*ops: Any) -> bool:
    return all(is_constant(op.operands[1]) for op in ops)


@on(BatchMatmulOp)
def scale_behind_product(op: Any, rw: Rewriter) -> Replacement:
    """`batch_matmul(x * c, y) -> batch_matmul(x, y) * c` for one number c, which costs nothing behind the product."""
    for index, value in enumerate(op.operands):
        scaled = producer(value, MultiplyOp)
        if scaled is None or not is_float(op.type) or is_short(op.type):
            continue
        for x, c in (scaled.operands, scaled.operands[::-1]):
            if scalar(c) is not None and shape_of(x.type) == shape_of(value.type):
                operands = [x if i == index else v for i, v in enumerate(op.operands)]
                product_ = rw.make(BatchMatmulOp, *operands, transpose_a=op.transpose_a, transpose_b=op.transpose_b)
                return rw.make(MultiplyOp, product_, c)
    return None
