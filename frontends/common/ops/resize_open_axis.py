"""Resizing along an axis of symbolic size: coordinates and weights are computed at run time, in f64."""

from __future__ import annotations

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.elementwise import add, binary, cast, divide, iota, multiply, subtract
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.ops.resize_rule import ResizeRule
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like


def open_axis(node: SourceNode, x: Value, axis: int, out: Dim, scale: float | None, rule: ResizeRule) -> Value:
    """`x` with `out` elements along an axis; a scale that is None is the ratio of the sizes."""
    if rule.antialias or rule.exclude_outside or rule.coordinates == "tf_crop_and_resize":
        raise node.fail("expected known sizes with antialias, exclude_outside or tf_crop_and_resize; use shapes=")
    size = x.shape[axis]
    at = _coordinates(node, size, out, scale, rule.coordinates)
    if rule.mode == "nearest":
        return node.emit(g.TakeOp, x, _clamped_indices(node, _rounded(node, at, rule.rounding), size), axis=axis)
    low = node.emit(g.FloorOp, at)
    weights = _linear(node, subtract(node, at, low)) if rule.mode == "linear" else _cubic(node, at, low, rule.cubic)
    first = 0.0 if rule.mode == "linear" else -1.0
    dtype = np.dtype(dtype_like(x))
    wide = x if dtype.kind == "f" and dtype.itemsize > 2 else cast(node, x, np.float32)
    shape = [out if a == axis else 1 for a in range(len(x.shape))]
    y: Value | None = None
    for tap, weight in enumerate(weights):
        one = node.emit(g.TakeOp, wide, _clamped_indices(node, add(node, low, first + tap), size), axis=axis)
        one = multiply(node, one, cast(node, reshape(node, weight, shape), dtype_like(wide)))
        y = one if y is None else add(node, y, one)
    assert y is not None
    return cast(node, y, dtype)


def _coordinates(node: SourceNode, size: Dim, out: Dim, scale: float | None, mode: str) -> Value:
    """The coordinate in the operand of each element of the result."""
    o = cast(node, iota(node, (out,), 0), np.float64)
    whole, wide = (node.array(np.array(n, object), like=o) for n in (size, out))
    each = divide(node, wide, whole) if scale is None else node.array(scale, like=o)
    width = multiply(node, whole, each)
    if mode == "asymmetric":
        return divide(node, o, each)
    if mode == "align_corners":
        # of one element all coordinates are 0
        last = binary(node, g.MaximumOp, add(node, width, -1.0), 1.0)
        return divide(node, multiply(node, o, add(node, whole, -1.0)), last)
    at = add(node, divide(node, add(node, o, 0.5), each), -0.5)
    if mode == "pytorch_half_pixel":
        return node.emit(g.WhereOp, binary(node, g.EqualOp, width, 1.0), multiply(node, o, 0.0), at)
    if mode == "half_pixel_symmetric":
        shift = multiply(node, multiply(node, whole, 0.5), subtract(node, 1.0, divide(node, wide, width)))
        return add(node, at, shift)
    return at


def _rounded(node: SourceNode, at: Value, rounding: str) -> Value:
    shift = {"round_prefer_floor": -0.5, "round_prefer_ceil": 0.5}.get(rounding, 0.0)
    op = g.CeilOp if rounding in ("ceil", "round_prefer_floor") else g.FloorOp
    return node.emit(op, add(node, at, shift) if shift else at)


def _clamped_indices(node: SourceNode, at: Value, size: Dim) -> Value:
    """Coordinates as indices, clamped to the axis."""
    last = node.array(np.array(size - 1, object), like=at)
    inside = binary(node, g.MinimumOp, binary(node, g.MaximumOp, at, 0.0), last)
    return cast(node, inside, np.int64)


def _linear(node: SourceNode, ratio: Value) -> list[Value]:
    return [subtract(node, 1.0, ratio), ratio]


def _cubic(node: SourceNode, at: Value, low: Value, a: float) -> list[Value]:
    """The weights of Keys' cubic convolution for the taps -1, 0, 1 and 2."""
    weights: list[Value] = []
    for tap in range(-1, 3):
        t = node.emit(g.AbsOp, subtract(node, at, add(node, low, float(tap))))
        if tap in (0, 1):  # ((a + 2) t - (a + 3)) t t + 1
            inner = add(node, multiply(node, t, a + 2), -(a + 3))
            weights.append(add(node, multiply(node, multiply(node, inner, t), t), 1.0))
        else:  # ((a t - 5 a) t + 8 a) t - 4 a
            inner = add(node, multiply(node, add(node, multiply(node, t, a), -5 * a), t), 8 * a)
            weights.append(add(node, multiply(node, inner, t), -4 * a))
    return weights
