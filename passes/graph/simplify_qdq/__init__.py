"""
graph-simplify-qdq: quantised models compute in integers.

    quantize (move x)               -> move (quantize x): values move as bytes, nearest resizing too
    reshape (dequantize q)          -> dequantize (reshape q), with one scale
    quantize (dequantize q)         -> q, where scale and zero point agree
    quantize (relu x)               -> quantize x, where nothing below zero can be quantised
    quantize (f (dequantize q))     -> lookup q in a table of f, where f is more than a step or two
    dequantize (quantize x)         -> x rounded, in floats, where nothing reads the bytes
    mean (dequantize q)             -> the mean of bytes, scaled
    contractions of dequantised     -> products of bytes, summed in int32, scaled by a float a channel behind
    quantize, dequantize left over  -> casts and arithmetic, which fuse into the kernels around them

It stands in front of all that folds constants: afterwards quantised weights would be floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    AddOp,
    AvgPool2dOp,
    BatchMatmulOp,
    BiasAddOp,
    CastOp,
    ClipOp,
    ConstantOp,
    Conv2dOp,
    DenseOp,
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
from mlc.passes.graph.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.graph.simplify_qdq.contractions import contraction, integer_bias, product_by_weights
from mlc.passes.graph.simplify_qdq.functions import function_of_bytes
from mlc.passes.graph.simplify_qdq.values import BYTES, Numbers, moves, wide
from mlc.passes.rewriting import Replacement, Rewriter, apply_rules, producer

# --- quantised values keep their bytes ---


def quantize_of_move(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (reshape %x), %s, %z` -> `reshape (quantize %x, %s, %z)`, where nothing else reads the moved floats."""
    x, scale, zero = op.operands
    move: Any = x.owner
    if not moves(move) or shape_of(scale.type) or not x.has_one_use():
        return None
    operands = [rw.make(QuantizeOp, v, scale, zero) for v in move.operands]
    attrs = {name: getattr(move, name) for name in move.declared}
    given = {"result": op.type} if move.result_given else {}
    return rw.make(type(move), *operands, location=move.location, **attrs, **given)


