"""Fourier transforms as products with matrices of sines and cosines, and the mel scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, binary, cast, divide, iota, multiply, select, subtract
from mlc.frontends.common.movement import index_axis, pad_axis, reshape, slice_axis, stack, transpose
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.node import Converter, Node


def _waves(node: Node, length: Dim, rows: Dim, columns: Dim, inverse: bool, like: Value) -> tuple[Value, Value]:
    """cos and sin of 2 pi k n / length for rows k and columns n; divided by the length for an inverse."""
    if not isinstance(length, int):
        return _open_waves(node, length, rows, columns, inverse, like)
    cos, sin = _known_waves(length, int(rows), int(columns), inverse)
    return node.array(cos, like=like), node.array(sin, like=like)


def _open_waves(node: Node, length: Dim, rows: Dim, columns: Dim, inverse: bool, like: Value) -> tuple[Value, Value]:
    """The same for a symbolic length, computed in f64 at run time."""
    whole = node.array(np.array(length, object))
    turns = node.emit(g.MultiplyOp, iota(node, (rows, columns), 0), iota(node, (rows, columns), 1))
    turns = cast(node, node.emit(g.ModOp, turns, whole), np.float64)
    size = node.array(np.array(length, object), like=turns)
    angles = divide(node, multiply(node, turns, 2 * np.pi), size)
    cos, sin = node.emit(g.CosOp, angles), node.emit(g.SinOp, angles)
    if inverse:
        cos, sin = divide(node, cos, size), divide(node, sin, size)
    else:
        sin = node.emit(g.NegOp, sin)
    return cast(node, cos, dtype_like(like)), cast(node, sin, dtype_like(like))


def _known_waves(length: int, rows: int, columns: int, inverse: bool) -> tuple[Any, Any]:
    angles = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % length) / length
    scale = 1 / length if inverse else 1.0
    return np.cos(angles) * scale, (1 if inverse else -1) * np.sin(angles) * scale


def _transform(node: Node, re: Value, im: Value | None, length: Dim, bins: Dim, inverse: bool) -> Value:
    """The first `bins` of the transform along the last axis; real and imaginary parts are a new last axis."""
    cos, sin = _waves(node, length, bins, re.shape[-1], inverse, re)

    def product(x: Value, wave: Value) -> Value:
        return node.emit(g.DenseOp, x, wave)

    if im is None:
        return stack(node, [product(re, cos), product(re, sin)], -1)
    real = subtract(node, product(re, cos), product(im, sin))
    return stack(node, [real, add(node, product(re, sin), product(im, cos))], -1)


def _dft(node: Node) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    if node.opset < 20:
        axis = axis_of(node.attr("axis", 1), rank)
    else:
        axis = axis_of(int(node.constant(2).reshape(())) if node.has(2) else -2, rank)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    if axis == rank - 1 or x.shape[-1] not in (1, 2):
        raise node.fail(f"expected a last axis of 1 or 2, real and imaginary, but got {list(x.shape)}")
    size = x.shape[axis]
    half = onesided and inverse
    length = int(node.constant(1).reshape(())) if node.has(1) else 2 * (size - 1) if half else size
    kept = length // 2 + 1 if half else length
    x = slice_axis(node, pad_axis(node, x, axis, 0, max(0, kept - size)), axis, 0, kept)
    order = [a for a in range(rank - 1) if a != axis] + [axis]
    re = transpose(node, index_axis(node, x, -1, 0), order)
    im = transpose(node, index_axis(node, x, -1, 1), order) if x.shape[-1] == 2 else None
    if half:
        y = _real_inverse(node, re, im, length)
    else:
        y = _transform(node, re, im, length, length // 2 + 1 if onesided else length, inverse)
    back = [order.index(a) for a in range(rank - 1)]
    return transpose(node, y, (*back, rank - 1))


def _real_inverse(node: Node, re: Value, im: Value | None, length: int) -> Value:
    """The real signal of a one-sided spectrum, whose other bins are the conjugates of the given ones."""
    bins = re.shape[-1]
    cos, sin = _known_waves(length, length, int(bins), True)
    twice = np.full(bins, 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    y = node.emit(g.DenseOp, re, node.array(cos * twice, like=re))
    if im is not None:
        y = subtract(node, y, node.emit(g.DenseOp, im, node.array(sin * twice, like=im)))
    return reshape(node, y, (*y.shape, 1))


def _stft(node: Node) -> Value:
    """Each frame times the window, transformed."""
    x = node.input(0)
    if len(x.shape) == 2:
        x = reshape(node, x, (*x.shape, 1))
    step = int(node.constant(1).reshape(()))
    window = node.input(2) if node.has(2) else None
    length = int(node.constant(3).reshape(())) if node.has(3) else None
    length = length if length is not None else window.shape[0] if window is not None else x.shape[1]
    count = (x.shape[1] - length) // step + 1
    if isinstance(count, DimExpr) and step > 0:
        node.importer.symbols.at_least(count, 1)
    elif count < 1 or step < 1:
        raise node.fail(f"expected frames no longer than the signal's {x.shape[1]} elements, but got {length}")
    if isinstance(count, int):
        places = node.array(np.arange(count)[:, None] * step + np.arange(length))
    else:
        first = multiply(node, iota(node, (count, 1), 0), step)
        places = node.emit(g.AddOp, first, node.array(np.arange(length)[None, :]))
    parts: list[Value] = []
    for k in range(x.shape[2]):
        frames = node.emit(g.TakeOp, index_axis(node, x, -1, k), places, axis=1)
        parts.append(frames if window is None else multiply(node, frames, window))
    bins = length // 2 + 1 if node.attr("onesided", 1) else length
    return _transform(node, parts[0], parts[1] if len(parts) == 2 else None, length, bins, False)


def _mel_weight_matrix(node: Node) -> Value:
    """Triangular filters between centres that are evenly spaced on the mel scale."""
    count, length = (int(node.constant(i).reshape(())) for i in (0, 1))
    rate, low, high = (reshape(node, cast(node, node.input(i), np.float64), ()) for i in (2, 3, 4))
    dtype = dtype_of(node.attr("output_datatype", 1), node.path)
    low, high = _mel(node, low), _mel(node, high)
    step = divide(node, subtract(node, high, low), float(count + 2))
    mels = add(node, multiply(node, iota(node, (count + 2,), 0, np.float64), step), low)
    hertz = node.emit(g.ExpOp, multiply(node, mels, float(np.log(10) / 2595)))
    hertz = multiply(node, subtract(node, hertz, 1.0), 700.0)
    bins = node.emit(g.FloorOp, divide(node, multiply(node, hertz, float(length + 1)), rate))
    left, middle, right = (reshape(node, slice_axis(node, bins, 0, k, k + count), (1, count)) for k in range(3))
    shape = (length // 2 + 1, count)
    row = iota(node, shape, 0, np.float64)

    def between(a: Any, b: Any, last: Any) -> Value:
        inside = node.emit(g.LogicalAndOp, binary(node, g.GreaterEqualOp, row, a), binary(node, last, row, b))
        return inside

    rise, fall = subtract(node, middle, left), subtract(node, right, middle)
    flat = binary(node, g.EqualOp, rise, 0.0)
    up = divide(node, subtract(node, row, left), node.emit(g.MaximumOp, rise, node.array(1.0, like=rise)))
    up = select(node, flat, 1.0, up)
    down = divide(node, subtract(node, right, row), node.emit(g.MaximumOp, fall, node.array(1.0, like=fall)))
    result = select(node, between(left, middle, g.LessEqualOp), up, 0.0)
    result = select(node, between(middle, right, g.LessOp), down, result)
    return cast(node, result, dtype)


def _mel(node: Node, hertz: Value) -> Value:
    """2595 log10(1 + hertz / 700)."""
    logarithm = node.emit(g.LogOp, add(node, multiply(node, hertz, 1 / 700), 1.0))
    return multiply(node, logarithm, float(2595 / np.log(10)))


CONVERTERS: dict[str, Converter] = {"DFT": _dft, "STFT": _stft, "MelWeightMatrix": _mel_weight_matrix}
