"""
graph-simplify-qdq: quantised models compute in integers.

    quantize (dequantize q)         -> q, where scale and zero point agree
    quantize (move x)               -> move (quantize x): values move as bytes, nearest resizing too
    quantize (relu x)               -> quantize x, where the zero point is the lowest integer
    reshape (dequantize q)          -> dequantize (reshape q), with one scale
    quantize (f (dequantize q))     -> lookup q in a table of f, if f is expensive or several ops
    contractions of dequantised     -> products of bytes, summed in int32, then scaled by a float a channel
    mean (dequantize q)             -> the mean of bytes, scaled
    dequantize (quantize x)         -> x rounded, in floats, where the bytes have no other reader
    other quantize, dequantize      -> casts and arithmetic, which fuse into the kernels around them

It must run before constants are folded, which would make floats of quantised weights.
"""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    AddOp,
    AvgPool2dOp,
    CastOp,
    ClipOp,
    ConstantOp,
    DequantizeOp,
    DivideOp,
    MeanOp,
    MultiplyOp,
    QuantizeOp,
    ReluOp,
    ReshapeOp,
    RoundOp,
    SubtractOp,
    shape_of,
    tensor,
)
from mlc.dialects.graph.ops.quantize import float_range, integer_range
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.types import axis_of, element_of
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.graph.simplify.simplify_qdq.contractions import BIASES, CONTRACTIONS, PRODUCTS
from mlc.passes.graph.simplify.simplify_qdq.functions import TABLES
from mlc.passes.graph.simplify.simplify_qdq.values import BYTES, Numbers, QdqRules, moves, wide
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op

BYTES_KEPT, MEANS, ROUNDED, LOWERED = QdqRules(), QdqRules(), QdqRules(), QdqRules()

# --- quantised values keep their bytes ---


