"""Ops whose results are as long as the data says: NonZero, Compress, Unique, NonMaxSuppression, TopK of computed k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import least
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.counted import marked, plain
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.ops import indexing, shape
from mlc.frontends.onnx.sizes import size_array
from mlc.frontends.onnx.tools import cast, part, reshape, transpose

MAX_BOXES = 4096
"""Of an open number of boxes room is made for so many of a class, or else for all."""


def counted(node: Node, x: Value, axis: int, count: Value) -> Value:
    """The first `count` elements of `x` along an axis."""
    known = node.importer.computed(count) if count.made else count.array
    if known is None:
        return marked(x, axis, count)
    length = int(known)
    if length:
        return part(node, x, axis, 0, length)
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
    condition = part(node, condition, 0, 0, least(condition.shape[0], x.shape[axis]))
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
    return [counted(node, values, axis, count), *_cut(node, [first], count), which, *_cut(node, [often], count)]


def _cut(node: Node, values: Sequence[Value], count: Value) -> list[Value]:
    return [counted(node, v, 0, count) for v in values]


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


def _top_k(node: Node) -> Value | Sequence[Value]:
    if node.opset < 10 or node.input(1).array is not None:
        return indexing.CONVERTERS["TopK"](node)
    x = node.input(0)
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    count = cast(node, reshape(node, node.input(1), ()), np.int64)
    order = node.emit(g.ArgsortOp, x, axis=axis, descending=bool(node.attr("largest", 1)))
    values = indexing.gather_elements(node, x, order, axis)
    return [counted(node, v, axis, count) for v in (values, order)]


def _sizes(node: Node, x: Value) -> list[Value]:
    """Each size of a value, as one element: the count where only a part is there."""
    assert x.counted is not None
    parts = [node.array(size_array([n])) for n in x.shape]
    parts[x.counted.axis] = reshape(node, x.counted.value, (1,))
    return parts


def _shape(node: Node) -> Value | Sequence[Value]:
    x = node.input(0)
    if x.counted is None:
        return shape.CONVERTERS["Shape"](node)
    parts = _sizes(node, x)[slice(node.attr("start", 0), node.attr("end"))]
    return node.emit(g.ConcatenateOp, *parts, axis=0) if len(parts) > 1 else plain(parts[0])


def _size(node: Node) -> Value | Sequence[Value]:
    x = node.input(0)
    if x.counted is None:
        return shape.CONVERTERS["Size"](node)
    rest = math.prod(n for axis, n in enumerate(x.shape) if axis != x.counted.axis)
    return node.emit(g.MultiplyOp, x.counted.value, node.array(size_array(rest)))


CONVERTERS: dict[str, Converter] = {
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "NonMaxSuppression": _non_max_suppression,
    "TopK": _top_k,
    "Shape": _shape,
    "Size": _size,
}
