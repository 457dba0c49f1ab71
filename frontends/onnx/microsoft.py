"""The ops of com.microsoft that onnxruntime's tools write into models: fusions of common ops, and quantised ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.nn import convolution
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.quantized import dequantized, product, quantized
from mlc.frontends.onnx.tools import (
    add,
    binary,
    cast,
    concat,
    iota,
    multiply,
    part,
    reduce,
    reshape,
    select,
    subtract,
    transpose,
)

DOMAIN = "com.microsoft"


def _optional(node: Node, index: int) -> Value | None:
    return node.input(index) if node.has(index) else None


def _gelu(node: Node) -> Value:
    bias = _optional(node, 1)
    x = node.input(0)
    return node.emit(g.GeluOp, x if bias is None else add(node, x, bias))


def _fast_gelu(node: Node) -> Value:
    # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x x x))) == x * sigmoid(2 * the argument of tanh)
    bias = _optional(node, 1)
    x = node.input(0) if bias is None else add(node, node.input(0), bias)
    cube = multiply(node, multiply(node, x, x), x)
    inner = add(node, x, multiply(node, cube, 0.044715))
    return multiply(node, x, node.emit(g.SigmoidOp, multiply(node, inner, 2 * math.sqrt(2 / math.pi))))


def _quick_gelu(node: Node) -> Value:
    x = node.input(0)
    return multiply(node, x, node.emit(g.SigmoidOp, multiply(node, x, float(node.attr("alpha", 1.702)))))


def _fused_matmul(node: Node) -> Value:
    """alpha * A' @ B', the last two axes of each transposed where the attributes say so."""
    if node.attr("transBatchA", 0) or node.attr("transBatchB", 0):
        raise node.fail("expected transBatchA = transBatchB = 0, but got 1")
    a, b = node.input(0), node.input(1)
    left, right = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    y = node.emit(g.BatchMatmulOp, a, b, transpose_a=left, transpose_b=right)
    alpha = float(node.attr("alpha", 1.0))
    return y if alpha == 1.0 else multiply(node, y, alpha)


_ACTIVATIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Relu": (g.ReluOp, ()),
    "Tanh": (g.TanhOp, ()),
    "Sigmoid": (g.SigmoidOp, ()),
    "LeakyRelu": (g.LeakyReluOp, ("alpha",)),
    "Clip": (g.ClipOp, ("min", "max")),
    "HardSigmoid": (g.HardSigmoidOp, ("alpha", "beta")),
}


def _activated(node: Node, x: Value) -> Value:
    """The activation that a fused op ends in."""
    name = node.attr("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise node.fail(f"expected an activation of {', '.join(_ACTIVATIONS)}, but got {name}")
    op, attrs = _ACTIVATIONS[name]
    values = node.attr("activation_params", [])
    return node.emit(op, x, **dict(zip(attrs, map(float, values), strict=False)))


def _fused_conv(node: Node) -> Value:
    y = convolution(node, node.input(0), node.input(1), _optional(node, 2))
    return _activated(node, y if not node.has(3) else add(node, y, node.input(3)))


def _skip_layer_norm(node: Node) -> list[Value | None]:
    """The normalised sum of input, skip and bias; and the sum."""
    total = add(node, node.input(0), node.input(1))
    if node.has(4):
        total = add(node, total, node.input(4))
    return [_layer_norm(node, total, node.input(2), _optional(node, 3)), None, None, total]


def _layer_norm(node: Node, x: Value, gamma: Value, beta: Value | None) -> Value:
    beta = node.array(np.zeros(gamma.shape), like=x) if beta is None else beta
    return node.emit(g.LayerNormOp, x, gamma, beta, axis=-1, epsilon=float(node.attr("epsilon", 1e-12)))


def _root_mean_square(node: Node, x: Value, gamma: Value, axis: int = -1) -> Value:
    """x / sqrt(mean(x * x) + epsilon) * gamma."""
    rank = len(x.shape)
    mean = reduce(node, g.MeanOp, multiply(node, x, x), range(axis % rank, rank), True)
    scale = node.emit(g.RsqrtOp, add(node, mean, float(node.attr("epsilon", 1e-5))))
    return multiply(node, multiply(node, x, scale), gamma)


def _simplified_layer_norm(node: Node) -> Value:
    return _root_mean_square(node, node.input(0), node.input(1), node.attr("axis", -1))


def _skip_simplified_layer_norm(node: Node) -> list[Value | None]:
    total = add(node, node.input(0), node.input(1))
    if node.has(3):
        total = add(node, total, node.input(3))
    return [_root_mean_square(node, total, node.input(2)), None, None, total]


def _embed_layer_norm(node: Node) -> list[Value | None]:
    """Words, positions and segments looked up, added and normalised; and how long each row of the mask is."""
    words = node.input(0)
    length = words.shape[1]
    total = node.emit(g.TakeOp, node.input(2), words, axis=0)
    if node.has(8):
        total = add(node, total, node.emit(g.TakeOp, node.input(3), node.input(8), axis=0))
    else:
        total = add(node, total, part(node, node.input(3), 0, 0, length))
    if node.has(1) and node.has(4):
        total = add(node, total, node.emit(g.TakeOp, node.input(4), node.input(1), axis=0))
    y = _layer_norm(node, total, node.input(5), node.input(6))
    if node.has(7):
        return [y, reduce(node, g.SumOp, node.input(7), [1]), total]
    return [y, node.array(np.zeros(words.shape[0], np.int32)), total]


def _attention(node: Node) -> Value:
    """Queries, keys and values of one product, heads side by side; keys off the mask count for (almost) nothing."""
    if node.has(4) or node.has(5):
        raise node.fail("expected no past and no attention bias, but got them")
    x, heads = node.input(0), node.attr("num_heads")
    batch, length, _ = x.shape
    weights = node.input(1)
    sizes = node.attr("qkv_hidden_sizes", [weights.shape[1] // 3] * 3)
    flat = node.emit(g.DenseOp, x, transpose(node, weights, (1, 0)))
    flat = add(node, flat, node.input(2)) if node.has(2) else flat
    starts = [0, sizes[0], sizes[0] + sizes[1]]

    def split(index: int) -> Value:
        rows = part(node, flat, 2, starts[index], starts[index] + sizes[index])
        return transpose(node, reshape(node, rows, (batch, length, heads, sizes[index] // heads)), (0, 2, 1, 3))

    q, k, v = map(split, range(3))
    scores = node.emit(g.BatchMatmulOp, q, k, transpose_b=True)
    scores = multiply(node, scores, float(node.attr("scale", 0.0)) or 1 / math.sqrt(sizes[0] // heads))
    low = float(node.attr("mask_filter_value", -10000.0))
    if node.has(3):
        scores = select(node, _kept(node, node.input(3), batch, length), scores, add(node, scores, low))
    if node.attr("unidirectional", 0):
        later = node.emit(g.GreaterOp, iota(node, (length, length), 1), iota(node, (length, length), 0))
        scores = select(node, later, low, scores)
    y = node.emit(g.BatchMatmulOp, node.emit(g.SoftmaxOp, scores, axis=-1), v)
    return reshape(node, transpose(node, y, (0, 2, 1, 3)), (batch, length, sizes[2]))


def _kept(node: Node, mask: Value, batch: int, length: int) -> Value:
    """Which keys count: a mask of ones, or one length a batch."""
    if mask.shape == (batch, length):
        return reshape(node, binary(node, g.GreaterOp, mask, 0), (batch, 1, 1, length))
    if mask.shape == (batch,):
        places = iota(node, (batch, 1, 1, length), 3, dtype_like(mask))
        return node.emit(g.LessOp, places, reshape(node, mask, (batch, 1, 1, 1)))
    raise node.fail(f"expected a mask of {batch} x {length} or of {batch} lengths, but got {list(mask.shape)}")


def _quantised(first: int, compute: Callable[[Node, list[Value]], Value]) -> Converter:
    """An op on `first` quantised inputs (each with scale and zero point), in floats between."""

    def convert(node: Node) -> Value:
        inputs = [
            dequantized(node, node.input(k), node.input(k + 1), _optional(node, k + 2)) for k in range(0, 3 * first, 3)
        ]
        scale, zero = node.input(3 * first), _optional(node, 3 * first + 1)
        return quantized(node, compute(node, inputs), scale, zero, dtype_like(node.input(0)))

    return convert


def _leaky_relu(node: Node, inputs: list[Value]) -> Value:
    return node.emit(g.LeakyReluOp, *inputs, alpha=float(node.attr("alpha", 0.01)))


def _average(node: Node, inputs: list[Value]) -> Value:
    (x,) = inputs
    axes = range(1, len(x.shape) - 1) if node.attr("channels_last", 0) else range(2, len(x.shape))
    return reduce(node, g.MeanOp, x, axes, True)


def _qlinear_concat(node: Node) -> Value:
    count = (len(node.inputs) - 2) // 3
    firsts = range(2, 2 + 3 * count, 3)
    parts = [dequantized(node, node.input(k), node.input(k + 1), _optional(node, k + 2)) for k in firsts]
    joined = concat(node, parts, node.attr("axis"))
    return quantized(node, joined, node.input(0), node.input(1), dtype_like(node.input(2)))


def _integer_matmul(node: Node, a: Value, b: Value, zeros: tuple[Value | None, Value | None]) -> Value:
    """The exact product of integers without their zero points, as floats."""

    def centred(x: Value, zero: Value | None) -> Value:
        wide = cast(node, x, np.int32)
        return wide if zero is None else subtract(node, wide, cast(node, zero, np.int32))

    a, b = centred(a, zeros[0]), centred(b, zeros[1])
    return cast(node, product(node, a, b), np.float32)


def _matmul_integer_to_float(node: Node) -> Value:
    exact = _integer_matmul(node, node.input(0), node.input(1), (_optional(node, 4), _optional(node, 5)))
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
    exact = _integer_matmul(node, narrow, node.input(1), (offset, _optional(node, 3)))
    y = multiply(node, exact, multiply(node, scale, node.input(2)))
    return add(node, y, node.input(4)) if node.has(4) else y


def _main(name: str) -> Converter:
    """The op of the same name in ONNX's own domain."""

    def convert(node: Node) -> Any:
        from mlc.frontends.onnx.node import converters

        return converters()["", name](node)

    return convert


CONVERTERS: dict[str, Converter] = {  # pyright: ignore[reportAssignmentType]
    "Gelu": _gelu,
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_simplified_layer_norm,
    "EmbedLayerNormalization": _embed_layer_norm,
    "Attention": _attention,
    "QuantizeLinear": _main("QuantizeLinear"),
    "DequantizeLinear": _main("DequantizeLinear"),
    "QLinearAdd": _quantised(2, lambda node, v: add(node, *v)),
    "QLinearMul": _quantised(2, lambda node, v: multiply(node, *v)),
    "QLinearSigmoid": _quantised(1, lambda node, v: node.emit(g.SigmoidOp, *v)),
    "QLinearLeakyRelu": _quantised(1, _leaky_relu),
    "QLinearGlobalAveragePool": _quantised(1, _average),
    "QLinearConcat": _qlinear_concat,
    "MatMulIntegerToFloat": _matmul_integer_to_float,
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
}
SIMPLIFIED: dict[str, Converter] = {"SimplifiedLayerNormalization": _simplified_layer_norm}
"""What onnxruntime writes into ONNX's own domain."""
