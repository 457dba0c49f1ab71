"""ONNX's pools, and normalisations over neighbours that are computed as pools."""

from __future__ import annotations

import math

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.frontends.common.elementwise import add, binary, divide, multiply, reduce
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.ops.pooling import (
    average_pool,
    max_pool,
    max_pool_with_indices,
    out_size,
    pool,
    whole_windows,
)
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.windows import is_output_used, window


def _max_pool(node: Node) -> Value | list[Value]:
    x = node.input(0)
    w = window(node, x, list(node.attr("kernel_shape")))
    ceil = bool(node.attr("ceil_mode", 0))
    if is_output_used(node, 1):
        return max_pool_with_indices(node, x, w, ceil, bool(node.attr("storage_order", 0)))
    return max_pool(node, x, w, ceil)


def _average_pool(node: Node) -> Value:
    x = node.input(0)
    w = window(node, x, list(node.attr("kernel_shape")))
    return average_pool(node, x, w, bool(node.attr("ceil_mode", 0)), bool(node.attr("count_include_pad", 0)))


def _powers(node: Node, x: Value, p: float) -> Value:
    """|x| ** p."""
    if p == 2:
        return node.emit(g.MultiplyOp, x, x)
    size = node.emit(g.AbsOp, x)
    return size if p == 1 else binary(node, g.PowerOp, size, p)


def _root(node: Node, x: Value, p: float) -> Value:
    """x ** (1 / p)."""
    if p == 2:
        return node.emit(g.SqrtOp, x)
    return x if p == 1 else binary(node, g.PowerOp, x, 1 / p)


def _lp_pool(node: Node) -> Value:
    """(sum of |x|^p)^(1/p) of each window: an average pool of the padded powers, times the window's size."""
    x, p = node.input(0), float(node.attr("p", 2))
    w = window(node, x, list(node.attr("kernel_shape")))
    ceil = bool(node.attr("ceil_mode", 0))
    outs = [out_size(w, a, x.shape[2 + a], ceil) for a in range(len(w.kernel))]
    whole = whole_windows(node, _powers(node, x, p), w, outs, 0.0, ceil)
    mean = pool(node, g.AvgPool2dOp, whole, w.without_padding())
    return _root(node, multiply(node, mean, float(math.prod(w.kernel))), p)


def _global_pool(op: type[GraphOp]) -> Converter:
    return lambda node: reduce(node, op, node.input(0), range(2, len(node.input(0).shape)), True)


def _global_lp_pool(node: Node) -> Value:
    x, p = node.input(0), float(node.attr("p", 2))
    return _root(node, reduce(node, g.SumOp, _powers(node, x, p), range(2, len(x.shape)), True), p)


def _lp_normalization(node: Node) -> Value:
    """x / norm(x), and 0 where the norm is 0."""
    x, p = node.input(0), float(node.attr("p", 2))
    norm = _root(node, reduce(node, g.SumOp, _powers(node, x, p), [node.attr("axis", -1)], True), p)
    zero = binary(node, g.EqualOp, norm, 0.0)
    safe = node.emit(g.WhereOp, zero, node.array(1.0, like=x), norm)
    return divide(node, x, safe)


def _local_response_norm(node: Node) -> Value:
    """x / (bias + alpha * the mean of x * x over neighbouring channels) ^ beta: a pool along the channels."""
    x, size = node.input(0), node.attr("size")
    if len(x.shape) < 3:
        raise node.fail(f"expected an input of rank 3 or more, but got rank {len(x.shape)}")
    square = node.emit(g.MultiplyOp, x, x)
    rows = reshape(node, square, (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])))
    padding = ((size - 1) // 2, 0, size // 2, 0)
    mean = node.emit(g.AvgPool2dOp, rows, pool_size=(size, 1), padding=padding, count_include_pad=True)
    scaled = multiply(node, mean, node.attr("alpha", 1e-4))
    power = binary(node, g.PowerOp, add(node, scaled, node.attr("bias", 1.0)), node.attr("beta", 0.75))
    return divide(node, x, reshape(node, power, x.shape))


CONVERTERS: dict[str, Converter] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "GlobalAveragePool": _global_pool(g.MeanOp),
    "GlobalMaxPool": _global_pool(g.MaxOp),
    "GlobalLpPool": _global_lp_pool,
    "LpNormalization": _lp_normalization,
    "LRN": _local_response_norm,
}
