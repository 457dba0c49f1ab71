"""ATen ops on pictures: pooling, resizing, reading between pixels."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import binary, multiply, reduce, reshape, transpose
from mlc.frontends.torch.step import Convert, Step


def _batched(step: Step, x: Value, rank: int) -> Value:
    """With the axis of pictures that torch lets one leave out."""
    return x if len(x.shape) == rank + 2 else reshape(step, x, (*[1] * (rank + 2 - len(x.shape)), *x.shape))


def _window(step: Step, rank: int) -> dict[str, Any]:
    """The attributes of a pool; strides are those of the kernel unless they are given."""
    kernel = step.per_axis("kernel_size", rank)
    return {
        "kernel_shape": kernel,
        "strides": step.per_axis("stride", rank) if step.get("stride") else kernel,
        "pads": step.per_axis("padding", rank, 0) * 2,
        "dilations": step.per_axis("dilation", rank) if "dilation" in step else [1] * rank,
        "ceil_mode": int(step.get("ceil_mode", False)),
    }


def _max_pool(rank: int) -> Convert:
    """The maxima and, where somebody wants them, their places in each picture."""

    def convert(step: Step) -> list[Value | None]:
        x = _batched(step, step["self"], rank)
        wanted = step.used(1) if "with_indices" in step.kind else False
        results = step.onnx("MaxPool", [x], 2 if wanted else 1, **_window(step, rank))
        y = reshape(step, results[0], step.shape)
        if not wanted:
            return [y, None]
        place = binary(step, g.ModOp, results[1], math.prod(x.shape[2:]))
        return [y, reshape(step, place, step.shape)]

    return convert


def _average_pool(rank: int) -> Convert:
    def convert(step: Step) -> Value:
        x = _batched(step, step["self"], rank)
        divisor, attrs = step.get("divisor_override"), _window(step, rank)
        attrs["count_include_pad"] = int(bool(divisor) or step.get("count_include_pad", True))
        del attrs["dilations"]
        if divisor and attrs["ceil_mode"]:
            raise step.fail("expected divisor_override without ceil_mode, but got both")
        y = step.onnx("AveragePool", [x], **attrs)[0]
        y = multiply(step, y, math.prod(attrs["kernel_shape"]) / divisor) if divisor else y
        return reshape(step, y, step.shape)

    return convert


def _cells(size: int, count: int) -> list[range]:
    """The elements of each cell of an axis: from floor(i * size / count) up to ceil((i + 1) * size / count)."""
    return [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _adaptive_average(rank: int) -> Convert:
    """Means over cells: of equal cells a pool, of others a product with a matrix along each axis."""

    def convert(step: Step) -> Value:
        x, sizes = step["self"], step.shape[-rank:]
        outer = len(x.shape) - rank
        if all(size == 1 for size in sizes):
            return reduce(step, g.MeanOp, x, range(outer, outer + rank), True)
        if all(n % size == 0 for n, size in zip(x.shape[outer:], sizes, strict=True)):
            kernel = [n // size for n, size in zip(x.shape[outer:], sizes, strict=True)]
            y = step.onnx("AveragePool", [_batched(step, x, rank)], kernel_shape=kernel, strides=kernel)[0]
            return reshape(step, y, step.shape)
        for axis, size in enumerate(sizes, outer):
            x = _averaged(step, x, axis, size)
        return x

    return convert


def _averaged(step: Step, x: Value, axis: int, count: int) -> Value:
    size = x.shape[axis]
    if size == count:
        return x
    matrix = np.zeros((count, size))
    for row, cell in enumerate(_cells(size, count)):
        matrix[row, cell.start : cell.stop] = 1 / len(cell)
    order = [a for a in range(len(x.shape)) if a != axis] + [axis]
    y = step.emit(g.DenseOp, transpose(step, x, order), step.array(matrix, like=x))
    return transpose(step, y, [order.index(a) for a in range(len(order))])


def _adaptive_max(rank: int) -> Convert:
    """Maxima over cells, each read as long as the longest: an element twice changes no maximum."""

    def convert(step: Step) -> list[Value | None]:
        x, sizes = step["self"], step.shape[-rank:]
        if step.used(1):
            raise step.fail("expected no places of the maxima of an adaptive pool, but the module uses them")
        outer = len(x.shape) - rank
        if all(size == 1 for size in sizes):
            return [reduce(step, g.MaxOp, x, range(outer, outer + rank), True), None]
        for axis, count in enumerate(sizes, outer):
            cells = _cells(x.shape[axis], count)
            longest = max(map(len, cells))
            places = np.array([[min(cell.start + k, cell.stop - 1) for k in range(longest)] for cell in cells])
            x = reduce(step, g.MaxOp, step.emit(g.TakeOp, x, step.array(places), axis=axis), [axis + 1])
        return [x, None]

    return convert


_UPSAMPLE = re.compile(r"_?upsample_(nearest_exact|nearest|linear|bilinear|bicubic)(\d)d(_aa)?")


def _upsample(step: Step) -> Value:
    """By the scales that are given, otherwise by the sizes."""
    x = step["input"] if "input" in step else step["self"]
    match = _UPSAMPLE.fullmatch(step.kind)
    assert match is not None
    kind, smooth = match.group(1), match.group(3) is not None
    attrs: dict[str, Any] = {"mode": {"bilinear": "linear", "bicubic": "cubic"}.get(kind, kind.partition("_")[0])}
    if kind == "nearest":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif kind == "nearest_exact":
        attrs |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        corners = bool(step.get("align_corners", False))
        attrs["coordinate_transformation_mode"] = "align_corners" if corners else "half_pixel"
        if smooth:
            attrs |= {"antialias": 1, "exclude_outside": 1}
        attrs["cubic_coeff_a"] = -0.5 if smooth else -0.75
    scales = None if attrs["coordinate_transformation_mode"] == "align_corners" else _scales(step)
    if scales is None:
        sizes = step.array(np.array(step.shape, object))
        return step.onnx("Resize", [x, None, None, sizes], **attrs)[0]
    return step.onnx("Resize", [x, None, step.array(np.array([1, 1, *scales], np.float32))], **attrs)[0]


def _scales(step: Step) -> Sequence[float] | None:
    if "scale_factors" in step:
        given = step.get("scale_factors")
    else:
        given = [step.get(name) for name in ("scales", "scales_d", "scales_h", "scales_w") if name in step]
    return None if not given or any(scale is None for scale in given) else [float(scale) for scale in given]


def _grid_sample(step: Step) -> Value:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    attrs = {"mode": modes[step["interpolation_mode"]], "padding_mode": paddings[step["padding_mode"]]}
    inputs = [step["input"], step["grid"]]
    return step.onnx("GridSample", inputs, align_corners=int(step["align_corners"]), **attrs)[0]


def _col2im(step: Step) -> Value:
    """Columns of windows added where the windows lie."""
    x = step["self"]
    columns = reshape(step, x, (1, *x.shape)) if len(x.shape) == 2 else x
    image, kernel = (step.array(np.array(step[name], np.int64)) for name in ("output_size", "kernel_size"))
    attrs = {"strides": step["stride"], "dilations": step["dilation"], "pads": [*step["padding"], *step["padding"]]}
    return reshape(step, step.onnx("Col2Im", [columns, image, kernel], **attrs)[0], step.shape)


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
