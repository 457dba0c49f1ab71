"""
Convolutions and dense layers of quantised factors as sums of products of bytes, in int32.

    sum (x - zx) (w - zw) == sum x w - zx sum w - zw sum x + n zx zw

x is unsigned and w signed, as dot-product instructions expect. The sums of weights are constants; those of x are only
needed where weights have a zero point. A picture is padded with its zero point.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BatchMatmulOp,
    BiasAddOp,
    CastOp,
    Conv2dOp,
    Conv2dTransposeOp,
    DenseOp,
    DequantizeOp,
    MultiplyOp,
    ReshapeOp,
    SubtractOp,
    SumOp,
    TransposeOp,
    shape_of,
)
from mlc.dialects.graph.ops.quantize import is_unsigned
from mlc.dialects.graph.types import element_of, product
from mlc.dialects.loop import word_factors
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.graph.simplify.simplify_qdq.values import (
    HALF,
    Factor,
    Numbers,
    QdqRules,
    factor_of,
    integer,
    signed,
    unsigned,
    wide,
)
from mlc.passes.rewriting import Replacement, Rewriter, attributes, defining_op
from mlc.targets.cost.thresholds import LEAST_BYTE_DEPTH, LEAST_BYTE_TAPS

WORD = word_factors(i8)
"""Bytes whose products one step of a dot product adds."""
SHARED_OUTPUTS = 8
"""Output channels of a group, at most, with which groups share a block of channels, which has no words: half a vector
of 16 lanes (`groups_in_block`)."""
PRODUCTS, CONTRACTIONS, BIASES = QdqRules(), QdqRules(), QdqRules()
Contraction: TypeAlias = Conv2dOp | Conv2dTransposeOp | DenseOp


@PRODUCTS.on(BatchMatmulOp)
def product_by_weights(op: BatchMatmulOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`batch_matmul %x, (dequantize %w)` -> `dense %x, (transpose (dequantize %w))` of a matrix of weights."""
    x, w = op.operands
    if op.transpose_a or len(shape_of(w.type)) != 2 or not is_constant(w):
        return None
    if factor_of(w, rw, numbers) is None:
        return None
    rw.undo()
    return rw.make(DenseOp, x, w if op.transpose_b else rw.make(TransposeOp, w, axes=(1, 0)))


@CONTRACTIONS.on(Conv2dOp, Conv2dTransposeOp, DenseOp)
def contraction(op: Contraction, rw: Rewriter, numbers: Numbers) -> Replacement:
    """
    `conv2d (dequantize %x, %sx, %zx), (dequantize %w, %sw, 0)`
    -> `(cast (conv2d %x, %w {out_dtype = "int32", pad_value = zx} - zx * sum %w)) * (%sx * %sw)`.
    """
    factors = _factors(op, rw, numbers)
    if factors is None:
        rw.undo()
        return None
    x, w = factors
    transposed = defining_op(op.operands[1], TransposeOp)
    x, w = unsigned(rw, x), signed(rw, w)
    weight = w.bytes if transposed is None else rw.make(TransposeOp, w.bytes, axes=transposed.axes)
    attrs = attributes(op) | {"out_dtype": "int32"}
    if isinstance(op, Conv2dOp) and x.zero is not None:
        attrs["pad_value"] = numbers.one(x.zero) or 0
    total = rw.make(type(op), x.bytes, weight, result=None, location=None, **attrs)
    total = _less_zero_points(op, rw, numbers, total, x, Factor(weight, w.zero))
    if op.type.element_type == i32:
        return total
    return rw.make(MultiplyOp, rw.make(CastOp, total, dtype="float32"), _scale(op, rw, x, w))


def _factors(op: Contraction, rw: Rewriter, numbers: Numbers) -> tuple[Factor, Factor] | None:
    """The two factors in bytes, if the op may multiply them."""
    if op.out_dtype or op.type.element_type not in (f32, i32) or not _fits(op):
        return None
    x, w = (factor_of(v, rw, numbers) for v in op.operands)
    if x is None or w is None or (x.scale is None) != (w.scale is None) or not is_constant(w.bytes):
        return None
    if (x.scale is None) != (op.type.element_type == i32) or x.axis is not None:
        return None
    if defining_op(op.operands[0], TransposeOp) is not None:
        return None
    if w.axis not in (None, _output_axis(op)) or not _zero_points_fit(op, numbers, x, w):
        return None
    return x, w


def _output_axis(op: Contraction) -> int:
    """The axis of the weights along which the output channels lie."""
    return 1 if isinstance(op, Conv2dTransposeOp) else 0


