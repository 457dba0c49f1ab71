"""ONNX ops of neural networks: convolution and normalisation."""

from __future__ import annotations

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Converter, Node, UseBody, Value, dtype_like
from mlc.frontends.onnx.tools import (
    Window,
    add,
    as_picture,
    cast,
    from_picture,
    full,
    multiply,
    pad,
    part,
    reduce,
    reshape,
    stack,
    subtract,
    transpose,
    wants,
    window,
)


def _conv(node: Node) -> Value:
    return convolution(node, node.input(0), node.input(1), node.input(2) if node.has(2) else None)


def convolution(node: Node, x: Value, w: Value, bias: Value | None) -> Value:
    """Convolution of one, two or three axes; one axis is a picture of height 1."""
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    one = window(node, x, kernel)
    rank, groups = len(kernel), node.attr("group", 1)
    if rank > 3:
        raise node.fail(f"expected an input of rank 3, 4 or 5, but got rank {rank + 2}")
    if rank == 3:
        return _deep_convolution(node, x, w, bias, one)
    if rank == 1:
        x, w = as_picture(node, x), reshape(node, w, (*w.shape[:2], 1, w.shape[2]))
    y = _with_bias(node, node.emit(g.Conv2dOp, x, w, groups=groups, **one.picture()), bias)
    return from_picture(node, y) if rank == 1 else y


def _with_bias(node: Node, y: Value, bias: Value | None) -> Value:
    return y if bias is None else node.emit(g.BiasAddOp, y, bias, axis=1)


def _deep_convolution(node: Node, x: Value, w: Value, bias: Value | None, one: Window) -> Value:
    """Three axes: the slices that a kernel sees along the first are channels of one picture a slice of the result."""
    n, c, depth, *picture = x.shape
    stride, dilation, taps = one.strides[0], one.dilation[0], one.kernel[0]
    count = (depth + one.begins[0] + one.ends[0] - one.span(0)) // stride + 1
    x = pad(node, x, 2, one.begins[0], one.ends[0])
    parts = [part(node, x, 2, k * dilation, k * dilation + (count - 1) * stride + 1, stride) for k in range(taps)]
    pictures = transpose(node, stack(node, parts, 2), (0, 3, 1, 2, 4, 5))
    pictures = reshape(node, pictures, (n * count, c * taps, *picture))
    flat = reshape(node, w, (w.shape[0], w.shape[1] * taps, *w.shape[3:]))
    y = node.emit(g.Conv2dOp, pictures, flat, groups=node.attr("group", 1), **one.picture())
    y = _with_bias(node, y, bias)
    return transpose(node, reshape(node, y, (n, count, *y.shape[1:])), (0, 2, 1, 3, 4))


def _batch_norm(node: Node) -> Value | list[Value]:
    x = node.input(0)
    operands = [x, *(cast(node, node.input(i), dtype_like(x)) for i in range(1, 5))]
    epsilon = float(node.attr("epsilon", 1e-5))
    training = node.attr("training_mode", 0) or (node.opset < 7 and not node.attr("is_test", 0))
    if not training:
        return node.emit(g.BatchNormOp, *operands, epsilon=epsilon)
    axes = [a for a in range(len(x.shape)) if a != 1]
    shape = [1 if a in axes else size for a, size in enumerate(x.shape)]
    mean = reduce(node, g.MeanOp, x, axes)
    centred = subtract(node, x, reshape(node, mean, shape))
    var = reduce(node, g.MeanOp, multiply(node, centred, centred), axes)
    momentum = float(node.attr("momentum", 0.9))
    running = [
        add(node, multiply(node, node.input(i), momentum), multiply(node, now, 1 - momentum))
        for i, now in ((3, mean), (4, var))
    ]
    return [node.emit(g.BatchNormOp, *operands[:3], mean, var, epsilon=epsilon), *running]


def _instance_norm(node: Node) -> Value:
    operands = [node.input(i) for i in range(3)]
    return node.emit(g.InstanceNormOp, *operands, epsilon=float(node.attr("epsilon", 1e-5)))


def _layer_norm(node: Node) -> Value:
    if wants(node, 1) or wants(node, 2):
        raise UseBody
    x, gamma = node.input(0), node.input(1)
    axis = node.attr("axis", -1) % len(x.shape)
    shape = x.shape[axis:]
    beta = node.input(2) if node.has(2) else full(node, shape, 0, dtype_like(x))
    gamma, beta = reshape(node, gamma, shape), reshape(node, beta, shape)
    return node.emit(g.LayerNormOp, x, gamma, beta, axis=axis, epsilon=float(node.attr("epsilon", 1e-5)))


def _first_input(node: Node) -> Value:
    return node.input(0)


def _dropout(node: Node) -> list[Value]:
    """
    What goes in comes out, and the mask drops nothing.

    In training the mask follows from the seed alone, as in ONNX's reference evaluator: it is a weight.
    """
    x = node.input(0)
    training = node.has(2) and bool(node.constant(2).reshape(()))
    ratio = float(node.constant(1).reshape(())) if node.has(1) and training else 0.5 if training else 0.0
    if not 0 <= ratio < 1:
        raise node.fail(f"expected a ratio from 0 to less than 1, but got {ratio}")
    if ratio == 0:
        mask = np.bool_ if node.opset >= 10 else dtype_like(x)
        return [x, full(node, x.shape, 1, mask)] if wants(node, 1) else [x]
    seed = node.attr("seed")
    if seed is None or not all(isinstance(size, int) for size in x.shape):
        raise node.fail("expected a seed and a known shape, from which the mask follows in training, but got none")
    kept = np.random.RandomState(seed & 0xFFFFFFFF).uniform(0, 1, x.shape) >= ratio
    y = multiply(node, x, node.array(kept / (1 - ratio), like=x))
    return [y, node.array(kept)]


CONVERTERS: dict[str, Converter] = {
    "Conv": _conv,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "Dropout": _dropout,
    "Identity": _first_input,
}
