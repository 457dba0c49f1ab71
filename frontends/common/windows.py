"""The windows of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from mlc.frontends.common.movement import reshape
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value

T = TypeVar("T")


@dataclass(frozen=True)
class WindowSpec:
    """The attributes of the windows of a convolution or pool, one number an axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, axis: int) -> int:
        """The extent of a dilated window along an axis."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def without_padding(self) -> WindowSpec:
        """The same windows on an operand that is padded already."""
        zeros = (0,) * len(self.kernel)
        return WindowSpec(self.kernel, self.strides, self.dilation, zeros, zeros)

    def conv2d_attributes(self) -> dict[str, tuple[int, ...]]:
        """The attributes of a graph.conv2d along the last two axes; a single axis is the second of them."""
        begins, ends = as_2d(self.begins[-2:], 0), as_2d(self.ends[-2:], 0)
        strides, dilation = as_2d(self.strides[-2:], 1), as_2d(self.dilation[-2:], 1)
        return {"strides": strides, "dilation": dilation, "padding": (*begins, *ends)}


def to_2d(node: SourceNode, x: Value) -> Value:
    """N x C x L as N x C x 1 x L."""
    n, c, length = x.shape
    return reshape(node, x, (n, c, 1, length))


def to_1d(node: SourceNode, y: Value) -> Value:
    """N x C x 1 x L as N x C x L."""
    n, c, _, length = y.shape
    return reshape(node, y, (n, c, length))


def as_2d(values: Sequence[T], filler: T) -> tuple[T, ...]:
    """The attributes of one or two axes as those of two; of a single axis the first is the filler."""
    return tuple(values) if len(values) == 2 else (filler, *values)
