"""What several converters need: shapes changed where they differ, windows, weights of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Node, Value

T = TypeVar("T")


def reshape(node: Node, x: Value, shape: Sequence[Any]) -> Value:
    """`x` in another shape."""
    return x if tuple(x.shape) == tuple(shape) else node.emit(g.ReshapeOp, x, shape=tuple(shape))


def transpose(node: Node, x: Value, axes: Sequence[int]) -> Value:
    """`x` with its axes in another order."""
    return x if list(axes) == list(range(len(x.shape))) else node.emit(g.TransposeOp, x, axes=tuple(axes))


def matmul_weight(node: Node, w: Value) -> Value:
    """The K x N right operand of a product as the N x K weight of graph.dense."""
    return transpose(node, w, (1, 0))


def window_padding(node: Node, spatial: Sequence[int], kernel: Sequence[int], strides: Any, dilation: Any) -> list[int]:
    """[begin of each axis, end of each axis] from `pads` or `auto_pad`."""
    rank = len(spatial)
    auto = node.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = list(node.attr("pads", [0] * (2 * rank)))
        if len(pads) != 2 * rank or min(pads) < 0:
            raise node.fail(f"expected pads of {2 * rank} integers >= 0, but got {pads}")
        return pads
    if auto == "VALID":
        return [0] * (2 * rank)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.fail(f"expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, but got {auto}")
    begins, ends = [], []
    for axis in range(rank):
        count = -(-spatial[axis] // strides[axis])
        total = max(0, (count - 1) * strides[axis] + (kernel[axis] - 1) * dilation[axis] + 1 - spatial[axis])
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return begins + ends


def as_picture(node: Node, x: Value) -> Value:
    """N x C x L as N x C x 1 x L."""
    n, c, length = x.shape
    return reshape(node, x, (n, c, 1, length))


def from_picture(node: Node, y: Value) -> Value:
    """N x C x 1 x L as N x C x L."""
    n, c, _, length = y.shape
    return reshape(node, y, (n, c, length))


def two(values: Sequence[T], filler: T) -> tuple[T, ...]:
    """Window attributes of one axis as those of two, the first of size 1."""
    return tuple(values) if len(values) == 2 else (filler, *values)
