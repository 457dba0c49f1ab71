"""Converters of nodes of old opsets whose ops differ from today's in more than a default."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import cast
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.files import dtype_of
from mlc.frontends.onnx.node import Converter, Node, Result, UseBody
from mlc.frontends.onnx.table import Wrapper, Wraps, wraps

OLD_CAST_TYPES = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
            "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13}  # fmt: skip
"""Name of an element type -> its number, as the attribute `to` of an old Cast has it."""


def _before(opset: int, old: Wrapper) -> Wrapper:
    """`old` for nodes of earlier opsets, the op's own converter for the others."""
    return lambda node, own: old(node, own) if node.opset < opset else own(node)


def _only_before(opset: int, old: Converter) -> Converter:
    """`old` for nodes of earlier opsets; later ones have a function body."""

    def convert(node: Node) -> Result:
        if node.opset >= opset:
            raise UseBody
        return old(node)

    return convert


def _binary(node: Node, own: Converter) -> Result:
    """Broadcasting only on request: the second operand's axes are those of the first from `axis` on."""
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


def _cast(node: Node, own: Converter) -> Result:
    name = node.attr("to")
    if name not in OLD_CAST_TYPES:
        raise node.fail(f"expected an element type of {', '.join(OLD_CAST_TYPES)}, but got {name}")
    return cast(node, node.input(0), dtype_of(OLD_CAST_TYPES[name], node.path))


def _concat(node: Node, own: Converter) -> Result:
    parts = [node.input(i) for i in range(len(node.inputs))]
    return parts[0] if len(parts) == 1 else node.emit(g.ConcatenateOp, *parts, axis=node.attr("axis", 1))


def _tile(node: Node, own: Converter) -> Result:
    """`tiles` repeats along one axis."""
    x = node.input(0)
    times, axis = (int(node.constant(i).reshape(())) for i in (1, 2))
    axis = axis_of(axis, len(x.shape))
    return node.emit(g.TileOp, x, reps=tuple(times if a == axis else 1 for a in range(len(x.shape))))


def _pad(node: Node, own: Converter) -> Result:
    x, pads = node.input(0), list(node.attr("paddings"))
    rank = len(x.shape)
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise node.fail(f"expected paddings of {2 * rank} integers >= 0, but got {pads}")
    width = tuple(n for pair in zip(pads[:rank], pads[rank:], strict=True) for n in pair)
    return node.emit(
        g.PadOp, x, pad_width=width, mode=node.attr("mode", "constant"), value=float(node.attr("value", 0.0))
    )


def _upsample(node: Node, own: Converter) -> Result:
    """A picture scaled by two factors, nearest or linear."""
    x = node.input(0)
    if len(x.shape) != 4:
        raise node.fail(f"expected a picture of rank 4, but got rank {len(x.shape)}")
    factors = [Fraction(node.attr(name)).limit_denominator(1 << 16) for name in ("height_scale", "width_scale")]
    size = tuple(int(n * f) for n, f in zip(x.shape[2:], factors, strict=True))
    step = tuple(n for f in factors for n in (1 / f).as_integer_ratio())
    linear = node.attr("mode", "nearest") != "nearest"
    attrs: dict[str, Any] = {"mode": "linear" if linear else "nearest", "coordinates": "asymmetric"}
    return node.emit(g.Resize2dOp, x, size=size, step=step, rounding="floor", **attrs)


def _log_sum(node: Node) -> Value:
    """ReduceLogSum in f64, like the function body of later opsets."""
    x, axes = node.input(0), node.attr("axes") or list(range(len(node.input(0).shape)))
    wide = cast(node, x, np.float64)
    total = node.emit(g.SumOp, wide, axes=tuple(axes), keepdims=bool(node.attr("keepdims", 1)))
    return cast(node, node.emit(g.LogOp, total), dtype_like(x))


def _selu(node: Node) -> Value:
    """`gamma * x`, below 0 `gamma * alpha * (exp(x) - 1)`."""
    x = node.input(0)
    alpha, gamma = float(node.attr("alpha", 1.6732)), float(node.attr("gamma", 1.0507))
    below = node.emit(g.SubtractOp, node.emit(g.ExpOp, x), node.array(1.0, like=x))
    below = node.emit(g.MultiplyOp, below, node.array(alpha, like=x))
    positive = node.emit(g.GreaterOp, x, node.array(0.0, like=x))
    return node.emit(g.MultiplyOp, node.emit(g.WhereOp, positive, x, below), node.array(gamma, like=x))


BROADCAST_ON_REQUEST = "Add Sub Mul Div Pow And Or Xor Equal Greater Less".split()
"""Ops that broadcast only on request before opset 7."""

CONVERTERS: dict[str, Converter | Wraps] = {
    **{name: wraps("math", _before(7, _binary)) for name in BROADCAST_ON_REQUEST},
    "Cast": wraps("math", _before(6, _cast)),
    "Concat": wraps("computed", _before(4, _concat)),
    "Tile": wraps("shape", _before(6, _tile)),
    "Pad": wraps("shape", _before(2, _pad)),
    "Upsample": wraps("resize", _before(7, _upsample)),
    "Selu": _only_before(6, _selu),
    "ReduceLogSum": _only_before(18, _log_sum),
}
