"""
Pools along any number of axes.

A maximum over a box is one over its rows, then over its columns, and so are an average and what it divides by: the last
two axes are pooled as a picture, and each other one on its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim, least
from mlc.frontends.common.elementwise import add, binary, divide, iota, multiply, reduce
from mlc.frontends.common.movement import pad_axis, reshape, slice_axis, stack
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.common.windows import WindowSpec


def out_size(w: WindowSpec, axis: int, size: Dim, ceil: bool) -> Dim:
    """The number of windows of an axis; with ceil_mode also one that begins inside but ends outside."""
    begin, end = w.begins[axis], w.ends[axis]
    room, stride = size + begin + end - w.span(axis), w.strides[axis]
    count = (-(-room // stride) if ceil else room // stride) + 1
    # the last window begins inside: (count - 1) * stride < size + begin
    return least(count, (size + begin - 1) // stride + 1) if ceil else count


def pool(node: SourceNode, op: type[GraphOp], x: Value, w: WindowSpec, **attrs: Any) -> Value:
    """A maximum or an average over windows; `attrs` are further attributes of the op."""
    rank = len(w.kernel)
    axes = [[a] for a in range(max(rank - 2, 0))] + [list(range(max(rank - 2, 0), rank))]
    for group in reversed(axes):
        x = _pool_axes(node, op, x, w, group, attrs)
    return x


def _pool_axes(
    node: SourceNode, op: type[GraphOp], x: Value, w: WindowSpec, group: Sequence[int], attrs: dict[str, Any]
) -> Value:
    """A pool along one spatial axis or two neighbouring ones, as the picture of a 2-D pool."""
    rank, shape = len(w.kernel), list(x.shape)
    kernel, strides, dilation = ([values[a] for a in group] for values in (w.kernel, w.strides, w.dilation))
    begins, ends = [w.begins[a] for a in group], [w.ends[a] for a in group]
    if rank > 2 and len(group) == 1 and kernel == strides == [1] and begins == ends == [0]:
        return x
    first, last = 2 + group[0], 2 + group[-1] + 1
    sizes = shape[first:last]
    if rank <= 2:
        inner = (*shape[:2], *([1] if rank == 1 else []), *sizes)
    elif len(group) == 2:
        inner = (shape[0], math.prod(shape[1:first]), *sizes)
    else:
        inner = (math.prod(shape[:first]), 1, *sizes, math.prod(shape[last:]))

    def as_2d(values: Sequence[int], filler: int) -> tuple[int, ...]:
        return tuple(values) if len(values) == 2 else (filler, *values) if rank == 1 else (*values, filler)

    y = node.emit(
        op,
        reshape(node, x, inner),
        pool_size=as_2d(kernel, 1),
        strides=as_2d(strides, 1),
        dilation=as_2d(dilation, 1),
        padding=(*as_2d(begins, 0), *as_2d(ends, 0)),
        **attrs,
    )
    shape[first:last] = y.shape[2:] if len(group) == 2 else y.shape[3:] if rank == 1 else y.shape[2:3]
    return reshape(node, y, shape)


def max_pool(node: SourceNode, x: Value, w: WindowSpec, ceil: bool) -> Value:
    """The maximum of each window."""
    return pool(node, g.MaxPool2dOp, x, w, ceil_mode=ceil)


def average_pool(node: SourceNode, x: Value, w: WindowSpec, ceil: bool = False, include_padding: bool = False) -> Value:
    """The average of each window; the padding counts as zeros, or not at all."""
    return pool(node, g.AvgPool2dOp, x, w, ceil_mode=ceil, count_include_pad=include_padding)


def max_pool_with_indices(node: SourceNode, x: Value, w: WindowSpec, ceil: bool, columns: bool = False) -> list[Value]:
    """The maxima, and the linear index of each in the whole tensor; `columns` numbers pictures column by column."""
    rank = len(w.kernel)
    sizes = x.shape[2:]
    outs = [out_size(w, a, sizes[a], ceil) for a in range(rank)]
    dtype = np.dtype(dtype_like(x))
    lowest = -math.inf if dtype.kind in "fV" else float(np.iinfo(dtype).min)
    padded = whole_windows(node, x, w, outs, lowest, ceil)
    parts: list[Value] = []
    for offsets in itertools.product(*map(range, w.kernel)):
        one = padded
        for a, offset in enumerate(offsets):
            start = offset * w.dilation[a]
            one = slice_axis(node, one, 2 + a, start, start + padded.shape[2 + a] - w.span(a) + 1, w.strides[a])
        parts.append(one)
    stacked = stack(node, parts, 2)
    best = reduce(node, g.ArgmaxOp, stacked, [2])
    return [reduce(node, g.MaxOp, stacked, [2]), _linear_indices(node, best, x.shape, w, columns)]


def whole_windows(node: SourceNode, x: Value, w: WindowSpec, outs: Sequence[Dim], value: float, ceil: bool) -> Value:
    """`x` padded with a value and cut, so that exactly `outs` windows fit along each axis."""
    for a, out in enumerate(outs):
        size, stride, begin = x.shape[2 + a], w.strides[a], w.begins[a]
        reach = (out - 1) * stride + w.span(a)
        if isinstance(size, int) and isinstance(reach, int):
            x = pad_axis(node, x, 2 + a, begin, max(w.ends[a], reach - size - begin), value)
            x = slice_axis(node, x, 2 + a, 0, reach)
            continue
        if ceil and w.ends[a] + stride - 1 >= w.span(a):
            raise node.fail(f"expected a known size of axis {2 + a} with ceil_mode and so much padding, but got {size}")
        x = pad_axis(node, x, 2 + a, begin, w.ends[a] + (stride - 1 if ceil else 0), value)
    return x


def _linear_indices(node: SourceNode, best: Value, shape: Sequence[Dim], w: WindowSpec, columns: bool) -> Value:
    """The linear index, in a tensor of this shape, of the element with number `best` in each window."""
    rank = len(w.kernel)
    channels = shape[0] * shape[1]
    lead = reshape(node, iota(node, (channels,), 0), (*shape[:2], *[1] * rank))
    place = multiply(node, lead, math.prod(shape[2:]))
    for a in range(rank):
        digit = divide(node, best, math.prod(w.kernel[a + 1 :]))
        digit = multiply(node, binary(node, g.ModOp, digit, w.kernel[a]), w.dilation[a])
        corner = multiply(node, iota(node, best.shape, 2 + a), w.strides[a])
        at = add(node, add(node, digit, corner), -w.begins[a])
        scale = math.prod(shape[2 : 2 + a]) if columns else math.prod(shape[3 + a :])
        place = add(node, place, multiply(node, at, scale))
    return place
