"""
Convolutions and dense layers of quantised factors as sums of products of bytes, in int32.

    sum (x - zx) (w - zw) == sum x w - zx sum w - zw sum x + n zx zw

x is unsigned and w signed, as dot-product instructions want them. The sums of weights are constants, those of x are
only needed where weights have a zero point. What surrounds a picture is its zero point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BiasAddOp,
    CastOp,
    Conv2dOp,
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
from mlc.dialects.graph.types import product
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.graph.simplify_qdq.values import HALF, Factor, Numbers, factor_of, integer, signed, unsigned, wide
from mlc.passes.rewriting import Replacement, Rewriter, producer
from mlc.targets.cost.thresholds import LEAST_BYTE_DEPTH, LEAST_BYTE_TAPS


def product_by_weights(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`batch_matmul %x, (dequantize %w)` -> `dense %x, (transpose (dequantize %w))` of a matrix of weights."""
    x, w = op.operands
    if op.transpose_a or len(shape_of(w.type)) != 2 or not is_constant(w):
        return None
    if factor_of(w, rw, numbers) is None:
        return None
    rw.undo()
    return rw.make(DenseOp, x, w if op.transpose_b else rw.make(TransposeOp, w, axes=(1, 0)))


def contraction(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """
    `conv2d (dequantize %x, %sx, %zx), (dequantize %w, %sw, 0)`
    -> `(cast (conv2d %x, %w {out_dtype = "int32", pad_value = zx} - zx * sum %w)) * (%sx * %sw)`.
    """
    factors = _factors(op, rw, numbers)
    if factors is None:
        rw.undo()
        return None
    x, w = factors
    transposed = producer(op.operands[1], TransposeOp)
    x, w = unsigned(rw, x), signed(rw, w)
    weight = w.bytes if transposed is None else rw.make(TransposeOp, w.bytes, axes=transposed.axes)
    attrs = {name: getattr(op, name) for name in op.declared} | {"out_dtype": "int32"}
    if isinstance(op, Conv2dOp) and x.zero is not None:
        attrs["pad_value"] = numbers.one(x.zero) or 0
    total = rw.make(type(op), x.bytes, weight, **attrs)
    total = _less_zero_points(op, rw, numbers, total, x, Factor(weight, w.zero))
    if op.type.element_type == i32:
        return total
    return rw.make(MultiplyOp, rw.make(CastOp, total, dtype="float32"), _scale(op, rw, x, w))


def _factors(op: Any, rw: Rewriter, numbers: Numbers) -> tuple[Factor, Factor] | None:
    """The two factors in bytes, if the op may multiply them."""
    if op.out_dtype or op.type.element_type not in (f32, i32) or not _fits(op):
        return None
    x, w = (factor_of(v, rw, numbers) for v in op.operands)
    if x is None or w is None or (x.scale is None) != (w.scale is None) or not is_constant(w.bytes):
        return None
    if (x.scale is None) != (op.type.element_type == i32) or x.axis is not None:
        return None
    if producer(op.operands[0], TransposeOp) is not None:
        return None
    if w.axis not in (None, 0) or not _zero_points_fit(op, numbers, x, w):
        return None
    return x, w


def _fits(op: Any) -> bool:
    """Whether the op's layouts and sizes are those of byte kernels."""
    sizes = shape_of(op.operands[1].type)
    if not is_static(sizes):
        return False
    if isinstance(op, Conv2dOp) and op.is_depthwise:
        return _fits_depthwise(op)
    if math.prod(sizes[1:]) < LEAST_BYTE_DEPTH:
        return False
    if isinstance(op, DenseOp):
        return op.kernel_layout == "OI" and sizes[-1] % 4 == 0
    return op.groups == 1 and op.data_layout == "NCHW" and op.kernel_layout == "OIHW"


def _fits_depthwise(op: Conv2dOp) -> bool:
    """Whether neighbours in a row of the window make words, enough of them to be worth it."""
    taps: Any = product(shape_of(op.operands[1].type)[1:])
    return op.data_layout == "NCHW" and op.kernel_layout == "OIHW" and op.dilation[1] == 1 and taps >= LEAST_BYTE_TAPS


def _zero_points_fit(op: Any, numbers: Numbers, x: Factor, w: Factor) -> bool:
    """Whether the zero points are known as far as the rewriting needs them: all of a convolution's."""
    if isinstance(op, DenseOp):
        return True
    if (numbers.one(w.zero) if w.zero is not None else 0) != (HALF if is_unsigned(w.element) else 0):
        return False
    return x.zero is None or not any(op.padding) or numbers.one(x.zero) is not None


def _less_zero_points(op: Any, rw: Rewriter, numbers: Numbers, total: SSAValue, x: Factor, w: Factor) -> SSAValue:
    """The sum of products without what the zero points added to it."""
    is_conv = isinstance(op, Conv2dOp)
    zx = None if x.zero is None or numbers.one(x.zero) == 0 else wide(rw, _scalar(rw, x.zero))
    zw = None if w.zero is None or numbers.one(w.zero) == 0 else wide(rw, w.zero)
    if zx is not None:
        axes = (1, 2, 3) if is_conv else (1,)
        sums = rw.make(SumOp, wide(rw, w.bytes), axes=axes)
        if zw is not None:  # zx * sum (w - zw)
            depth: Any = shape_of(w.bytes.type)[-1]
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
    shape: Sequence[Any] = () if size == 1 else (size,)
    return value if shape_of(value.type) == shape else rw.make(ReshapeOp, value, shape=shape)


def _channels(op: Any, rw: Rewriter, value: SSAValue) -> SSAValue:
    """One number a channel (or one for all) as it broadcasts to the op's result."""
    value = _flat(rw, value)
    if not shape_of(value.type) or isinstance(op, DenseOp):
        return value
    return rw.make(ReshapeOp, value, shape=(1, shape_of(value.type)[0], 1, 1))


def _scale(op: Any, rw: Rewriter, x: Factor, w: Factor) -> SSAValue:
    assert x.scale is not None
    assert w.scale is not None
    return _channels(op, rw, rw.make(MultiplyOp, _flat(rw, w.scale), _scalar(rw, x.scale)))


def integer_bias(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`(cast %acc) * %m + dequantize %b, %m, 0` -> `(cast (%acc + %b)) * %m`: the bias is quantised like the sum."""
    pairs = [tuple(op.operands)] if isinstance(op, BiasAddOp) else [tuple(op.operands), tuple(op.operands[::-1])]
    for y, bias in pairs:
        scaled = producer(y, MultiplyOp)
        cast: Any = None if scaled is None else producer(scaled.operands[0], CastOp)
        dequantize: Any = producer(bias, DequantizeOp)
        if scaled is None or cast is None or dequantize is None or not cast.result.has_one_use() or not y.has_one_use():
            continue
        b, scale, zero = dequantize.operands
        if cast.operands[0].type.element_type != i32 or b.type.element_type != i32 or numbers.one(zero) != 0:
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
    minus = producer(total, SubtractOp)
    if minus is not None and total.has_one_use() and is_constant(minus.operands[1]):
        total, b = minus.operands[0], rw.make(SubtractOp, b, minus.operands[1])
    return rw.make(AddOp, total, b)


def _same_scale(numbers: Numbers, a: SSAValue, b: SSAValue) -> bool:
    """Whether two scales are the same up to the rounding of their product."""
    x, y = numbers.of(a), numbers.of(b)
    if x is None or y is None or (x.size != y.size and 1 not in (x.size, y.size)):
        return False
    return bool((abs(x.reshape(-1) - y.reshape(-1)) <= 1e-6 * abs(x.reshape(-1))).all())
