"""ONNX ops that change the size of pictures: transposed convolution, Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops.resize import COORDINATES, MODES, ROUNDINGS
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.ops.conv import TransposedWindow, transposed_convolution
from mlc.frontends.common.ops.resize import resize, scaled_sizes
from mlc.frontends.common.ops.resize_rule import ResizeRule
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node
from mlc.support.errors import UnsupportedOps, UserError


def unsupported(node: Node, why: str) -> UserError:
    """The error for a node with an attribute that mlc does not support."""
    return UnsupportedOps(node.importer.source, [(node.path, node.proto.op_type, why)])


def _conv_transpose(node: Node) -> Value:
    x, w = node.input(0), node.input(1)
    rank = len(x.shape) - 2
    if rank not in (1, 2, 3) or len(w.shape) != rank + 2:
        raise unsupported(node, f"an input of rank {rank + 2} and a weight of rank {len(w.shape)}")
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    bias = node.input(2) if node.has(2) else None
    spec = _transposed_window(node, x.shape[2:], kernel)
    return transposed_convolution(node, x, w, bias, spec, node.attr("group", 1))


def _transposed_window(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> TransposedWindow:
    """The window by `pads`, or by `output_shape` or `auto_pad`."""
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
    return TransposedWindow(tuple(strides), tuple(dilation), tuple(pads), tuple(extra))


def _resize(node: Node) -> Value:
    """Resize and Upsample by known scales or sizes."""
    x = node.input(0)
    size, steps = _sizes(node, x.shape)
    rule = _rule(node)
    return resize(node, x, size, steps, rule, _region_of_interest(node, rule, len(x.shape)))


def _region_of_interest(node: Node, rule: ResizeRule, rank: int) -> dict[int, tuple[float, float]] | None:
    """Axis -> the part of it that is read, as fractions of its size; None if the operand is read whole."""
    if rule.coordinates != "tf_crop_and_resize" or not node.has(1):
        return None
    given = node.constant(1).astype(np.float64).reshape(2, -1)
    axes = [axis_of(axis, rank) for axis in node.attr("axes", range(rank))]
    return {axis: (begin, end) for axis, (begin, end) in zip(axes, given.T.tolist(), strict=True)}


def _rule(node: Node) -> ResizeRule:
    """The rule by a node's attributes; most exist in Resize from opset 11 on."""
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
    return ResizeRule(
        mode,
        coordinates,
        rounding,
        float(node.attr("cubic_coeff_a", -0.75)),
        bool(node.attr("antialias", 0)) and mode != "nearest",
        bool(node.attr("exclude_outside", 0)),
        float(node.attr("extrapolation_value", 0.0)),
    )


def _sizes(node: Node, shape: Sequence[Dim]) -> tuple[Sequence[Dim], Sequence[Fraction] | None]:
    """The size of every axis, and the inverses of the scales, if these are given."""
    scales, sizes = _given(node)
    if scales is None and sizes is None:
        raise node.fail("expected scales or sizes, but got neither")
    values = np.asarray(scales if scales is not None else sizes).reshape(-1)
    axes = [axis_of(axis, len(shape)) for axis in node.attr("axes", range(len(shape)))]
    for n in values:  # inputs for which a size is 0 or less are refused at run time
        node.importer.symbols.at_least(n, 1)
    if len(values) != len(axes) or any(n <= 0 for n in values if not isinstance(n, DimExpr)):
        raise node.fail(f"expected {len(axes)} scales or sizes > 0, but got {values.tolist()}")
    if scales is None:
        return _given_sizes(node, shape, dict(zip(axes, values.tolist(), strict=True)))
    return scaled_sizes(shape, dict(zip(axes, values.tolist(), strict=True)))


def _given_sizes(
    node: Node, shape: Sequence[Any], sizes: dict[int, Any]
) -> tuple[Sequence[Dim], Sequence[Fraction] | None]:
    """The sizes as given, or by one scale for all axes: the smallest (not_larger) or the largest (not_smaller)."""
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
    """The arrays of scales and of sizes; at least one is None."""
    if (scales := node.attr("scales")) is not None:  # Upsample, opset 7
        return np.asarray(scales), None
    place = 2 if node.proto.op_type == "Resize" and node.opset >= 11 else 1
    found = [node.constant(i) if node.has(i) else None for i in (place, place + 1)]
    scales, sizes = (None if array is None or not array.size else array for array in found)
    return scales, sizes


CONVERTERS: dict[str, Converter] = {"ConvTranspose": _conv_transpose, "Resize": _resize, "Upsample": _resize}
