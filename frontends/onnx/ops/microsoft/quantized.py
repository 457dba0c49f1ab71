"""The quantised ops of com.microsoft: computed in integers, or dequantised; and weights of 2, 4 or 8 bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, binary, cast, multiply, reduce, select, subtract
from mlc.frontends.common.movement import concat, index_axis, pad_axis, reshape, slice_axis, transpose
from mlc.frontends.common.ops.pooling import out_size, pool, whole_windows
from mlc.frontends.common.ops.recurrent import RowProduct
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.files import unpack
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.ops.microsoft.attention import optional
from mlc.frontends.onnx.ops.quantized import by_blocks, dequantized, product, quantized
from mlc.frontends.onnx.ops.recurrent import recurrent_layer
from mlc.frontends.onnx.table import convert_as
from mlc.frontends.onnx.windows import window

Compute = Callable[[Node, list[Value]], Value]


def _quantised(first: int, compute: Compute) -> Converter:
    """An op on `first` quantised inputs (each with scale and zero point): dequantise, compute, quantise."""

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
    """The softmax of the opset in an attribute: before 13 over all axes from `axis` on."""
    (x,) = inputs
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    if node.attr("opset", 13) >= 13:
        return node.emit(g.SoftmaxOp, x, axis=axis)
    flat = reshape(node, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return reshape(node, node.emit(g.SoftmaxOp, flat, axis=1), x.shape)


def _pooled(node: Node, inputs: list[Value]) -> Value:
    """ONNX's AveragePool, except that windows beyond the padding count what they miss as zeros."""
    (x,) = inputs
    if not (node.attr("ceil_mode", 0) and node.attr("count_include_pad", 0)):
        return channels_first(node, x, lambda y: convert_as(node, "AveragePool", y))

    def pooled(y: Value) -> Value:
        w = window(node, y, list(node.attr("kernel_shape")))
        outs = [out_size(w, a, size, True) for a, size in enumerate(y.shape[2:])]
        y = whole_windows(node, y, w, outs, 0.0, True)
        return pool(node, g.AvgPool2dOp, y, w.without_padding(), ceil_mode=False, count_include_pad=True)

    return channels_first(node, x, pooled)


def channels_first(node: Node, x: Value, compute: Callable[[Value], Value], given: bool | None = None) -> Value:
    """`compute` on a picture with channels first, transposed before and after if `channels_last` is set."""
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
    """`x if condition else y`; each has its own scale and zero point."""
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
    """ONNX's QLinearConv with optional `channels_last`; weights are channels first."""
    rest = [optional(node, k) for k in range(1, len(node.inputs))]
    return channels_first(node, node.input(0), lambda x: convert_as(node, "QLinearConv", x, *rest))


def _centred(node: Node, x: Value, zero: Value | None) -> Value:
    """Integers without their zero point."""
    wide = cast(node, x, np.int32)
    return wide if zero is None else subtract(node, wide, cast(node, zero, np.int32))


def _integer_matmul(node: Node, a: Value, b: Value, zeros: tuple[Value | None, Value | None]) -> Value:
    """The exact product of integers without their zero points, as floats."""
    a, b = _centred(node, a, zeros[0]), _centred(node, b, zeros[1])
    return cast(node, product(node, a, b), np.float32)


def _gemm(node: Node) -> Value:
    """alpha * A' @ B' + C in integers; C has the scale of the product."""
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


def _by_own_range(node: Node, x: Value) -> tuple[Value, Value, Value]:
    """x as uint8 by its own range, as DynamicQuantizeLinear has it; with its scale and its zero point."""
    every = range(len(x.shape))
    zero = node.array(0.0, like=x)
    low = node.emit(g.MinimumOp, reduce(node, g.MinOp, x, every), zero)
    high = node.emit(g.MaximumOp, reduce(node, g.MaxOp, x, every), zero)
    scale = multiply(node, subtract(node, high, low), 1 / 255)
    scale = select(node, binary(node, g.EqualOp, scale, 0.0), 1.0, scale)
    offset = node.emit(g.RoundOp, node.emit(g.DivideOp, node.emit(g.NegOp, low), scale))
    offset = cast(node, node.emit(g.ClipOp, offset, min=0.0, max=255.0), np.uint8)
    return quantized(node, x, scale, offset, np.dtype(np.uint8)), scale, offset


