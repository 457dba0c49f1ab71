"""SimplifiedLayerNormalization, a root mean square norm that onnxruntime's tools write into ONNX's own domain."""

from __future__ import annotations

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, multiply, reduce
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node


def root_mean_square_norm(node: Node, x: Value, gamma: Value, axis: int = -1) -> Value:
    """x / sqrt(mean(x * x) + epsilon) * gamma, over the axes from one on."""
    rank = len(x.shape)
    mean = reduce(node, g.MeanOp, multiply(node, x, x), range(axis % rank, rank), True)
    scale = node.emit(g.RsqrtOp, add(node, mean, float(node.attr("epsilon", 1e-5))))
    return multiply(node, multiply(node, x, scale), gamma)


def _simplified_layer_norm(node: Node) -> Value:
    return root_mean_square_norm(node, node.input(0), node.input(1), node.attr("axis", -1))


CONVERTERS: dict[str, Converter] = {"SimplifiedLayerNormalization": _simplified_layer_norm}
