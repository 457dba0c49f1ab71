"""ONNX ops on quantised tensors: exact in integers, rounded once at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.ops.nn import convolution
from mlc.frontends.onnx.tools import add, broadcast_to, cast, divide, multiply, reshape, subtract
from mlc.support.errors import UserError


def _along(node: Node, scale: Value, x: Value) -> Value:
    """A scale (or zero point) as it broadcasts to x: one number, one an element of `axis`, or one a block of it."""
    rank = len(x.shape)
    if len(scale.shape) == 0 or scale.shape == (1,):
        return reshape(node, scale, ())
    axis = axis_of(node.attr("axis", 1), rank)
    if len(scale.shape) == 1:
        return reshape(node, scale, [scale.shape[0] if a == axis else 1 for a in range(rank)])
    return _repeated(node, scale, axis, x.shape[axis] // scale.shape[axis])


def _repeated(node: Node, scale: Value, axis: int, count: int) -> Value:
    """Each element of an axis `count` times."""
    shape = scale.shape
    if count == 1:
        return scale
    apart = reshape(node, scale, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    apart = broadcast_to(node, apart, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return reshape(node, apart, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def _saturated(node: Node, x: Value, zero: Value | None, dtype: Any) -> Value:
    """A float rounded to the nearest integer (halves to even), moved by the zero point, clipped and converted."""
    rounded = node.emit(g.RoundOp, x)
    if zero is not None:
        rounded = add(node, rounded, cast(node, zero, np.float32))
    info = np.iinfo(dtype)
    return cast(node, node.emit(g.ClipOp, rounded, min=float(info.min), max=float(info.max)), dtype)


def _result_type(node: Node, zero: int) -> Any:
    """The integer type of a quantised result: the zero point's, or what output_dtype says."""
    wanted = node.attr("output_dtype", 0)
    dtype = dtype_like(node.input(zero)) if node.has(zero) else np.dtype(np.uint8)
    dtype = dtype_of(wanted, node.path) if wanted and not node.has(zero) else dtype
    return _integer(node, dtype)


def _integer(node: Node, dtype: Any) -> Any:
    if np.dtype(dtype).kind not in "iu" or np.dtype(dtype).itemsize > 2:
        raise _unsupported(node, f"expected a quantised type of int8, uint8, int16 or uint16, but got {dtype}")
    return dtype


def _unsupported(node: Node, why: str) -> UserError:
    return node.fail(why)


def _quantize(node: Node) -> Value:
    """saturate(round(x / scale) + zero)."""
    zero = node.input(2) if node.has(2) else None
    return quantized(node, node.input(0), node.input(1), zero, _result_type(node, 2))


def quantized(node: Node, x: Value, scale: Value, zero: Value | None, dtype: Any) -> Value:
    """A float tensor in integers of a scale and a zero point."""
    if _is_plain(node, x, scale, dtype) and dtype_like(x) == np.float32:
        scale, zero, axis = _parameters(node, scale, zero, dtype, len(x.shape))
        return node.emit(g.QuantizeOp, x, scale, zero, axis=axis)
    zero = None if zero is None else _along(node, zero, x)
    scale = cast(node, _along(node, scale, x), np.float32)
    return _saturated(node, divide(node, cast(node, x, np.float32), scale), zero, dtype)


def _dequantize(node: Node) -> Value:
    """(x - zero) * scale."""
    y = dequantized(node, node.input(0), node.input(1), node.input(2) if node.has(2) else None)
    wanted = node.attr("output_dtype", 0)
    return cast(node, y, dtype_of(wanted, node.path)) if wanted else y


