"""ONNX ops that make constants, read shapes, reshape, slice, join and pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, DimExpr, UnequalSizes, greatest, least, least_extent
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of, broadcast, shape_of
from mlc.frontends.common.elementwise import binary, iota, select, subtract
from mlc.frontends.common.movement import broadcast_to, reshape, slice_axis, take_strided, transpose
from mlc.frontends.common.sizes import LARGEST_SIZE, size_array
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node, UseBody

MAX_FILL = 1 << 31
"""Elements of the largest ConstantOfShape."""


def _constant(node: Node) -> Value:
    for name, dtype in (("value_float", np.float32), ("value_int", np.int64)):
        if (value := node.attr(name)) is not None:
            return node.array(np.array(value, dtype))
    for name, dtype in (("value_floats", np.float32), ("value_ints", np.int64)):
        if (value := node.attr(name)) is not None:
            return node.array(np.array(value, dtype))
    value = node.attr("value")
    if value is None:
        raise node.fail("expected a value that is a dense tensor of numbers")
    return node.array(value)


def _constant_of_shape(node: Node) -> Value:
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    shape = tuple(node.ints(0))
    if any(isinstance(n, DimExpr) for n in shape):
        return node.emit(g.FullOp, value=value.reshape(()).item(), shape=shape, dtype=value.dtype)
    if min(shape, default=0) < 0 or math.prod(shape) > MAX_FILL or value.size != 1:
        raise node.fail(f"expected one value and a shape of at most {MAX_FILL} elements, but got {list(shape)}")
    return node.array(np.broadcast_to(value.reshape(()), shape))


def _shape(node: Node) -> Value:
    shape = node.input(0).shape
    return node.array(size_array(shape[node.attr("start", 0) : node.attr("end", len(shape))]))


def _size(node: Node) -> Value:
    return node.array(size_array(math.prod(node.input(0).shape)))


def _reshape(node: Node) -> Value:
    x = node.input(0)
    shape = list(node.ints(1, "shape"))
    if not node.attr("allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    if shape.count(-1) > 1 or any(size < -1 for size in shape):
        raise node.fail(f"expected a shape with at most one -1, but got {shape}")
    if -1 in shape:
        sizes, rest = _without_common(x.shape, [size for size in shape if not isinstance(size, int) or size != -1])
        left = sizes % rest if rest != 0 else 0
        if rest == 0 or left != 0:
            raise UnequalSizes(
                f"expected a shape for the {math.prod(x.shape)} elements of {list(x.shape)}, but got {shape}",
                *([] if rest == 0 else _traced_sizes(x.shape, shape) or [(left, 0)]),
            )
        shape[shape.index(-1)] = sizes // rest
    return reshape(node, x, shape)


def _without_common(sizes: Sequence[Any], others: Sequence[Any]) -> tuple[Any, Any]:
    """The products of two lists of sizes, after cancelling symbolic sizes that are in both."""
    left, rest = list(sizes), list(others)
    for size in others:
        if isinstance(size, DimExpr) and size in left:
            left.remove(size)
            rest.remove(size)
    return math.prod(left), math.prod(rest)


def _traced_sizes(sizes: Sequence[Any], shape: Sequence[Any]) -> list[tuple[Any, Any]]:
    """
    Pairs of (symbol, number) of a shape into which an exporter wrote the sizes that it traced: `N x T x 4 -> 7, -1, 4`.

    Empty unless, with these numbers, -1 stands for one of the symbols that are left.
    """
    place = list(shape).index(-1)
    pairs = [(a, b) for a, b in zip(sizes[:place], shape[:place], strict=True) if a != b] if place < len(sizes) else []
    after, behind = math.prod(sizes[place:]), math.prod(shape[place + 1 :])
    if not all(isinstance(a, DimExpr) and isinstance(b, int) for a, b in pairs) or behind == 0 or after % behind != 0:
        return []
    left = after // behind
    return pairs if any(left == size and isinstance(size, DimExpr) for size in sizes[place:]) else []


def _flatten(node: Node) -> Value:
    x = node.input(0)
    axis = node.attr("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    return reshape(node, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def _squeeze(node: Node) -> Value:
    x = node.input(0)
    axes = node.ints(1, "axes")
    if axes is None:
        axes = [i for i, size in enumerate(x.shape) if size == 1]
    axes = {axis_of(axis, len(x.shape)) for axis in axes}
    if any(x.shape[axis] != 1 for axis in axes):
        pairs = [(x.shape[axis], 1) for axis in axes]
        raise UnequalSizes(f"expected axes of size 1, but got {sorted(axes)} of {list(x.shape)}", *pairs)
    return reshape(node, x, [size for i, size in enumerate(x.shape) if i not in axes])


def _unsqueeze(node: Node) -> Value:
    x = node.input(0)
    axes = node.ints(1, "axes")
    rank = len(x.shape) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise node.fail(f"expected axes that differ, but got {axes}")
    sizes = iter(x.shape)
    return reshape(node, x, [1 if i in new else next(sizes) for i in range(rank)])


def _transpose(node: Node) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    axes = node.attr("perm", list(reversed(range(rank))))
    return transpose(node, x, axes)


def _concat(node: Node) -> Value:
    parts = [node.input(i) for i in range(len(node.inputs))]
    axis = axis_of(node.attr("axis"), len(parts[0].shape))
    parts = [x for x in parts if x.shape[axis] != 0] or parts[:1]
    return parts[0] if len(parts) == 1 else node.emit(g.ConcatenateOp, *parts, axis=axis)


def _slice(node: Node) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    starts, ends = node.ints(1, "starts"), node.ints(2, "ends")
    axes = node.ints(3, "axes", list(range(len(starts))))
    steps = node.ints(4, None, [1] * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise node.fail(
            f"expected starts, ends, axes and steps of one length, but got {starts}, {ends}, {axes}, {steps}"
        )
    bounds: list[tuple[int, int, int]] = [(0, END, 1)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(axis, rank)
        if all(isinstance(n, int) for n in (start, end, x.shape[axis])):
            bounds[axis] = _bounds(start, end, step, x.shape[axis])
        else:
            x = _open_slice(node, x, axis, start, end, step)
    begin, end, strides = zip(*bounds, strict=True)
    if all(
        stride == 1 and b == 0 and (e == END or e >= s)
        for b, e, stride, s in zip(begin, end, strides, x.shape, strict=True)
    ):
        return x
    return node.emit(g.SliceOp, x, begin=begin, end=end, strides=strides)


def _bounds(start: int, end: int, step: int, size: int) -> tuple[int, int, int]:
    """The bounds of a slice clamped as in Python; an end before the first element is -size - 1."""
    first, last, _ = slice(start, end, step).indices(size)
    return max(first, 0), last if last >= 0 else -size - 1, step  # a first place before all others is the first one


def _open_slice(node: Node, x: Value, axis: int, start: Any, end: Any, step: Any) -> Value:
    """A slice of an axis of symbolic size, or with symbolic bounds; it may be empty only where sizes may be 0."""
    if not isinstance(step, int) or step == 0:
        raise node.fail(f"expected a step that is known, and not 0, but got {step}")
    symbols, size = node.importer.symbols, x.shape[axis]
    if isinstance(size, int) and isinstance(end, DimExpr) and start == 0 and step == 1:
        # the first rows of a table of positions, which limits the symbol
        if not symbols.at_most(end, size):
            wanted = f"expected a place within the {size} elements of axis {axis}, but got {end}"
            raise node.fail(f"{wanted}; say with symbols= what its sizes may be")
        return slice_axis(node, x, axis, 0, end)
    first, last = (_from_front(node, n, size) for n in (start, end))
    if step < 0:
        return _backwards(node, x, axis, least(first, size - 1), greatest(last, -1), step)
    last = last if symbols.within(last, size) else least(last, size)
    if least_extent(size + last - first) == 0:
        first = least(greatest(first, 0), size)
        return slice_axis(node, x, axis, first, greatest(last, first), step)
    symbols.at_least(last - first, 1)
    return slice_axis(node, x, axis, greatest(first, 0), last, step)


def _backwards(node: Node, x: Value, axis: int, first: Any, last: Any, step: int) -> Value:
    """Elements from `first` back to before `last`, with a negative step."""
    if least_extent(x.shape[axis]) == 0:
        last = least(last, first)
    node.importer.symbols.at_least(first - last, least_extent(x.shape[axis]))
    count = (first - last - step - 1) // -step
    if count == x.shape[axis] and step == -1:
        return node.emit(g.FlipOp, x, axes=(axis,))
    return take_strided(node, x, axis, first, count, step)


def _from_front(node: Node, place: Any, size: Dim) -> Any:
    """A bound of a slice counted from the front; ONNX's negative bounds count from the end."""
    if isinstance(place, int):
        if abs(place) > LARGEST_SIZE:
            return size if place > 0 else -1
        return place if place >= 0 else place + size
    if isinstance(left := place - size, int):
        return place if left < 0 else size
    low, high = place.bounds()
    if high < 0:
        return place + size
    if low < 0:
        node.importer.symbols.at_least(place, 0)
    return place


