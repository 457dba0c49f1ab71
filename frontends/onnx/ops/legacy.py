"""
Ops as old opsets have them, where these differ in more than a default: by name, the opset that changed them, and what
converts those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.node import Converter, Node, UseBody, Value, dtype_like
from mlc.frontends.onnx.tools import cast, reshape

ELEMENTS = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
            "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13}  # fmt: skip


def _binary(own: Converter) -> Converter:
    """The second operand is stretched only if asked for, from `axis` of the first on."""

    def convert(node: Node) -> Value | Sequence[Value]:
        a, b = node.input(0), node.input(1)
        if node.attr("broadcast", 0):
            rank = len(a.shape)
            axis = axis_of(node.attr("axis", rank - len(b.shape)), rank) if b.shape else 0
            if len(b.shape) > rank - axis:
                raise node.fail(f"expected axis {axis} and the {len(b.shape)} axes of input 1 to be within {rank}")
            node.inputs[1] = reshape(node, b, (*b.shape, *[1] * (rank - axis - len(b.shape))))
        elif a.shape != b.shape:
            raise node.fail(f"expected inputs of one shape, or broadcast = 1, but got {a.shape} and {b.shape}")
        return own(node)

    return convert


def _cast(own: Converter) -> Converter:
    def convert(node: Node) -> Value:
        name = node.attr("to")
        if name not in ELEMENTS:
            raise node.fail(f"expected an element type of {', '.join(ELEMENTS)}, but got {name}")
        return cast(node, node.input(0), dtype_of(ELEMENTS[name], node.path))

    return convert


def _concat(own: Converter) -> Converter:
    def convert(node: Node) -> Value:
        parts = [node.input(i) for i in range(len(node.inputs))]
        return parts[0] if len(parts) == 1 else node.emit(g.ConcatenateOp, *parts, axis=node.attr("axis", 1))

    return convert


def _tile(own: Converter) -> Converter:
    """So many times along one axis."""

    def convert(node: Node) -> Value:
        x = node.input(0)
        times, axis = (int(node.constant(i).reshape(())) for i in (1, 2))
        axis = axis_of(axis, len(x.shape))
        return node.emit(g.TileOp, x, reps=tuple(times if a == axis else 1 for a in range(len(x.shape))))

    return convert


def _pad(own: Converter) -> Converter:
    def convert(node: Node) -> Value:
        x, pads = node.input(0), list(node.attr("paddings"))
        rank = len(x.shape)
        if len(pads) != 2 * rank or min(pads, default=0) < 0:
            raise node.fail(f"expected paddings of {2 * rank} integers >= 0, but got {pads}")
        width = tuple(n for pair in zip(pads[:rank], pads[rank:], strict=True) for n in pair)
        return node.emit(
            g.PadOp, x, pad_width=width, mode=node.attr("mode", "constant"), value=float(node.attr("value", 0.0))
        )

    return convert


def _upsample(own: Converter) -> Converter:
    """Each element of a picture so many times, or what lies between them."""

    def convert(node: Node) -> Value:
        x = node.input(0)
        if len(x.shape) != 4:
            raise node.fail(f"expected a picture of rank 4, but got rank {len(x.shape)}")
        factors = [Fraction(node.attr(name)).limit_denominator(1 << 16) for name in ("height_scale", "width_scale")]
        size = tuple(int(n * f) for n, f in zip(x.shape[2:], factors, strict=True))
        step = tuple(n for f in factors for n in (1 / f).as_integer_ratio())
        linear = node.attr("mode", "nearest") != "nearest"
        attrs: dict[str, Any] = {"mode": "linear" if linear else "nearest", "coordinates": "asymmetric"}
        return node.emit(g.Resize2dOp, x, size=size, step=step, rounding="floor", **attrs)

    return convert


def _log_sum(own: Converter) -> Converter:
    """The logarithm of a sum, of exponentials in one of the two: in f64, as the functions of later opsets do."""

    def convert(node: Node) -> Value:
        x, axes = node.input(0), node.attr("axes") or list(range(len(node.input(0).shape)))
        wide = cast(node, x, np.float64)
        wide = node.emit(g.ExpOp, wide) if node.proto.op_type == "ReduceLogSumExp" else wide
        total = node.emit(g.SumOp, wide, axes=tuple(axes), keepdims=bool(node.attr("keepdims", 1)))
        return cast(node, node.emit(g.LogOp, total), dtype_like(x))

    return convert


def _selu(own: Converter) -> Converter:
    """`gamma * x`, below 0 `gamma * alpha * (exp(x) - 1)`."""

    def convert(node: Node) -> Value:
        x = node.input(0)
        alpha, gamma = float(node.attr("alpha", 1.6732)), float(node.attr("gamma", 1.0507))
        below = node.emit(g.SubtractOp, node.emit(g.ExpOp, x), node.array(1.0, like=x))
        below = node.emit(g.MultiplyOp, below, node.array(alpha, like=x))
        positive = node.emit(g.GreaterOp, x, node.array(0.0, like=x))
        return node.emit(g.MultiplyOp, node.emit(g.WhereOp, positive, x, below), node.array(gamma, like=x))

    return convert


_STRETCHED = "Add Sub Mul Div Pow And Or Xor Equal Greater Less".split()
LEGACY: dict[str, tuple[int, Callable[[Any], Converter]]] = {
    **{name: (7, _binary) for name in _STRETCHED},
    "Cast": (6, _cast),
    "Concat": (4, _concat),
    "Tile": (6, _tile),
    "Pad": (2, _pad),
    "Upsample": (7, _upsample),
    "Selu": (6, _selu),
    "ReduceLogSum": (18, _log_sum),
    "ReduceLogSumExp": (18, _log_sum),
}
"""Op -> (the first opset that has it as now, what makes a converter of earlier ones from that of now)."""


def _function(node: Node) -> Value:
    raise UseBody


def dated(converters: Mapping[str, Converter]) -> dict[str, Converter]:
    """Converters of any opset, from those of the newest."""

    def both(name: str, own: Converter) -> Converter:
        limit, make = LEGACY[name]
        old = make(own)
        return lambda node: old(node) if node.opset < limit else own(node)

    return {**converters, **{name: both(name, converters.get(name, _function)) for name in LEGACY}}