def _dynamic_product(node: Node, x: Value, numbers: Value, scale: Value, zero: Value | None) -> Value:
    """x, quantised by its own range, times a matrix of integers with one scale, or one for each column."""
    narrow, own, offset = _by_own_range(node, x)
    exact = _integer_matmul(node, narrow, numbers, (offset, zero))
    return multiply(node, exact, multiply(node, own, scale))


def _dynamic_quantize_matmul(node: Node) -> Value:
    """A is quantised to uint8 by its own range, as DynamicQuantizeLinear does."""
    y = _dynamic_product(node, node.input(0), node.input(1), node.input(2), optional(node, 3))
    return add(node, y, node.input(4)) if node.has(4) else y


def _dynamic_lstm(node: Node) -> list[Value]:
    """An LSTM of weights in bytes; its inputs, and the states of each step, are quantised by their own range."""

    def products(weights: Value, scale: Value, zero: Value | None) -> Callable[[int], RowProduct]:
        def product(direction: int, x: Value, first: int, last: int) -> Value:
            """Emits all that it needs: constants that are computed inside a scan are known to be constants there."""
            numbers, *scaling = (
                None if v is None else index_axis(node, v, 0, direction) for v in (weights, scale, zero)
            )
            rows = [v if v is None or not v.shape else slice_axis(node, v, 0, first, last) for v in scaling]
            assert numbers is not None
            assert rows[0] is not None
            return _dynamic_product(node, x, slice_axis(node, numbers, 1, first, last), rows[0], rows[1])

        return lambda direction: partial(product, direction)

    own, states = (products(node.input(k), node.input(at), optional(node, at + 1)) for k, at in ((1, 8), (2, 10)))
    directions, hidden, _ = node.input(2).shape
    return recurrent_layer(node, "LSTM", directions, hidden, (own, states))


# --- weights of 2, 4 or 8 bits ---------------------------------------------------------------------------------------


