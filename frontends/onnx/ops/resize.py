"""ONNX ops that change a picture's size: transposed convolution, Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.graph.ops.resize import AS_STEP, COORDINATES, MODES, ROUNDINGS
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.ops.taps import Rule, resize_axis
from mlc.frontends.onnx.tools import add, as_picture, element, from_picture, pad, part, reshape, spread, transpose, two
from mlc.support.errors import UnsupportedOps, UserError


def unsupported(node: Node, why: str) -> UserError:
    """An error that says what of a node mlc does not compute."""
    return UnsupportedOps(node.importer.source, [(node.path, node.proto.op_type, why)])


def _conv_transpose(node: Node) -> Value:
    """Transposed convolution of one, two or three axes; one axis is a picture of height 1."""
    x, w = node.input(0), node.input(1)
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3) or len(w.shape) != rank + 2:
        raise unsupported(node, f"an input of rank {rank + 2} and a weight of rank {len(w.shape)}")
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    attrs = _spread(node, x.shape[2:], kernel)
    if rank == 3:
        y = _deep_transpose(node, x, w, attrs)
    else:
        if rank == 1:
            x, w = as_picture(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
        y = node.emit(g.Conv2dTransposeOp, x, w, groups=node.attr("group", 1), **_picture(attrs))
    if node.has(2):
        y = node.emit(g.BiasAddOp, y, node.input(2), axis=1)
    return from_picture(node, y) if rank == 1 else y


def _picture(attrs: dict[str, Any]) -> dict[str, Any]:
    """What says how things spread, for the last two axes; one axis has one of size 1 before it."""
    pads = attrs["padding"]
    begins, ends = pads[: len(pads) // 2][-2:], pads[len(pads) // 2 :][-2:]
    return {
        "strides": two(attrs["strides"][-2:], 1),
        "dilation": two(attrs["dilation"][-2:], 1),
        "padding": (*two(begins, 0), *two(ends, 0)),
        "output_padding": two(attrs["output_padding"][-2:], 0),
    }


def _deep_transpose(node: Node, x: Value, w: Value, attrs: dict[str, Any]) -> Value:
    """Three axes: each tap along the first spreads pictures, which are put apart by the stride, moved, and added."""
    n, c, depth, *picture = x.shape
    stride, dilation, extra = (attrs[name][0] for name in ("strides", "dilation", "output_padding"))
    begin, end = attrs["padding"][0], attrs["padding"][3]
    taps = w.shape[2]
    full = (depth - 1) * stride + (taps - 1) * dilation + 1
    flat = reshape(node, transpose(node, x, (0, 2, 1, 3, 4)), (n * depth, c, *picture))
    total: Value | None = None
    for tap in range(taps):
        kernel = element(node, w, 2, tap)
        y = node.emit(g.Conv2dTransposeOp, flat, kernel, groups=node.attr("group", 1), **_picture(attrs))
        y = reshape(node, y, (n, depth, *y.shape[1:]))
        y = spread(node, y, 1, stride, tap * dilation, full)
        total = y if total is None else add(node, total, y)
    assert total is not None
    total = part(node, pad(node, total, 1, 0, extra), 1, begin, full + extra - end)
    return transpose(node, total, (0, 2, 1, 3, 4))


def _spread(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, dilation and paddings of all axes, from `pads`, or from `output_shape` or `auto_pad`."""
    rank = len(sizes)
    strides = list(node.attr("strides", [1] * rank))
    dilation = list(node.attr("dilations", [1] * rank))
    extra = list(node.attr("output_padding", [0] * rank))
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(sizes, strides, kernel, dilation, strict=True)]
    auto, wanted = node.attr("auto_pad", "NOTSET"), node.attr("output_shape")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(sizes, strides, strict=True)]
    if wanted is None:
        pads = [0] * (2 * rank) if auto == "VALID" else list(node.attr("pads", [0] * (2 * rank)))
    else:
        total = [f + e - size for f, e, size in zip(full, extra, wanted[-rank:], strict=True)]
        extra = [e + max(0, -t) for e, t in zip(extra, total, strict=True)]
        small, large = [max(0, t) // 2 for t in total], [max(0, t) - max(0, t) // 2 for t in total]
        pads = small + large if auto == "SAME_UPPER" else large + small
    if len(pads) != 2 * rank or min(pads) < 0:
        raise node.fail(f"expected pads of {2 * rank} integers >= 0, but got {pads}")
    return {
        "strides": strides,
        "dilation": dilation,
        "padding": pads,
        "output_padding": extra,
    }


def _resize(node: Node) -> Value:
    """Resize and Upsample by known scales or sizes; what graph.resize2d has not goes axis by axis."""
    x = node.input(0)
    rank = len(x.shape)
    size, steps = _sizes(node, x.shape)
    rule = _rule(node)
    if not _is_picture(rule, size, steps, x):
        return _by_axes(node, x, size, steps, rule)
    picture = as_picture(node, x) if rank == 3 else x
    attrs = {"mode": rule.mode, "coordinates": rule.coordinates, "rounding": rule.rounding}
    if steps is None and any(isinstance(n, DimExpr) for n in size[2:]):
        steps = [Fraction(1), Fraction(1), *map(_ratio, x.shape[2:], size[2:])]
    step = () if steps is None else tuple(n for s in two(steps[2:], Fraction(1)) for n in s.as_integer_ratio())
    known = tuple(AS_STEP if isinstance(n, DimExpr) else n for n in two(size[2:], 1))
    y = node.emit(g.Resize2dOp, picture, size=known, step=step, **attrs)
    return from_picture(node, y) if rank == 3 else y


def _ratio(size: Any, out: Any) -> Fraction | None:
    """How many elements of a picture make one of the result; None where that is not the same for all sizes."""
    if not isinstance(size, DimExpr) and not isinstance(out, DimExpr):
        return Fraction(size, out)
    for a, b, turned in ((out, size, True), (size, out, False)):
        (x, c), (y, d) = DimExpr.of(a).terms[0], DimExpr.of(b).terms[0]
        if x == y and a * d == b * c:
            return Fraction(d, c) if turned else Fraction(c, d)
    return None


def _is_picture(rule: Rule, size: Sequence[int], steps: Any, x: Value) -> bool:
    """Whether graph.resize2d says the same."""
    known = rule.mode in MODES and rule.coordinates in COORDINATES and not (rule.antialias or rule.exclude_outside)
    whole = steps is None or all(scaled(o, s) == n for n, s, o in zip(x.shape, steps, size, strict=True))
    exact = whole or rule.coordinates not in ("align_corners", "pytorch_half_pixel")
    floats = rule.mode == "nearest" or np.dtype(dtype_like(x)) == np.float32
    pairs = [pair for pair in zip(x.shape[2:], size[2:], strict=True) if any(isinstance(n, DimExpr) for n in pair)]
    if pairs and rule.coordinates in ("align_corners", "pytorch_half_pixel"):
        return False
    if steps is None and any(_ratio(*pair) is None for pair in pairs):
        return False
    return len(x.shape) in (3, 4) and list(size[:2]) == list(x.shape[:2]) and known and exact and floats


def _by_axes(node: Node, x: Value, size: Sequence[int], steps: Any, rule: Rule) -> Value:
    roi = None
    if rule.coordinates == "tf_crop_and_resize" and node.has(1):
        given = node.constant(1).astype(np.float64).reshape(2, -1)
        axes = [axis_of(axis, len(x.shape)) for axis in node.attr("axes", range(len(x.shape)))]
        roi = dict(zip(axes, given.T.tolist(), strict=True))
    for axis, out in enumerate(size):
        known = isinstance(out, int) and isinstance(x.shape[axis], int)
        scale = float(1 / steps[axis]) if steps is not None else out / x.shape[axis] if known else None
        own = None if roi is None else tuple(roi.get(axis, (0.0, 1.0)))
        if out != x.shape[axis] or scale not in (None, 1.0) or own not in (None, (0.0, 1.0)):
            x = resize_axis(node, x, axis, out, scale, own, rule)
    return x


def _rule(node: Node) -> Rule:
    """The attributes; Resize says most of them from opset 11 on."""
    mode = node.attr("mode", "nearest")
    new = node.proto.op_type == "Resize" and node.opset >= 11
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel") if new else "asymmetric"
    rounding = node.attr("nearest_mode", "round_prefer_floor") if new else "floor"
    known = (*COORDINATES, "half_pixel_symmetric", "tf_crop_and_resize")
    for name, value, values in (
        ("mode", mode, (*MODES, "cubic")),
        ("coordinate_transformation_mode", coordinates, known),
        ("nearest_mode", rounding, ROUNDINGS),
    ):
        if value not in values:
            raise unsupported(node, f"{name} {value}; mlc has {', '.join(values)}")
    return Rule(
        mode,
        coordinates,
        rounding,
        float(node.attr("cubic_coeff_a", -0.75)),
        bool(node.attr("antialias", 0)) and mode != "nearest",
        bool(node.attr("exclude_outside", 0)),
        float(node.attr("extrapolation_value", 0.0)),
    )


def _sizes(node: Node, shape: Sequence[int]) -> tuple[list[int], list[Fraction] | None]:
    """The size of every axis; and, of given scales, their inverses."""
    scales, sizes = _given(node)
    if scales is None and sizes is None:
        raise node.fail("expected scales or sizes, but got neither")
    values = np.asarray(scales if scales is not None else sizes).reshape(-1)
    axes = [axis_of(axis, len(shape)) for axis in node.attr("axes", range(len(shape)))]
    for n in values:  # a size that is 0 or less for some inputs: these are refused when the model runs
        node.importer.symbols.at_least(n, 1)
    if len(values) != len(axes) or any(n <= 0 for n in values if not isinstance(n, DimExpr)):
        raise node.fail(f"expected {len(axes)} scales or sizes > 0, but got {values.tolist()}")
    if scales is None:
        return _given_sizes(node, shape, dict(zip(axes, values.tolist(), strict=True)))
    factors = dict(zip(axes, map(exact, values.tolist()), strict=True))
    all_factors = [factors.get(axis, Fraction(1)) for axis in range(len(shape))]
    return [scaled(n, f) for n, f in zip(shape, all_factors, strict=True)], [1 / f for f in all_factors]


def scaled(size: Any, factor: Fraction) -> Any:
    """A size times a factor, rounded down."""
    return size * factor.numerator // factor.denominator


def _given_sizes(node: Node, shape: Sequence[int], sizes: dict[int, int]) -> tuple[list[int], list[Fraction] | None]:
    """Sizes as they are given, or with one scale for all axes: the smallest (not_larger) or the largest."""
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    choose = {"not_larger": min, "not_smaller": max}.get(policy)
    if choose is None:
        if policy != "stretch":
            raise unsupported(node, f"keep_aspect_ratio_policy {policy}; mlc has stretch, not_larger, not_smaller")
        return [sizes.get(axis, n) for axis, n in enumerate(shape)], None
    scale = choose(Fraction(size, shape[axis]) for axis, size in sizes.items())
    rounded = [int(scale * n + Fraction(1, 2)) if axis in sizes else n for axis, n in enumerate(shape)]
    return rounded, [1 / scale if axis in sizes else Fraction(1) for axis in range(len(shape))]


def _given(node: Node) -> tuple[Any, Any]:
    """The arrays of scales and of sizes, of which one is given."""
    if (scales := node.attr("scales")) is not None:  # Upsample, opset 7
        return np.asarray(scales), None
    place = 2 if node.proto.op_type == "Resize" and node.opset >= 11 else 1
    found = [node.constant(i) if node.has(i) else None for i in (place, place + 1)]
    scales, sizes = (None if array is None or not array.size else array for array in found)
    return scales, sizes


def exact(scale: float) -> Fraction:
    """The simplest fraction that is the scale in single precision: `0.33333334 -> 1/3`."""
    simple = Fraction(scale).limit_denominator(1024)
    return simple if np.float32(simple) == np.float32(scale) else Fraction(scale)


CONVERTERS: dict[str, Converter] = {"ConvTranspose": _conv_transpose, "Resize": _resize, "Upsample": _resize}
