"""ONNX ops of neural networks: convolution, pooling, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Converter, Node, Value
from mlc.frontends.onnx.tools import as_picture, from_picture, reshape, two, window_padding


def _window(node: Node, x: Value, kernel: list[int]) -> dict[str, Any]:
    """The attributes that convolutions and pools share, for two axes."""
    rank = len(x.shape) - 2
    if rank not in (1, 2):
        raise node.fail(f"expected an input of rank 3 or 4, but got rank {rank + 2}")
    if len(kernel) != rank:
        raise node.fail(f"expected a kernel of {rank} sizes, but got {kernel}")
    strides = list(node.attr("strides", [1] * rank))
    dilation = list(node.attr("dilations", [1] * rank))
    pads = window_padding(node, x.shape[2:], kernel, strides, dilation)
    begin, end = two(pads[:rank], 0), two(pads[rank:], 0)
    return {"strides": two(strides, 1), "dilation": two(dilation, 1), "padding": (*begin, *end)}


def _conv(node: Node) -> Value:
    """Convolution of one or two axes; one axis is a picture of height 1."""
    x, w = node.input(0), node.input(1)
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    attrs = _window(node, x, kernel)
    flat = len(x.shape) == 3
    if flat:
        x, w = as_picture(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
    y = node.emit(g.Conv2dOp, x, w, groups=node.attr("group", 1), **attrs)
    if node.has(2):
        y = node.emit(g.BiasAddOp, y, node.input(2), axis=1)
    return from_picture(node, y) if flat else y


def _pool(op: Any) -> Converter:
    def convert(node: Node) -> Value:
        x = node.input(0)
        kernel = list(node.attr("kernel_shape"))
        attrs = _window(node, x, kernel)
        if op is g.AvgPool2dOp:
            attrs["count_include_pad"] = bool(node.attr("count_include_pad", 0))
        attrs["ceil_mode"] = bool(node.attr("ceil_mode", 0))
        flat = len(x.shape) == 3
        y = node.emit(op, as_picture(node, x) if flat else x, pool_size=two(kernel, 1), **attrs)
        return from_picture(node, y) if flat else y

    return convert


def _global_pool(op: Any) -> Converter:
    def convert(node: Node) -> Value:
        x = node.input(0)
        return node.emit(op, x, axes=tuple(range(2, len(x.shape))), keepdims=True)

    return convert


def _batch_norm(node: Node) -> Value:
    if node.attr("training_mode", 0) or (node.opset < 7 and not node.attr("is_test", 0)):
        raise node.fail("expected inference (training_mode = 0), but got training_mode = 1")
    operands = [node.input(i) for i in range(5)]
    return node.emit(g.BatchNormOp, *operands, epsilon=float(node.attr("epsilon", 1e-5)))


def _instance_norm(node: Node) -> Value:
    operands = [node.input(i) for i in range(3)]
    return node.emit(g.InstanceNormOp, *operands, epsilon=float(node.attr("epsilon", 1e-5)))


def _layer_norm(node: Node) -> Value:
    x, gamma = node.input(0), node.input(1)
    axis = node.attr("axis", -1) % len(x.shape)
    shape = x.shape[axis:]
    beta = node.input(2) if node.has(2) else node.array(np.zeros(shape), like=x)
    gamma, beta = reshape(node, gamma, shape), reshape(node, beta, shape)
    return node.emit(g.LayerNormOp, x, gamma, beta, axis=axis, epsilon=float(node.attr("epsilon", 1e-5)))


def _local_response_norm(node: Node) -> Value:
    """x / (bias + alpha * the mean of x * x over neighbouring channels) ^ beta: a pool along the channels."""
    x, size = node.input(0), node.attr("size")
    if len(x.shape) < 3:
        raise node.fail(f"expected an input of rank 3 or more, but got rank {len(x.shape)}")
    square = node.emit(g.MultiplyOp, x, x)
    rows = reshape(node, square, (x.shape[0], 1, x.shape[1], int(np.prod(x.shape[2:]))))
    padding = ((size - 1) // 2, 0, size // 2, 0)
    mean = node.emit(g.AvgPool2dOp, rows, pool_size=(size, 1), padding=padding, count_include_pad=True)
    scaled = node.emit(g.MultiplyOp, mean, node.array(node.attr("alpha", 1e-4), like=x))
    shifted = node.emit(g.AddOp, scaled, node.array(node.attr("bias", 1.0), like=x))
    power = node.emit(g.PowerOp, shifted, node.array(node.attr("beta", 0.75), like=x))
    return node.emit(g.DivideOp, x, reshape(node, power, x.shape))


def _first_input(node: Node) -> Value:
    return node.input(0)


def _dropout(node: Node) -> Value:
    if node.has(2) and bool(node.constant(2).reshape(())):
        raise node.fail("expected inference (training_mode = 0), but got training_mode = 1")
    return node.input(0)


CONVERTERS: dict[str, Converter] = {
    "Conv": _conv,
    "MaxPool": _pool(g.MaxPool2dOp),
    "AveragePool": _pool(g.AvgPool2dOp),
    "GlobalAveragePool": _global_pool(g.MeanOp),
    "GlobalMaxPool": _global_pool(g.MaxOp),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LRN": _local_response_norm,
    "Dropout": _dropout,
    "Identity": _first_input,
}