@BYTES_KEPT.on(QuantizeOp)
def quantize_of_dequantize(op: QuantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (dequantize %q, %s, %z), %s, %z == %q`."""
    inner = defining_op(op.operands[0], DequantizeOp)
    if inner is None or inner.operands[0].type != op.type or (shape_of(op.operands[1].type) and inner.axis != op.axis):
        return None
    pairs = zip(inner.operands[1:], op.operands[1:], strict=True)
    return inner.operands[0] if all(numbers.same(a, b) for a, b in pairs) else None


@BYTES_KEPT.on(QuantizeOp)
def quantize_of_move(op: QuantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (reshape %x), %s, %z` -> `reshape (quantize %x, %s, %z)`, if the floats have no other reader."""
    x, scale, zero = op.operands
    move = x.owner
    if not moves(move) or shape_of(scale.type) or not x.has_one_use():
        return None
    operands = [rw.make(QuantizeOp, v, scale, zero) for v in move.operands]
    return rw.clone(move, *operands, result=op.type if move.result_given else None)


@BYTES_KEPT.on(ReshapeOp)
def reshape_of_dequantize(op: ReshapeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`reshape (dequantize %q, %s, %z)` -> `dequantize (reshape %q), %s, %z`, with one scale."""
    inner = defining_op(op.operands[0], DequantizeOp)
    if inner is None or is_constant(inner.operands[0]) or shape_of(inner.operands[1].type):
        return None
    q, scale, zero = inner.operands
    view = rw.make(ReshapeOp, q, result=tensor(shape_of(op.type), element_of(q)))
    return rw.make(DequantizeOp, view, scale, zero)


@BYTES_KEPT.on(QuantizeOp)
@LOWERED.on(QuantizeOp)
def quantize_of_clip(op: QuantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (relu %x), %s, %z == quantize %x, %s, %z` where z is the lowest integer; likewise for clips."""
    clip = op.operands[0].owner
    if not isinstance(clip, ReluOp | ClipOp):
        return None
    scale, zero = numbers.one(op.operands[1]), numbers.one(op.operands[2])
    if scale is None or zero is None or not scale > 0:
        return None
    least, most = integer_range(op.type.element_type)
    low, high = (0.0, math.inf) if isinstance(clip, ReluOp) else (clip.min, clip.max)
    if low > (least - zero) * scale or high < (most - zero) * scale:
        return None
    return rw.make(QuantizeOp, clip.operands[0], *op.operands[1:], axis=op.axis)


@MEANS.on(MeanOp, AvgPool2dOp)
def mean_of_dequantize(op: MeanOp | AvgPool2dOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`mean (dequantize %q, %s, %z)` -> `(mean (cast %q) - cast %z) * %s`: sums of bytes are exact; also for pools."""
    inner = defining_op(op.operands[0], DequantizeOp)
    if inner is None or element_of(inner.operands[0]) not in BYTES or shape_of(inner.operands[1].type):
        return None
    if inner.type.element_type != f32 or (isinstance(op, AvgPool2dOp) and any(op.padding)):
        return None
    q, scale, zero = inner.operands
    mean = rw.clone(op, rw.make(CastOp, q, dtype="float32"))
    if numbers.one(zero) != 0:
        mean = rw.make(SubtractOp, mean, _float(rw, zero, scale))
    return rw.make(MultiplyOp, mean, scale)


# --- ops that are left become arithmetic ---


@ROUNDED.on(DequantizeOp)
def round_in_floats(op: DequantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`dequantize (quantize %x, %s, z), %s, z` -> `(clip (round (%x / %s)), least - z, most - z) * %s`."""
    inner = defining_op(op.operands[0], QuantizeOp)
    if inner is None or op.type != inner.operands[0].type or shape_of(op.operands[1].type):
        return None
    if inner.type.element_type.width.data > 16 or not all(
        isinstance(use.operation, DequantizeOp) for use in inner.result.uses
    ):
        return None
    pairs = zip(inner.operands[1:], op.operands[1:], strict=True)
    x, scale, zero = inner.operands[0], op.operands[1], numbers.one(op.operands[2])
    if zero is None or element_of(scale) != element_of(x) or not all(numbers.same(a, b) for a, b in pairs):
        return None
    least, most = float_range(inner.type.element_type)
    levels = rw.make(ClipOp, rw.make(RoundOp, _divided(rw, x, scale)), min=least - zero, max=most - zero)
    return rw.make(MultiplyOp, levels, scale)


def _along(op: QuantizeOp | DequantizeOp, rw: Rewriter, value: SSAValue) -> SSAValue:
    """A scale or zero point in the shape that broadcasts to the data."""
    if not shape_of(value.type):
        return value
    sizes = shape_of(op.type)
    at = axis_of(op.axis, len(sizes))
    return rw.make(ReshapeOp, value, shape=[n if k == at else 1 for k, n in enumerate(sizes)])


def _float(rw: Rewriter, value: SSAValue, like: SSAValue) -> SSAValue:
    return rw.make(CastOp, value, dtype=element_of(like))


@LOWERED.on(QuantizeOp)
def lower_quantize(op: QuantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize %x, %s, %z` -> `cast (clip ((round (%x / %s)) + %z))`; a constant factor of %x takes 1 / s in."""
    x, scale, zero = op.operands
    scale = _along(op, rw, scale)
    if element_of(scale) != element_of(x):
        scale = _float(rw, scale, x)
    total = rw.make(RoundOp, _divided(rw, x, scale))
    if numbers.one(zero) != 0:
        total = rw.make(AddOp, total, _float(rw, _along(op, rw, zero), x))
    low, high = float_range(op.type.element_type)
    total = rw.make(ClipOp, total, min=low, max=high)
    return rw.make(CastOp, total, dtype=op.type.element_type)


def _divided(rw: Rewriter, x: SSAValue, scale: SSAValue) -> SSAValue:
    """`x / s`, by constants as `x * (1 / s)`, and `(a * m) / s` as `a * (m / s)`."""
    if not is_constant(scale):
        return rw.make(DivideOp, x, scale)
    product = defining_op(x, MultiplyOp)
    if product is not None and x.has_one_use() and is_constant(product.operands[1]):
        return rw.make(MultiplyOp, product.operands[0], rw.make(DivideOp, product.operands[1], scale))
    one = rw.insert(ConstantOp.make(1.0, dtype=element_of(scale)))
    return rw.make(MultiplyOp, x, rw.make(DivideOp, one, scale))


@LOWERED.on(DequantizeOp)
def lower_dequantize(op: DequantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`dequantize %q, %s, %z` -> `((cast %q) - (cast %z)) * %s`; bytes are exact floats."""
    q, scale, zero = op.operands
    exact = element_of(q).width.data < 32 and op.type.element_type == f32
    if numbers.one(zero) == 0:
        total = _float(rw, q, scale)
    elif exact:
        total = rw.make(SubtractOp, _float(rw, q, scale), _float(rw, _along(op, rw, zero), scale))
    else:
        total = _float(rw, rw.make(SubtractOp, wide(rw, q), wide(rw, _along(op, rw, zero))), scale)
    return rw.make(MultiplyOp, total, _along(op, rw, scale))


STAGES = (BYTES_KEPT, TABLES, PRODUCTS, CONTRACTIONS, BIASES, MEANS, ROUNDED, LOWERED)
"""Each table is applied to a fixed point before the next."""


class SimplifyQdqPass(ModulePass):
    """
    Contractions between `graph.dequantize` and `graph.quantize` become integer kernels with a requantising epilogue.

    `quantize (conv2d (dequantize %x, %sx, %zx), (dequantize %w, %sw, 0)), %sy, %zy`
    -> `cast (clip ((round ((cast (conv2d %x, %w {out_dtype = "int32"} - c)) * (%sx * %sw / %sy))) + %zy))`
    """

    name = "graph-simplify-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        numbers = Numbers(store_of(op))
        for stage in STAGES:
            apply_rules(op, Rules.bound(stage, numbers))
        eliminate_dead_code(op)
