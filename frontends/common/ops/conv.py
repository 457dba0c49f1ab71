"""Convolutions and transposed convolutions along one, two or three axes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.elementwise import add
from mlc.frontends.common.movement import (
    concat,
    dilate_axis,
    index_axis,
    pad_axis,
    reshape,
    slice_axis,
    stack,
    transpose,
)
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value
from mlc.frontends.common.windows import WindowSpec, as_2d, to_1d, to_2d


def convolution(node: SourceNode, x: Value, w: Value, bias: Value | None, window: WindowSpec, groups: int = 1) -> Value:
    """Convolution of one, two or three axes; one axis is a picture of height 1. The window's kernel is that of `w`."""
    rank = len(window.kernel)
    if rank > 3:
        raise node.fail(f"expected an input of rank 3, 4 or 5, but got rank {rank + 2}")
    if rank == 3:
        return _convolution_3d(node, x, w, bias, window, groups)
    if rank == 1:
        x, w = to_2d(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
    y = _with_bias(node, node.emit(g.Conv2dOp, x, w, groups=groups, **window.conv2d_attributes()), bias)
    return to_1d(node, y) if rank == 1 else y


def _with_bias(node: SourceNode, y: Value, bias: Value | None) -> Value:
    return y if bias is None else node.emit(g.BiasAddOp, y, bias, axis=1)


def _convolution_3d(node: SourceNode, x: Value, w: Value, bias: Value | None, window: WindowSpec, groups: int) -> Value:
    """
    Three axes: for each slice of the result, the input slices under the kernel are the channels of one picture.

    A kernel along the first axis alone is that of pictures whose rows are the slices.
    """
    n, c, depth, *picture = x.shape
    if _is_along_first(window) and all(isinstance(size, int) for size in picture):
        return _convolution_along_first(node, x, w, bias, window, groups)
    stride, taps = window.strides[0], window.kernel[0]
    count = (depth + window.begins[0] + window.ends[0] - window.span(0)) // stride + 1
    one = groups == 1 and n == 1  # slices are pictures of a batch, and those under a tap are channels side by side
    if one:
        x = transpose(node, reshape(node, x, (c, depth, *picture)), (1, 0, 2, 3))
    axis = 0 if one else 2
    parts = [_under_tap(node, x, axis, window, k, count) for k in range(taps)]
    if one:
        flat = reshape(node, transpose(node, w, (0, 2, 1, 3, 4)), (w.shape[0], taps * c, *w.shape[3:]))
        y = node.emit(g.Conv2dOp, concat(node, parts, 1), flat, **window.conv2d_attributes())
        y = transpose(node, _with_bias(node, y, bias), (1, 0, 2, 3))
        return reshape(node, y, (1, *y.shape))
    pictures = transpose(node, stack(node, parts, 2), (0, 3, 1, 2, 4, 5))
    pictures = reshape(node, pictures, (n * count, c * taps, *picture))
    flat = reshape(node, w, (w.shape[0], w.shape[1] * taps, *w.shape[3:]))
    y = node.emit(g.Conv2dOp, pictures, flat, groups=groups, **window.conv2d_attributes())
    y = _with_bias(node, y, bias)
    return transpose(node, reshape(node, y, (n, count, *y.shape[1:])), (0, 2, 1, 3, 4))


def _under_tap(node: SourceNode, x: Value, axis: int, window: WindowSpec, tap: int, count: Dim) -> Value:
    """The `count` slices along the axis that a tap of the kernel meets, those in the padding zeros."""
    stride, begin, depth = window.strides[0], window.begins[0] - tap * window.dilation[0], x.shape[axis]
    if isinstance(depth, int) and isinstance(count, int):
        first = max(0, -(-begin // stride))
        last = min(count - 1, (depth - 1 + begin) // stride)
        if first <= last:
            start = first * stride - begin
            part = slice_axis(node, x, axis, start, start + (last - first) * stride + 1, stride)
            return pad_axis(node, part, axis, first, count - 1 - last)
    padded = pad_axis(node, x, axis, window.begins[0], window.ends[0])
    start = tap * window.dilation[0]
    return slice_axis(node, padded, axis, start, start + (count - 1) * stride + 1, stride)


def _is_along_first(window: WindowSpec) -> bool:
    """Whether a window of three axes covers one element of the last two, at each of them."""
    pads = (*window.begins[1:], *window.ends[1:])
    return window.kernel[1:] == (1, 1) and window.strides[1:] == (1, 1) and not any(pads)


def _convolution_along_first(
    node: SourceNode, x: Value, w: Value, bias: Value | None, window: WindowSpec, groups: int
) -> Value:
    n, c, depth, *picture = x.shape
    rows = reshape(node, x, (n, c, depth, math.prod(picture)))
    kernel = reshape(node, w, (*w.shape[:3], 1))
    along = {
        "strides": (window.strides[0], 1),
        "dilation": (window.dilation[0], 1),
        "padding": (window.begins[0], 0, window.ends[0], 0),
    }
    y = _with_bias(node, node.emit(g.Conv2dOp, rows, kernel, groups=groups, **along), bias)
    return reshape(node, y, (*y.shape[:3], *picture))


@dataclass(frozen=True)
class TransposedWindow:
    """The attributes of a transposed convolution, one number an axis; pads are begins, then ends."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]

    def conv2d_attributes(self) -> dict[str, tuple[int, ...]]:
        """The attributes of a graph.conv2d_transpose along the last two axes; a single axis is the second of them."""
        pads = self.padding
        begins, ends = pads[: len(pads) // 2][-2:], pads[len(pads) // 2 :][-2:]
        return {
            "strides": as_2d(self.strides[-2:], 1),
            "dilation": as_2d(self.dilation[-2:], 1),
            "padding": (*as_2d(begins, 0), *as_2d(ends, 0)),
            "output_padding": as_2d(self.output_padding[-2:], 0),
        }


def transposed_convolution(
    node: SourceNode, x: Value, w: Value, bias: Value | None, window: TransposedWindow, groups: int = 1
) -> Value:
    """Transposed convolution of one, two or three axes; one axis is a picture of height 1."""
    rank = len(x.shape) - 2
    if rank == 3:
        y = _transposed_3d(node, x, w, window, groups)
    else:
        if rank == 1:
            x, w = to_2d(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
        y = node.emit(g.Conv2dTransposeOp, x, w, groups=groups, **window.conv2d_attributes())
    y = _with_bias(node, y, bias)
    return to_1d(node, y) if rank == 1 else y


def _transposed_3d(node: SourceNode, x: Value, w: Value, window: TransposedWindow, groups: int) -> Value:
    """Three axes: the pictures of each tap along the first axis, dilated by the stride, shifted by the tap, added."""
    n, c, depth, *picture = x.shape
    stride, dilation, extra = window.strides[0], window.dilation[0], window.output_padding[0]
    begin, end = window.padding[0], window.padding[3]
    taps = w.shape[2]
    full = (depth - 1) * stride + (taps - 1) * dilation + 1
    flat = reshape(node, transpose(node, x, (0, 2, 1, 3, 4)), (n * depth, c, *picture))
    total: Value | None = None
    for tap in range(taps):
        kernel = index_axis(node, w, 2, tap)
        y = node.emit(g.Conv2dTransposeOp, flat, kernel, groups=groups, **window.conv2d_attributes())
        y = reshape(node, y, (n, depth, *y.shape[1:]))
        y = dilate_axis(node, y, 1, stride, tap * dilation, full)
        total = y if total is None else add(node, total, y)
    assert total is not None
    total = slice_axis(node, pad_axis(node, total, 1, 0, extra), 1, begin, full + extra - end)
    return transpose(node, total, (0, 2, 1, 3, 4))
