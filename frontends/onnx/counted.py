"""
Values of which only a bound of one size is known at import: that many elements are computed, and a count beside them.

An op takes such a value if each of its results up to the count needs nothing beyond the count: elementwise ops,
movements that keep the axis whole, gathers at such indices, work along other axes. What works along the axis itself is
in `computed.py`. The model's outputs are cut to the count when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of

if TYPE_CHECKING:
    from mlc.frontends.onnx.node import Node, Value

HINT = "; only elementwise ops, transposes, gathers and the like work on such a value, or it is an output"


@dataclass(frozen=True)
class Count:
    """Along `axis` only the first `value` elements are there."""

    axis: int
    value: Any


def same(a: Count, b: Count) -> bool:
    """Whether two counts are one."""
    if a.value is b.value:
        return True
    return a.value.ssa is not None and b.value.ssa is not None and origin(a.value.ssa) is origin(b.value.ssa)


def origin(value: SSAValue) -> SSAValue:
    """What a count was before it was made a shape and taken out of it again."""
    while isinstance(op := value.owner, g.ReshapeOp | g.CastOp | g.SliceOp | g.TakeOp):
        source = op.operands[0]
        if isinstance(op, g.SliceOp | g.TakeOp):
            parts = source.owner
            if isinstance(op, g.SliceOp):
                place = op.begin[0]
            else:
                place = op.operands[1].owner.array().item() if isinstance(op.operands[1].owner, g.ConstantOp) else -1
            if not isinstance(parts, g.ConcatenateOp) or not 0 <= place < len(parts.operands):
                return value
            if not {g.shape_of(v.type) for v in (op.results[0], *parts.operands)} <= {(1,), ()}:
                return value
            source = parts.operands[place]
        value = source
    return value


def plain(value: Value) -> Value:
    """The value with all of its bound."""
    return value if value.counted is None else replace(value, counted=None)


def result_count(cls: Any, operands: Sequence[Value], attrs: dict[str, Any], shape: Sequence[Any]) -> Count | None:
    """What is there of an op's result, of this shape; None where the op cannot work on a bound."""
    counts = [v.counted for v in operands]
    known = [c for c in counts if c is not None]
    if issubclass(cls, g.UnaryOp | g.CastOp | g.ClipOp | g.IdentityOp | g.PreluOp | g.BinaryOp | g.WhereOp):
        return _aligned(operands, len(shape))
    if not all(same(c, known[0]) for c in known):
        return None
    rule = _RULES.get(cls)
    axis = None if rule is None else rule(operands, counts, attrs, shape)
    return None if axis is None else Count(axis, known[0].value)


def _aligned(operands: Sequence[Value], rank: int) -> Count | None:
    """Of operands that are broadcast: all have the same part along the axis, or one element."""
    found: Count | None = None
    for v in operands:
        if v.counted is not None:
            one = Count(v.counted.axis + rank - len(v.shape), v.counted.value)
            if found is not None and (found.axis != one.axis or not same(found, one)):
                return None
            found = one
    assert found is not None
    for v in operands:
        axis = found.axis - rank + len(v.shape)
        if v.counted is None and axis >= 0 and v.shape[axis] != 1:
            return None
    return found