def reshape_of_dequantize(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`reshape (dequantize %q, %s, %z)` -> `dequantize (reshape %q), %s, %z`: a view of the bytes, of one scale."""
    inner: Any = producer(op.operands[0], DequantizeOp)
    if inner is None or is_constant(inner.operands[0]) or shape_of(inner.operands[1].type):
        return None
    q, scale, zero = inner.operands
    view = rw.make(ReshapeOp, q, result=tensor(shape_of(op.type), element_of(q)))
    return rw.make(DequantizeOp, view, scale, zero)


def quantize_of_dequantize(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (dequantize %q, %s, %z), %s, %z == %q`."""
    inner: Any = producer(op.operands[0], DequantizeOp)
    if inner is None or inner.operands[0].type != op.type or (shape_of(op.operands[1].type) and inner.axis != op.axis):
        return None
    pairs = zip(inner.operands[1:], op.operands[1:], strict=True)
    return inner.operands[0] if all(numbers.same(a, b) for a, b in pairs) else None


def quantize_of_clip(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (relu %x), %s, %z == quantize %x, %s, %z` where z is the lowest integer; clips alike."""
    if not isinstance(op.operands[0].owner, ReluOp | ClipOp):
        return None
    clip: Any = op.operands[0].owner
    scale, zero = numbers.one(op.operands[1]), numbers.one(op.operands[2])
    if scale is None or zero is None or not scale > 0:
        return None
    least, most = integer_range(op.type.element_type)
    low, high = (0.0, math.inf) if isinstance(clip, ReluOp) else (clip.min, clip.max)
    if low > (least - zero) * scale or high < (most - zero) * scale:
        return None
    return rw.make(QuantizeOp, clip.operands[0], *op.operands[1:], axis=op.axis)


def mean_of_dequantize(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`mean (dequantize %q, %s, %z)` -> `(mean (cast %q) - cast %z) * %s`: sums of bytes are exact; pools alike."""
    inner: Any = producer(op.operands[0], DequantizeOp)
    if inner is None or inner.operands[0].type.element_type not in BYTES or shape_of(inner.operands[1].type):
        return None
    if inner.type.element_type != f32 or (isinstance(op, AvgPool2dOp) and any(op.padding)):
        return None
    q, scale, zero = inner.operands
    mean = rw.again(op, rw.make(CastOp, q, dtype="float32"))
    if numbers.one(zero) != 0:
        mean = rw.make(SubtractOp, mean, _float(rw, zero, scale))
    return rw.make(MultiplyOp, mean, scale)


# --- what is left ---


def rounded(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`dequantize (quantize %x, %s, z), %s, z` -> `(clip (round (%x / %s)), least - z, most - z) * %s`: no bytes."""
    inner: Any = producer(op.operands[0], QuantizeOp)
    if inner is None or op.type != inner.operands[0].type or shape_of(op.operands[1].type):
        return None
    if inner.type.element_type.width.data > 16 or not all(
        isinstance(use.operation, DequantizeOp) for use in inner.result.uses
    ):
        return None
    pairs = zip(inner.operands[1:], op.operands[1:], strict=True)
    x, scale, zero = inner.operands[0], op.operands[1], numbers.one(op.operands[2])
    if zero is None or scale.type.element_type != x.type.element_type or not all(numbers.same(a, b) for a, b in pairs):
        return None
    least, most = float_range(inner.type.element_type)
    levels = rw.make(ClipOp, rw.make(RoundOp, _divided(rw, x, scale)), min=least - zero, max=most - zero)
    return rw.make(MultiplyOp, levels, scale)


def _along(op: Any, rw: Rewriter, value: SSAValue) -> SSAValue:
    """A scale or zero point as it broadcasts to the data."""
    if not shape_of(value.type):
        return value
    sizes = shape_of(op.type)
    at = axis_of(op.axis, len(sizes))
    return rw.make(ReshapeOp, value, shape=[n if k == at else 1 for k, n in enumerate(sizes)])


def _float(rw: Rewriter, value: SSAValue, like: SSAValue) -> SSAValue:
    return rw.make(CastOp, value, dtype=element_of(like))


def spelt_quantize(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize %x, %s, %z` -> `cast (clip ((round (%x / %s)) + %z))`; a product with constants takes 1 / s in."""
    x, scale, zero = op.operands
    scale = _along(op, rw, scale)
    if element_of(scale) != x.type.element_type:
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
    product: Any = producer(x, MultiplyOp)
    if product is not None and x.has_one_use() and is_constant(product.operands[1]):
        return rw.make(MultiplyOp, product.operands[0], rw.make(DivideOp, product.operands[1], scale))
    one = rw.insert(ConstantOp.make(1.0, dtype=element_of(scale)))
    return rw.make(MultiplyOp, x, rw.make(DivideOp, one, scale))


def spelt_dequantize(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`dequantize %q, %s, %z` -> `((cast %q) - (cast %z)) * %s`; bytes are exact floats."""
    q, scale, zero = op.operands
    exact = q.type.element_type.width.data < 32 and op.type.element_type == f32
    if numbers.one(zero) == 0:
        total = _float(rw, q, scale)
    elif exact:
        total = rw.make(SubtractOp, _float(rw, q, scale), _float(rw, _along(op, rw, zero), scale))
    else:
        total = _float(rw, rw.make(SubtractOp, wide(rw, q), wide(rw, _along(op, rw, zero))), scale)
    return rw.make(MultiplyOp, total, _along(op, rw, scale))


STAGES: list[dict[type[Any], list[Any]]] = [
    {
        QuantizeOp: [quantize_of_dequantize, quantize_of_move, quantize_of_clip],
        ReshapeOp: [reshape_of_dequantize],
    },
    {QuantizeOp: [function_of_bytes]},
    {BatchMatmulOp: [product_by_weights]},
    {Conv2dOp: [contraction], DenseOp: [contraction]},
    {BiasAddOp: [integer_bias], AddOp: [integer_bias]},
    {MeanOp: [mean_of_dequantize], AvgPool2dOp: [mean_of_dequantize]},
    {DequantizeOp: [rounded]},
    {QuantizeOp: [quantize_of_clip, spelt_quantize], DequantizeOp: [spelt_dequantize]},
]
"""Rules by op class, each stage to its end before the next begins."""


@dataclass(frozen=True)
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
            rules = {cls: [_bound(rule, numbers) for rule in found] for cls, found in stage.items()}
            apply_rules(op, rules)
        eliminate_dead_code(op)


def _bound(rule: Any, numbers: Numbers) -> Any:
    return lambda op, rw: rule(op, rw, numbers)
