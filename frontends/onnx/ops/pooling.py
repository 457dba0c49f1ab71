"""
ONNX's pools, along any number of axes.

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
from mlc.dialects.graph.dims import least
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.tools import (
    Window,
    add,
    binary,
    divide,
    iota,
    multiply,
    pad,
    part,
    reduce,
    reshape,
    stack,
    wants,
    window,
)


def out_size(w: Window, axis: int, size: Any, ceil: bool) -> Any:
    """How many windows an axis has; with ceil_mode also one that begins inside but ends outside."""
    begin, end = w.begins[axis], w.ends[axis]
    room, stride = size + begin + end - w.span(axis), w.strides[axis]
    count = (-(-room // stride) if ceil else room // stride) + 1
    # the last window begins inside: (count - 1) * stride < size + begin
    return least(count, (size + begin - 1) // stride + 1) if ceil else count


def pool(node: Node, op: Any, x: Value, w: Window, **attrs: Any) -> Value:
    """A maximum or an average over windows."""
    rank = len(w.kernel)
    shape = list(x.shape)
    axes = [[a] for a in range(max(rank - 2, 0))] + [list(range(max(rank - 2, 0), rank))]
    for group in reversed(axes):
        kernel, strides, dilation = ([values[a] for a in group] for values in (w.kernel, w.strides, w.dilation))
        begins, ends = [w.begins[a] for a in group], [w.ends[a] for a in group]
        if rank > 2 and len(group) == 1 and kernel == strides == [1] and begins == ends == [0]:
            continue
        first, last = 2 + group[0], 2 + group[-1] + 1
        sizes = shape[first:last]
        if rank <= 2:
            inner = (*shape[:2], *([1] if rank == 1 else []), *sizes)
        elif len(group) == 2:
            inner = (shape[0], math.prod(shape[1:first]), *sizes)
        else:
            inner = (math.prod(shape[:first]), 1, *sizes, math.prod(shape[last:]))
        front = rank == 1

        def two(values: Sequence[int], filler: int, front: bool = front) -> tuple[int, ...]:
            return tuple(values) if len(values) == 2 else (filler, *values) if front else (*values, filler)

        picture = reshape(node, x, inner)
        y = node.emit(
            op,
            picture,
            pool_size=two(kernel, 1),
            strides=two(strides, 1),
            dilation=two(dilation, 1),
            padding=(*two(begins, 0), *two(ends, 0)),
            **attrs,
        )
        made = y.shape[2:] if len(group) == 2 else y.shape[3:] if front else y.shape[2:3]
        shape[first:last] = made
        x = reshape(node, y, shape)
    return x


def _max_pool(node: Node) -> Value | list[Value]:
    x = node.input(0)
    w = window(node, x, list(node.attr("kernel_shape")))
    ceil = bool(node.attr("ceil_mode", 0))
    if wants(node, 1):
        return _max_pool_places(node, x, w, ceil)
    return pool(node, g.MaxPool2dOp, x, w, ceil_mode=ceil)


def _average_pool(node: Node) -> Value:
    x = node.input(0)
    w = window(node, x, list(node.attr("kernel_shape")))
    include = bool(node.attr("count_include_pad", 0))
    return pool(node, g.AvgPool2dOp, x, w, ceil_mode=bool(node.attr("ceil_mode", 0)), count_include_pad=include)


def _max_pool_places(node: Node, x: Value, w: Window, ceil: bool) -> list[Value]:
    """The maxima, and where in the whole tensor each of them is: over the windows' elements, laid out along an axis."""
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
            one = part(node, one, 2 + a, start, start + padded.shape[2 + a] - w.span(a) + 1, w.strides[a])
        parts.append(one)
    stacked = stack(node, parts, 2)
    best = reduce(node, g.ArgmaxOp, stacked, [2])
    return [reduce(node, g.MaxOp, stacked, [2]), _places(node, best, x.shape, w)]


def whole_windows(node: Node, x: Value, w: Window, outs: Sequence[Any], value: float, ceil: bool) -> Value:
    """`x` with its padding, so much of it that just these windows fit."""
    for a, out in enumerate(outs):
        size, stride, begin = x.shape[2 + a], w.strides[a], w.begins[a]
        reach = (out - 1) * stride + w.span(a)
        if isinstance(size, int):
            x = pad(node, x, 2 + a, begin, max(w.ends[a], reach - size - begin), value)
            x = part(node, x, 2 + a, 0, reach)
            continue
        if ceil and w.ends[a] + stride - 1 >= w.span(a):
            raise node.fail(f"expected a known size of axis {2 + a} with ceil_mode and so much padding, but got {size}")
        x = pad(node, x, 2 + a, begin, w.ends[a] + (stride - 1 if ceil else 0), value)
    return x


