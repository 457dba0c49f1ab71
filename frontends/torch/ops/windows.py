"""ATen ops on pictures: pooling, resizing, sampling, col2im."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import binary, multiply, reduce
from mlc.frontends.common.movement import reshape, transpose
from mlc.frontends.common.ops.col2im import col2im
from mlc.frontends.common.ops.pooling import average_pool, max_pool, max_pool_with_indices
from mlc.frontends.common.ops.resize import resize, scaled_sizes
from mlc.frontends.common.ops.resize_rule import ResizeRule
from mlc.frontends.common.ops.sampling import grid_sample
from mlc.frontends.common.values import Value
from mlc.frontends.common.windows import WindowSpec
from mlc.frontends.torch.call import AtenCall, Convert


def _batched(call: AtenCall, x: Value, rank: int) -> Value:
    """A picture with the batch axis, which torch lets one leave out."""
    return x if len(x.shape) == rank + 2 else reshape(call, x, (*[1] * (rank + 2 - len(x.shape)), *x.shape))


def _window(call: AtenCall, rank: int) -> WindowSpec:
    """The windows of a pool; strides are those of the kernel unless they are given."""
    kernel = tuple(call.per_axis("kernel_size", rank))
    strides = tuple(call.per_axis("stride", rank)) if call.get("stride") else kernel
    dilation = tuple(call.per_axis("dilation", rank)) if "dilation" in call else (1,) * rank
    pads = tuple(call.per_axis("padding", rank, 0))
    return WindowSpec(kernel, strides, dilation, pads, pads)


def _max_pool(rank: int) -> Convert:
    """The maxima and, where they are used, their linear indices in each picture."""

    def convert(call: AtenCall) -> list[Value | None]:
        x = _batched(call, call["self"], rank)
        window, ceil = _window(call, rank), bool(call.get("ceil_mode", False))
        if "with_indices" not in call.kind or not call.used(1):
            return [reshape(call, max_pool(call, x, window, ceil), call.shape), None]
        best, places = max_pool_with_indices(call, x, window, ceil)
        y = reshape(call, best, call.shape)
        return [y, reshape(call, binary(call, g.ModOp, places, math.prod(x.shape[2:])), call.shape)]

    return convert


def _average_pool(rank: int) -> Convert:
    def convert(call: AtenCall) -> Value:
        x = _batched(call, call["self"], rank)
        divisor, window, ceil = call.get("divisor_override"), _window(call, rank), bool(call.get("ceil_mode", False))
        if divisor and ceil:
            raise call.fail("expected divisor_override without ceil_mode, but got both")
        include = bool(divisor or call.get("count_include_pad", True))
        y = average_pool(call, x, window, ceil, include)
        y = multiply(call, y, math.prod(window.kernel) / divisor) if divisor else y
        return reshape(call, y, call.shape)

    return convert


def _cells(size: int, count: int) -> list[range]:
    """The elements of each cell of an adaptive pool: floor(i * size / count) up to ceil((i + 1) * size / count)."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_average(rank: int) -> Convert:
    """Means over cells: an average pool if the cells are equal, otherwise a matrix product along each axis."""

    def convert(call: AtenCall) -> Value:
        x, sizes = call["self"], call.shape[-rank:]
        outer = len(x.shape) - rank
        if all(size == 1 for size in sizes):
            return reduce(call, g.MeanOp, x, range(outer, outer + rank), True)
        if all(n % size == 0 for n, size in zip(x.shape[outer:], sizes, strict=True)):
            kernel = [n // size for n, size in zip(x.shape[outer:], sizes, strict=True)]
            window = WindowSpec(tuple(kernel), tuple(kernel), (1,) * rank, (0,) * rank, (0,) * rank)
            return reshape(call, average_pool(call, _batched(call, x, rank), window), call.shape)
        for axis, size in enumerate(sizes, outer):
            x = _averaged(call, x, axis, size)
        return x

    return convert


def _averaged(call: AtenCall, x: Value, axis: int, count: int) -> Value:
    size = x.shape[axis]
    if size == count:
        return x
    matrix = np.zeros((count, size))
    for row, cell in enumerate(_cells(size, count)):
        matrix[row, cell.start : cell.stop] = 1 / len(cell)
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    y = call.emit(g.DenseOp, transpose(call, x, order), call.array(matrix, like=x))
    return transpose(call, y, [order.index(a) for a in range(len(order))])


def _adaptive_max(rank: int) -> Convert:
    """Maxima over cells, all padded to the longest by repeating their last element."""

    def convert(call: AtenCall) -> list[Value | None]:
        x, sizes = call["self"], call.shape[-rank:]
        if call.used(1):
            raise call.fail("expected no places of the maxima of an adaptive pool, but the module uses them")
        outer = len(x.shape) - rank
        if all(size == 1 for size in sizes):
            return [reduce(call, g.MaxOp, x, range(outer, outer + rank), True), None]
        for axis, count in enumerate(sizes, outer):
            cells = _cells(x.shape[axis], count)
            longest = max(map(len, cells))
            places = np.array([[min(cell.start + k, cell.stop - 1) for k in range(longest)] for cell in cells])
            x = reduce(call, g.MaxOp, call.emit(g.TakeOp, x, call.array(places), axis=axis), [axis + 1])
        return [x, None]

    return convert


_UPSAMPLE = re.compile(r"_?upsample_(nearest_exact|nearest|linear|bilinear|bicubic)(\d)d(_aa)?")


def _resize_rule(call: AtenCall) -> ResizeRule:
    """How an upsample reads its operand, by its name and `align_corners`."""
    match = _UPSAMPLE.fullmatch(call.kind)
    assert match is not None
    kind, smooth = match.group(1), match.group(3) is not None
    if kind == "nearest":
        return ResizeRule("nearest", "asymmetric", "floor")
    if kind == "nearest_exact":
        return ResizeRule("nearest", "half_pixel", "round_prefer_ceil")
    coordinates = "align_corners" if call.get("align_corners", False) else "half_pixel"
    mode = "cubic" if kind == "bicubic" else "linear"
    cubic = -0.5 if smooth else -0.75
    return ResizeRule(mode, coordinates, cubic=cubic, antialias=smooth, exclude_outside=smooth)


def _upsample(call: AtenCall) -> Value:
    """Upsampling by the given scales, or by the sizes."""
    x, rule = call["input"] if "input" in call else call["self"], _resize_rule(call)
    scales = None if rule.coordinates == "align_corners" else _scales(call)
    if scales is None:
        return resize(call, x, call.shape, None, rule)
    rounded = {axis: float(np.float32(scale)) for axis, scale in enumerate([1, 1, *scales])}
    return resize(call, x, *scaled_sizes(x.shape, rounded), rule)


def _scales(call: AtenCall) -> Sequence[float] | None:
    if "scale_factors" in call:
        given = call.get("scale_factors")
    else:
        given = [call.get(name) for name in ("scales", "scales_d", "scales_h", "scales_w") if name in call]
    return None if not given or any(scale is None for scale in given) else [float(scale) for scale in given]


def _grid_sample(call: AtenCall) -> Value:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    mode, border = modes[call["interpolation_mode"]], paddings[call["padding_mode"]]
    return grid_sample(call, call["input"], call["grid"], mode, border, bool(call["align_corners"]))


def _col2im(call: AtenCall) -> Value:
    """Windows added up where they overlap."""
    x = call["self"]
    columns = reshape(call, x, (1, *x.shape)) if len(x.shape) == 2 else x
    image, kernel, padding = call["output_size"], call["kernel_size"], call["padding"]
    y = col2im(call, columns, image, kernel, call["stride"], call["dilation"], [*padding, *padding])
    return reshape(call, y, call.shape)


CONVERTERS: dict[str, Convert] = {
    **{f"max_pool{rank}d_with_indices": _max_pool(rank) for rank in (1, 2, 3)},
    **{f"avg_pool{rank}d": _average_pool(rank) for rank in (1, 2, 3)},
    **{f"{prefix}adaptive_avg_pool{rank}d": _adaptive_average(rank) for rank in (1, 2, 3) for prefix in ("", "_")},
    **{f"adaptive_max_pool{rank}d": _adaptive_max(rank) for rank in (1, 2, 3)},
    **{f"upsample_{kind}": _upsample for kind in ("nearest1d", "nearest2d", "nearest3d", "linear1d")},
    **{f"upsample_{kind}": _upsample for kind in ("bilinear2d", "bicubic2d")},
    **{f"_upsample_nearest_exact{rank}d": _upsample for rank in (1, 2, 3)},
    **{f"_upsample_{kind}2d_aa": _upsample for kind in ("bilinear", "bicubic")},
    "grid_sampler_2d": _grid_sample,
    "col2im": _col2im,
}
