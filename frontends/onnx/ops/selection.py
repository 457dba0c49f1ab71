"""Ops with data-dependent result sizes: NonZero, Compress, Unique, NonMaxSuppression, TopK of a computed k."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import least
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.counted import marked, plain
from mlc.frontends.common.elementwise import cast
from mlc.frontends.common.movement import reshape, slice_axis, transpose
from mlc.frontends.common.sizes import size_array
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node, Result
from mlc.frontends.onnx.ops.indexing import gather_elements
from mlc.frontends.onnx.table import Wraps, wraps

MAX_BOXES = 4096
"""The largest bound of boxes per class that is allocated where the number of boxes is symbolic; beyond it, all are."""


def counted(node: Node, x: Value, axis: int, count: Value) -> Value:
    """The first `count` elements of `x` along an axis: a padded tensor, or a slice if the count is known."""
    known = node.importer.computed(count) if count.made else count.array
    if known is None:
        return marked(x, axis, count)
    length = int(known)
    if length:
        return slice_axis(node, x, axis, 0, length)
    return node.array(np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), dtype_like(x)))


def _nonzero(node: Node) -> Value:
    x = node.input(0)
    if not x.shape:
        raise node.fail("expected an input with axes, but got a scalar")
    found, count = node.emit_all(g.NonzeroOp, x)
    return counted(node, found, 1, count)


def _flat(node: Node, x: Value) -> Value:
    return reshape(node, x, (math.prod(x.shape),))


def _compress(node: Node) -> Value:
    x, condition = node.input(0), node.input(1)
    axis = node.attr("axis")
    if axis is None:
        x, axis = _flat(node, x), 0
    axis = axis_of(axis, len(x.shape))
    condition = slice_axis(node, condition, 0, 0, least(condition.shape[0], x.shape[axis]))
    found, count = node.emit_all(g.NonzeroOp, condition)
    where = counted(node, _flat(node, found), 0, count)
    if 0 in where.shape:
        return counted(node, x, axis, node.array(np.array(0, np.int64)))
    return node.emit(g.TakeOp, x, where, axis=axis)


def _unique(node: Node) -> list[Value]:
    x, axis = node.input(0), node.attr("axis")
    if axis is None:
        x, axis = _flat(node, x), 0
    axis = axis_of(axis, len(x.shape))
    order = [axis, *(a for a in range(len(x.shape)) if a != axis)]
    size = x.shape[axis]
    rows = reshape(node, transpose(node, x, order), (size, math.prod(n for a, n in enumerate(x.shape) if a != axis)))
    if x.dtype_name in ("float16", "bfloat16"):
        rows = cast(node, rows, np.float32)
    first, which, often, count = node.emit_all(g.UniqueOp, rows, sorted=bool(node.attr("sorted", 1)))
    values = node.emit(g.TakeOp, x, first, axis=axis)
    padded = ((values, axis), (first, 0), (often, 0))
    values, first, often = (counted(node, v, along, count) for v, along in padded)
    return [values, first, which, often]


def _non_max_suppression(node: Node) -> Value:
    boxes, scores = node.input(0), node.input(1)
    most = cast(node, reshape(node, node.input(2), ()), np.int64) if node.has(2) else node.array(np.array(0))
    limits = [
        reshape(node, node.input(k), ()) if node.has(k) else node.array(np.array(default), like=boxes)
        for k, default in ((3, 0.0), (4, -math.inf))
    ]
    at_most = -1 if most.array is None or most.bound else max(0, int(most.array))
    if 0 in (at_most, *boxes.shape, *scores.shape):
        return node.array(np.zeros((0, 3), np.int64))
    if isinstance(size := boxes.shape[1], int):
        at_most = min(at_most, size)
    elif at_most > MAX_BOXES:  # the operand says it as well
        at_most = -1
    attrs: Any = {"center": bool(node.attr("center_point_box", 0)), "at_most": at_most}
    rows, count = node.emit_all(g.NonMaxSuppressionOp, boxes, scores, most, *limits, **attrs)
    return counted(node, rows, 0, count)


def _top_k(node: Node, own: Converter) -> Result:
    if node.opset < 10 or node.input(1).array is not None:
        return own(node)
    x = node.input(0)
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    count = cast(node, reshape(node, node.input(1), ()), np.int64)
    order = node.emit(g.ArgsortOp, x, axis=axis, descending=bool(node.attr("largest", 1)))
    values = gather_elements(node, x, order, axis)
    return [counted(node, v, axis, count) for v in (values, order)]


def _sizes(node: Node, x: Value) -> list[Value]:
    """Each size of a padded tensor as a tensor of one element; of the padded axis, the count."""
    assert x.counted is not None
    parts = [node.array(size_array([n])) for n in x.shape]
    parts[x.counted.axis] = reshape(node, x.counted.value, (1,))
    return parts


def _shape(node: Node, own: Converter) -> Result:
    x = node.input(0)
    if x.counted is None:
        return own(node)
    parts = _sizes(node, x)[slice(node.attr("start", 0), node.attr("end"))]
    return node.emit(g.ConcatenateOp, *parts, axis=0) if len(parts) > 1 else plain(parts[0])


def _size(node: Node, own: Converter) -> Result:
    x = node.input(0)
    if x.counted is None:
        return own(node)
    rest = math.prod(n for axis, n in enumerate(x.shape) if axis != x.counted.axis)
    return node.emit(g.MultiplyOp, x.counted.value, node.array(size_array(rest)))


CONVERTERS: dict[str, Converter | Wraps] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
    "TopK": wraps("indexing", _top_k),
    "Shape": wraps("shape", _shape),
    "Size": wraps("shape", _size),
}
