"""Movements of values during import: reshapes, slices, joins and padding, left out where they change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.movement import END
from mlc.frontends.common.elementwise import iota, multiply
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value


def reshape(node: SourceNode, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` in another shape."""
    return x if tuple(x.shape) == tuple(shape) else node.emit(g.ReshapeOp, x, shape=tuple(shape))


def transpose(node: SourceNode, x: Value, axes: Sequence[int]) -> Value:
    """`x` with its axes in another order."""
    return x if list(axes) == list(range(len(x.shape))) else node.emit(g.TransposeOp, x, axes=tuple(axes))


def broadcast_to(node: SourceNode, x: Value, shape: Sequence[Dim]) -> Value:
    """`x` broadcast to a shape of the same rank."""
    return x if tuple(x.shape) == tuple(shape) else node.emit(g.BroadcastToOp, x, shape=tuple(shape))


def slice_axis(node: SourceNode, x: Value, axis: int, begin: Dim, end: Dim, stride: int = 1) -> Value:
    """`x[.., begin:end:stride, ..]` along one axis, with `0 <= begin <= end`."""
    rank = len(x.shape)
    axis %= rank
    size = x.shape[axis]
    static = all(isinstance(n, int) for n in (begin, end, size))
    if (begin, stride) == (0, 1) and (end == size or (static and end >= size)):
        return x
    if not static:
        behind = begin - size, end - size
        if not isinstance(begin, int) and isinstance(behind[0], int) and behind[1] == 0:
            begin, end = behind[0], END
        elif isinstance(begin, int) and isinstance(behind[1], int):
            end = behind[1] or END
        elif not (isinstance(begin, int) and isinstance(end, int)):
            return take_strided(node, x, axis, begin, (end - begin + (stride - 1)) // stride, stride)
    bounds = [(begin, end, stride) if a == axis else (0, END, 1) for a in range(rank)]
    begins, ends, strides = zip(*bounds, strict=True)
    return node.emit(g.SliceOp, x, begin=begins, end=ends, strides=strides)


def take_strided(node: SourceNode, x: Value, axis: int, first: Dim, count: Dim, step: int) -> Value:
    """`count` elements along an axis from `first` on, in steps that may be negative."""
    places = iota(node, (count,), 0)
    places = places if step == 1 else multiply(node, places, step)
    if first != 0:
        places = node.emit(g.AddOp, places, node.array(np.array([first], object)))
    return node.emit(g.TakeOp, x, places, axis=axis)


def index_axis(node: SourceNode, x: Value, axis: int, index: int) -> Value:
    """`x[.., index, ..]` without the axis."""
    axis %= len(x.shape)
    return reshape(node, slice_axis(node, x, axis, index, index + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


def stack(node: SourceNode, parts: Sequence[Value], axis: int) -> Value:
    """Tensors of one shape, stacked along a new axis."""
    axis %= len(parts[0].shape) + 1
    wide = [reshape(node, x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in parts]
    return wide[0] if len(wide) == 1 else node.emit(g.ConcatenateOp, *wide, axis=axis)


def concat(node: SourceNode, parts: Sequence[Value], axis: int) -> Value:
    """A concatenation along an axis; empty tensors are left out."""
    axis %= len(parts[0].shape)
    kept = [x for x in parts if x.shape[axis]] or list(parts[:1])
    return kept[0] if len(kept) == 1 else node.emit(g.ConcatenateOp, *kept, axis=axis)


def pad_axis(node: SourceNode, x: Value, axis: int, before: int, after: int, value: float = 0.0) -> Value:
    """`x` padded with a value before and after along an axis."""
    if not before and not after:
        return x
    width = [0] * (2 * len(x.shape))
    axis %= len(x.shape)
    width[2 * axis : 2 * axis + 2] = before, after
    return node.emit(g.PadOp, x, pad_width=tuple(width), value=value)


def dilate_axis(node: SourceNode, x: Value, axis: int, stride: int, before: int, size: int) -> Value:
    """`x` dilated by `stride` and padded with zeros to `size` along an axis, its first element at `before`."""
    axis %= len(x.shape)
    head, count, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    length = (count - 1) * stride + 1
    apart = pad_axis(node, reshape(node, x, (*head, count, 1, *tail)), axis + 1, 0, stride - 1)
    apart = slice_axis(node, reshape(node, apart, (*head, count * stride, *tail)), axis, 0, length)
    return pad_axis(node, apart, axis, before, size - before - length)
