"""Operators at awkward sizes, compiled, beside onnxruntime: each group of cases is one model with many outputs."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results, small_model

import mlc

Build = Callable[[Small], Any]
CASES: dict[str, dict[str, Build]] = {}


def conv(n: int, c: int, o: int, hw: tuple[int, int], k: tuple[int, int] = (3, 3), bias: bool = True, **attrs: Any):
    """A convolution with a relu behind it."""

    def build(s: Small) -> None:
        group = attrs.get("group", 1)
        inputs = [s.x(n, c, *hw), s.w(o, c // group, *k), *([s.w(o)] if bias else [])]
        s.out(s.op("Relu", s.op("Conv", *inputs, **attrs)))

    return build


CASES["convolution channels"] = {
    f"{c} to {o}": conv(1, c, o, (7, 9), pads=[1, 1, 1, 1])
    for c, o in [(1, 1), (1, 17), (3, 31), (17, 3), (31, 33), (33, 1), (16, 100), (100, 16), (48, 48), (5, 64)]
}
CASES["convolution windows"] = {
    "dilated": conv(1, 16, 16, (11, 13), dilations=[2, 3], pads=[2, 3, 2, 3]),
    "dilated ragged": conv(1, 5, 7, (11, 13), dilations=[3, 1]),
    "dilated strided": conv(1, 16, 32, (15, 14), dilations=[2, 2], strides=[2, 3], pads=[1, 2, 3, 0]),
    "asymmetric": conv(1, 16, 16, (8, 9), pads=[0, 1, 2, 3]),
    "pads wider than the window": conv(1, 3, 16, (4, 5), (2, 2), pads=[3, 0, 4, 3]),
    "even window": conv(1, 16, 17, (9, 10), (4, 2), pads=[1, 0, 2, 1]),
    "row window": conv(1, 16, 16, (6, 21), (1, 7), pads=[0, 3, 0, 3]),
    "column window": conv(1, 16, 16, (21, 5), (7, 1), pads=[3, 0, 3, 0]),
    "same upper": conv(1, 3, 8, (10, 11), auto_pad="SAME_UPPER", strides=[2, 2]),
    "same lower": conv(1, 3, 8, (10, 11), (4, 4), auto_pad="SAME_LOWER", strides=[3, 2]),
    "stride beyond the window": conv(1, 16, 16, (17, 19), (2, 2), strides=[4, 5]),
    "window as large as the picture": conv(1, 17, 33, (5, 6), (5, 6)),
    "one pixel": conv(1, 31, 33, (1, 1), pads=[1, 1, 1, 1]),
    "one pixel 1x1": conv(1, 100, 17, (1, 1), (1, 1)),
    "one pixel 1x1 of 3": conv(3, 16, 48, (1, 1), (1, 1)),
    "one row": conv(1, 16, 32, (1, 40), (1, 3), pads=[0, 1, 0, 1]),
    "one column": conv(2, 16, 32, (37, 1), (3, 1), pads=[1, 0, 1, 0]),
    "1x1 strided": conv(2, 32, 33, (9, 7), (1, 1), strides=[2, 2]),
    "1x1 padded": conv(1, 16, 16, (5, 5), (1, 1), pads=[1, 0, 2, 1]),
    "1x1": conv(3, 48, 40, (7, 11), (1, 1)),
    "first layer": conv(2, 3, 64, (23, 29), (7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    "batch of 3": conv(3, 16, 16, (13, 5), pads=[1, 1, 1, 1]),
    "batch of 2 ragged": conv(2, 19, 21, (13, 5), pads=[1, 1, 1, 1], bias=False),
    "wide": conv(1, 16, 16, (3, 131), pads=[1, 1, 1, 1]),
}
CASES["grouped convolution"] = {
    f"{c} to {o} in {g}": conv(n, c, o, hw, k, group=g, **attrs)
    for n, c, o, g, hw, k, attrs in [
        (1, 2, 2, 2, (5, 6), (3, 3), {}),
        (1, 6, 9, 3, (7, 5), (3, 3), {"pads": [1, 1, 1, 1]}),
        (2, 32, 32, 2, (6, 9), (3, 3), {"pads": [1, 1, 1, 1]}),
        (1, 34, 51, 17, (6, 9), (3, 3), {"pads": [0, 1, 2, 0], "strides": [2, 1]}),
        (1, 64, 32, 4, (9, 9), (1, 1), {}),
        (1, 16, 16, 16, (9, 11), (3, 3), {"pads": [1, 1, 1, 1]}),
        (3, 17, 17, 17, (9, 11), (5, 5), {"pads": [2, 2, 2, 2], "strides": [2, 2]}),
        (1, 100, 100, 100, (8, 7), (3, 3), {"dilations": [2, 2], "pads": [2, 2, 2, 2]}),
        (1, 16, 48, 16, (7, 7), (3, 3), {"pads": [1, 1, 1, 1]}),
        (1, 5, 10, 5, (4, 4), (1, 1), {}),
        (1, 33, 33, 33, (1, 1), (3, 3), {"pads": [1, 1, 1, 1]}),
        (1, 48, 48, 48, (31, 3), (3, 3), {"pads": [1, 1, 1, 1], "strides": [1, 2]}),
        (1, 160, 32, 2, (3, 3), (3, 3), {"pads": [1, 1, 1, 1]}),
    ]
}


def pool(kind: str, shape: tuple[int, ...], k: tuple[int, ...], after_conv: int = 0, **attrs: Any) -> Build:
    """A pool on an input, or behind a convolution to so many channels (and so in its layout)."""

    def build(s: Small) -> None:
        x = s.x(*shape)
        if after_conv:
            x = s.op("Conv", x, s.w(after_conv, shape[1], 1, 1))
        s.out(s.op(kind, x, kernel_shape=list(k), **attrs))

    return build


WINDOWS: dict[str, dict[str, Any]] = {
    "plain": {"strides": [2, 2]},
    "overlapping": {"strides": [1, 1], "pads": [1, 1, 1, 1]},
    "ceil": {"strides": [2, 2], "ceil_mode": 1},
    "ceil padded": {"strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 0, 1]},
    "asymmetric": {"strides": [2, 1], "pads": [0, 2, 1, 0]},
    "same": {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
}
CASES["pooling"] = {
    f"{kind} {name} {channels}": pool(kind, (2, 3, 10, 13), (3, 3), channels, **attrs)
    for kind in ("MaxPool", "AveragePool")
    for name, attrs in WINDOWS.items()
    for channels in (0, 17)
}
CASES["pooling"] |= {
    f"average with padding counted {name}": pool("AveragePool", (1, 3, 9, 8), (3, 3), 16, count_include_pad=1, **attrs)
    for name, attrs in WINDOWS.items()
    if name not in ("ceil padded",)
}
CASES["pooling"] |= {
    "max dilated": pool("MaxPool", (1, 5, 12, 13), (3, 2), dilations=[2, 3], strides=[1, 2]),
    "max of a row": pool("MaxPool", (1, 17, 1, 40), (1, 2), strides=[1, 2]),
    "max one axis": pool("MaxPool", (2, 5, 40), (4,), strides=[3]),
    "average one axis": pool("AveragePool", (2, 5, 41), (4,), strides=[3], pads=[1, 2]),
    "one pixel": pool("MaxPool", (1, 5, 1, 1), (3, 3), pads=[1, 1, 1, 1]),
    "whole picture": pool("AveragePool", (2, 3, 7, 9), (7, 9), 33),
}


def one(kind: str, *shapes: tuple[int, ...], positive: bool = False, **attrs: Any) -> Build:
    """One operator on inputs of these shapes."""
    return lambda s: s.out(s.op(kind, *(s.x(*shape, positive=positive) for shape in shapes), **attrs))


def with_axes(kind: str, shape: tuple[int, ...], axes: tuple[int, ...] | None, **attrs: Any) -> Build:
    """A reduction over `axes`; ReduceSum takes them as an input, and the others did so only later."""

    def build(s: Small) -> None:
        x = s.x(*shape, positive=True)
        axes_now = [s.const(axes)] if axes is not None else []
        s.out(s.op(kind, x, *axes_now, **attrs))

    return build


CASES["softmax"] = {
    f"{kind} {'x'.join(map(str, shape))} axis {axis}": one(kind, shape, axis=axis)
    for kind in ("Softmax", "LogSoftmax")
    for shape, axis in [
        ((3, 5, 17), 0),
        ((3, 5, 17), 1),
        ((3, 5, 17), 2),
        ((2, 33, 4, 5), 1),
        ((2, 3, 31, 5), 2),
        ((7,), 0),
        ((5, 1), 1),
        ((1, 1), 0),
        ((4, 100), -1),
        ((2, 1000), -1),
    ]
}
CASES["reductions"] = {
    f"{kind} {'x'.join(map(str, shape))} over {axes} {keep}": with_axes(kind, shape, axes, keepdims=keep)
    for kind, shape, axes, keep in [
        ("ReduceSum", (3, 5, 7), None, 0),
        ("ReduceMean", (3, 5, 7), None, 1),
        ("ReduceMax", (3, 5, 7), (0, 1, 2), 0),
        ("ReduceSum", (3, 5, 7), (0,), 1),
        ("ReduceSum", (3, 5, 7), (1,), 0),
        ("ReduceSum", (3, 5, 7), (-1,), 0),
        ("ReduceSum", (3, 5, 7), (0, 2), 0),
        ("ReduceMin", (2, 3, 33, 5), (1, 3), 1),
        ("ReduceMax", (2, 3, 33, 5), (2,), 0),
        ("ReduceProd", (3, 5, 7), (1, 2), 0),
        ("ReduceMean", (4, 1, 100), (1,), 0),
        ("ReduceMean", (4, 1, 100), (2,), 1),
        ("ReduceSum", (1000,), None, 0),
        ("ReduceSum", (1,), (0,), 0),
        ("ReduceSumSquare", (5, 31), (1,), 0),
        ("ReduceL2", (5, 31), (0,), 1),
        ("ReduceL1", (5, 31), (1,), 1),
        ("ReduceSum", (1, 17, 9, 9), (2, 3), 1),
        ("ReduceMax", (2, 100, 3, 3), (2, 3), 0),
    ]
}
CASES["reductions"] |= {
    f"{kind} {'x'.join(map(str, shape))} axis {axis}": one(kind, shape, axis=axis, keepdims=keep)
    for kind, shape, axis, keep in [
        ("ArgMax", (3, 5, 7), 0, 0),
        ("ArgMax", (3, 5, 7), 1, 1),
        ("ArgMin", (3, 5, 37), 2, 0),
        ("ArgMax", (100,), 0, 0),
    ]
}
CASES["reductions"] |= {
    "global average": one("GlobalAveragePool", (2, 17, 5, 7)),
    "global max": one("GlobalMaxPool", (2, 33, 5, 7)),
    "global average of one pixel": one("GlobalAveragePool", (1, 3, 1, 1)),
}
CASES["transposes"] = {
    f"3d {''.join(map(str, p))}": one("Transpose", (5, 17, 33), perm=list(p)) for p in itertools.permutations(range(3))
} | {
    f"4d {''.join(map(str, p))}": one("Transpose", (2, 3, 5, 18), perm=list(p))
    for p in itertools.permutations(range(4))
}
CASES["transposes"] |= {
    "5d": one("Transpose", (2, 3, 4, 5, 6), perm=[4, 1, 3, 0, 2]),
    "vector": one("Transpose", (7, 1)),
    "reversed by default": one("Transpose", (3, 4, 5)),
}


def concat(axis: int, *shapes: tuple[int, ...]) -> Build:
    return one("Concat", *shapes, axis=axis)


def concat_of_convs(counts: tuple[int, ...], relu: bool = True) -> Build:
    """Convolutions to these numbers of channels, side by side, and one behind them."""

    def build(s: Small) -> None:
        x = s.x(1, 16, 7, 9)
        parts = [s.op("Conv", x, s.w(c, 16, 1, 1), s.w(c)) for c in counts]
        parts = [s.op("Relu", p) for p in parts] if relu else parts
        y = s.op("Concat", *parts, axis=1)
        s.out(y, s.op("Conv", y, s.w(8, sum(counts), 3, 3), pads=[1, 1, 1, 1]))

    return build


CASES["concatenation"] = {
    "channels 3, 17, 31": concat(1, (2, 3, 5, 6), (2, 17, 5, 6), (2, 31, 5, 6)),
    "channels 16, 16": concat(1, (1, 16, 5, 6), (1, 16, 5, 6)),
    "first axis": concat(0, (2, 33), (1, 33), (5, 33)),
    "last axis": concat(-1, (4, 3), (4, 1), (4, 40)),
    "one": concat(0, (3, 4)),
    "convolutions 16, 32": concat_of_convs((16, 32)),
    "convolutions 3, 17, 20": concat_of_convs((3, 17, 20)),
    "convolutions 8, 24, 1": concat_of_convs((8, 24, 1), relu=False),
    "itself": lambda s: s.out(s.op("Concat", x := s.x(3, 5), x, axis=1)),
}


def matmul(a: tuple[int, ...], b: tuple[int, ...], weight: bool = False) -> Build:
    return lambda s: s.out(s.op("MatMul", s.x(*a), (s.w if weight else s.x)(*b)))


def gemm(m: int, n: int, k: int, weight: bool = True, bias: tuple[int, ...] | None = None, **attrs: Any) -> Build:
    def build(s: Small) -> None:
        a = s.x(*((k, m) if attrs.get("transA") else (m, k)))
        b = (s.w if weight else s.x)(*((n, k) if attrs.get("transB") else (k, n)))
        s.out(s.op("Gemm", a, b, *([s.w(*bias)] if bias is not None else []), **attrs))

    return build


CASES["matrix products"] = {
    f"{a} by {b}{' weight' if w else ''}".replace(" ", ""): matmul(a, b, w)
    for a, b, w in [
        ((1, 1), (1, 1), True),
        ((1, 17), (17, 100), True),
        ((3, 100), (100, 1), True),
        ((17, 31), (31, 33), True),
        ((17, 31), (31, 33), False),
        ((31, 1), (1, 33), False),
        ((2, 3, 5, 7), (2, 3, 7, 11), False),
        ((2, 3, 5, 7), (7, 11), True),
        ((3, 5, 7), (7, 33), False),
        ((5, 7), (3, 7, 11), False),
        ((2, 1, 5, 7), (3, 7, 4), False),
        ((7,), (7, 5), True),
        ((5, 7), (7,), True),
        ((7,), (7,), False),
        ((64, 64), (64, 64), True),
        ((1, 8, 33, 16), (1, 8, 16, 33), False),
    ]
}
CASES["matrix products"] |= {
    "gemm": gemm(5, 17, 33, bias=(17,)),
    "gemm transposed": gemm(5, 17, 33, bias=(1, 17), transA=1, transB=1),
    "gemm scaled": gemm(3, 100, 31, bias=(3, 1), alpha=0.5, beta=2.0),
    "gemm of inputs": gemm(4, 6, 50, weight=False, transB=1),
    "gemm scalar bias": gemm(4, 6, 5, bias=()),
}


def sliced(shape: tuple[int, ...], starts: Any, ends: Any, axes: Any, steps: Any) -> Build:
    return lambda s: s.out(s.op("Slice", s.x(*shape), *(s.const(v) for v in (starts, ends, axes, steps))))


def shaped(kind: str, shape: tuple[int, ...], target: Any) -> Build:
    """Reshape, Expand, Tile: an input and a vector of numbers."""
    return lambda s: s.out(s.op(kind, s.x(*shape), s.const(target)))


def padded(shape: tuple[int, ...], pads: Any, value: float = 0.5, **attrs: Any) -> Build:
    return lambda s: s.out(s.op("Pad", s.x(*shape), s.const(pads), s.const(value, "float32"), **attrs))


def gathered(shape: tuple[int, ...], indices: Any, axis: int) -> Build:
    return lambda s: s.out(s.op("Gather", s.x(*shape), s.const(indices), axis=axis))


def split(shape: tuple[int, ...], sizes: Any, axis: int) -> Build:
    return lambda s: s.out(*s.op("Split", s.x(*shape), s.const(sizes), count=len(sizes), axis=axis))


CASES["movements"] = {
    "slice steps": sliced((9, 20), [1, 2], [8, 19], [0, 1], [2, 3]),
    "slice backwards": sliced((9, 33), [-1, 30], [-10, 2], [0, 1], [-1, -2]),
    "slice channels": sliced((2, 48, 5, 5), [3], [36], [1], [1]),
    "slice to one": sliced((5, 7), [2], [3], [1], [1]),
    "reshape ragged": shaped("Reshape", (3, 5, 14), [7, 30]),
    "reshape to a vector": shaped("Reshape", (2, 3, 5), [-1]),
    "expand": shaped("Expand", (3, 1, 5), [2, 3, 4, 5]),
    "expand one": shaped("Expand", (1,), [33]),
    "tile": shaped("Tile", (3, 5), [2, 3]),
    "pad": padded((3, 5), [1, 2, 0, 3]),
    "pad picture": padded((1, 17, 5, 6), [0, 0, 1, 2, 0, 0, 3, 0]),
    "pad reflected": padded((4, 7), [2, 3, 1, 4], mode="reflect"),
    "pad repeated": padded((4, 7), [2, 3, 1, 4], mode="edge"),
    "gather rows": gathered((10, 7), [3, 0, -1, 9], 0),
    "gather columns": gathered((5, 40), [[3, 0], [39, -40]], 1),
    "gather one": gathered((5, 40), 3, 1),
    "split": split((2, 33, 3), [1, 17, 15], 1),
    "flatten": one("Flatten", (2, 3, 5, 7), axis=2),
    "depth to space": one("DepthToSpace", (2, 36, 3, 5), blocksize=3, mode="CRD"),
    "space to depth": one("SpaceToDepth", (1, 3, 6, 4), blocksize=2),
}
UNARY = (
    "Relu Exp Tanh Sigmoid Erf Neg Abs Floor Ceil Round Sin Cos Softplus HardSwish HardSigmoid LeakyRelu Elu".split()
)
CASES["pointwise"] = {
    **{f"{kind} {n}": one(kind, (n,)) for kind in UNARY for n in (1, 37)},
    **{kind: one(kind, (3, 19), positive=True) for kind in ("Log", "Sqrt", "Reciprocal")},
    **{
        f"{kind} {a} and {b}": one(kind, a, b, positive=True)
        for kind in ("Add", "Sub", "Mul", "Div", "Pow")
        for a, b in [((3, 1, 17), (5, 1)), ((1,), (2, 33)), ((4, 5), ())]
    },
    "maximum of three": one("Max", (3, 17), (17,), (3, 1)),
    "clip": lambda s: s.out(s.op("Clip", s.x(5, 33), s.const(-0.5, "float32"), s.const(0.7, "float32"))),
    "prelu": lambda s: s.out(s.op("PRelu", s.x(2, 17, 3, 5), s.w(17, 1, 1))),
    "where": lambda s: s.out(s.op("Where", s.op("Less", s.x(3, 17), s.x(17)), s.x(1), s.x(3, 1))),
    "integers": lambda s: s.out(s.op("Mul", x := s.x(3, 17, dtype="int64"), s.op("Add", x, s.x(17, dtype="int64")))),
    "casts": lambda s: s.out(
        s.op("Cast", s.op("Cast", s.x(3, 19), to=6), to=1), s.op("Cast", s.x(33, dtype="int64"), to=1)
    ),
    **{
        f"{kind} of {dtype}": lambda s, kind=kind, dtype=dtype: s.out(
            s.op(kind, s.x(21, dtype=dtype), s.const([3, 1, 2] * 7, dtype))
        )
        for kind in ("Div", "Mod")
        for dtype in ("int32", "int64")
    },
    "comparison": lambda s: s.out(s.op("Equal", s.x(33, dtype="int32"), s.x(33, dtype="int32"))),
}


def batch_norm(s: Small, x: str, channels: int) -> str:
    """An inference-time batch norm."""
    return s.op("BatchNormalization", x, s.w(channels), s.w(channels), s.w(channels), s.w(channels, positive=True))


def residual(c: int, hw: tuple[int, int], n: int = 1) -> Build:
    """Two convolutions with norms round a shortcut, then a pool and a dense layer."""

    def build(s: Small) -> None:
        x = s.x(n, c, *hw)
        y = s.op("Relu", batch_norm(s, s.op("Conv", x, s.w(c, c, 3, 3), pads=[1, 1, 1, 1]), c))
        y = batch_norm(s, s.op("Conv", y, s.w(c, c, 1, 1)), c)
        y = s.op("Relu", s.op("Add", x, y))
        s.out(y)
        pooled = s.op("Flatten", s.op("GlobalAveragePool", y))
        s.out(s.op("Gemm", pooled, s.w(10, c), s.w(10), transB=1))

    return build


def squeeze_excite(c: int, hw: tuple[int, int]) -> Build:
    """A depthwise convolution whose channels are scaled by a function of their means."""

    def build(s: Small) -> None:
        x = s.op("HardSwish", s.op("Conv", s.x(1, c, *hw), s.w(c, 1, 5, 5), group=c, pads=[2, 2, 2, 2]))
        y = s.op("Relu", s.op("Conv", s.op("GlobalAveragePool", x), s.w(5, c, 1, 1), s.w(5)))
        y = s.op("HardSigmoid", s.op("Conv", y, s.w(c, 5, 1, 1), s.w(c)), alpha=0.2, beta=0.5)
        s.out(s.op("Mul", x, y))

    return build


def attention(t: int, heads: int, d: int) -> Build:
    """Self-attention from one projection, and a layer norm."""

    def build(s: Small) -> None:
        qkv = s.op("Add", s.op("MatMul", s.x(2, t, heads * d), s.w(heads * d, 3 * heads * d)), s.w(3 * heads * d))
        parts = s.op("Transpose", s.op("Reshape", qkv, s.const([2, t, 3, heads, d])), perm=[2, 0, 3, 1, 4])
        q, k, v = (s.op("Squeeze", p, s.const([0])) for p in s.op("Split", parts, s.const([1, 1, 1]), count=3, axis=0))
        scores = s.op("Mul", s.op("MatMul", q, s.op("Transpose", k, perm=[0, 1, 3, 2])), s.const(d**-0.5, "float32"))
        y = s.op("Transpose", s.op("MatMul", s.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = s.op("Reshape", y, s.const([2, t, heads * d]))
        s.out(s.op("LayerNormalization", y, s.w(heads * d), s.w(heads * d)))

    return build


def to_sequence(s: Small) -> None:
    """A picture of height 1 becomes a sequence, as in text recognition."""
    x = s.op("Relu", s.op("Conv", s.x(1, 17, 3, 21), s.w(33, 17, 3, 3), s.w(33), pads=[0, 1, 0, 1]))
    y = s.op("Transpose", s.op("Squeeze", x, s.const([2])), perm=[0, 2, 1])
    s.out(s.op("Softmax", s.op("Add", s.op("MatMul", y, s.w(33, 41)), s.w(41)), axis=2))


def shuffle(s: Small) -> None:
    """Grouped convolutions with a channel shuffle between them."""
    x = s.op("Conv", s.x(2, 24, 5, 7), s.w(24, 8, 1, 1), group=3)
    x = s.op("Reshape", x, s.const([2, 3, 8, 5, 7]))
    x = s.op("Reshape", s.op("Transpose", x, perm=[0, 2, 1, 3, 4]), s.const([2, 24, 5, 7]))
    s.out(s.op("Conv", x, s.w(24, 1, 3, 3), group=24, pads=[1, 1, 1, 1]))


def used_twice(s: Small) -> None:
    """A blocked value that a plain operator reads too."""
    x = s.op("Conv", s.x(1, 16, 6, 7), s.w(19, 16, 3, 3))
    s.out(x, s.op("Transpose", x, perm=[0, 2, 3, 1]), s.op("ReduceMax", x, s.const([1])), s.op("Softmax", x, axis=1))


CASES["networks"] = {
    "residual 16": residual(16, (9, 11)),
    "residual 17 of 3": residual(17, (5, 1), 3),
    "residual 33": residual(33, (1, 1), 2),
    "squeeze excite 16": squeeze_excite(16, (9, 7)),
    "squeeze excite 31": squeeze_excite(31, (3, 13)),
    "attention 7": attention(7, 3, 5),
    "attention 33": attention(33, 2, 16),
    "sequence": to_sequence,
    "shuffle": shuffle,
    "used twice": used_twice,
    "instance norm": lambda s: s.out(s.op("InstanceNormalization", s.x(2, 17, 5, 3), s.w(17), s.w(17))),
    "layer norm of two axes": lambda s: s.out(s.op("LayerNormalization", s.x(3, 5, 7), s.w(5, 7), s.w(5, 7), axis=1)),
    "an input is an output": lambda s: s.out(s.x(3, 5)),
    "a weight is an output": lambda s: s.out(s.w(3, 5)),
}


@pytest.mark.parametrize("group", CASES)
def test_small_graphs(group: str) -> None:
    small = small_model(CASES[group].items())
    exe = mlc.compile(small.proto(), threads=2, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_integer_division_never_traps() -> None:
    """Lanes off the edge, zeros, and the least integer by -1: other elements are right, and the process lives."""
    small = Small(case="div")
    least = np.iinfo(np.int32).min
    small.arrays["a"] = np.array([7, -7, least, 5, least] * 5, np.int32)[:21]
    small.arrays["b"] = np.array([2, 2, 2, 0, -1] * 5, np.int32)[:21]
    small.out(small.op("Div", "a", "b"), small.op("Mod", "a", "b"))
    quotient, remainder = mlc.compile(small.proto(), threads=1, cache=False)(small.arrays).values()
    assert [quotient[k] for k in (0, 1, 2, 4, 20)] == [3, -3, least // 2, least, 3]
    assert [remainder[k] for k in (0, 1, 2, 4, 20)] == [1, 1, 0, 0, 1]