def _transpose(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    return list(attrs["axes"]).index(counts[0].axis)


def _reshape(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """The axis that has the same size, and as many elements before it."""
    source, axis = operands[0].shape, counts[0].axis
    for place, size in enumerate(shape):
        if size == source[axis] and np.prod(shape[:place]) == np.prod(source[:axis]):
            return place
    return None


def _take(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Of the indices, or of what is not indexed."""
    axis = axis_of(attrs.get("axis", 0), len(operands[0].shape))
    if counts[0] is None:
        return axis + counts[1].axis
    if counts[1] is not None or counts[0].axis == axis:
        return None
    return counts[0].axis if counts[0].axis < axis else counts[0].axis + len(operands[1].shape) - 1


def _concatenate(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    axes = {None if c is None else c.axis for c in counts}
    axis = axis_of(attrs.get("axis", 0), len(shape))
    return axes.pop() if len(axes) == 1 and axis not in axes else None


def _same(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """An axis that keeps its size."""
    axis = counts[0].axis
    return axis if len(shape) == len(operands[0].shape) and shape[axis] == operands[0].shape[axis] else None


def _sliced(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """An axis that is kept as it is."""
    axis = counts[0].axis
    whole = attrs["begin"][axis] == 0 and attrs["strides"][axis] == 1
    return _same(operands, counts, attrs, shape) if whole else None


def _split(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    axis = counts[0].axis
    return None if axis_of(attrs["axis"], len(shape)) == axis else axis


def _reduced(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """An axis that is not reduced."""
    rank, axis = len(operands[0].shape), counts[0].axis
    axes = {axis_of(a, rank) for a in attrs["axes"]}
    return None if axis in axes else axis if attrs.get("keepdims") else axis - sum(a < axis for a in axes)


def _along(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Another axis than the one that is worked along."""
    return None if axis_of(attrs.get("axis", -1), len(shape)) == counts[0].axis else counts[0].axis


def _after(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """An axis before those that are worked along, of the first operand alone."""
    if counts[0] is None or any(c is not None for c in counts[1:]):
        return None
    return counts[0].axis if counts[0].axis < axis_of(attrs.get("axis", -1), len(shape)) else None


def _product(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Rows of the left operand."""
    rows = len(operands[0].shape) - 2
    return rows if counts[0] is not None and counts[1] is None and counts[0].axis == rows else None


def _bias(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    return _along(operands, counts, attrs, shape) if counts[0] is not None and counts[1] is None else None


def _rows(operands: Any, counts: Any, attrs: Any, shape: Any) -> int | None:
    """Rows at indices: an axis of theirs."""
    return counts[1].axis if counts[0] is None else None


_RULES: dict[Any, Callable[[Any, Any, Any, Any], int | None]] = {
    g.TransposeOp: _transpose,
    g.ReshapeOp: _reshape,
    g.TakeOp: _take,
    g.ConcatenateOp: _concatenate,
    g.SliceOp: _sliced,
    g.SplitOp: _split,
    **dict.fromkeys((g.SumOp, g.MaxOp, g.MinOp, g.ProdOp, g.MeanOp, g.ArgmaxOp, g.ArgminOp), _reduced),
    **dict.fromkeys((g.SoftmaxOp, g.LogSoftmaxOp, g.ArgsortOp), _along),
    **dict.fromkeys((g.DenseOp, g.BatchMatmulOp), _product),
    g.BiasAddOp: _bias,
    g.LayerNormOp: _after,
    g.BroadcastToOp: _same,
    g.GatherRowsOp: _rows,
}

# Ops whose converters do not take a bound for a size.
ALLOWED = frozenset(
    "Identity Cast Abs Neg Exp Log Sqrt Sin Cos Tan Tanh Sigmoid Relu Erf Floor Ceil Round Sign Not Reciprocal Clip "
    "Add Sub Mul Div Mod Pow Min Max And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual Where BitwiseAnd "
    "Transpose Squeeze Unsqueeze Gather GatherND Concat Flatten Shape Size If Loop Scan CastLike "
    "Slice Split Reshape Expand TopK Softmax LogSoftmax MatMul Gemm LayerNormalization ReduceSum ReduceMax ReduceMin "
    "ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp ArgMax ArgMin LeakyRelu Elu "
    "HardSigmoid HardSwish Softplus Gelu Mish Selu IsNaN IsInf BitwiseOr BitwiseXor Sum Mean ScatterND".split()
)


def check(node: Node) -> None:
    """Refuse an op that would take a bound for a size."""
    from mlc.frontends.onnx.node import NeedsValues

    for index, value in enumerate(node.inputs):
        if value is not None and value.counted is not None and node.proto.op_type not in ALLOWED:
            error = node.fail(
                f"expected input {index} ('{value.name}') of a size known at import, but got up to "
                f"{value.shape[value.counted.axis]} elements{HINT}"
            )
            raise NeedsValues(str(error), node.importer.sources(value.counted.value))


def marked(value: Value, axis: int, count: Value) -> Value:
    """A value of which along an axis only a part is there."""
    if count.array is None and count.span is None:
        room = value.shape[axis]
        count.span = np.array(0, np.int64), np.array(room, np.int64 if isinstance(room, int) else object)
    return replace(value, counted=Count(axis, count))