def dequantized(node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """What integers of a scale and a zero point stand for."""
    dtype = dtype_like(scale)
    if _is_plain(node, x, scale, dtype_like(x)):
        scale, zero, axis = _parameters(node, scale, zero, dtype_like(x), len(x.shape))
        return node.emit(g.DequantizeOp, _kept(node, x), scale, zero, axis=axis)
    wide = cast(node, x, np.int32)
    if zero is not None:
        wide = subtract(node, wide, cast(node, _along(node, zero, x), np.int32))
    scaled = multiply(node, cast(node, wide, np.float32), cast(node, _along(node, scale, x), np.float32))
    return cast(node, scaled, dtype)


def _is_plain(node: Node, x: Value, scale: Value, dtype: Any) -> bool:
    """Whether the ops of the graph say it: one f32 scale, or one for each place of an axis."""
    if dtype_like(scale) != np.float32 or np.dtype(dtype).name not in _PLAIN or len(scale.shape) > 1:
        return False
    return scale.shape in ((), (1,)) or scale.shape == (x.shape[axis_of(node.attr("axis", 1), len(x.shape))],)


def _kept(node: Node, x: Value) -> Value:
    """The value without its array: what is computed of it is not folded, so quantised weights stay so."""
    return x if x.array is None else Value(node.importer.materialize(x, node.path), None, x.name)


_PLAIN = {"uint8", "int8", "int32"}


def _parameters(node: Node, scale: Value, zero: Value | None, dtype: Any, rank: int) -> tuple[Value, Value, int]:
    """Scale, zero point and axis as graph.quantize takes them."""
    shape = () if scale.shape == (1,) else scale.shape
    zero = node.array(np.zeros(shape, dtype)) if zero is None else reshape(node, zero, shape)
    return reshape(node, scale, shape), zero, axis_of(node.attr("axis", 1), rank) if shape else 1


def _centred(node: Node, x: int, zero: int, axis: int) -> Value:
    """Input x as i32 without its zero point, which may be one number for each element of an axis."""
    value = node.input(x)
    wide = cast(node, value, np.int32)
    if not node.has(zero):
        return wide
    return subtract(node, wide, cast(node, _on_axis(node, node.input(zero), len(value.shape), axis), np.int32))


def _on_axis(node: Node, scale: Value, rank: int, axis: int) -> Value:
    """One number, or one for each element of an axis, as it broadcasts."""
    if len(scale.shape) != 1 or scale.shape == (1,):
        return reshape(node, scale, ()) if scale.shape == (1,) else scale
    return reshape(node, scale, [scale.shape[0] if a == axis % rank else 1 for a in range(rank)])


def product(node: Node, a: Value, b: Value) -> Value:
    """The matrix product of integers."""
    if len(b.shape) == 2:
        return node.emit(g.DenseOp, a, node.emit(g.TransposeOp, b, axes=(1, 0)))
    return node.emit(g.BatchMatmulOp, a, b)


def _matmul_integer(node: Node) -> Value:
    a, b = _centred(node, 0, 2, -2), _centred(node, 1, 3, -1)
    return product(node, a, b)


def _qlinear_matmul(node: Node) -> Value:
    a, b = _centred(node, 0, 2, -2), _centred(node, 3, 5, -1)
    exact = product(node, a, b)
    rank = len(exact.shape)
    scales = [_on_axis(node, node.input(1), rank, -2), _on_axis(node, node.input(4), rank, -1)]
    return _requantized(node, exact, scales, node.input(6), node.input(7))


def _requantized(node: Node, x: Value, scales: list[Value], scale: Value, zero: Value) -> Value:
    """An i32 result of two scales as integers of another scale."""
    wide = [cast(node, s, np.float32) for s in (*scales, reshape(node, scale, ()))]
    factor = divide(node, multiply(node, wide[0], wide[1]), wide[2])
    scaled = multiply(node, cast(node, x, np.float32), factor)
    return _saturated(node, scaled, reshape(node, zero, ()), _integer(node, dtype_like(zero)))


def _conv_integer(node: Node) -> Value:
    return convolution(node, _centred(node, 0, 2, 1), _centred(node, 1, 3, 0), None)


def _qlinear_conv(node: Node) -> Value:
    x, w = _centred(node, 0, 2, 1), _centred(node, 3, 5, 0)
    y = convolution(node, x, w, node.input(8) if node.has(8) else None)
    scales = [reshape(node, node.input(1), ()), _on_axis(node, node.input(4), len(y.shape), 1)]
    return _requantized(node, y, scales, node.input(6), node.input(7))


CONVERTERS: dict[str, Converter] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
}
