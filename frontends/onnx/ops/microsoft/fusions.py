"""The ops of com.microsoft that onnxruntime's tools write into models: fusions of ONNX's ops."""

from __future__ import annotations

import math

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, multiply, reduce
from mlc.frontends.common.movement import slice_axis, transpose
from mlc.frontends.common.ops.recurrent import ACTIVATIONS, ActivationKind, activate
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.ops.microsoft.attention import optional
from mlc.frontends.onnx.ops.microsoft.quantized import channels_first
from mlc.frontends.onnx.ops.nn import convolution
from mlc.frontends.onnx.ops.simplified import root_mean_square_norm
from mlc.frontends.onnx.table import convert_as

DOMAIN = "com.microsoft"


def _gelu(node: Node) -> Value:
    bias = optional(node, 1)
    x = node.input(0)
    return node.emit(g.GeluOp, x if bias is None else add(node, x, bias))


def _fast_gelu(node: Node) -> Value:
    # x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x x x))) == x * sigmoid(2 * the argument of tanh)
    bias = optional(node, 1)
    x = node.input(0) if bias is None else add(node, node.input(0), bias)
    cube = multiply(node, multiply(node, x, x), x)
    inner = add(node, x, multiply(node, cube, 0.044715))
    return multiply(node, x, node.emit(g.SigmoidOp, multiply(node, inner, 2 * math.sqrt(2 / math.pi))))


def _quick_gelu(node: Node) -> Value:
    x = node.input(0)
    return multiply(node, x, node.emit(g.SigmoidOp, multiply(node, x, float(node.attr("alpha", 1.702)))))


def _rows_inside(node: Node, x: Value, outside: bool) -> Value:
    """With `outside`, an operand with its first axis moved after the batch axes."""
    rank = len(x.shape)
    return transpose(node, x, (*range(1, rank - 1), 0, rank - 1)) if outside else x


def _fused_matmul(node: Node) -> Value:
    """alpha * A' @ B', the last two axes of each transposed where the attributes say so."""
    a, b = (_rows_inside(node, node.input(k), bool(node.attr(f"transBatch{n}", 0))) for k, n in enumerate("AB"))
    left, right = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    y = node.emit(g.BatchMatmulOp, a, b, transpose_a=left, transpose_b=right)
    alpha = float(node.attr("alpha", 1.0))
    return y if alpha == 1.0 else multiply(node, y, alpha)


_ACTIVATIONS: dict[str, ActivationKind] = {
    **ACTIVATIONS,
    "Clip": (g.ClipOp, {"min": -math.inf, "max": math.inf}),
}


def _activated(node: Node, x: Value) -> Value:
    """The activation of a fused op; its parameters are in activation_params or in an attribute each."""
    name = node.attr("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise node.fail(f"expected an activation of {', '.join(_ACTIVATIONS)}, but got {name}")
    kind = _ACTIVATIONS[name]
    numbers = kind[1]
    numbers = numbers | dict(zip(numbers, map(float, node.attr("activation_params", [])), strict=False))
    numbers = {key: float(node.attr(f"activation_{key}", number)) for key, number in numbers.items()}
    return activate(node, kind, x, numbers)


def _fused_conv(node: Node) -> Value:
    y = convolution(node, node.input(0), node.input(1), optional(node, 2))
    return _activated(node, y if not node.has(3) else add(node, y, node.input(3)))


def _skip_layer_norm(node: Node) -> list[Value | None]:
    """The layer norm of input + skip + bias, and that sum."""
    total = add(node, node.input(0), node.input(1))
    if node.has(4):
        total = add(node, total, node.input(4))
    return [_layer_norm(node, total, node.input(2), optional(node, 3)), None, None, total]


def _layer_norm(node: Node, x: Value, gamma: Value, beta: Value | None) -> Value:
    beta = node.array(np.zeros(gamma.shape), like=x) if beta is None else beta
    return node.emit(g.LayerNormOp, x, gamma, beta, axis=-1, epsilon=float(node.attr("epsilon", 1e-12)))


def _skip_simplified_layer_norm(node: Node) -> list[Value | None]:
    total = add(node, node.input(0), node.input(1))
    if node.has(3):
        total = add(node, total, node.input(3))
    return [root_mean_square_norm(node, total, node.input(2)), None, None, total]


def _embed_layer_norm(node: Node) -> list[Value | None]:
    """The layer norm of word + position + segment embeddings; and the number of ones in each row of the mask."""
    words = node.input(0)
    length = words.shape[1]
    total = node.emit(g.TakeOp, node.input(2), words, axis=0)
    if node.has(8):
        total = add(node, total, node.emit(g.TakeOp, node.input(3), node.input(8), axis=0))
    else:
        total = add(node, total, slice_axis(node, node.input(3), 0, 0, length))
    if node.has(1) and node.has(4):
        total = add(node, total, node.emit(g.TakeOp, node.input(4), node.input(1), axis=0))
    y = _layer_norm(node, total, node.input(5), node.input(6))
    if node.has(7):
        return [y, reduce(node, g.SumOp, node.input(7), [1]), total]
    return [y, node.array(np.zeros(words.shape[0], np.int32)), total]


def _main(name: str) -> Converter:
    """The op of the same name in ONNX's own domain."""
    return lambda node: convert_as(node, name, *node.inputs)


def _channels_last(name: str) -> Converter:
    """An op of ONNX with channels-last pictures and weights."""

    def convert(node: Node) -> Value:
        rest = [optional(node, k) for k in range(1, len(node.inputs))]
        if rest and rest[0] is not None:
            rank = len(rest[0].shape)
            rest[0] = transpose(node, rest[0], (0, rank - 1, *range(1, rank - 1)))
        y = channels_first(node, node.input(0), lambda x: convert_as(node, name, x, *rest[:2]), True)
        return _activated(node, y if len(rest) < 3 or rest[2] is None else add(node, y, rest[2]))

    return convert


def _fused_gemm(node: Node) -> Value:
    return _activated(node, convert_as(node, "Gemm", *node.inputs))


CONVERTERS: dict[str, Converter] = {
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
    **{name: _main(name) for name in ("GatherND", "GridSample", "Pad", "Range", "Trilu")},
    "NhwcConv": _channels_last("Conv"),
    "NhwcFusedConv": _channels_last("Conv"),
    "NhwcMaxPool": _channels_last("MaxPool"),
    "FusedGemm": _fused_gemm,
    "QuantizeLinear": _main("QuantizeLinear"),
    "DequantizeLinear": _main("DequantizeLinear"),
}