def _places(node: Node, best: Value, shape: Sequence[int], w: Window) -> Value:
    """The linear index in a tensor of this shape of an element given by its number in its window."""
    rank = len(w.kernel)
    channels = shape[0] * shape[1]
    lead = reshape(node, iota(node, (channels,), 0), (*shape[:2], *[1] * rank))
    place = multiply(node, lead, math.prod(shape[2:]))
    columns = bool(node.attr("storage_order", 0))
    for a in range(rank):
        digit = divide(node, best, math.prod(w.kernel[a + 1 :]))
        digit = multiply(node, binary(node, g.ModOp, digit, w.kernel[a]), w.dilation[a])
        corner = multiply(node, iota(node, best.shape, 2 + a), w.strides[a])
        at = add(node, add(node, digit, corner), -w.begins[a])
        scale = math.prod(shape[2 : 2 + a]) if columns else math.prod(shape[3 + a :])
        place = add(node, place, multiply(node, at, scale))
    return place


def _powers(node: Node, x: Value, p: float) -> Value:
    """|x| ** p."""
    if p == 2:
        return node.emit(g.MultiplyOp, x, x)
    size = node.emit(g.AbsOp, x)
    return size if p == 1 else binary(node, g.PowerOp, size, p)


def _root(node: Node, x: Value, p: float) -> Value:
    """x ** (1 / p)."""
    if p == 2:
        return node.emit(g.SqrtOp, x)
    return x if p == 1 else binary(node, g.PowerOp, x, 1 / p)


def _lp_pool(node: Node) -> Value:
    """The root of the sum of powers: an average over windows without padding, times their size."""
    x, p = node.input(0), float(node.attr("p", 2))
    w = window(node, x, list(node.attr("kernel_shape")))
    ceil = bool(node.attr("ceil_mode", 0))
    outs = [out_size(w, a, x.shape[2 + a], ceil) for a in range(len(w.kernel))]
    whole = whole_windows(node, _powers(node, x, p), w, outs, 0.0, ceil)
    mean = pool(node, g.AvgPool2dOp, whole, w.without_padding())
    return _root(node, multiply(node, mean, float(math.prod(w.kernel))), p)


def _global_pool(op: Any) -> Converter:
    return lambda node: reduce(node, op, node.input(0), range(2, len(node.input(0).shape)), True)


def _global_lp_pool(node: Node) -> Value:
    x, p = node.input(0), float(node.attr("p", 2))
    return _root(node, reduce(node, g.SumOp, _powers(node, x, p), range(2, len(x.shape)), True), p)


def _lp_normalization(node: Node) -> Value:
    """x divided by its norm; where that is 0, 0."""
    x, p = node.input(0), float(node.attr("p", 2))
    norm = _root(node, reduce(node, g.SumOp, _powers(node, x, p), [node.attr("axis", -1)], True), p)
    zero = binary(node, g.EqualOp, norm, 0.0)
    safe = node.emit(g.WhereOp, zero, node.array(1.0, like=x), norm)
    return divide(node, x, safe)


def _local_response_norm(node: Node) -> Value:
    """x / (bias + alpha * the mean of x * x over neighbouring channels) ^ beta: a pool along the channels."""
    x, size = node.input(0), node.attr("size")
    if len(x.shape) < 3:
        raise node.fail(f"expected an input of rank 3 or more, but got rank {len(x.shape)}")
    square = node.emit(g.MultiplyOp, x, x)
    rows = reshape(node, square, (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])))
    padding = ((size - 1) // 2, 0, size // 2, 0)
    mean = node.emit(g.AvgPool2dOp, rows, pool_size=(size, 1), padding=padding, count_include_pad=True)
    scaled = multiply(node, mean, node.attr("alpha", 1e-4))
    power = binary(node, g.PowerOp, add(node, scaled, node.attr("bias", 1.0)), node.attr("beta", 0.75))
    return divide(node, x, reshape(node, power, x.shape))


CONVERTERS: dict[str, Converter] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global_pool(g.MeanOp),
    "GlobalMaxPool": _global_pool(g.MaxOp),
    "GlobalLpPool": _global_lp_pool,
    "LpNormalization": _lp_normalization,
    "LRN": _local_response_norm,
}
