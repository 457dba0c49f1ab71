"""The quantised ops of com.microsoft, in integers or in floats between; and weights of a few bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.ops.microsoft_attention import optional
from mlc.frontends.onnx.ops.pooling import out_size, pool, whole_windows
from mlc.frontends.onnx.ops.quantized import dequantized, product, quantized
from mlc.frontends.onnx.tools import (
    add,
    binary,
    broadcast_to,
    cast,
    concat,
    multiply,
    part,
    reduce,
    reshape,
    select,
    subtract,
    transpose,
    window,
)

Compute = Callable[[Node, list[Value]], Value]


def _quantised(first: int, compute: Compute) -> Converter:
    """An op on `first` quantised inputs (each with scale and zero point), in floats between."""

    def convert(node: Node) -> Value:
        starts, end = range(0, 3 * first, 3), 3 * first
        inputs = [dequantized(node, node.input(k), node.input(k + 1), optional(node, k + 2)) for k in starts]
        y = compute(node, inputs)
        return quantized(node, y, node.input(end), optional(node, end + 1), dtype_of_input(node, 0))

    return convert


def dtype_of_input(node: Node, index: int) -> Any:
    """The element type of an input, as a numpy dtype."""
    return np.dtype(dtype_like(node.input(index)))


def _leaky_relu(node: Node, inputs: list[Value]) -> Value:
    return node.emit(g.LeakyReluOp, *inputs, alpha=float(node.attr("alpha", 0.01)))


def _average(node: Node, inputs: list[Value]) -> Value:
    (x,) = inputs
    axes = range(1, len(x.shape) - 1) if node.attr("channels_last", 0) else range(2, len(x.shape))
    return reduce(node, g.MeanOp, x, axes, True)


def _softmax(node: Node, inputs: list[Value]) -> Value:
    """As of the opset that an attribute names: before 13 over all axes from one on."""
    (x,) = inputs
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    if node.attr("opset", 13) >= 13:
        return node.emit(g.SoftmaxOp, x, axis=axis)
    flat = reshape(node, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return reshape(node, node.emit(g.SoftmaxOp, flat, axis=1), x.shape)


def _pooled(node: Node, inputs: list[Value]) -> Value:
    """As ONNX's, but that windows which end beyond the padding count what is there for zeros."""
    (x,) = inputs
    if not (node.attr("ceil_mode", 0) and node.attr("count_include_pad", 0)):
        return channels_first(node, x, lambda y: node.standard("AveragePool", y))

    def pooled(y: Value) -> Value:
        w = window(node, y, list(node.attr("kernel_shape")))
        outs = [out_size(w, a, size, True) for a, size in enumerate(y.shape[2:])]
        y = whole_windows(node, y, w, outs, 0.0, True)
        return pool(node, g.AvgPool2dOp, y, w.without_padding(), ceil_mode=False, count_include_pad=True)

    return channels_first(node, x, pooled)


def channels_first(node: Node, x: Value, compute: Callable[[Value], Value], given: bool | None = None) -> Value:
    """`compute` of a picture whose channels are last where the node says so."""
    if not (node.attr("channels_last", 0) if given is None else given):
        return compute(x)
    rank = len(x.shape)
    y = compute(transpose(node, x, (0, rank - 1, *range(1, rank - 1))))
    return transpose(node, y, (0, *range(2, rank), 1))


def _mean(node: Node, inputs: list[Value]) -> Value:
    (x,) = inputs
    axes = [axis_of(a, len(x.shape)) for a in node.attr("axes", list(range(len(x.shape))))]
    return reduce(node, g.MeanOp, x, axes, bool(node.attr("keepdims", 1)))


def _where(node: Node) -> Value:
    """`x if condition else y`, each of them with a scale and a zero point of its own."""
    x, y = (dequantized(node, node.input(k), node.input(k + 1), optional(node, k + 2)) for k in (1, 4))
    chosen = select(node, node.input(0), x, y)
    return quantized(node, chosen, node.input(7), optional(node, 8), dtype_of_input(node, 1))


def _concat(node: Node) -> Value:
    count = (len(node.inputs) - 2) // 3
    firsts = range(2, 2 + 3 * count, 3)
    parts = [dequantized(node, node.input(k), node.input(k + 1), optional(node, k + 2)) for k in firsts]
    joined = concat(node, parts, node.attr("axis"))
    return quantized(node, joined, node.input(0), node.input(1), dtype_of_input(node, 2))


def _convolution(node: Node) -> Value:
    """ONNX's, of pictures whose channels are last where `channels_last` says so; weights are as ONNX has them."""
    rest = [optional(node, k) for k in range(1, len(node.inputs))]
    return channels_first(node, node.input(0), lambda x: node.standard("QLinearConv", x, *rest))


