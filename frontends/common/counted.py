"""
Data-dependent lengths: a padded tensor plus its count.

A size that only a bound is known of at import is computed up to the bound, and a count of the elements that are valid
goes with the value. An op takes such a value if each element of its result up to the count depends on no element beyond
the count: elementwise ops, movements that keep the axis whole, gathers at such indices, work along other axes. What
works along the axis itself is in `onnx/ops/computed.py`. The model's outputs are cut to the count when it runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.values import Value

COUNTED_HINT = "; only elementwise ops, transposes, gathers and the like work on such a value, or it is an output"


@dataclass(frozen=True)
class Count:
    """Only the first `value` elements along `axis` are valid; the rest is padding."""

    axis: int
    value: Value


@dataclass(frozen=True)
class _Application:
    """An op about to be applied: its operands, their counts, its attributes and the shape of its result."""

    operands: Sequence[Value]
    counts: Sequence[Count | None]
    attrs: Mapping[str, Any]
    shape: Sequence[Dim]

    @property
    def axis(self) -> int:
        """The counted axis of the first operand that has one."""
        return next(count.axis for count in self.counts if count is not None)

    def attribute_axis(self, default: int, rank: int) -> int:
        """The op's attribute `axis`, from 0 on."""
        return axis_of(self.attrs.get("axis", default), rank)


_Rule: TypeAlias = "Callable[[_Application], int | None]"
"""The counted axis of an op's result; None where the op cannot work on a padded tensor."""


def same(a: Count, b: Count) -> bool:
    """Whether two counts are the same number."""
    if a.value is b.value:
        return True
    return a.value.ssa is not None and b.value.ssa is not None and origin(a.value.ssa) is origin(b.value.ssa)


def origin(value: SSAValue) -> SSAValue:
    """The value that a count was before it was put into a shape and read from it again."""
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
    """The value with its padding, as a tensor of the padded size."""
    return value if value.counted is None else replace(value, counted=None)


def result_count(
    cls: type[GraphOp], operands: Sequence[Value], attrs: Mapping[str, Any], shape: Sequence[Dim]
) -> Count | None:
    """The count of an op's result, which has this padded shape; None where the op cannot work on a padded tensor."""
    counts = [v.counted for v in operands]
    known = [c for c in counts if c is not None]
    if issubclass(cls, g.UnaryOp | g.CastOp | g.ClipOp | g.IdentityOp | g.PreluOp | g.BinaryOp | g.WhereOp):
        return _aligned(operands, len(shape))
    if not all(same(c, known[0]) for c in known):
        return None
    rule = _RULES.get(cls)
    axis = None if rule is None else rule(_Application(operands, counts, attrs, shape))
    return None if axis is None else Count(axis, known[0].value)


def _aligned(operands: Sequence[Value], rank: int) -> Count | None:
    """The common count of operands that are broadcast; None if they differ, or one without a count is not of size 1."""
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


def _transpose(it: _Application) -> int | None:
    return list(it.attrs["axes"]).index(it.axis)


def _reshape(it: _Application) -> int | None:
    """The axis that has the same size, and as many elements before it."""
    source = it.operands[0].shape
    for place, size in enumerate(it.shape):
        if size == source[it.axis] and math.prod(it.shape[:place]) == math.prod(source[: it.axis]):
            return place
    return None


def _take(it: _Application) -> int | None:
    """A counted axis of the indices, or one of the table that is not indexed."""
    table, indices = it.counts
    axis = it.attribute_axis(0, len(it.operands[0].shape))
    if table is None:
        return axis + it.axis
    if indices is not None or table.axis == axis:
        return None
    return table.axis if table.axis < axis else table.axis + len(it.operands[1].shape) - 1


def _concatenate(it: _Application) -> int | None:
    axes = {None if c is None else c.axis for c in it.counts}
    axis = it.attribute_axis(0, len(it.shape))
    return axes.pop() if len(axes) == 1 and axis not in axes else None


def _same_axis(it: _Application) -> int | None:
    """The counted axis, if it keeps its size."""
    source = it.operands[0].shape
    return it.axis if len(it.shape) == len(source) and it.shape[it.axis] == source[it.axis] else None


def _slice(it: _Application) -> int | None:
    """The counted axis, if the slice takes all of it."""
    whole = it.attrs["begin"][it.axis] == 0 and it.attrs["strides"][it.axis] == 1
    return _same_axis(it) if whole else None


def _split(it: _Application) -> int | None:
    return None if it.attribute_axis(0, len(it.shape)) == it.axis else it.axis


def _reduction(it: _Application) -> int | None:
    """The counted axis, if it is not reduced."""
    rank = len(it.operands[0].shape)
    axes = {axis_of(a, rank) for a in it.attrs["axes"]}
    return (
        None if it.axis in axes else it.axis if it.attrs.get("keepdims") else it.axis - sum(a < it.axis for a in axes)
    )


def _along_axis(it: _Application) -> int | None:
    """The counted axis, if the op works along another one."""
    return None if it.attribute_axis(-1, len(it.shape)) == it.axis else it.axis


def _from_axis(it: _Application) -> int | None:
    """The counted axis of the first operand, if the op works along later axes only."""
    if it.counts[0] is None or any(c is not None for c in it.counts[1:]):
        return None
    return it.axis if it.axis < it.attribute_axis(-1, len(it.shape)) else None


def _product(it: _Application) -> int | None:
    """The rows of the left operand."""
    left, right, *_ = it.counts
    rows = len(it.operands[0].shape) - 2
    return rows if left is not None and right is None and left.axis == rows else None


def _bias(it: _Application) -> int | None:
    return _along_axis(it) if it.counts[0] is not None and it.counts[1] is None else None


def _rows(it: _Application) -> int | None:
    """A counted axis of the indices, if the table has none."""
    return it.axis if it.counts[0] is None else None


_RULES: Mapping[type[GraphOp], _Rule] = {
    g.TransposeOp: _transpose,
    g.ReshapeOp: _reshape,
    g.TakeOp: _take,
    g.ConcatenateOp: _concatenate,
    g.SliceOp: _slice,
    g.SplitOp: _split,
    **dict.fromkeys((g.SumOp, g.MaxOp, g.MinOp, g.ProdOp, g.MeanOp, g.ArgmaxOp, g.ArgminOp), _reduction),
    **dict.fromkeys((g.SoftmaxOp, g.LogSoftmaxOp, g.ArgsortOp), _along_axis),
    **dict.fromkeys((g.DenseOp, g.BatchMatmulOp), _product),
    g.BiasAddOp: _bias,
    g.LayerNormOp: _from_axis,
    g.BroadcastToOp: _same_axis,
    g.GatherRowsOp: _rows,
}


def marked(value: Value, axis: int, count: Value) -> Value:
    """A padded tensor whose first `count` elements along an axis are valid."""
    if count.array is None and count.span is None:
        room = value.shape[axis]
        count.span = np.array(0, np.int64), np.array(room, np.int64 if isinstance(room, int) else object)
    return replace(value, counted=Count(axis, count))