def unpacked(node: Node, x: Value, bits: int) -> Value:
    """Packed bytes unpacked along the last axis to numbers of `bits` bits, the lowest bits first."""
    if bits not in (2, 4, 8):
        raise node.fail(f"expected bits of 2, 4 or 8, but got {bits}")
    if bits == 8:
        return x
    if (array := node.importer.computed(x)) is not None:
        return node.array(unpack(array, bits))
    shifts = node.array(np.arange(0, 8, bits, dtype=np.uint8))
    apart = node.emit(g.ShiftRightOp, reshape(node, x, (*x.shape, 1)), shifts)
    numbers = node.emit(g.BitwiseAndOp, apart, node.array(np.uint8((1 << bits) - 1)))
    return reshape(node, numbers, (*x.shape[:-1], x.shape[-1] * (8 // bits)))


def _scaled(node: Node, x: Value, scale: Value, zero: Value | None, middle: int) -> Value:
    """(x - zero) * scale with operands that broadcast; `middle` is the zero point if none is given."""
    wide = cast(node, x, dtype_like(scale))
    shifted = subtract(node, wide, middle if zero is None else cast(node, zero, dtype_like(scale)))
    return multiply(node, shifted, scale)


def _sized(node: Node, x: Value, what: str, *shapes: tuple[int, ...]) -> Value:
    """An input of one of some shapes, reshaped to the first; UserError if it has none of them."""
    if tuple(x.shape) not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        raise node.fail(f"expected {what} of shape {wanted}, but got {list(x.shape)}")
    return reshape(node, x, shapes[0])


def _product_sizes(node: Node) -> tuple[int, int, int, int]:
    """K, N, block_size and bits of a MatMulNBits."""
    k, n, block, bits = (int(node.attr(name, 4 if name == "bits" else 0)) for name in ("K", "N", "block_size", "bits"))
    if min(k, n) < 1 or block < 16 or block & (block - 1):
        got = f"K = {k}, N = {n} and block_size = {block}"
        raise node.fail(f"expected K and N of at least 1 and a block_size of 16, 32, 64, .., but got {got}")
    if bits not in (2, 4, 8):
        raise node.fail(f"expected bits of 2, 4 or 8, but got {bits}")
    return k, n, block, bits


def _weight_zeros(node: Node, n: int, blocks: int, bits: int) -> Value | None:
    """The zero points, N x blocks; packed ones are padded to whole bytes per row. None if they are not given."""
    if not node.has(3):
        return None
    zeros = node.input(3)
    if dtype_of_input(node, 3) != np.uint8:
        return _sized(node, zeros, "zero_points", (n, blocks), (n * blocks,))
    width = -(-blocks * bits // 8)
    packed = _sized(node, zeros, "packed zero_points", (n, width), (n * width,))
    return slice_axis(node, unpacked(node, packed, bits), 1, 0, blocks)


def _matmul_bits(node: Node) -> Value:
    """A @ B' + bias; B has N rows of K packed numbers, with a scale for each block of a row."""
    k, n, block, bits = _product_sizes(node)
    if node.attr("weight_prepacked", 0):
        raise node.fail(f"expected weight_prepacked = 0, but got {node.attr('weight_prepacked')}")
    blocks, width, b = -(-k // block), block * bits // 8, node.input(1)
    if 0 in b.shape:  # the projection is left out
        weight = node.array(np.zeros((n, k), dtype_like(node.input(0))))
    else:
        b = _sized(node, b, "B", (n, blocks * width), (n, blocks, width), (n * blocks * width,))
        weight = _weight(node, unpacked(node, b, bits), k, block, _weight_zeros(node, n, blocks, bits), bits)
    y = node.emit(g.DenseOp, node.input(0), cast(node, weight, dtype_like(node.input(0))))
    return add(node, y, node.input(5)) if node.has(5) else y


def _weight(node: Node, numbers: Value, k: int, block: int, zeros: Value | None, bits: int) -> Value:
    """The first K numbers of each row, dequantised by blocks, or by the group index of each column."""
    n, blocks = numbers.shape[0], numbers.shape[1] // block
    scales, middle = _sized(node, node.input(2), "scales", (n, blocks), (n * blocks,)), 1 << (bits - 1)
    if not node.has(4):
        return by_blocks(
            node,
            slice_axis(node, numbers, 1, 0, k),
            scales,
            zeros,
            1,
            block,
            lambda a, s, z: _scaled(node, a, s, z, middle),
        )
    groups = node.input(4)
    if tuple(groups.shape) not in ((k,), (blocks * block,)):
        raise node.fail(f"expected g_idx of shape [{k}], but got {list(groups.shape)}")
    groups = slice_axis(node, groups, 0, 0, k)
    each = [None if v is None else node.emit(g.TakeOp, v, groups, axis=1) for v in (scales, zeros)]
    assert each[0] is not None
    return _scaled(node, slice_axis(node, numbers, 1, 0, k), each[0], each[1], middle)


def _gather_bits(node: Node) -> Value:
    """Rows gathered from a table that is quantised by blocks, dequantised."""
    data, places, scales = node.input(0), node.input(1), node.input(2)
    zeros, block = optional(node, 3), int(node.attr("block_size", 128))
    rank, bits = len(data.shape), int(node.attr("bits", 4))
    gather, axis = (
        axis_of(node.attr(name, default), rank) for name, default in (("gather_axis", 0), ("quantize_axis", 1))
    )
    if gather == axis or len(scales.shape) != rank:
        got = f"gather_axis = {gather}, quantize_axis = {axis} and scales of {list(scales.shape)}"
        raise node.fail(f"expected two axes, and scales of as many axes as the data, but got {got}")
    middle = 0
    if data.narrow is None:
        if dtype_of_input(node, 0) != np.uint8:
            raise node.fail(f"expected data of uint8, or of 4 bits, but got {data.dtype_name}")
        data, middle = unpacked(node, data, bits), 1 << (bits - 1)
        zeros = None if zeros is None else unpacked(node, zeros, bits)
        zeros = None if zeros is None else slice_axis(node, zeros, rank - 1, 0, scales.shape[-1])
    size = data.shape[axis]
    numbers = pad_axis(node, data, axis, 0, -size % block)  # before the gather, so that it is folded at compile time
    x, scale = (node.emit(g.TakeOp, table, places, axis=gather) for table in (numbers, scales))
    zero = None if zeros is None else node.emit(g.TakeOp, zeros, places, axis=gather)
    axis = axis + len(places.shape) - 1 if axis > gather else axis
    y = by_blocks(node, x, scale, zero, axis, block, lambda a, s, z: _scaled(node, a, s, z, middle))
    return slice_axis(node, y, axis, 0, size)


DOMAIN = "com.microsoft"

CONVERTERS: dict[str, Converter] = {
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