def _centred(node: Node, x: Value, zero: Value | None) -> Value:
    """Integers without their zero point."""
    wide = cast(node, x, np.int32)
    return wide if zero is None else subtract(node, wide, cast(node, zero, np.int32))


def _integer_matmul(node: Node, a: Value, b: Value, zeros: tuple[Value | None, Value | None]) -> Value:
    """The exact product of integers without their zero points, as floats."""
    a, b = _centred(node, a, zeros[0]), _centred(node, b, zeros[1])
    return cast(node, product(node, a, b), np.float32)


def _gemm(node: Node) -> Value:
    """alpha * A' @ B' + C in integers; C is of the scale of the product."""
    a, b = (
        _centred(
            node, transpose(node, node.input(k), (1, 0)) if node.attr(name, 0) else node.input(k), optional(node, k + 2)
        )
        for k, name in ((0, "transA"), (3, "transB"))
    )
    exact = product(node, a, b)
    exact = add(node, exact, node.input(6)) if node.has(6) else exact
    scale = multiply(node, multiply(node, node.input(1), node.input(4)), float(node.attr("alpha", 1.0)))
    y = multiply(node, cast(node, exact, np.float32), scale)
    return quantized(node, y, node.input(7), optional(node, 8), dtype_of_input(node, 0)) if node.has(7) else y


def _matmul_integer_to_float(node: Node) -> Value:
    exact = _integer_matmul(node, node.input(0), node.input(1), (optional(node, 4), optional(node, 5)))
    y = multiply(node, exact, multiply(node, node.input(2), node.input(3)))
    return add(node, y, node.input(6)) if node.has(6) else y


def _dynamic_quantize_matmul(node: Node) -> Value:
    """A is quantised to uint8 by its own range, as DynamicQuantizeLinear does."""
    x = node.input(0)
    every = range(len(x.shape))
    zero = node.array(0.0, like=x)
    low = node.emit(g.MinimumOp, reduce(node, g.MinOp, x, every), zero)
    high = node.emit(g.MaximumOp, reduce(node, g.MaxOp, x, every), zero)
    scale = multiply(node, subtract(node, high, low), 1 / 255)
    scale = select(node, binary(node, g.EqualOp, scale, 0.0), 1.0, scale)
    offset = node.emit(g.RoundOp, node.emit(g.DivideOp, node.emit(g.NegOp, low), scale))
    offset = cast(node, node.emit(g.ClipOp, offset, min=0.0, max=255.0), np.uint8)
    narrow = quantized(node, x, scale, offset, np.dtype(np.uint8))
    exact = _integer_matmul(node, narrow, node.input(1), (offset, optional(node, 3)))
    y = multiply(node, exact, multiply(node, scale, node.input(2)))
    return add(node, y, node.input(4)) if node.has(4) else y


def _dynamic_lstm(node: Node) -> list[Value]:
    """An LSTM whose weights are quantised; the rest of it stays in floats, which onnxruntime quantises as well."""

    def weight(index: int, scale: int) -> Value:
        w = node.input(index)
        wide, shape = cast(node, w, np.float32), (w.shape[0], 1, -1)
        if node.has(scale + 1):
            zero = node.input(scale + 1)
            wide = subtract(node, wide, cast(node, _each_direction(node, zero, shape), np.float32))
        return transpose(node, multiply(node, wide, _each_direction(node, node.input(scale), shape)), (0, 2, 1))

    rest = [optional(node, k) for k in range(3, 8)]
    return node.standard("LSTM", node.input(0), weight(1, 8), weight(2, 10), *rest)


