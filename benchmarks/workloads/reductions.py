"""Pooling, reductions, elementwise chains, windows along channels, sorting."""

from typing import Any

import numpy as np

from .kind import kind
from .net import Net


def _pool(name: str, op: str, kernel: int, stride: int, sizes: tuple[int, int] = (56, 112), **fixed: Any) -> None:
    @kind(f"pool/{name}")
    def build(net: Net) -> str:
        c, h, w = net.pick("c", 32, 64, 96), net.span("h", *sizes), net.span("w", *sizes)
        return net.op(op, net.input(1, c, h, w), kernel_shape=[kernel] * 2, strides=[stride] * 2, **fixed)


_pool("max 3x3 stride 2", "MaxPool", 3, 2, pads=[1] * 4)
_pool("max 2x2 stride 2", "MaxPool", 2, 2)
_pool("max 3x3 stride 1", "MaxPool", 3, 1, pads=[1] * 4)
_pool("max 5x5 stride 1", "MaxPool", 5, 1, (14, 28), pads=[2] * 4)
_pool("max 13x13 stride 1", "MaxPool", 13, 1, (14, 28), pads=[6] * 4)
_pool("average 2x2 stride 2", "AveragePool", 2, 2)
_pool("average 3x3 stride 1", "AveragePool", 3, 1, pads=[1] * 4)


@kind("pool/global average")
def global_average(net: Net) -> str:
    c, size = net.pick("c", 256, 512, 1024), net.span("size", 7, 28)
    return net.op("GlobalAveragePool", net.input(1, c, size, size))


@kind("pool/max in 1-D")
def pool1d(net: Net) -> str:
    c, length = net.pick("c", 64, 256), net.span("length", 500, 4000)
    return net.op("MaxPool", net.input(1, c, length), kernel_shape=[3], strides=[2])


@kind("pool/max in 3-D")
def pool3d(net: Net) -> str:
    c, size = net.pick("c", 16, 32), net.span("size", 16, 32)
    return net.op("MaxPool", net.input(1, c, 8, size, size), kernel_shape=[2] * 3, strides=[2] * 3)


@kind("lrn/5 channels, 0.75")
def lrn(net: Net) -> str:
    c, size = net.pick("c", 64, 96, 192), net.span("size", 27, 56)
    return net.op("LRN", net.input(1, c, size, size), size=5, alpha=1e-2, beta=0.75)


@kind("lrn/other windows and powers")
def lrn_other(net: Net) -> str:
    c, size = net.pick("c", 64, 96), net.span("size", 27, 56)
    window, beta = net.pick("window", 3, 7, 9), net.pick("beta", 0.5, 0.6, 1.0)
    return net.op("LRN", net.input(1, c, size, size), size=window, alpha=1e-2, beta=beta)


def _reduce(name: str, op: str, axes: list[int], shape: tuple[tuple[int, int], ...], keep: int = 1) -> None:
    @kind(f"reduce/{name}")
    def build(net: Net) -> str:
        sizes = [net.span("nmkl"[i], *one) for i, one in enumerate(shape)]
        return net.op(op, net.input(*sizes), net.const(axes), keepdims=keep)


_reduce("sum of rows", "ReduceSum", [-1], ((100, 1000), (100, 1000)))
_reduce("sum of columns", "ReduceSum", [0], ((100, 1000), (100, 1000)))
_reduce("mean of pictures", "ReduceMean", [2, 3], ((1, 4), (64, 256), (14, 28), (14, 28)))
_reduce("maximum along channels", "ReduceMax", [1], ((1, 2), (64, 256), (28, 56), (28, 56)))
_reduce("logarithm of sums of exponentials", "ReduceLogSumExp", [-1], ((100, 1000), (100, 1000)))
_reduce("everything", "ReduceSum", [0, 1], ((500, 2000), (500, 1000)))


@kind("reduce/index of the maximum")
def argmax(net: Net) -> str:
    return net.op("ArgMax", net.input(net.span("n", 16, 256), net.span("d", 1000, 8000)), axis=-1)


@kind("reduce/index of the maximum along channels")
def argmax_channels(net: Net) -> str:
    c, size = net.pick("c", 19, 21), net.span("size", 64, 160)
    return net.op("ArgMax", net.input(1, c, size, size), axis=1)


