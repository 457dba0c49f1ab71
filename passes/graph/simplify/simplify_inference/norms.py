"""Recognise layer norm, softmax, means and global pools that a model writes as several ops."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    AvgPool2dOp,
    DivideOp,
    ExpOp,
    FullOp,
    LayerNormOp,
    MaxOp,
    MaxPool2dOp,
    MeanOp,
    MultiplyOp,
    PowerOp,
    ReciprocalOp,
    ReshapeOp,
    RsqrtOp,
    SoftmaxOp,
    SqrtOp,
    SubtractOp,
    SumOp,
    shape_of,
)
from mlc.dialects.graph.types import is_float, is_static
from mlc.passes.graph.shared.constants import is_constant, scalar, splat
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

NORMS = Rules()


@NORMS.on(DivideOp, MultiplyOp)
def layer_norm(op: DivideOp | MultiplyOp, rw: Rewriter) -> Replacement:
    """`(x - mean x) / sqrt(mean((x - mean x) ** 2) + e) -> layer_norm(x, 1, 0) {epsilon = e}`."""
    for centred, other in (op.operands, op.operands[::-1]):
        subtract = defining_op(centred, SubtractOp)
        variance = _variance(op, other)
        if subtract is None or variance is None or (isinstance(op, DivideOp) and centred is not op.operands[0]):
            continue
        x, mean = subtract.operands
        squares = _mean_over(variance[0], None)
        axes = None if squares is None else squares.reduced_axes
        if squares is None or not axes or not _squares(squares.operands[0], subtract) or not _mean_over(mean, x, axes):
            continue
        shape = shape_of(x.type)
        if axes != tuple(range(len(shape) - len(axes), len(shape))) or op.type != x.type:
            continue
        tail = shape[-len(axes) :]
        one = rw.insert(FullOp.make(tail, 1.0, op.type.element_type))
        zero = rw.insert(FullOp.make(tail, 0.0, op.type.element_type))
        return rw.make(LayerNormOp, x, one, zero, axis=-len(axes), epsilon=variance[1])
    return None


def _variance(op: DivideOp | MultiplyOp, value: SSAValue) -> tuple[SSAValue, float] | None:
    """(v, e) of `sqrt(v + e)` under a division, of `rsqrt(v + e)` or `1 / sqrt(v + e)` under a product."""
    if isinstance(op, DivideOp):
        root = defining_op(value, SqrtOp)
    else:
        root = defining_op(value, RsqrtOp)
        inverse = defining_op(value, ReciprocalOp)
        quotient = defining_op(value, DivideOp)
        if inverse is not None:
            root = defining_op(inverse.operands[0], SqrtOp)
        elif quotient is not None and scalar(quotient.operands[0]) == 1.0:
            root = defining_op(quotient.operands[1], SqrtOp)
    total = None if root is None else defining_op(root.operands[0], AddOp)
    if total is None:
        return None
    for v, e in (total.operands, total.operands[::-1]):
        epsilon = scalar(e)
        if epsilon is not None:
            return v, epsilon
    return None


def _mean_over(value: SSAValue, of: SSAValue | None, axes: tuple[int, ...] | None = None) -> MeanOp | None:
    """The mean op with `keepdims` that defines a value, of the operand `of` over `axes` where they are given."""
    mean = defining_op(value, MeanOp)
    if (
        mean is None
        or not mean.keepdims
        or (of is not None and (mean.operands[0] is not of or mean.reduced_axes != axes))
    ):
        return None
    return mean


def _squares(value: SSAValue, subtract: SubtractOp) -> bool:
    """Whether a value is the square of a difference equal to `subtract`."""
    power, times = defining_op(value, PowerOp), defining_op(value, MultiplyOp)
    if power is not None and scalar(power.operands[1]) == 2.0:
        base = power.operands[0]
    elif times is not None and times.operands[0] is times.operands[1]:
        base = times.operands[0]
    else:
        return False
    other = defining_op(base, SubtractOp)
    return other is not None and tuple(other.operands) == tuple(subtract.operands)


@NORMS.on(MultiplyOp)
def gamma_of_layer_norm(op: MultiplyOp, rw: Rewriter) -> Replacement:
    """`layer_norm(x, 1, 0) * g -> layer_norm(x, g, 0)` for a constant g over the normalised axes."""
    for value, other in (op.operands, op.operands[::-1]):
        norm = defining_op(value, LayerNormOp)
        if norm is None or splat(norm.operands[1]) != 1.0 or splat(norm.operands[2]) != 0.0:
            continue
        gamma = _trailing(rw, op, norm, value, other)
        if gamma is not None:
            return rw.make(LayerNormOp, norm.operands[0], gamma, norm.operands[2], axis=norm.axis, epsilon=norm.epsilon)
    return None


@NORMS.on(AddOp)
def beta_of_layer_norm(op: AddOp, rw: Rewriter) -> Replacement:
    """`layer_norm(x, g, 0) + b -> layer_norm(x, g, b)` for a constant b over the normalised axes."""
    for value, other in (op.operands, op.operands[::-1]):
        norm = defining_op(value, LayerNormOp)
        if norm is None or splat(norm.operands[2]) != 0.0:
            continue
        beta = _trailing(rw, op, norm, value, other)
        if beta is not None:
            return rw.make(LayerNormOp, norm.operands[0], norm.operands[1], beta, axis=norm.axis, epsilon=norm.epsilon)
    return None


def _trailing(
    rw: Rewriter, op: MultiplyOp | AddOp, norm: LayerNormOp, value: SSAValue, other: SSAValue
) -> SSAValue | None:
    """The constant `other` in the shape of the normalised axes; None if it has another shape, or the norm more uses."""
    wanted = shape_of(norm.operands[1].type)
    shape = shape_of(other.type)
    lead = len(shape) - len(wanted)
    if value.type != op.type or not value.has_one_use() or not is_constant(other):
        return None
    if lead < 0 or shape[lead:] != wanted or any(size != 1 for size in shape[:lead]):
        return None
    return rw.make(ReshapeOp, other, shape=wanted) if lead else other


@NORMS.on(DivideOp)
def softmax(op: DivideOp, rw: Rewriter) -> Replacement:
    """`e / sum(e) -> softmax(x)` for `e = exp(x - max(x))`, both over one axis."""
    exp, total = defining_op(op.operands[0], ExpOp), defining_op(op.operands[1], SumOp)
    shifted = None if exp is None else defining_op(exp.operands[0], SubtractOp)
    top = None if shifted is None else defining_op(shifted.operands[1], MaxOp)
    if (
        exp is None
        or shifted is None
        or total is None
        or top is None
        or total.operands[0] is not exp.result
        or top.operands[0] is not shifted.operands[0]
    ):
        return None
    axes = total.reduced_axes
    if len(axes) != 1 or top.reduced_axes != axes or not total.keepdims or not top.keepdims:
        return None
    return rw.make(SoftmaxOp, top.operands[0], axis=axes[0])


@NORMS.on(MultiplyOp, DivideOp)
def mean_from_sum(op: MultiplyOp | DivideOp, rw: Rewriter) -> Replacement:
    """`sum(x) * (1 / n) -> mean(x)`, `sum(x) / n -> mean(x)` where n elements are summed."""
    for value, other in (op.operands, op.operands[::-1]):
        total, number = defining_op(value, SumOp), scalar(other)
        divides = isinstance(op, DivideOp)
        if total is None or not number or value.type != op.type or not is_float(op.type):
            continue
        if divides and value is not op.operands[0]:
            continue
        summed = [shape_of(total.operands[0].type)[axis] for axis in total.reduced_axes]
        if is_static(summed) and math.isclose(number if divides else 1 / number, math.prod(summed), rel_tol=1e-6):
            return rw.make(MeanOp, total.operands[0], axes=total.axes, keepdims=total.keepdims)
    return None


@NORMS.on(AvgPool2dOp, MaxPool2dOp)
def global_pool(op: AvgPool2dOp | MaxPool2dOp, rw: Rewriter) -> Replacement:
    """`avg_pool2d` over the whole picture `-> mean {axes = [H, W], keepdims}`; the maximum alike."""
    picture = op.parsed_layout
    shape = shape_of(op.operands[0].type)
    axes = tuple(picture.position(letter) for letter in "HW")
    if any(op.padding) or op.dilation != (1, 1) or op.pool_size != tuple(shape[axis] for axis in axes):
        return None
    return rw.make(MeanOp if isinstance(op, AvgPool2dOp) else MaxOp, op.operands[0], axes=axes, keepdims=True)