def _each_direction(node: Node, scale: Value, shape: tuple[int, int, int]) -> Value:
    """A scale for each direction, or for each column of each, as it broadcasts."""
    return reshape(node, scale, (shape[0], 1, math.prod(scale.shape) // shape[0]))


# --- weights of a few bits ------------------------------------------------------------------------------------------


def unpacked(node: Node, x: Value, bits: int, axis: int = -1) -> Value:
    """Bytes as the numbers of so many bits that they hold along an axis, the lowest first."""
    if bits == 8:
        return x
    if bits not in (2, 4):
        raise node.fail(f"expected bits of 2, 4 or 8, but got {bits}")
    raw, count = node.known(x, "packed numbers"), 8 // bits
    axis = axis_of(axis, raw.ndim)
    apart = np.stack([raw >> (bits * k) & ((1 << bits) - 1) for k in range(count)], axis + 1)
    shape = (*raw.shape[:axis], raw.shape[axis] * count, *raw.shape[axis + 1 :])
    return node.array(apart.reshape(shape).astype(np.uint8))


def _scaled_blocks(node: Node, x: Value, scales: Value, zeros: Value | None, middle: int, block: int) -> Value:
    """(x - zero) * scale of numbers rows x columns, with a scale for each block of columns; `middle` without zeros."""
    rows, columns = x.shape
    blocks = -(-columns // block)
    dtype = dtype_like(scales)

    def each(value: Value) -> Value:
        value = broadcast_to(node, reshape(node, value, (rows, blocks, 1)), (rows, blocks, block))
        return part(node, reshape(node, value, (rows, blocks * block)), 1, 0, columns)

    wide = cast(node, x, dtype)
    zero = node.array(middle, like=wide) if zeros is None else each(cast(node, zeros, dtype))
    return multiply(node, subtract(node, wide, zero), each(scales))


def _zeros(node: Node, zeros: Value | None, rows: int, blocks: int, bits: int) -> Value | None:
    """The zero points of blocks; packed ones begin a byte in each row."""
    if zeros is None or np.dtype(dtype_like(zeros)).kind == "f":
        return zeros
    packed = reshape(node, zeros, (rows, math.prod(zeros.shape) // rows))
    return part(node, unpacked(node, packed, bits), 1, 0, blocks)


def _matmul_bits(node: Node) -> Value:
    """A @ B', of which B has K numbers of a few bits in each of N rows, and a scale for each block of them."""
    if node.has(4):
        raise node.fail("expected no g_idx, but got one")
    k, n, block, bits = (int(node.attr(name)) for name in ("K", "N", "block_size", "bits"))
    blocks, raw = -(-k // block), node.input(1)
    packed = reshape(node, raw, (n, math.prod(raw.shape) // n))
    zeros = _zeros(node, optional(node, 3), n, blocks, bits)
    numbers = part(node, unpacked(node, packed, bits), 1, 0, k)
    weight = _scaled_blocks(node, numbers, node.input(2), zeros, 1 << (bits - 1), block)
    y = node.emit(g.DenseOp, node.input(0), cast(node, weight, dtype_like(node.input(0))))
    return add(node, y, node.input(5)) if node.has(5) else y


def _gather_bits(node: Node) -> Value:
    """Rows of a table of numbers of a few bits, each a number less its block's zero point, times the block's scale."""
    data, places, scales = node.input(0), node.input(1), node.input(2)
    rank, bits, block = len(data.shape), int(node.attr("bits", 4)), int(node.attr("block_size", 128))
    axes = [axis_of(node.attr(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1))]
    if axes != [0, rank - 1] or dtype_of_input(node, 0) != np.uint8:
        raise node.fail("expected bytes that are gathered along the first axis and quantised along the last")
    numbers = part(node, unpacked(node, data, bits), rank - 1, 0, _columns(node, data, scales, bits, block))
    zeros = unpacked(node, node.input(3), bits) if node.has(3) else None
    zeros = None if zeros is None else part(node, zeros, rank - 1, 0, scales.shape[-1])
    tables = [numbers, scales] if zeros is None else [numbers, scales, zeros]
    rows = [node.emit(g.TakeOp, table, places, axis=0) for table in tables]
    shape = rows[0].shape
    flat = [reshape(node, x, (math.prod(shape[:-1]), x.shape[-1])) for x in rows]
    y = _scaled_blocks(node, flat[0], flat[1], flat[2] if zeros is not None else None, 1 << (bits - 1), block)
    return reshape(node, y, shape)


def _columns(node: Node, data: Value, scales: Value, bits: int, block: int) -> int:
    """How many numbers a row has: all that its bytes hold, of which each block has a scale."""
    columns = data.shape[-1] * 8 // bits
    if -(-columns // block) != scales.shape[-1]:
        wanted = -(-columns // block)
        raise node.fail(f"expected {wanted} scales for rows of {columns}, but got {scales.shape[-1]}")
    return columns


CONVERTERS: dict[str, Converter] = {  # pyright: ignore[reportAssignmentType]
    "QLinearAdd": _quantised(2, lambda node, v: add(node, *v)),
    "QLinearMul": _quantised(2, lambda node, v: multiply(node, *v)),
    "QLinearSigmoid": _quantised(1, lambda node, v: node.emit(g.SigmoidOp, *v)),
    "QLinearLeakyRelu": _quantised(1, _leaky_relu),
    "QLinearSoftmax": _quantised(1, _softmax),
    "QLinearAveragePool": _quantised(1, _pooled),
    "QLinearGlobalAveragePool": _quantised(1, _average),
    "QLinearReduceMean": _quantised(1, _mean),
    "QLinearWhere": _where,
    "QLinearConcat": _concat,
    "QLinearConv": _convolution,
    "QGemm": _gemm,
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "MatMulNBits": _matmul_bits,
    "GatherBlockQuantized": _gather_bits,
}