def _split(node: Node) -> list[Value]:
    x = node.input(0)
    axis = axis_of(node.attr("axis", 0), len(x.shape))
    size, sections = x.shape[axis], node.ints(1, "split")
    if sections is None:
        count = node.attr("num_outputs", len(node.proto.output))
        if count != len(node.proto.output):
            raise node.fail(
                f"expected num_outputs to be {len(node.proto.output)}, as many as there are, but got {count}"
            )
        each = -(-size // count)
        sections = [each] * (count - 1) + [size - each * (count - 1)]
        if isinstance(size, int):
            sections = [min(each, size - each * i) for i in range(count)]
        if node.opset < 18 and size % count != 0:
            raise UnequalSizes(f"expected {count} equal parts of axis {axis}, but got {size}", (size % count, 0))
    if any(isinstance(n, DimExpr) for n in (size, *sections)):
        if sum(sections) != size:
            wanted = f"expected sections that sum to {size}, but got {sections}"
            raise UnequalSizes(wanted, (size, sum(sections)))
        starts = [sum(sections[:k]) for k in range(len(sections))]
        return [slice_axis(node, x, axis, start, start + n) for start, n in zip(starts, sections, strict=True)]
    if min(sections, default=1) == 0 and sum(sections) == x.shape[axis]:
        starts = [sum(sections[:k]) for k in range(len(sections))]
        return [slice_axis(node, x, axis, start, start + size) for start, size in zip(starts, sections, strict=True)]
    return node.emit_all(g.SplitOp, x, axis=axis, sections=tuple(sections))


def _gather(node: Node) -> Value:
    x, places = node.input(0), node.input(1)
    axis = axis_of(node.attr("axis", 0), len(x.shape))
    count = _iota_length(places)
    if isinstance(count, DimExpr) and isinstance(x.shape[axis], int):
        node.importer.symbols.at_most(count, x.shape[axis])
    if all(least_extent(n) == 1 for n in places.shape):  # the gather reads at least one element
        node.importer.symbols.at_least(x.shape[axis], 1)
    return node.emit(g.TakeOp, x, places, axis=axis)


def _iota_length(value: Value) -> Any:
    """The n of indices 0 .. n-1, seen through casts and reshapes; 0 of indices that are computed in another way."""
    op = None if value.ssa is None else value.ssa.owner
    while isinstance(op, g.CastOp | g.ReshapeOp):
        op = op.operands[0].owner
    return shape_of(op.type)[op.axis] if isinstance(op, g.IotaOp) else 0


def _expand(node: Node) -> Value:
    x = node.input(0)
    shape = broadcast([x.shape, tuple(node.ints(1))])
    return x if shape == tuple(x.shape) else node.emit(g.BroadcastToOp, x, shape=shape)


def _tile(node: Node) -> Value:
    x, reps = node.input(0), node.ints(1)
    if len(reps) != len(x.shape):
        raise node.fail(f"expected {len(x.shape)} repeats, one an axis, but got {reps}")
    sizes = list(x.shape)
    open_axes = [axis for axis, n in enumerate(reps) if n != 1 and not isinstance(n + sizes[axis], int)]
    x = node.emit(g.TileOp, x, reps=tuple(1 if axis in open_axes else n for axis, n in enumerate(reps)))
    for axis in open_axes:  # n -> 1 x n -> repeats x n -> repeats * n
        head, size, tail = x.shape[:axis], sizes[axis], x.shape[axis + 1 :]
        wide = broadcast_to(node, reshape(node, x, (*head, 1, size, *tail)), (*head, reps[axis], size, *tail))
        x = reshape(node, wide, (*head, reps[axis] * size, *tail))
    return x


def _pad(node: Node) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    pads = node.ints(1, "pads")
    value = float(node.constant(2).reshape(())) if node.has(2) else float(node.attr("value", 0.0))
    axes = [axis_of(axis, rank) for axis in node.ints(3, None, range(rank))]
    before, after = [0] * rank, [0] * rank
    for index, axis in enumerate(axes):
        before[axis], after[axis], x = _cropped(node, x, axis, pads[index], pads[len(axes) + index])
    width = [size for pair in zip(before, after, strict=True) for size in pair]
    mode = node.attr("mode", "constant")
    for axis in axes if mode != "constant" else ():
        node.importer.symbols.at_least(x.shape[axis], 1)
    if mode == "wrap" or any(isinstance(n, DimExpr) for n in width):
        return _padded_by_gather(node, x, before, after, mode, value)
    return node.emit(g.PadOp, x, pad_width=tuple(width), mode=mode, value=value)


def _cropped(node: Node, x: Value, axis: int, front: Any, back: Any) -> tuple[Any, Any, Value]:
    """The pads of an axis with negative ones set to 0, and the operand cropped by these."""
    size = x.shape[axis]
    begin, end = (max(0, -pad) if isinstance(pad, int) else 0 for pad in (front, back))
    if begin == end == 0:
        return front, back, x
    end = size - end
    if isinstance(size, int) and begin > end:
        raise node.fail(f"expected pads that crop at most the {size} elements of axis {axis}, but got {front}, {back}")
    return front if begin == 0 else 0, back if end == size else 0, slice_axis(node, x, axis, begin, end)


def _padded_by_gather(
    node: Node, x: Value, before: Sequence[Any], after: Sequence[Any], mode: str, value: float
) -> Value:
    """Padding as a gather along each axis: for the mode wrap, and for widths that are symbolic sizes."""
    for axis, (front, back) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        if front == 0 and back == 0:
            continue
        if mode == "wrap" and all(isinstance(n, int) for n in (front, back, size)):
            x = node.emit(g.TakeOp, x, node.array(np.arange(-front, size + back) % size), axis=axis)
            continue
        for width in (front, back):
            node.importer.symbols.at_least(width, 0)
        inner = node.array(np.array(size, object))
        at = iota(node, (size + front + back,), 0)
        at = at if front == 0 else node.emit(g.SubtractOp, at, node.array(np.array(front, object)))
        if mode == "wrap":
            places = node.emit(g.ModOp, at, inner)
        elif mode == "reflect":
            last = node.array(np.array(size - 1, object))
            places = subtract(node, last, node.emit(g.AbsOp, subtract(node, last, node.emit(g.AbsOp, at))))
        else:
            last = node.array(np.array(size - 1, object))
            places = node.emit(g.MinimumOp, binary(node, g.MaximumOp, at, 0), last)
        padded = node.emit(g.TakeOp, x, places, axis=axis)
        if mode == "constant":
            sizes = [n if a == axis else 1 for a, n in enumerate(padded.shape)]
            inside = reshape(node, node.emit(g.EqualOp, at, places), sizes)
            padded = select(node, inside, padded, value)
        x = padded
    return x


def _space(to_depth: bool) -> Converter:
    """SpaceToDepth and DepthToSpace: a reshape, a transpose, a reshape."""

    def convert(node: Node) -> Value:
        x, size = node.input(0), node.attr("blocksize")
        if size < 1:
            raise node.fail(f"expected a blocksize of at least 1, but got {size}")
        if to_depth and node.attr("mode", "DCR") != "DCR":
            raise UseBody
        n, c, h, w = x.shape
        if to_depth:
            y = reshape(node, x, (n, c, h // size, size, w // size, size))
            return reshape(node, transpose(node, y, (0, 3, 5, 1, 2, 4)), (n, c * size * size, h // size, w // size))
        inner = c // (size * size)
        if node.attr("mode", "DCR") == "DCR":
            y = transpose(node, reshape(node, x, (n, size, size, inner, h, w)), (0, 3, 4, 1, 5, 2))
        else:
            y = transpose(node, reshape(node, x, (n, inner, size, size, h, w)), (0, 1, 4, 2, 5, 3))
        return reshape(node, y, (n, inner, h * size, w * size))

    return convert


CONVERTERS: dict[str, Converter] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "SpaceToDepth": _space(True),
    "DepthToSpace": _space(False),
}
