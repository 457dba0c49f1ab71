"""ONNX ops that sample pictures at computed places: GridSample, DeformConv, RoiAlign, MaxRoiPool."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, UnequalSizes
from mlc.frontends.common.elementwise import add, binary, cast, divide, iota, multiply, number, reduce, select, subtract
from mlc.frontends.common.movement import broadcast_to, index_axis, reshape, slice_axis, stack, transpose
from mlc.frontends.common.ops.sampling import BorderRule, Taps, clamped, grid_sample, linear_taps, weighted_sum
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.ops.indexing import gather_nd
from mlc.frontends.onnx.windows import window


def _grid_sample(node: Node) -> Value:
    mode: str = node.attr("mode", "linear")
    mode, border = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), node.attr("padding_mode", "zeros")
    return grid_sample(node, node.input(0), node.input(1), mode, border, bool(node.attr("align_corners", 0)))


def _deform_conv(node: Node) -> Value:
    """A convolution whose taps are shifted by the offsets: columns of samples, then a 1 x 1 convolution."""
    x, w, offset = node.input(0), node.input(1), node.input(2)
    n, c, *sizes = x.shape
    kernel, outs = w.shape[2:], offset.shape[2:]
    if len(sizes) != 2:
        raise node.fail(f"expected an input of rank 4, but got rank {len(x.shape)}")
    one = window(node, x, kernel)
    parts, taps = node.attr("offset_group", 1), math.prod(kernel)
    moved = reshape(node, offset, (n * parts, taps, 2, *outs))
    places: list[Taps] = []
    for axis, size in enumerate(sizes):
        corner = multiply(node, iota(node, (1, taps, *outs), 2 + axis, dtype_like(x)), float(one.strides[axis]))
        digits = np.arange(taps) // math.prod(kernel[axis + 1 :]) % kernel[axis] * one.dilation[axis] - one.begins[axis]
        corner = add(node, corner, node.array(digits.reshape(1, taps, 1, 1), like=x))
        at = add(node, index_axis(node, moved, 2, axis), corner)
        at = reshape(node, at, (n * parts, taps * math.prod(outs)))
        places.append(linear_taps(node, at, BorderRule(node, "zeros", size, False).place))
    pictures = reshape(node, x, (n * parts, c // parts, *sizes))
    columns = weighted_sum(node, pictures, places)
    columns = reshape(node, columns, (n, parts, c // parts, taps, *outs))
    if node.has(4):
        columns = multiply(node, columns, reshape(node, node.input(4), (n, parts, 1, taps, *outs)))
    columns = reshape(node, columns, (n, c * taps, *outs))
    flat = reshape(node, w, (w.shape[0], w.shape[1] * taps, 1, 1))
    y = node.emit(g.Conv2dOp, columns, flat, groups=node.attr("group", 1))
    return node.emit(g.BiasAddOp, y, node.input(3), axis=1) if node.has(3) else y


def _roi_align(node: Node) -> Value:
    """Each bin of a region is the mean, or the maximum, of samples on a grid in it."""
    x, rois, batch = node.input(0), node.input(1), node.input(2)
    outs = [node.attr("output_height", 1), node.attr("output_width", 1)]
    scale, ratio = float(node.attr("spatial_scale", 1.0)), node.attr("sampling_ratio", 0)
    mode = node.attr("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    shift = 0.5 if mode == "half_pixel" else 0.0
    if (rois.shape[0], rois.shape[1]) != (batch.shape[0], 4):
        message = f"expected regions x 4 and as many numbers, but got {list(rois.shape)} and {list(batch.shape)}"
        raise UnequalSizes(message, (rois.shape[1], 4), (rois.shape[0], batch.shape[0]))
    known = None if ratio > 0 else _grid_counts(node.constant(1), outs, scale, mode == "half_pixel")
    axes: list[tuple[Taps, Value]] = []
    for axis in range(2):  # rois are x1, y1, x2, y2
        ends = (slice_axis(node, rois, 1, k, k + 1) for k in (1 - axis, 3 - axis))
        start, end = (add(node, multiply(node, one, scale), -shift) for one in ends)
        length = subtract(node, end, start)
        if mode != "half_pixel":
            length = node.emit(g.MaximumOp, length, node.array(1.0, like=rois))
        each = np.full(1, ratio) if known is None else known[axis]
        axes.append(_roi_taps(node, start, length, outs[axis], each, x.shape[2 + axis]))
    y = _roi_bins(node, x, batch, axes, outs)
    if known is None or (full := np.minimum(*known) > 0).all():
        return y
    return select(node, node.array(full.reshape(-1, 1, 1, 1)), y, 0.0)


def _grid_counts(rois: Any, outs: Sequence[int], scale: float, half: bool) -> list[Any]:
    """The number of samples of a bin along y and along x, for each region: none where it ends where it starts."""
    lengths = [(rois[:, 3] - rois[:, 1]) * scale, (rois[:, 2] - rois[:, 0]) * scale]
    lengths = lengths if half else [np.maximum(length, 1.0) for length in lengths]
    return [np.maximum(np.ceil(length / out), 0).astype(int) for length, out in zip(lengths, outs, strict=True)]


def _roi_taps(node: Node, start: Value, length: Value, out: int, each: Any, size: Dim) -> tuple[Taps, Value]:
    """The samples of an axis, regions x (bins * samples): their two taps, and 1 (else 0) for samples that count."""
    most = int(each.max(initial=1))
    per_bin = np.maximum(each, 1)[:, None, None]
    samples = (np.arange(most) + 0.5)[None, None, :] / per_bin + np.arange(out)[None, :, None]
    steps = node.array(samples.reshape(len(each), out * most), like=start)
    at = add(node, start, multiply(node, steps, divide(node, length, float(out))))
    beyond = binary(node, g.GreaterOp, at, number(node, size, at))
    outside = node.emit(g.LogicalOrOp, binary(node, g.LessOp, at, -1.0), beyond)
    at = clamped(node, at, size)
    low = node.emit(g.FloorOp, at)
    ratio = subtract(node, at, low)
    keep = node.emit(g.LogicalNotOp, outside)
    taps: Taps = [
        (low, subtract(node, 1.0, ratio), keep),
        (clamped(node, add(node, low, 1.0), size), ratio, keep),
    ]
    counts = np.broadcast_to((np.arange(most) < each[:, None])[:, None, :], (len(each), out, most))
    return taps, node.array(counts.reshape(len(each), out * most), like=start)


def _roi_bins(node: Node, x: Value, batch: Value, axes: Sequence[tuple[Taps, Value]], outs: Sequence[int]) -> Value:
    """The bins of the samples: regions x channels x bins along y x bins along x."""
    (rows, row_counts), (columns, column_counts) = axes
    count, high, wide = batch.shape[0], row_counts.shape[1], column_counts.shape[1]
    shape = (count, high, wide)
    maximum = node.attr("mode", "avg") == "max"
    pictures = transpose(node, x, (0, 2, 3, 1))
    image = broadcast_to(node, reshape(node, cast(node, batch, np.int64), (count, 1, 1)), shape)

    def over(value: Value, axis: int) -> Value:
        regions = value.shape[0]
        return reshape(node, value, (regions, high, 1) if axis == 0 else (regions, 1, wide))

    total: Value | None = None
    for (y, a, keep_y), (z, b, keep_z) in itertools.product(rows, columns):
        assert keep_y is not None
        assert keep_z is not None
        places = [image, *(broadcast_to(node, cast(node, over(v, k), np.int64), shape) for k, v in enumerate((y, z)))]
        weight = multiply(node, over(select(node, keep_y, a, 0), 0), over(select(node, keep_z, b, 0), 1))
        term = multiply(node, gather_nd(node, pictures, stack(node, places, -1)), reshape(node, weight, (*shape, 1)))
        combine = g.MaximumOp if maximum else g.AddOp
        total = term if total is None else node.emit(combine, total, term)
    assert total is not None
    counts = multiply(node, over(row_counts, 0), over(column_counts, 1))
    bins = (count, outs[0], high // outs[0], outs[1], wide // outs[1])
    samples = reshape(node, total, (*bins, x.shape[1]))
    mask = reshape(node, counts, (counts.shape[0], *bins[1:], 1))
    if maximum:
        inside = binary(node, g.GreaterOp, mask, 0.0)
        result = reduce(node, g.MaxOp, select(node, inside, samples, -math.inf), [2, 4])
    else:
        summed = reduce(node, g.SumOp, multiply(node, samples, mask), [2, 4])
        result = divide(node, summed, reduce(node, g.SumOp, mask, [2, 4]))
    return transpose(node, result, (0, 3, 1, 2))


def _max_roi_pool(node: Node) -> Value:
    """Each bin of a region is the maximum of the elements in it: first along the rows of the picture, then columns."""
    x, rois = node.input(0), node.input(1)
    scale, outs = float(node.attr("spatial_scale", 1.0)), node.attr("pooled_shape")
    count, channels = rois.shape[0], x.shape[1]
    batch = reshape(node, cast(node, slice_axis(node, rois, 1, 0, 1), np.int64), (count,))
    y = node.emit(g.TakeOp, x, batch, axis=0)
    for axis in (3, 2):  # rois are batch, x1, y1, x2, y2
        size, bins = x.shape[axis], outs[axis - 2]
        inside = _in_bins(node, rois, scale, 4 - axis, size, bins)
        shape = (count, 1, 1, bins, size) if axis == 3 else (count, 1, bins, size, 1)
        rest = (channels, *y.shape[2:])
        wide = (count, *rest[:2], 1, rest[2]) if axis == 3 else (count, channels, 1, *rest[1:])
        picked = select(node, reshape(node, inside, shape), reshape(node, y, wide), -math.inf)
        y = reduce(node, g.MaxOp, picked, [4 if axis == 3 else 3])
    return select(node, binary(node, g.EqualOp, y, -math.inf), 0.0, y)


def _in_bins(node: Node, rois: Value, scale: float, column: int, size: Dim, bins: int) -> Value:
    """The mask, regions x bins x size, of the elements of an axis in each bin of each region."""
    ends = (multiply(node, slice_axis(node, rois, 1, k, k + 1), scale) for k in (column, column + 2))
    start, end = (node.emit(g.FloorOp, add(node, one, 0.5)) for one in ends)
    length = node.emit(g.MaximumOp, add(node, subtract(node, end, start), 1.0), node.array(1.0, like=rois))
    each = divide(node, length, float(bins))
    number = node.array(np.arange(bins + 1)[None, :], like=rois)
    edges = multiply(node, number, each)
    low = add(node, node.emit(g.FloorOp, slice_axis(node, edges, 1, 0, bins)), start)
    high = add(node, node.emit(g.CeilOp, slice_axis(node, edges, 1, 1, bins + 1)), start)
    low, high = (reshape(node, v, (rois.shape[0], bins, 1)) for v in (low, high))
    places = cast(node, iota(node, (1, 1, size), 2), dtype_like(rois))
    return node.emit(g.LogicalAndOp, binary(node, g.GreaterEqualOp, places, low), binary(node, g.LessOp, places, high))


CONVERTERS: dict[str, Converter] = {
    "MaxRoiPool": _max_roi_pool,
    "GridSample": _grid_sample,
    "DeformConv": _deform_conv,
    "RoiAlign": _roi_align,
}
