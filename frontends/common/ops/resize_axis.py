"""
Resizing along one axis, in every mode of ONNX: each element of the result is a weighted sum of a few taps.

The indices and weights of the taps are constants, since the sizes are known.
"""

from __future__ import annotations

import math

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.elementwise import add, cast, multiply, select
from mlc.frontends.common.ops.resize_open_axis import open_axis
from mlc.frontends.common.ops.resize_rule import ResizeRule
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Array, Value, dtype_like


def resize_axis(
    node: SourceNode,
    x: Value,
    axis: int,
    out: Dim,
    scale: float | None,
    roi: tuple[float, float] | None,
    rule: ResizeRule,
) -> Value:
    """
    `x` with `out` elements along an axis, `scale` of them for each of its own.

    The scale may be None, the ratio of the sizes, only if one of them is symbolic.
    """
    size = x.shape[axis]
    if not isinstance(size, int) or not isinstance(out, int):
        return open_axis(node, x, axis, out, scale, rule)
    assert scale is not None
    at, outside = _coordinates(size, out, scale, roi, rule.coordinates)
    if rule.mode == "nearest":
        places = np.clip(_nearest(at, rule.rounding), 0, size - 1)
        y = node.emit(g.TakeOp, x, node.array(places), axis=axis)
    else:
        y = _interpolated(node, x, axis, at, scale, rule)
    if not outside.any():
        return y
    shape = [out if a == axis else 1 for a in range(len(y.shape))]
    return select(node, node.array(outside.reshape(shape)), rule.extrapolation, y)


def _coordinates(size: int, out: int, scale: float, roi: tuple[float, float] | None, mode: str) -> tuple[Array, Array]:
    """The coordinate in the operand of each element of the result, and whether it is outside (tf_crop_and_resize)."""
    o, width = np.arange(out, dtype=np.float64), scale * size
    nowhere = np.zeros(out, bool)
    if mode == "asymmetric":
        return o / scale, nowhere
    if mode == "align_corners":
        return (np.zeros(out) if width == 1 else o * (size - 1) / (width - 1)), nowhere
    if mode == "pytorch_half_pixel" and width == 1:
        return np.full(out, -0.5), nowhere
    if mode == "tf_crop_and_resize":
        begin, end = roi if roi is not None else (0.0, 1.0)
        span = (end - begin) * (size - 1)
        at = (np.full(out, span / 2) if width == 1 else o * span / (width - 1)) + begin * (size - 1)
        return at, (at < 0) | (at > size - 1)
    shift = size / 2 * (1 - out / width) if mode == "half_pixel_symmetric" else 0.0
    return shift + (o + 0.5) / scale - 0.5, nowhere


def _nearest(at: Array, rounding: str) -> Array:
    whole = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
    }[rounding]
    return whole.astype(np.int64)


def _interpolated(node: SourceNode, x: Value, axis: int, at: Array, scale: float, rule: ResizeRule) -> Value:
    """The sum of the taps, each a take and a product."""
    size, dtype = x.shape[axis], np.dtype(dtype_like(x))
    low: Array = np.floor(at).astype(np.int64)
    first, weights = _weights(at - low, scale, rule)
    places: Array = low[:, None] + first + np.arange(weights.shape[1])
    if rule.exclude_outside:
        weights = np.where((places < 0) | (places >= size), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    places = np.clip(places, 0, size - 1)
    wide = x if dtype.kind == "f" and dtype.itemsize > 2 else cast(node, x, np.float32)
    shape = [len(at) if a == axis else 1 for a in range(len(x.shape))]
    y: Value | None = None
    for tap in range(weights.shape[1]):
        if not weights[:, tap].any():
            continue
        one = node.emit(g.TakeOp, wide, node.array(places[:, tap]), axis=axis)
        one = multiply(node, one, node.array(weights[:, tap].reshape(shape), like=wide))
        y = one if y is None else add(node, y, one)
    assert y is not None
    return cast(node, y, dtype)


def _weights(ratio: Array, scale: float, rule: ResizeRule) -> tuple[int, Array]:
    """The first tap, relative to the element before the coordinate, and the weights of all: elements x taps."""
    shrink = min(scale, 1.0) if rule.antialias else 1.0
    reach = 1 if rule.mode == "linear" else 2
    first = math.floor(-reach / shrink) + 1
    distance = np.abs((first + np.arange(2 - 2 * first)) - ratio[:, None]) * shrink
    if rule.mode == "linear":
        weights = np.clip(1 - distance, 0, 1)
    else:
        a = rule.cubic
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    return first, weights / weights.sum(axis=1, keepdims=True) if rule.antialias else weights


__all__ = ["resize_axis"]
