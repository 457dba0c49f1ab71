"""ONNX ops that change a picture's size: transposed convolution, Resize and Upsample."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.resize import COORDINATES, MODES, ROUNDINGS
from mlc.dialects.graph.types import axis_of
from mlc.driver.errors import UnsupportedOps, UserError
from mlc.frontends.onnx.node import Converter, Node, Value
from mlc.frontends.onnx.tools import as_picture, from_picture, reshape, two


def unsupported(node: Node, why: str) -> UserError:
    """An error that says what of a node mlc does not compute."""
    return UnsupportedOps(node.importer.source, [(node.path, node.proto.op_type, why)])


def _conv_transpose(node: Node) -> Value:
    """Transposed convolution of one or two axes; one axis is a picture of height 1."""
    x, w = node.input(0), node.input(1)
    rank = len(x.shape) - 2
    if rank not in (1, 2) or len(w.shape) != rank + 2:
        raise unsupported(node, f"an input of rank {rank + 2} and a weight of rank {len(w.shape)}")
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    attrs = _spread(node, x.shape[2:], kernel)
    flat = rank == 1
    if flat:
        x, w = as_picture(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
    y = node.emit(g.Conv2dTransposeOp, x, w, groups=node.attr("group", 1), **attrs)
    if node.has(2):
        y = node.emit(g.BiasAddOp, y, node.input(2), axis=1)
    return from_picture(node, y) if flat else y


def _spread(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Strides, dilation and paddings for two axes, from `pads`, or from `output_shape` or `auto_pad`."""
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
        "strides": two(strides, 1),
        "dilation": two(dilation, 1),
        "padding": (*two(pads[:rank], 0), *two(pads[rank:], 0)),
        "output_padding": two(extra, 0),
    }


def _resize(node: Node) -> Value:
    """Resize and Upsample by constant scales or sizes, along the last two axes."""
    x = node.input(0)
    rank = len(x.shape)
    size, steps = _sizes(node, x.shape)
    if rank not in (3, 4) or size[:2] != list(x.shape[:2]):
        raise unsupported(node, f"from {list(x.shape)} to {size}; only the last axes of rank 3 and 4 change")
    attrs = _modes(node)
    step = () if steps is None else tuple(n for s in two(steps[2:], Fraction(1)) for n in s.as_integer_ratio())
    picture = as_picture(node, x) if rank == 3 else x
    y = node.emit(g.Resize2dOp, picture, size=two(size[2:], 1), step=step, **attrs)
    return from_picture(node, y) if rank == 3 else y


def _modes(node: Node) -> dict[str, Any]:
    """The attributes of graph.resize2d; Resize says them from opset 11 on."""
    mode = node.attr("mode", "nearest")
    new = node.proto.op_type == "Resize" and node.opset >= 11
    coordinates = node.attr("coordinate_transformation_mode", "half_pixel") if new else "asymmetric"
    rounding = node.attr("nearest_mode", "round_prefer_floor") if new else "floor"
    for name, value, known in (
        ("mode", mode, MODES),
        ("coordinate_transformation_mode", coordinates, COORDINATES),
        ("nearest_mode", rounding, ROUNDINGS),
    ):
        if value not in known:
            raise unsupported(node, f"{name} {value}; mlc has {', '.join(known)}")
    if node.attr("antialias", 0) and mode != "nearest":
        raise unsupported(node, "antialias 1")
    return {"mode": mode, "coordinates": coordinates, "rounding": rounding}


def _sizes(node: Node, shape: Sequence[int]) -> tuple[list[int], list[Fraction] | None]:
    """The size of every axis; and, of given scales, their inverses."""
    scales, sizes = _given(node)
    if scales is None and sizes is None:
        raise node.fail("expected scales or sizes, but got neither")
    values = np.asarray(scales if scales is not None else sizes).reshape(-1)
    axes = [axis_of(axis, len(shape)) for axis in node.attr("axes", range(len(shape)))]
    if len(values) != len(axes) or min(values, default=0) <= 0:
        raise node.fail(f"expected {len(axes)} scales or sizes > 0, but got {values.tolist()}")
    if scales is None:
        if node.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise unsupported(node, f"keep_aspect_ratio_policy {node.attr('keep_aspect_ratio_policy')}")
        by_axis = dict(zip(axes, values.tolist(), strict=True))
        return [by_axis.get(axis, n) for axis, n in enumerate(shape)], None
    factors = dict(zip(axes, map(exact, values.tolist()), strict=True))
    all_factors = [factors.get(axis, Fraction(1)) for axis in range(len(shape))]
    return [int(n * f) for n, f in zip(shape, all_factors, strict=True)], [1 / f for f in all_factors]


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
