"""Numpy semantics that take more than one call: erf, windows, convolution, layouts. Imported when evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.support.dtypes import is_float_dtype

if TYPE_CHECKING:
    from mlc.dialects.graph.layout import TransformSteps
    from mlc.dialects.graph.ops.conv import PoolOp
    from mlc.dialects.graph.ops.conv_transpose import Conv2dTransposeOp

Array = Any

# erfc(x) = t * exp(-x * x + P(t)), t = 2 / (2 + x): Chebyshev coefficients of P, relative error 1.2e-16.
_ERFC = (
    -1.3026537197817094, 6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3,
    -9.46595344482036e-4, 3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5, -1.624290004647e-6,
    1.303655835580e-6, 1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9, 5.059343495e-9, -9.91364156e-10,
    -2.27365122e-10, 9.6467911e-11, 2.394038e-12, -6.886027e-12, 8.94487e-13, 3.13092e-13, -1.12708e-13,
    3.81e-16, 7.106e-15, -1.523e-15, -9.4e-17, 1.21e-16, -2.8e-17,
)  # fmt: skip


def erf(x: Array) -> Array:
    """The error function, at double precision."""
    wide = np.asarray(x, np.float64)
    z = np.abs(wide)
    t = 2.0 / (2.0 + z)
    series = np.polynomial.chebyshev.chebval(2.0 * t - 1.0, (_ERFC[0] / 2, *_ERFC[1:]))
    value = np.copysign(1.0 - t * np.exp(-z * z + series), wide)
    return value.astype(np.asarray(x).dtype)


def divide(x: Array, y: Array) -> Array:
    """Division; of integers, truncated toward zero."""
    if np.issubdtype(np.result_type(x, y), np.integer):
        return np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))
    return x / y


def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) / sum."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    """(x - max) - log(sum(exp(x - max)))."""
    shifted = x - x.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """The sliding windows of a padded NCHW array as a view: N, C, OH, OW, KH, KW."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]


def conv2d(
    x: Array,
    w: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_value: int = 0,
) -> Array:
    """Convolution of NCHW by OIHW: im2col, then one matrix product per image and group."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=pad_value)
    view = windows(x, w.shape[2:], strides, dilation)
    n, c, oh, ow, kh, kw = view.shape
    o, i = w.shape[:2]
    if i == 1 and groups == c == o:
        return _depthwise(view, w)
    columns = view.transpose(0, 1, 4, 5, 2, 3).reshape(n, groups, i * kh * kw, oh * ow)
    kernels = w.reshape(groups, o // groups, i * kh * kw)
    return np.matmul(kernels[None], columns).reshape(n, o, oh, ow)


def _depthwise(view: Array, w: Array) -> Array:
    result = np.zeros(view.shape[:4], np.result_type(view, w))
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            result += view[..., row, column] * w[None, :, 0, row, column, None, None]
    return result


def conv2d_transpose(x: Array, w: Array, op: Conv2dTransposeOp, out: Sequence[int]) -> Array:
    """Transposed convolution of NCHW by IOHW: one matrix product per tap, accumulated at the tap's offset."""
    (sh, sw), (dh, dw), (top, left, bottom, right) = op.strides, op.dilation, op.padding
    n, c, height, width = x.shape
    kh, kw = w.shape[2:]
    images = x.reshape(n, op.groups, c // op.groups, height * width)
    kernels = w.reshape(op.groups, c // op.groups, *w.shape[1:]).swapaxes(1, 2)
    room = np.zeros((n, op.groups * w.shape[1], out[0] + top + bottom, out[1] + left + right), x.dtype)
    for row in range(kh):
        for column in range(kw):
            part = np.matmul(kernels[None, ..., row, column], images).reshape(n, room.shape[1], height, width)
            rows = slice(row * dh, row * dh + (height - 1) * sh + 1, sh)
            columns = slice(column * dw, column * dw + (width - 1) * sw + 1, sw)
            room[:, :, rows, columns] += part
    return np.ascontiguousarray(room[:, :, top : top + out[0], left : left + out[1]])


def resize_axis(x: Array, axis: int, place: tuple[int, int, int], out: int, linear: bool) -> Array:
    """An array resized to `out` elements along an axis; element o is read at (a * o + b) / c."""
    a, b, c = place
    at = np.arange(out) * a + b
    last = x.shape[axis] - 1
    low = np.take(x, np.clip(at // c, 0, last), axis=axis)
    if not linear:
        return low
    high = np.take(x, np.clip(at // c + 1, 0, last), axis=axis)
    part = ((at % c) / c).astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return low * (1 - part) + high * part


def pad_window(x: Array, padding: Sequence[int], extra: Sequence[int], value: float) -> Array:
    """An NCHW array with its padding, and `extra` rows and columns, which ceil_mode may read."""
    top, left, bottom, right = padding
    width = ((0, 0), (0, 0), (top, bottom + extra[0]), (left, right + extra[1]))
    return np.pad(x, width, constant_values=value)


def pool2d(x: Array, op: PoolOp, out: Sequence[int], maximum: bool, count_padding: bool) -> Array:
    """Max or average pooling of an NCHW array by the op's attributes; `out` is the result's (H, W)."""
    kernel, strides, dilation, padding = op.pool_size, op.strides, op.dilation, op.padding
    extra = [0, 0]
    for axis in (0, 1):
        reach = (out[axis] - 1) * strides[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        extra[axis] = max(0, reach - x.shape[2 + axis] - padding[axis] - padding[2 + axis])

    def view(array: Array, pads: Sequence[int], more: Sequence[int], value: float) -> Array:
        padded = pad_window(array, pads, more, value)
        return windows(padded, kernel, strides, dilation)[:, :, : out[0], : out[1]]

    if maximum:
        low = -np.inf if is_float_dtype(x.dtype) else np.iinfo(x.dtype).min
        return view(x, padding, extra, low).max(axis=(4, 5))
    ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
    if count_padding:
        ones = pad_window(ones, padding, (0, 0), 1)
        counts = view(ones, (0, 0, 0, 0), extra, 0)
    else:
        counts = view(ones, padding, extra, 0)
    return view(x, padding, extra, 0).sum(axis=(4, 5)) / np.maximum(counts.sum(axis=(4, 5)), 1)


def take(x: Array, indices: Array, axis: int) -> Array:
    """Gather along one axis; negative indices count from the end."""
    return np.take(x, indices, axis=axis)


def layout_transform(x: Array, steps: TransformSteps) -> Array:
    """
    An array converted between layouts by `steps`: (unblock shape, permutation, logical sizes, padded, blocked).

    A view where nothing is padded: a weight is copied once, when it is written.
    """
    split, to_logical, merged, kept, padded, blocked, to_physical = steps
    logical = x.reshape(split).transpose(to_logical).reshape(merged)
    logical = logical[tuple(slice(0, size) for size in kept)]
    width = [(0, p - size) for p, size in zip(padded, kept, strict=True)]
    if any(after for _, after in width):
        logical = np.pad(logical, width)
    return logical.reshape(blocked).transpose(to_physical)
