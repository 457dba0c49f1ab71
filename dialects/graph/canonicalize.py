"""Canonicalization patterns of graph ops, by op class; identities of single ops are in their `fold`."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FixedBitwidthType, IntegerType, Signedness, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mlc.dialects.constants import numbers
from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.elementwise import (
    AddOp,
    BiasAddOp,
    CastOp,
    ClipOp,
    DivideOp,
    MultiplyOp,
    NegOp,
    PowerOp,
    ReluOp,
    SubtractOp,
)
from mlc.dialects.graph.ops.layout_transform import LayoutTransformOp
from mlc.dialects.graph.ops.movement import ReshapeOp, TransposeOp
from mlc.dialects.graph.ops.structure import ConstantOp, FullOp
from mlc.dialects.graph.types import FLOATS, is_float, shape_of


def splat(value: SSAValue) -> float | None:
    """The value of all elements of a splat constant; None for other values."""
    op = value.owner
    if isinstance(op, FullOp):
        return op.value
    if isinstance(op, ConstantOp):
        assert isinstance(op.value, DenseIntOrFPElementsAttr)
        values = numbers(op.value)
        return float(values[0]) if values and all(v == values[0] for v in values) else None
    return None


def _replace(op: GraphOp, rewriter: PatternRewriter, new: Operation | SSAValue) -> None:
    """Replace `op` by an op (which takes its location) or by a value."""
    if isinstance(new, Operation):
        new.location = op.location
        rewriter.replace(op, new)
    else:
        rewriter.replace(op, [], [new])


class NeutralOperand(RewritePattern):
    """`graph.add %x, %zero -> %x`, and the like, if the result has x's type."""

    # op class -> (the neutral element, whether it may be the left operand)
    NEUTRAL: ClassVar[dict[type[Operation], tuple[float, bool]]] = {
        AddOp: (0.0, True),  # x + 0 == x
        SubtractOp: (0.0, False),  # x - 0 == x
        MultiplyOp: (1.0, True),  # x * 1 == x
        DivideOp: (1.0, False),  # x / 1 == x
        PowerOp: (1.0, False),  # x ** 1 == x
    }

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if type(op) not in self.NEUTRAL or not isinstance(op, GraphOp):
            return
        neutral, either = self.NEUTRAL[type(op)]
        x, y = op.operands
        if x.type == op.type and splat(y) == neutral:
            _replace(op, rewriter, x)
        elif either and y.type == op.type and splat(x) == neutral:
            _replace(op, rewriter, y)


class ZeroBias(RewritePattern):
    """`graph.bias_add %x, %zero -> %x`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        # x + 0 == x
        if isinstance(op, BiasAddOp) and splat(op.operands[1]) == 0.0:
            _replace(op, rewriter, op.operands[0])


class Twice(RewritePattern):
    """`f(f(x)) -> f(x)` for relu, `-> x` for neg."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, GraphOp):
            return
        inner = op.operands[0].owner
        if not isinstance(inner, GraphOp) or type(inner) is not type(op):
            return
        # relu(relu(x)) == relu(x); -(-x) == x
        _replace(op, rewriter, inner.results[0] if isinstance(op, ReluOp) else inner.operands[0])


class ClipOfClip(RewritePattern):
    """`clip(clip(x, a, b), c, d) -> clip(x, max(a, c), min(b, d))` if the ranges intersect."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if not isinstance(op, ClipOp) or not isinstance(inner, ClipOp):
            return
        a: Any = inner
        b: Any = op
        low, high = max(a.min, b.min), min(a.max, b.max)
        if low <= high:
            _replace(op, rewriter, ClipOp.make(inner.operands[0], min=low, max=high))


class ReshapeOfReshape(RewritePattern):
    """`reshape(reshape(x)) -> reshape(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if isinstance(op, ReshapeOp) and isinstance(inner, ReshapeOp):
            _replace(op, rewriter, ReshapeOp.make(inner.operands[0], result=op.type))


class TransposeOfTranspose(RewritePattern):
    """`transpose(transpose(x, p), q) -> transpose(x, p[q])`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if isinstance(op, TransposeOp) and isinstance(inner, TransposeOp):
            axes = tuple(inner.axes[axis] for axis in op.axes)
            _replace(op, rewriter, TransposeOp.make(inner.operands[0], axes=axes))


class LayoutOfLayout(RewritePattern):
    """`layout_transform(layout_transform(x, a, b), b, c) -> layout_transform(x, a, c)` for the same logical sizes."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if not isinstance(op, LayoutTransformOp) or not isinstance(inner, LayoutTransformOp) or inner.dst != op.src:
            return
        # If the first crops padding of arbitrary content and the second pads with zeros, they do not compose.
        source, last = inner.operands[0], layout(op.dst)
        logical = inner.logical_sizes()
        if logical != op.logical_sizes() or logical != layout(inner.src).sizes(shape_of(source.type)):
            return
        if inner.src == op.dst and source.type == op.type:
            _replace(op, rewriter, source)
        elif set(last.axes) == set(layout(inner.src).axes):
            _replace(op, rewriter, LayoutTransformOp.make(source, src=inner.src, dst=op.dst, result=op.type))


def _widens(first: Attribute, second: Attribute) -> bool:
    """Whether the second element type is wider than the first and represents all of its values."""
    assert isinstance(first, FixedBitwidthType)
    assert isinstance(second, FixedBitwidthType)
    if first.size >= second.size or isinstance(first, FLOATS) != isinstance(second, FLOATS):
        return False
    # An unsigned type does not represent negative integers.
    unsigned = [isinstance(t, IntegerType) and t.signedness.data == Signedness.UNSIGNED for t in (first, second)]
    return first == i1 or unsigned[0] or not unsigned[1]


class WideningCasts(RewritePattern):
    """`cast(cast(x : f32) : f64) : t -> cast(x) : t`: a widening cast is lossless."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        inner = op.operands[0].owner
        if not isinstance(op, CastOp) or not isinstance(inner, CastOp):
            return
        first, second = inner.input_types[0], inner.type
        if _widens(first.element_type, second.element_type) and is_float(op.type) == is_float(first):
            _replace(op, rewriter, CastOp.make(inner.operands[0], result=op.type))


PATTERNS: dict[type[Operation], tuple[RewritePattern, ...]] = {
    **dict.fromkeys(NeutralOperand.NEUTRAL, (NeutralOperand(),)),
    BiasAddOp: (ZeroBias(),),
    ReluOp: (Twice(),),
    NegOp: (Twice(),),
    ClipOp: (ClipOfClip(),),
    ReshapeOp: (ReshapeOfReshape(),),
    TransposeOp: (TransposeOfTranspose(),),
    LayoutTransformOp: (LayoutOfLayout(),),
    CastOp: (WideningCasts(),),
}