@kind("reduce/cumulative sum")
def cumsum(net: Net) -> str:
    return net.op("CumSum", net.input(net.span("n", 64, 512), net.span("d", 64, 1024)), net.const(1))


@kind("reduce/cumulative sum of columns")
def cumsum_columns(net: Net) -> str:
    return net.op("CumSum", net.input(net.span("n", 64, 2000), net.span("d", 64, 1024)), net.const(0))


def _top(name: str, k: tuple[int, int], width: tuple[int, int], rows: tuple[int, int]) -> None:
    @kind(f"sort/{name}")
    def build(net: Net) -> str:
        count, d, n = net.span("k", *k), net.span("d", *width), net.span("n", *rows)
        values, at = net.op("TopK", net.input(n, d), net.const([count]), outputs=2, axis=-1)
        return net.op("Add", values, net.op("Cast", at, to=1))


_top("top 5 of 1000", (5, 5), (1000, 1000), (1, 32))
_top("a few of some hundreds", (1, 12), (60, 600), (8, 64))
_top("top 100 of 10,000", (100, 100), (8000, 10000), (1, 4))
_top("top 1000 of 10,000", (1000, 1000), (9000, 10000), (1, 1))


@kind("sort/suppression of boxes")
def suppression(net: Net) -> str:
    n = net.span("boxes", 100, 1000)
    rng = np.random.default_rng(n)
    corner = rng.uniform(0, 400, (1, n, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(10, 80, (1, n, 2))], -1).astype(np.float32)
    limit, overlap, score = net.const([100]), net.const([0.5], np.float32), net.const([0.3], np.float32)
    scores = net.input(1, 1, n, low=0, high=1)
    return net.op("NonMaxSuppression", net.const(boxes), scores, limit, overlap, score)


def _unary(name: str, ops: list[str], low: float = -4.0, **fixed: Any) -> None:
    @kind(f"elementwise/{name}")
    def build(net: Net) -> str:
        c, size = net.pick("c", 32, 64), net.span("size", 28, 112)
        x = net.input(1, c, size, size, low=low, high=4.0)
        for op in ops:
            x = net.op(op, x, **(fixed if op == ops[0] else {}))
        return x


_unary("sigmoid", ["Sigmoid"])
_unary("tanh", ["Tanh"])
_unary("erf", ["Erf"])
_unary("gelu", ["Gelu"])
_unary("gelu by tanh", ["Gelu"], approximate="tanh")
_unary("hard swish", ["HardSwish"])
_unary("exp and log", ["Exp", "Log"])
_unary("elu", ["Elu"])
_unary("softplus and tanh", ["Softplus", "Tanh"])
_unary("sine and cosine", ["Sin", "Cos"])
_unary("tangent and its inverse", ["Tan", "Atan"])
_unary("inverse sine and cosine", ["Tanh", "Asin", "Tanh", "Acos"])
_unary("hyperbolic sine and cosine", ["Sinh", "Cosh"])
_unary("sqrt and reciprocal", ["Sqrt", "Reciprocal"], low=0.1)
_unary("floor and round", ["Floor", "Round"])


@kind("elementwise/power")
def power(net: Net) -> str:
    c, size, e = net.pick("c", 32, 64), net.span("size", 28, 112), net.pick("e", 0.45, 2.2, 3.0)
    return net.op("Pow", net.input(1, c, size, size, low=0.1, high=2.0), net.const(e, np.float32))


@kind("elementwise/add with broadcasting")
def broadcast(net: Net) -> str:
    c, h, w = net.pick("c", 32, 64), net.span("h", 28, 112), net.span("w", 28, 112)
    y = net.op("Add", net.input(1, c, h, w), net.input(c, 1, 1))
    return net.op("Mul", y, net.input(1, 1, h, w))


@kind("elementwise/where and compare")
def where(net: Net) -> str:
    n, d = net.span("n", 100, 1000), net.span("d", 100, 1000)
    x, y = net.input(n, d), net.input(n, d)
    return net.op("Where", net.op("Greater", x, y), net.op("Mul", x, x), net.op("Sub", y, x))


@kind("elementwise/integers")
def integers(net: Net) -> str:
    n, d = net.span("n", 100, 1000), net.span("d", 100, 1000)
    x = net.input(n, d, dtype=np.int64, low=0, high=1000)
    return net.op("Add", net.op("Mul", x, net.const(3)), net.const(7))
