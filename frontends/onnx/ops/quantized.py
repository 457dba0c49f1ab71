"""ONNX ops on quantised tensors: exact in integers, rounded once at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, cast, divide, multiply, subtract
from mlc.frontends.common.movement import pad_axis, reshape, slice_axis
from mlc.frontends.common.values import NarrowInteger, Value, dtype_like
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.narrow import result_type
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.ops.nn import convolution


def _along(node: Node, scale: Value, x: Value) -> Value:
    """A scale (or zero point) reshaped to broadcast with x: one number, or one per element of `axis`."""
    rank = len(x.shape)
    if len(scale.shape) == 0 or scale.shape == (1,):
        return reshape(node, scale, ())
    axis = axis_of(node.attr("axis", 1), rank)
    if len(scale.shape) != 1 or not same_size(scale.shape[0], x.shape[axis]):
        wanted = f"one number, {x.shape[axis]} of axis {axis}, or one a block of it"
        raise node.fail(f"expected a scale and zero point of {wanted}, but got {list(scale.shape)}")
    return reshape(node, scale, [scale.shape[0] if a == axis else 1 for a in range(rank)])


def _saturated(
    node: Node, x: Value, zero: Value | None, dtype: np.dtype[Any], narrow: NarrowInteger | None = None
) -> Value:
    """A float rounded to the nearest integer (halves to even), moved by the zero point, clipped and converted."""
    rounded = node.emit(g.RoundOp, x)
    if zero is not None:
        rounded = add(node, rounded, cast(node, zero, np.float32))
    low, high = (narrow.low, narrow.high) if narrow is not None else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return cast(node, node.emit(g.ClipOp, rounded, min=float(low), max=float(high)), dtype)


def _result_type(node: Node, zero: int) -> tuple[Any, NarrowInteger | None]:
    """The integer type of a quantised result: that of the zero point, or output_dtype."""
    if (narrow := result_type(node)) is not None:
        return narrow.dtype, narrow
    wanted = node.attr("output_dtype", 0)
    dtype = dtype_like(node.input(zero)) if node.has(zero) else np.dtype(np.uint8)
    dtype = dtype_of(wanted, node.path) if wanted and not node.has(zero) else dtype
    return _integer(node, dtype), None


def _integer(node: Node, dtype: np.dtype[Any]) -> Any:
    if np.dtype(dtype).kind not in "iu" or np.dtype(dtype).itemsize > 2:
        raise node.fail(f"expected a quantised type of int8, uint8, int16 or uint16, but got {dtype}")
    return dtype


# --- a scale for each block of an axis ------------------------------------------------------------------------------

Compute = Callable[[Value, Value, Value | None], Value]


def by_blocks(node: Node, x: Value, scale: Value, zero: Value | None, axis: int, block: int, compute: Compute) -> Value:
    """
    `compute(x, scale, zero)` with a scale, and maybe a zero point, for each block of an axis.

    It is given x with the axis split into blocks x elements, and scales with an axis of size 1 after the blocks; the
    last block may be partial. UserError unless there is a scale for each block.
    """
    size, blocks = x.shape[axis], scale.shape[axis]
    if not (isinstance(size, int) and isinstance(blocks, int)):
        raise node.fail(f"expected sizes of axis {axis}, which has blocks, that are known, but got {size} and {blocks}")
    others = zip(x.shape[:axis] + x.shape[axis + 1 :], scale.shape[:axis] + scale.shape[axis + 1 :], strict=True)
    if not (-(-size // block) == blocks and all(same_size(a, b) for a, b in others)):
        wanted = [*x.shape[:axis], -(-size // block), *x.shape[axis + 1 :]]
        got = f"{list(scale.shape)} for numbers of {list(x.shape)}"
        raise node.fail(f"expected scales of {wanted}, one for each {block} of axis {axis}, but got {got}")
    if zero is not None and zero.shape != scale.shape:
        raise node.fail(f"expected zero points of {list(scale.shape)}, as the scales, but got {list(zero.shape)}")
    apart = (*x.shape[:axis], blocks, block, *x.shape[axis + 1 :])
    one = (*scale.shape[: axis + 1], 1, *scale.shape[axis + 1 :])
    y = compute(
        reshape(node, pad_axis(node, x, axis, 0, blocks * block - size), apart),
        reshape(node, scale, one),
        None if zero is None else reshape(node, zero, one),
    )
    whole = (*x.shape[:axis], blocks * block, *x.shape[axis + 1 :])
    return slice_axis(node, reshape(node, y, whole), axis, 0, size)


def same_size(a: Dim, b: Dim) -> bool:
    """Whether sizes are equal or symbolic; symbolic sizes are compared by the ops that follow."""
    return a == b or not (isinstance(a, int) and isinstance(b, int))


def _block_size(node: Node, x: Value, scale: Value) -> int:
    """The number of elements of `axis` that share a scale; 0 if the scales are not per block."""
    rank = len(x.shape)
    block = node.attr("block_size", 0)
    if not block and len(scale.shape) == rank > 1:
        axis = axis_of(node.attr("axis", 1), rank)
        block = -(-x.shape[axis] // scale.shape[axis])
    if block < 0 or (block and len(scale.shape) != rank):
        got = f"{block} and scales of {list(scale.shape)} for a tensor of {list(x.shape)}"
        raise node.fail(f"expected a block_size >= 0, and as many axes of scales as of the tensor, but got {got}")
    return block


def _quantize(node: Node) -> Value:
    """saturate(round(x / scale) + zero)."""
    x, scale, zero = node.input(0), node.input(1), node.input(2) if node.has(2) else None
    dtype, narrow = _result_type(node, 2)
    if not (block := _block_size(node, x, scale)):
        return quantized(node, x, scale, zero, dtype, narrow)
    axis = axis_of(node.attr("axis", 1), len(x.shape))
    return by_blocks(node, x, scale, zero, axis, block, lambda a, s, z: _quantized(node, a, s, z, dtype, narrow))


def quantized(
    node: Node, x: Value, scale: Value, zero: Value | None, dtype: np.dtype[Any], narrow: NarrowInteger | None = None
) -> Value:
    """A float tensor quantised by a scale and a zero point, to the range of `narrow` if that is given."""
    if narrow is None and _is_plain(node, x, scale, dtype) and dtype_like(x) == np.float32:
        scale, zero, axis = _parameters(node, scale, zero, dtype, len(x.shape))
        return node.emit(g.QuantizeOp, x, scale, zero, axis=axis)
    zero = None if zero is None else _along(node, zero, x)
    return _quantized(node, x, _along(node, scale, x), zero, dtype, narrow)


def _quantized(
    node: Node, x: Value, scale: Value, zero: Value | None, dtype: np.dtype[Any], narrow: NarrowInteger | None
) -> Value:
    """The same, for a scale and a zero point that broadcast with the tensor."""
    wide = divide(node, cast(node, x, np.float32), cast(node, scale, np.float32))
    return _saturated(node, wide, zero, dtype, narrow)


def _dequantize(node: Node) -> Value:
    """(x - zero) * scale."""
    x, scale, zero = node.input(0), node.input(1), node.input(2) if node.has(2) else None
    if block := _block_size(node, x, scale):
        axis = axis_of(node.attr("axis", 1), len(x.shape))
        y = by_blocks(node, x, scale, zero, axis, block, lambda a, s, z: _dequantized(node, a, s, z))
    else:
        y = dequantized(node, x, scale, zero)
    wanted = node.attr("output_dtype", 0)
    return cast(node, y, dtype_of(wanted, node.path)) if wanted else y


def dequantized(node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """`(x - zero) * scale`, as graph.dequantize where that has the same meaning."""
    if _is_plain(node, x, scale, dtype_like(x)):
        scale, zero, axis = _parameters(node, scale, zero, dtype_like(x), len(x.shape))
        return node.emit(g.DequantizeOp, _unfolded(node, x), scale, zero, axis=axis)
    zero = None if zero is None else _along(node, zero, x)
    return _dequantized(node, x, _along(node, scale, x), zero)


def _dequantized(node: Node, x: Value, scale: Value, zero: Value | None) -> Value:
    """The same, for a scale and a zero point that broadcast with the tensor."""
    wide = cast(node, x, np.int32)
    if zero is not None:
        wide = subtract(node, wide, cast(node, zero, np.int32))
    scaled = multiply(node, cast(node, wide, np.float32), cast(node, scale, np.float32))
    return cast(node, scaled, dtype_like(scale))


def _is_plain(node: Node, x: Value, scale: Value, dtype: np.dtype[Any]) -> bool:
    """Whether graph.quantize and graph.dequantize apply: one f32 scale, or one per element of an axis."""
    if dtype_like(scale) != np.float32 or np.dtype(dtype).name not in _GRAPH_DTYPES or len(scale.shape) > 1:
        return False
    return scale.shape in ((), (1,)) or scale.shape == (x.shape[axis_of(node.attr("axis", 1), len(x.shape))],)


def _unfolded(node: Node, x: Value) -> Value:
    """The value without its array, so that ops on it are not folded and quantised weights stay quantised."""
    return x if x.array is None else Value(node.importer.materialize(x, node.path), None, x.name)


_GRAPH_DTYPES = {"uint8", "int8", "int32"}


def _parameters(
    node: Node, scale: Value, zero: Value | None, dtype: np.dtype[Any], rank: int
) -> tuple[Value, Value, int]:
    """Scale, zero point and axis as graph.quantize takes them."""
    shape = () if scale.shape == (1,) else scale.shape
    zero = node.array(np.zeros(shape, dtype)) if zero is None else reshape(node, zero, shape)
    return reshape(node, scale, shape), zero, axis_of(node.attr("axis", 1), rank) if shape else 1


def _centred(node: Node, x: int, zero: int, axis: int) -> Value:
    """Input `x` in i32 minus its zero point, a scalar or one per element of an axis."""
    value = node.input(x)
    wide = cast(node, value, np.int32)
    if not node.has(zero):
        return wide
    return subtract(node, wide, cast(node, _on_axis(node, node.input(zero), len(value.shape), axis), np.int32))


def _on_axis(node: Node, scale: Value, rank: int, axis: int) -> Value:
    """A scalar, or a vector along an axis, reshaped to broadcast."""
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
    """An i32 product of operands of two scales, requantised to a third."""
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
