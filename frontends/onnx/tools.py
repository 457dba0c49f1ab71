"""What several converters need: shapes changed where they differ, windows, weights of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import tensor
from mlc.dialects.graph.dims import Dim, UnequalSizes
from mlc.dialects.graph.ops.movement import END
from mlc.frontends.onnx.node import Node, Value, dtype_like

T = TypeVar("T")


def reshape(node: Node, x: Value, shape: Sequence[Any]) -> Value:
    """`x` in another shape."""
    return x if tuple(x.shape) == tuple(shape) else node.emit(g.ReshapeOp, x, shape=tuple(shape))


def transpose(node: Node, x: Value, axes: Sequence[int]) -> Value:
    """`x` with its axes in another order."""
    return x if list(axes) == list(range(len(x.shape))) else node.emit(g.TransposeOp, x, axes=tuple(axes))


def binary(node: Node, op: Any, a: Value | float, b: Value | float) -> Value:
    """A binary op on values, or on a value and a number of its type."""
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        a = node.array(a, like=b)
    return node.emit(op, a, b if isinstance(b, Value) else node.array(b, like=a))


def number(node: Node, size: Dim, like: Value) -> Value | float:
    """A size among elements like those of a value."""
    return float(size) if isinstance(size, int) else node.array(np.array(size, object), like)


def add(node: Node, a: Value | float, b: Value | float) -> Value:
    """`a + b`."""
    return binary(node, g.AddOp, a, b)


def subtract(node: Node, a: Value | float, b: Value | float) -> Value:
    """`a - b`."""
    return binary(node, g.SubtractOp, a, b)


def multiply(node: Node, a: Value | float, b: Value | float) -> Value:
    """`a * b`."""
    return binary(node, g.MultiplyOp, a, b)


def divide(node: Node, a: Value | float, b: Value | float) -> Value:
    """`a / b`."""
    return binary(node, g.DivideOp, a, b)


def cast(node: Node, x: Value, dtype: Any) -> Value:
    """`x` with elements of another type."""
    return x if np.dtype(dtype_like(x)) == np.dtype(dtype) else node.emit(g.CastOp, x, dtype=np.dtype(dtype))


def iota(node: Node, shape: Sequence[Any], axis: int, dtype: Any = np.int64) -> Value:
    """Each element is its index along an axis."""
    return node.emit(g.IotaOp, result=tensor(tuple(shape), np.dtype(dtype).name), axis=axis)


def full(node: Node, shape: Sequence[Any], value: float, dtype: Any) -> Value:
    """A tensor of one value."""
    return node.emit(g.FullOp, shape=tuple(shape), value=value, dtype=np.dtype(dtype))


def broadcast_to(node: Node, x: Value, shape: Sequence[Any]) -> Value:
    """`x` repeated along the axes of size 1 that `shape` has larger."""
    return x if tuple(x.shape) == tuple(shape) else node.emit(g.BroadcastToOp, x, shape=tuple(shape))


def select(node: Node, condition: Value, a: Value | float, b: Value | float) -> Value:
    """`a if condition else b`, each element."""
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        a = node.array(a, like=b)
    return node.emit(g.WhereOp, condition, a, b if isinstance(b, Value) else node.array(b, like=a))


def part(node: Node, x: Value, axis: int, begin: Dim, end: Dim, stride: int = 1) -> Value:
    """`x[.., begin:end:stride, ..]` along one axis, from front to end: `0 <= begin <= end`."""
    rank = len(x.shape)
    axis %= rank
    size = x.shape[axis]
    static = all(isinstance(n, int) for n in (begin, end, size))
    if (begin, stride) == (0, 1) and (end == size or (static and end >= size)):
        return x
    if not static:
        behind = begin - size, end - size
        if not isinstance(begin, int) and isinstance(behind[0], int) and behind[1] == 0:
            begin, end = behind[0], END
        elif isinstance(begin, int) and isinstance(behind[1], int):
            end = behind[1] or END
        elif not (isinstance(begin, int) and isinstance(end, int)):
            return elements(node, x, axis, begin, (end - begin + (stride - 1)) // stride, stride)
    bounds = [(begin, end, stride) if a == axis else (0, END, 1) for a in range(rank)]
    begins, ends, strides = zip(*bounds, strict=True)
    return node.emit(g.SliceOp, x, begin=begins, end=ends, strides=strides)


def elements(node: Node, x: Value, axis: int, first: Dim, count: Dim, step: int) -> Value:
    """So many elements along an axis, from the first on in steps, which may be negative."""
    places = iota(node, (count,), 0)
    places = places if step == 1 else multiply(node, places, step)
    if first != 0:
        places = node.emit(g.AddOp, places, node.array(np.array([first], object)))
    return node.emit(g.TakeOp, x, places, axis=axis)


def element(node: Node, x: Value, axis: int, index: int) -> Value:
    """`x[.., index, ..]` without the axis."""
    axis %= len(x.shape)
    return reshape(node, part(node, x, axis, index, index + 1), (*x.shape[:axis], *x.shape[axis + 1 :]))


def stack(node: Node, parts: Sequence[Value], axis: int) -> Value:
    """Tensors of one shape one after the other along a new axis."""
    axis %= len(parts[0].shape) + 1
    wide = [reshape(node, x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in parts]
    return wide[0] if len(wide) == 1 else node.emit(g.ConcatenateOp, *wide, axis=axis)


def concat(node: Node, parts: Sequence[Value], axis: int) -> Value:
    """Tensors one after the other along an axis; those of no elements are left out."""
    axis %= len(parts[0].shape)
    kept = [x for x in parts if x.shape[axis]] or list(parts[:1])
    return kept[0] if len(kept) == 1 else node.emit(g.ConcatenateOp, *kept, axis=axis)


def pad(node: Node, x: Value, axis: int, before: int, after: int, value: float = 0.0) -> Value:
    """`x` with elements of one value before and behind along an axis."""
    if not before and not after:
        return x
    width = [0] * (2 * len(x.shape))
    axis %= len(x.shape)
    width[2 * axis : 2 * axis + 2] = before, after
    return node.emit(g.PadOp, x, pad_width=tuple(width), value=value)


def spread(node: Node, x: Value, axis: int, stride: int, before: int, size: int) -> Value:
    """Zeros of `size` along an axis, with the elements of `x` at `before`, `before + stride`, ..."""
    axis %= len(x.shape)
    head, count, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    length = (count - 1) * stride + 1
    apart = pad(node, reshape(node, x, (*head, count, 1, *tail)), axis + 1, 0, stride - 1)
    apart = part(node, reshape(node, apart, (*head, count * stride, *tail)), axis, 0, length)
    return pad(node, apart, axis, before, size - before - length)


def reduce(node: Node, op: Any, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """A reduction over axes."""
    return node.emit(op, x, axes=tuple(axes), keepdims=keepdims) if axes else x


def wants(node: Node, output: int) -> bool:
    """Whether the model names this output of the node."""
    return output < len(node.proto.output) and bool(node.proto.output[output])


def matmul_weight(node: Node, w: Value) -> Value:
    """The K x N right operand of a product as the N x K weight of graph.dense."""
    return transpose(node, w, (1, 0))


def window_padding(node: Node, spatial: Sequence[Any], kernel: Sequence[int], strides: Any, dilation: Any) -> list[int]:
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
        if (left := spatial[axis] % strides[axis]) != 0 and not isinstance(left, int):
            message = f"expected a size that the stride {strides[axis]} divides, with {auto}, but got {spatial[axis]}"
            raise UnequalSizes(message, (left, 0))
        count = -(-spatial[axis] // strides[axis])
        total = max(0, (count - 1) * strides[axis] + (kernel[axis] - 1) * dilation[axis] + 1 - spatial[axis])
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return begins + ends


@dataclass(frozen=True)
class Window:
    """What convolutions and pools say about their windows, one number an axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    def span(self, axis: int) -> int:
        """From the first element of a window to its last."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def without_padding(self) -> Window:
        """The same windows on something padded."""
        zeros = (0,) * len(self.kernel)
        return Window(self.kernel, self.strides, self.dilation, zeros, zeros)

    def picture(self) -> dict[str, tuple[int, ...]]:
        """The attributes of a convolution along the last two axes; one axis has one of size 1 before it."""
        begins, ends = two(self.begins[-2:], 0), two(self.ends[-2:], 0)
        strides, dilation = two(self.strides[-2:], 1), two(self.dilation[-2:], 1)
        return {"strides": strides, "dilation": dilation, "padding": (*begins, *ends)}


def window(node: Node, x: Value, kernel: Sequence[int]) -> Window:
    """The windows that a node's attributes describe."""
    rank = len(x.shape) - 2
    if rank < 1:
        raise node.fail(f"expected an input of rank 3 or more, but got rank {rank + 2}")
    if len(kernel) != rank:
        raise node.fail(f"expected a kernel of {rank} sizes, but got {list(kernel)}")
    strides = tuple(node.attr("strides", [1] * rank))
    dilation = tuple(node.attr("dilations", [1] * rank))
    pads = window_padding(node, x.shape[2:], kernel, strides, dilation)
    return Window(tuple(kernel), strides, dilation, tuple(pads[:rank]), tuple(pads[rank:]))


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
