"""ATen ops that reshape, move and join tensors; the shape of a view is that of torch's fake result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, cast, full, iota, multiply, select
from mlc.frontends.common.movement import (
    broadcast_to,
    concat,
    index_axis,
    pad_axis,
    reshape,
    slice_axis,
    stack,
    transpose,
)
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.torch.call import AtenCall, Convert


def _self(call: AtenCall) -> Value:
    return call["self"]


def _view(call: AtenCall) -> Value:
    """A tensor in another shape; or, given a dtype, its bits as elements of that dtype."""
    if "dtype" in call:
        return _bits(call)
    return reshape(call, call["self"], call.shape)


def _bits(call: AtenCall) -> Value:
    x = call["self"]
    if np.dtype(dtype_like(x)).itemsize != call.dtype.itemsize or "bool" in (x.dtype_name, call.dtype.name):
        raise call.fail(f"expected to see {x.dtype_name} as elements of the same size, but got {call.dtype.name}")
    return x if dtype_like(x) == call.dtype else call.emit(g.BitcastOp, x, dtype=call.dtype)


def _expand(call: AtenCall) -> Value:
    return broadcast_to(call, call["self"], call.shape)


def _permute(call: AtenCall) -> Value:
    x = call["self"]
    return transpose(call, x, [axis_of(axis, len(x.shape)) for axis in call["dims"]])


def _swap(call: AtenCall) -> Value:
    x = call["self"]
    order = list(range(len(x.shape)))
    first, second = (call["dim0"], call["dim1"]) if "dim0" in call else (0, len(order) - 1)
    if order:
        order[first], order[second] = order[second], order[first]
    return transpose(call, x, order)


def _slice(call: AtenCall) -> Value:
    x = call["self"]
    axis = axis_of(call.get("dim", 0), len(x.shape))
    bounds = call.get("start", 0), call.get("end", END), call.get("step", 1)
    return sliced(call, x, axis, *bounds, count=call.shape[axis])


def sliced(call: AtenCall, x: Value, axis: int, begin: Any, end: Any, stride: int = 1, count: Any = None) -> Value:
    """
    `x[.., begin:end:stride, ..]`; an end at or beyond the symbolic size of the axis is the axis's end.

    `count` is the size of the result, if the bounds are symbolic.
    """
    size = x.shape[axis]
    if end == size or (isinstance(end, int) and end >= END):
        end = END
    elif not isinstance(end, int) and isinstance(less := end - size, int) and less < 0:
        end = less
    if not isinstance(begin, int) or not isinstance(end, int):
        return _read(call, x, axis, begin, end - begin if count is None else count, stride)
    if (begin, stride) == (0, 1) and (end == END or (isinstance(size, int) and end >= size)):
        return x
    if isinstance(size, int):
        begin, end, stride = slice(begin, end, stride).indices(size)
    bounds = [(begin, end, stride) if a == axis else (0, END, 1) for a in range(len(x.shape))]
    begins, ends, strides = zip(*bounds, strict=True)
    return call.emit(g.SliceOp, x, begin=begins, end=ends, strides=strides)


def _read(call: AtenCall, x: Value, axis: int, begin: Any, count: Dim, stride: int) -> Value:
    """A slice with symbolic bounds: a gather of `count` elements."""
    if isinstance(begin, int) and begin < 0:
        begin = x.shape[axis] + begin
    places = add(call, call.counted(count, by=stride), begin)
    return call.emit(g.TakeOp, x, places, axis=axis)


def _select(call: AtenCall) -> Value:
    x, axis, index = call["self"], call["dim"], call["index"]
    axis = axis_of(axis, len(x.shape))
    if not isinstance(index, int):
        return call.emit(g.TakeOp, x, call.array(index), axis=axis)
    if index >= 0:
        return index_axis(call, x, axis, index)
    y = sliced(call, x, axis, index, END if index == -1 else index + 1, 1)
    return reshape(call, y, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _cat(call: AtenCall) -> Value:
    """A concatenation; empty tensors of one axis are skipped, as in torch."""
    rank = len(call.shape)
    parts = [call.typed(x, call.dtype) for x in call["tensors"] if len(x.shape) == rank]
    return concat(call, parts, call.get("dim", 0))


def _stack(call: AtenCall) -> Value:
    return stack(call, [call.typed(x, call.dtype) for x in call["tensors"]], call.get("dim", 0))


def _split(call: AtenCall) -> list[Value]:
    x = call["self"]
    axis, size = axis_of(call.get("dim", 0), len(x.shape)), x.shape[call.get("dim", 0)]
    each = call.get("split_sizes", call.get("split_size"))
    sections = each if isinstance(each, list) else [min(each, size - at) for at in range(0, size, each)]
    if len(sections) > 1 and all(isinstance(n, int) and n > 0 for n in sections):
        return call.emit_all(g.SplitOp, x, axis=axis, sections=tuple(sections))
    starts = [sum(sections[:k]) for k in range(len(sections))]
    return [sliced(call, x, axis, start, start + n, count=n) for start, n in zip(starts, sections, strict=True)]


def _unbind(call: AtenCall) -> list[Value]:
    x, axis = call["self"], call.get("dim", 0)
    return [index_axis(call, x, axis, index) for index in range(x.shape[axis])]


def _repeat(call: AtenCall) -> Value:
    x, reps = call["self"], call["repeats"]
    x = reshape(call, x, (*[1] * (len(reps) - len(x.shape)), *x.shape))
    for axis, times in enumerate(reps):
        if times == 1 or (isinstance(x.shape[axis], int) and isinstance(times, int)):
            continue
        if x.shape[axis] == 1:
            x = broadcast_to(call, x, (*x.shape[:axis], times, *x.shape[axis + 1 :]))
        elif isinstance(times, int):
            x = concat(call, [x] * times, axis)
        else:
            before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
            x = broadcast_to(call, reshape(call, x, (*before, 1, size, *after)), (*before, times, size, *after))
            x = reshape(call, x, (*before, times * size, *after))
        reps[axis] = 1
    return x if set(reps) <= {1} else call.emit(g.TileOp, x, reps=tuple(reps))


def _flip(call: AtenCall) -> Value:
    x = call["self"]
    axes = {axis_of(axis, len(x.shape)) for axis in call["dims"]}
    for axis in [axis for axis in axes if not isinstance(size := x.shape[axis], int)]:
        size = x.shape[axis]
        x = call.emit(g.TakeOp, x, call.counted(size, start=size - 1, by=-1), axis=axis)
        axes.remove(axis)
    return call.emit(g.FlipOp, x, axes=tuple(sorted(axes))) if axes else x


def _roll(call: AtenCall) -> Value:
    x, shifts, axes = call["self"], call["shifts"], call["dims"]
    if not axes:
        flat = reshape(call, x, (int(np.prod(x.shape)),))
        return reshape(call, _rolled(call, flat, 0, shifts[0]), x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(call, x, axis, shift)
    return x


def _rolled(call: AtenCall, x: Value, axis: int, shift: int) -> Value:
    size = x.shape[axis]
    at = -shift % size if size and isinstance(size, int) else -shift
    return x if not at else concat(call, [sliced(call, x, axis, at, END, 1), sliced(call, x, axis, 0, at, 1)], axis)


def _pad(call: AtenCall) -> Value:
    """Padding of the last axes, given from the last one on; negative widths crop."""
    x, widths, value = call["self"], call["pad"], call.get("value", 0)
    for index in range(len(widths) // 2):
        axis = len(x.shape) - 1 - index
        before, after = widths[2 * index : 2 * index + 2]
        size = x.shape[axis]
        if not (isinstance(before, int) and isinstance(after, int)):
            ends = [_filler(call, x, axis, width, value) for width in (before, after)]
            x = concat(call, [ends[0], x, ends[1]], axis)
            continue
        x = slice_axis(call, x, axis, max(-before, 0), size + min(after, 0)) if min(before, after) < 0 else x
        x = pad_axis(call, x, axis, max(before, 0), max(after, 0), float(value))
    return x


def _filler(call: AtenCall, x: Value, axis: int, width: Dim, value: float) -> Value:
    """The padding before or after a tensor along an axis."""
    return full(call, (*x.shape[:axis], width, *x.shape[axis + 1 :]), float(value), dtype_like(x))


def _pad_by(mode: str) -> Convert:
    """Padding by reflection or by the edge."""

    def convert(call: AtenCall) -> Value:
        x, widths = call["self"], call["padding"]
        pairs = [widths[2 * i : 2 * i + 2] for i in range(len(widths) // 2)]
        width = [0, 0] * (len(x.shape) - len(pairs)) + [n for pair in reversed(pairs) for n in pair]
        return call.emit(g.PadOp, x, pad_width=tuple(width), mode=mode)

    return convert


def side(call: AtenCall, rows: Dim, columns: Dim, op: type[GraphOp], diagonal: int = 0) -> Value:
    """The mask of a triangle: how `column - row` compares with a diagonal."""
    if isinstance(rows, int) and isinstance(columns, int):
        return call.array(_SIDES[op](np.arange(columns)[None, :] - np.arange(rows)[:, None], diagonal))
    row, column = add(call, iota(call, (rows, 1), 0), diagonal), iota(call, (1, columns), 1)
    return call.emit(op, column, row)


_SIDES: dict[Any, Any] = {g.LessEqualOp: np.less_equal, g.GreaterEqualOp: np.greater_equal}


def _triangle(op: type[GraphOp]) -> Convert:
    """The elements on one side of a diagonal; 0 elsewhere."""

    def convert(call: AtenCall) -> Value:
        x = call["self"]
        rows, columns = x.shape[-2:]
        return select(call, side(call, rows, columns, op, call.get("diagonal", 0)), x, 0)

    return convert


def _shuffle(call: AtenCall) -> Value:
    """Depth to space: channels become pixels."""
    x, size = call["self"], call["upscale_factor"]
    *outer, c, h, w = x.shape
    y = reshape(call, x, (*outer, c // size**2, size, size, h, w))
    n = len(outer)
    return reshape(call, transpose(call, y, [*range(n), n, n + 3, n + 1, n + 4, n + 2]), call.shape)


def _unshuffle(call: AtenCall) -> Value:
    x, size = call["self"], call["downscale_factor"]
    *outer, c, h, w = x.shape
    y = reshape(call, x, (*outer, c, h // size, size, w // size, size))
    n = len(outer)
    return reshape(call, transpose(call, y, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), call.shape)


def _copy(call: AtenCall) -> Value:
    return broadcast_to(call, call.typed(call["src"], call.dtype), call.shape)


def _cast(call: AtenCall) -> Value:
    return cast(call, call["self"], call.dtype)


def _cast_prim(call: AtenCall) -> Value:
    return cast(call, call["a"], call.dtype)


def _diagonal(call: AtenCall) -> Value:
    """Elements of two axes whose indices differ by the offset, along a new last axis."""
    flat, places, order = _on_diagonal(call, call.shape[-1])
    return call.emit(g.TakeOp, flat, places, axis=len(order) - 2)


def _diagonal_scatter(call: AtenCall) -> Value:
    """A tensor with a diagonal replaced."""
    x, source = call["self"], call.typed(call["src"], call.dtype)
    flat, places, order = _on_diagonal(call, source.shape[-1])
    index = broadcast_to(call, places, source.shape)
    y = call.emit(g.ScatterElementsOp, flat, index, source, axis=len(order) - 2, reduction="none")
    y = reshape(call, y, tuple(x.shape[axis] for axis in order))
    return transpose(call, y, [order.index(axis) for axis in range(len(order))])


def _on_diagonal(call: AtenCall, count: Dim) -> tuple[Value, Value, list[int]]:
    """(a tensor with two axes flattened to the last one, the indices of a diagonal in it, the order of its axes)."""
    x, offset = call["self"], call.get("offset", 0)
    rank = len(x.shape)
    first, second = axis_of(call.get("dim1", 0), rank), axis_of(call.get("dim2", 1), rank)
    order = [*(axis for axis in range(rank) if axis not in (first, second)), first, second]
    *rest, rows, columns = (x.shape[axis] for axis in order)
    flat = reshape(call, transpose(call, x, order), (*rest, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    return flat, add(call, multiply(call, call.counted(count), columns + 1), start), order


def _as_strided(call: AtenCall) -> Value:
    """A strided view of a contiguous tensor, as a gather."""
    x, sizes, places = call["self"], call["size"], _strided(call)
    flat = reshape(call, x, (int(np.prod(x.shape)),))
    if places.size == flat.shape[0] and np.array_equal(places.reshape(-1), np.arange(places.size)):
        return reshape(call, x, sizes)
    return call.emit(g.TakeOp, flat, call.array(places.astype(np.int64)), axis=0)


def _strided(call: AtenCall) -> Any:
    """The linear indices of a strided view."""
    places: Any = np.array(call.get("storage_offset", 0))
    for size, stride in zip(call["size"], call["stride"], strict=True):
        places = places[..., None] + np.arange(size) * stride
    return places


def _strided_scatter(call: AtenCall) -> Value:
    """A contiguous tensor with a strided view of it replaced."""
    x, places = call["self"], _strided(call).reshape(-1)
    flat = reshape(call, x, (int(np.prod(x.shape)),))
    source = reshape(call, call.typed(call["src"], call.dtype), (places.size,))
    y = call.emit(g.ScatterElementsOp, flat, call.array(places.astype(np.int64)), source, axis=0, reduction="none")
    return reshape(call, y, x.shape)


def _unfold(call: AtenCall) -> Value:
    """Sliding windows along an axis; their elements are a new last axis."""
    x = call["self"]
    axis, size, stride = axis_of(call["dimension"], len(x.shape)), call["size"], call["step"]
    count = (x.shape[axis] - size) // stride + 1
    places = add(call, reshape(call, call.counted(count, by=stride), (count, 1)), call.counted(size))
    y = call.emit(g.TakeOp, x, places, axis=axis)
    order = [a for a in range(len(y.shape)) if a != axis + 1]
    return transpose(call, y, [*order, axis + 1])


def named(names: Sequence[str], convert: Convert) -> dict[str, Convert]:
    """Entries for several ops with one converter."""
    return dict.fromkeys(names, convert)


CONVERTERS: dict[str, Convert] = {
    **named(("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "lift_fresh", "lift", "detach_"), _self),
    **named(("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "flatten", "_reshape_alias"), _view),
    **named(("permute", "permute_copy"), _permute),
    **named(("transpose", "t"), _swap),
    **named(("expand", "expand_as"), _expand),
    **named(("split", "split_with_sizes"), _split),
    **named(("_to_copy", "to"), _cast),
    "prims::convert_element_type": _cast_prim,
    "slice": _slice, "select": _select, "cat": _cat, "stack": _stack, "unbind": _unbind, "repeat": _repeat,
    "flip": _flip, "roll": _roll, "constant_pad_nd": _pad, "copy": _copy,
    "diagonal": _diagonal, "diagonal_scatter": _diagonal_scatter,
    "as_strided": _as_strided, "as_strided_scatter": _strided_scatter, "unfold": _unfold,
    "tril": _triangle(g.LessEqualOp), "triu": _triangle(g.GreaterEqualOp),
    "pixel_shuffle": _shuffle, "pixel_unshuffle": _unshuffle,
    **named(("reflection_pad1d", "reflection_pad2d", "reflection_pad3d"), _pad_by("reflect")),
    **named(("replication_pad1d", "replication_pad2d", "replication_pad3d"), _pad_by("edge")),
}  # fmt: skip