def _fits(op: Contraction) -> bool:
    """Whether 8-bit kernels exist for the op's layouts and sizes, and are faster."""
    sizes = shape_of(op.operands[1].type)
    if not is_static(sizes):
        return False
    if isinstance(op, Conv2dOp) and op.is_depthwise:
        return _fits_depthwise(op)
    if isinstance(op, Conv2dTransposeOp):
        return op.groups == 1 and tuple(op.dilation) == (1, 1) and sizes[0] >= LEAST_BYTE_DEPTH
    if math.prod(sizes[1:]) < LEAST_BYTE_DEPTH:
        return False
    if isinstance(op, DenseOp):
        return op.kernel_layout == "OI" and sizes[-1] % WORD == 0
    words = op.groups == 1 or (sizes[0] // op.groups > SHARED_OUTPUTS and sizes[1] % WORD == 0)
    return words and op.data_layout == "NCHW" and op.kernel_layout == "OIHW"


def _fits_depthwise(op: Conv2dOp) -> bool:
    """Whether four adjacent taps of a window's row can be one word, and the window is large enough to gain by it."""
    taps = product(shape_of(op.operands[1].type)[1:])
    if not isinstance(taps, int):
        return False
    return op.data_layout == "NCHW" and op.kernel_layout == "OIHW" and op.dilation[1] == 1 and taps >= LEAST_BYTE_TAPS


def _zero_points_fit(op: Contraction, numbers: Numbers, x: Factor, w: Factor) -> bool:
    """
    Whether the rewrite can take the zero points: a convolution needs their values, a dense layer does not.

    The picture of a transposed convolution has none: its pixels are multiplied by different taps.
    """
    if isinstance(op, DenseOp):
        return True
    if (numbers.one(w.zero) if w.zero is not None else 0) != (HALF if is_unsigned(w.element) else 0):
        return False
    if isinstance(op, Conv2dTransposeOp):
        return (numbers.one(x.zero) if x.zero is not None else 0) == (0 if is_unsigned(x.element) else -HALF)
    return x.zero is None or not any(op.padding) or numbers.one(x.zero) is not None


def _less_zero_points(
    op: Contraction, rw: Rewriter, numbers: Numbers, total: SSAValue, x: Factor, w: Factor
) -> SSAValue:
    """The sum of products minus the terms of the zero points."""
    is_conv = not isinstance(op, DenseOp)
    zx = None if x.zero is None or numbers.one(x.zero) == 0 else wide(rw, _scalar(rw, x.zero))
    zw = None if w.zero is None or numbers.one(w.zero) == 0 else wide(rw, w.zero)
    if zx is not None:
        axes = (1, 2, 3) if is_conv else (1,)
        sums = rw.make(SumOp, wide(rw, w.bytes), axes=axes)
        if zw is not None:  # zx * sum (w - zw)
            depth = shape_of(w.bytes.type)[-1]
            assert isinstance(depth, int)
            sums = rw.make(SubtractOp, sums, rw.make(MultiplyOp, _flat(rw, zw), integer(rw, depth)))
        total = rw.make(SubtractOp, total, _channels(op, rw, rw.make(MultiplyOp, sums, zx)))
    if zw is not None:
        sums = rw.make(SumOp, wide(rw, x.bytes), axes=(-1,), keepdims=True)
        total = rw.make(SubtractOp, total, rw.make(MultiplyOp, sums, _flat(rw, zw)))
    return total


def _scalar(rw: Rewriter, value: SSAValue) -> SSAValue:
    return value if not shape_of(value.type) else rw.make(ReshapeOp, value, shape=())


def _flat(rw: Rewriter, value: SSAValue) -> SSAValue:
    """One number, or a vector."""
    size = product(shape_of(value.type))
    shape = () if size == 1 else (size,)
    return value if shape_of(value.type) == shape else rw.make(ReshapeOp, value, shape=shape)


def _channels(op: Contraction, rw: Rewriter, value: SSAValue) -> SSAValue:
    """One number, or one a channel, in the shape that broadcasts to the op's result."""
    value = _flat(rw, value)
    if not shape_of(value.type) or isinstance(op, DenseOp):
        return value
    return rw.make(ReshapeOp, value, shape=(1, shape_of(value.type)[0], 1, 1))


def _scale(op: Contraction, rw: Rewriter, x: Factor, w: Factor) -> SSAValue:
    assert x.scale is not None
    assert w.scale is not None
    return _channels(op, rw, rw.make(MultiplyOp, _flat(rw, w.scale), _scalar(rw, x.scale)))


@BIASES.on(BiasAddOp, AddOp)
def integer_bias(op: BiasAddOp | AddOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`(cast %acc) * %m + dequantize %b, %m, 0` -> `(cast (%acc + %b)) * %m`: a bias in the scale of the sum."""
    pairs = [tuple(op.operands)] if isinstance(op, BiasAddOp) else [tuple(op.operands), tuple(op.operands[::-1])]
    for y, bias in pairs:
        scaled = defining_op(y, MultiplyOp)
        cast = None if scaled is None else defining_op(scaled.operands[0], CastOp)
        dequantize = defining_op(bias, DequantizeOp)
        if scaled is None or cast is None or dequantize is None or not cast.result.has_one_use() or not y.has_one_use():
            continue
        b, scale, zero = dequantize.operands
        if element_of(cast.operands[0]) != i32 or element_of(b) != i32 or numbers.one(zero) != 0:
            continue
        if not is_constant(b) or not _same_scale(numbers, scaled.operands[1], scale):
            continue
        if isinstance(op, BiasAddOp):
            sizes = shape_of(op.type)
            b = rw.make(ReshapeOp, b, shape=[n if k == op.axis % len(sizes) else 1 for k, n in enumerate(sizes)])
        total = _plus(rw, cast.operands[0], b)
        return rw.make(MultiplyOp, rw.make(CastOp, total, dtype="float32"), scaled.operands[1])
    return None


def _plus(rw: Rewriter, total: SSAValue, b: SSAValue) -> SSAValue:
    """`(%t - c) + b` -> `%t + (b - c)` of constants."""
    minus = defining_op(total, SubtractOp)
    if minus is not None and total.has_one_use() and is_constant(minus.operands[1]):
        total, b = minus.operands[0], rw.make(SubtractOp, b, minus.operands[1])
    return rw.make(AddOp, total, b)


def _same_scale(numbers: Numbers, a: SSAValue, b: SSAValue) -> bool:
    """Whether two scales are the same up to the rounding of their product."""
    x, y = numbers.of(a), numbers.of(b)
    if x is None or y is None or (x.size != y.size and 1 not in (x.size, y.size)):
        return False
    return bool((abs(x.reshape(-1) - y.reshape(-1)) <= 1e-6 * abs(x.reshape(-1))).all())
