"""ONNX ops of neural networks: convolution and normalisation."""

from __future__ import annotations

import math

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, cast, divide, full, multiply, reduce, subtract
from mlc.frontends.common.movement import broadcast_to, reshape
from mlc.frontends.common.ops import conv
from mlc.frontends.common.ops.normalization import centred_and_variance, group_normalized
from mlc.frontends.common.values import NARROW_FLOATS, Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node, UseBody
from mlc.frontends.onnx.windows import is_output_used, window


def _conv(node: Node) -> Value:
    return convolution(node, node.input(0), node.input(1), node.input(2) if node.has(2) else None)


def convolution(node: Node, x: Value, w: Value, bias: Value | None) -> Value:
    """Convolution of one, two or three axes by the attributes of a node."""
    kernel = list(node.attr("kernel_shape", w.shape[2:]))
    if kernel != list(w.shape[2:]):
        raise node.fail(f"expected kernel_shape {list(w.shape[2:])}, like the weight, but got {kernel}")
    return conv.convolution(node, x, w, bias, window(node, x, kernel), node.attr("group", 1))


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
    if is_output_used(node, 1) or is_output_used(node, 2):
        raise UseBody
    x, dtype = node.input(0), dtype_like(node.input(0))
    axis = node.attr("axis", -1) % len(x.shape)
    shape = x.shape[axis:]
    one, none = full(node, shape, 1, dtype), full(node, shape, 0, dtype)
    gamma = _over_last(node, node.input(1), x, axis)
    beta = _over_last(node, node.input(2), x, axis) if node.has(2) else none
    epsilon = float(node.attr("epsilon", 1e-5))
    if gamma is not None and beta is not None:
        return node.emit(g.LayerNormOp, x, gamma, beta, axis=axis, epsilon=epsilon)
    y = multiply(node, node.emit(g.LayerNormOp, x, one, none, axis=axis, epsilon=epsilon), node.input(1))
    return add(node, y, node.input(2)) if node.has(2) else y


def _over_last(node: Node, factor: Value, x: Value, axis: int) -> Value | None:
    """A scale or bias, which may be smaller, of the shape of the axes from `axis` on; None if others need it too."""
    shape, sizes = list(x.shape), list(factor.shape)
    aligned = [1] * (len(shape) - len(sizes)) + sizes
    if len(sizes) > len(shape) or any(n not in (1, m) for n, m in zip(aligned, shape, strict=True)):
        if math.prod(sizes) == math.prod(shape[axis:]):
            return reshape(node, factor, shape[axis:])
        raise node.fail(f"expected a scale and a bias that broadcast to {shape}, but got {sizes}")
    if any(n != 1 for n in aligned[:axis]):
        return None
    factor = reshape(node, factor, aligned[axis:])
    return factor if aligned[axis:] == shape[axis:] else broadcast_to(node, factor, shape[axis:])


def _group_norm(node: Node) -> Value:
    """Scale and bias are given by channel, or by group before opset 21."""
    x, groups, dtype = node.input(0), node.attr("num_groups"), dtype_like(node.input(0))
    n, c, *spatial = x.shape
    wide = cast(node, x, np.float32) if node.attr("stash_type", 1) == 1 and x.dtype_name in NARROW_FLOATS else x
    y = cast(node, group_normalized(node, wide, groups, float(node.attr("epsilon", 1e-5))), dtype)
    parts = c if node.opset >= 21 else groups
    y = reshape(node, y, (n, parts, math.prod((c, *spatial)) // parts))
    scale, bias = (reshape(node, node.input(k), (1, parts, 1)) for k in (1, 2))
    return reshape(node, add(node, multiply(node, y, scale), bias), x.shape)


def _mean_variance_norm(node: Node) -> Value:
    x = node.input(0)
    axes = [axis % len(x.shape) for axis in node.attr("axes", (0, 2, 3))]
    centred, variance = centred_and_variance(node, x, axes)
    return divide(node, centred, add(node, node.emit(g.SqrtOp, variance), 1e-9))


def _first_input(node: Node) -> Value:
    return node.input(0)


def _dropout(node: Node) -> list[Value]:
    """
    The input, and a mask of ones.

    In training mode the mask is computed from the seed, as in ONNX's reference evaluator, and becomes a weight.
    """
    x = node.input(0)
    training = node.has(2) and bool(node.constant(2).reshape(()))
    ratio = float(node.constant(1).reshape(())) if node.has(1) and training else 0.5 if training else 0.0
    if not 0 <= ratio < 1:
        raise node.fail(f"expected a ratio from 0 to less than 1, but got {ratio}")
    if ratio == 0:
        mask = np.bool_ if node.opset >= 10 else dtype_like(x)
        return [x, full(node, x.shape, 1, mask)] if is_output_used(node, 1) else [x]
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
    "GroupNormalization": _group_norm,
    "MeanVarianceNormalization": _mean_variance_norm,
    "Dropout": _dropout,
    "Identity": _first_input,
}
