"""ATen ops that reshape, move and join tensors. The shape of a view is what torch says that the result has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.node import Value, dtype_like
from mlc.frontends.onnx.tools import (
    add,
    broadcast_to,
    cast,
    concat,
    element,
    full,
    iota,
    multiply,
    pad,
    part,
    reshape,
    select,
    stack,
    transpose,
)
from mlc.frontends.torch.step import Convert, Step


def _self(step: Step) -> Value:
    return step["self"]


def _view(step: Step) -> Value:
    """A tensor in another shape; or, given a dtype, its bits as elements of that."""
    if "dtype" in step:
        return _bits(step)
    return reshape(step, step["self"], step.shape)


def _bits(step: Step) -> Value:
    x = step["self"]
    if np.dtype(dtype_like(x)).itemsize != step.dtype.itemsize or "bool" in (x.dtype_name, step.dtype.name):
        raise step.fail(f"expected to see {x.dtype_name} as elements of the same size, but got {step.dtype.name}")
    return x if dtype_like(x) == step.dtype else step.emit(g.BitcastOp, x, dtype=step.dtype)


def _expand(step: Step) -> Value:
    return broadcast_to(step, step["self"], step.shape)


def _permute(step: Step) -> Value:
    x = step["self"]
    return transpose(step, x, [axis_of(axis, len(x.shape)) for axis in step["dims"]])


def _swap(step: Step) -> Value:
    x = step["self"]
    order = list(range(len(x.shape)))
    first, second = (step["dim0"], step["dim1"]) if "dim0" in step else (0, len(order) - 1)
    if order:
        order[first], order[second] = order[second], order[first]
    return transpose(step, x, order)


def _slice(step: Step) -> Value:
    x = step["self"]
    axis = axis_of(step.get("dim", 0), len(x.shape))
    bounds = step.get("start", 0), step.get("end", END), step.get("step", 1)
    return sliced(step, x, axis, *bounds, count=step.shape[axis])


def sliced(step: Step, x: Value, axis: int, begin: Any, end: Any, stride: int = 1, count: Any = None) -> Value:
    """
    `x[.., begin:end:stride, ..]`; an end that is the axis's symbolic size, or behind it, is the axis's end.

    `count` is the size of the result, where the bounds are sizes that stay open.
    """
    size = x.shape[axis]
    if end == size or (isinstance(end, int) and end >= END):
        end = END
    elif not isinstance(end, int) and isinstance(less := end - size, int) and less < 0:
        end = less
    if not isinstance(begin, int) or not isinstance(end, int):
        return _read(step, x, axis, begin, end - begin if count is None else count, stride)
    if (begin, stride) == (0, 1) and (end == END or (isinstance(size, int) and end >= size)):
        return x
    if isinstance(size, int):
        begin, end, stride = slice(begin, end, stride).indices(size)
    bounds = [(begin, end, stride) if a == axis else (0, END, 1) for a in range(len(x.shape))]
    begins, ends, strides = zip(*bounds, strict=True)
    return step.emit(g.SliceOp, x, begin=begins, end=ends, strides=strides)


def _read(step: Step, x: Value, axis: int, begin: Any, count: Any, stride: int) -> Value:
    """A slice between places that are open sizes: a look-up of so many."""
    if isinstance(begin, int) and begin < 0:
        begin = x.shape[axis] + begin
    places = add(step, step.counted(count, by=stride), begin)
    return step.emit(g.TakeOp, x, places, axis=axis)


def _select(step: Step) -> Value:
    x, axis, index = step["self"], step["dim"], step["index"]
    axis = axis_of(axis, len(x.shape))
    if not isinstance(index, int):
        return step.emit(g.TakeOp, x, step.array(index), axis=axis)
    if index >= 0:
        return element(step, x, axis, index)
    y = sliced(step, x, axis, index, END if index == -1 else index + 1, 1)
    return reshape(step, y, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _cat(step: Step) -> Value:
    """Legacy empty tensors of one axis are skipped, as torch does."""
    rank = len(step.shape)
    parts = [step.typed(x, step.dtype) for x in step["tensors"] if len(x.shape) == rank]
    return concat(step, parts, step.get("dim", 0))


def _stack(step: Step) -> Value:
    return stack(step, [step.typed(x, step.dtype) for x in step["tensors"]], step.get("dim", 0))


def _split(step: Step) -> list[Value]:
    x = step["self"]
    axis, size = axis_of(step.get("dim", 0), len(x.shape)), x.shape[step.get("dim", 0)]
    each = step.get("split_sizes", step.get("split_size"))
    sections = each if isinstance(each, list) else [min(each, size - at) for at in range(0, size, each)]
    if len(sections) > 1 and all(isinstance(n, int) and n > 0 for n in sections):
        return step.emit_all(g.SplitOp, x, axis=axis, sections=tuple(sections))
    starts = [sum(sections[:k]) for k in range(len(sections))]
    return [sliced(step, x, axis, start, start + n, count=n) for start, n in zip(starts, sections, strict=True)]


def _unbind(step: Step) -> list[Value]:
    x, axis = step["self"], step.get("dim", 0)
    return [element(step, x, axis, index) for index in range(x.shape[axis])]


def _repeat(step: Step) -> Value:
    x, reps = step["self"], step["repeats"]
    x = reshape(step, x, (*[1] * (len(reps) - len(x.shape)), *x.shape))
    for axis, times in enumerate(reps):
        if times == 1 or (isinstance(x.shape[axis], int) and isinstance(times, int)):
            continue
        if x.shape[axis] == 1:
            x = broadcast_to(step, x, (*x.shape[:axis], times, *x.shape[axis + 1 :]))
        elif isinstance(times, int):
            x = concat(step, [x] * times, axis)
        else:
            before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
            x = broadcast_to(step, reshape(step, x, (*before, 1, size, *after)), (*before, times, size, *after))
            x = reshape(step, x, (*before, times * size, *after))
        reps[axis] = 1
    return x if set(reps) <= {1} else step.emit(g.TileOp, x, reps=tuple(reps))


def _flip(step: Step) -> Value:
    x = step["self"]
    axes = {axis_of(axis, len(x.shape)) for axis in step["dims"]}
    for axis in [axis for axis in axes if not isinstance(size := x.shape[axis], int)]:
        size = x.shape[axis]
        x = step.emit(g.TakeOp, x, step.counted(size, start=size - 1, by=-1), axis=axis)
        axes.remove(axis)
    return step.emit(g.FlipOp, x, axes=tuple(sorted(axes))) if axes else x


def _roll(step: Step) -> Value:
    x, shifts, axes = step["self"], step["shifts"], step["dims"]
    if not axes:
        flat = reshape(step, x, (int(np.prod(x.shape)),))
        return reshape(step, _rolled(step, flat, 0, shifts[0]), x.shape)
    for shift, axis in zip(shifts, axes, strict=True):
        x = _rolled(step, x, axis, shift)
    return x


def _rolled(step: Step, x: Value, axis: int, shift: int) -> Value:
    size = x.shape[axis]
    at = -shift % size if size and isinstance(size, int) else -shift
    return x if not at else concat(step, [sliced(step, x, axis, at, END, 1), sliced(step, x, axis, 0, at, 1)], axis)


def _pad(step: Step) -> Value:
    """Padding of the last axes, given from the last one on; what is negative is cut off."""
    x, widths, value = step["self"], step["pad"], step.get("value", 0)
    for index in range(len(widths) // 2):
        axis = len(x.shape) - 1 - index
        before, after = widths[2 * index : 2 * index + 2]
        size = x.shape[axis]
        if not (isinstance(before, int) and isinstance(after, int)):
            ends = [_filler(step, x, axis, width, value) for width in (before, after)]
            x = concat(step, [ends[0], x, ends[1]], axis)
            continue
        x = part(step, x, axis, max(-before, 0), size + min(after, 0)) if min(before, after) < 0 else x
        x = pad(step, x, axis, max(before, 0), max(after, 0), float(value))
    return x


def _filler(step: Step, x: Value, axis: int, width: Any, value: float) -> Value:
    """What is put before or behind a tensor along an axis."""
    return full(step, (*x.shape[:axis], width, *x.shape[axis + 1 :]), float(value), dtype_like(x))


def _pad_by(mode: str) -> Convert:
    """Padding by what stands at the edge."""

    def convert(step: Step) -> Value:
        x, widths = step["self"], step["padding"]
        pairs = [widths[2 * i : 2 * i + 2] for i in range(len(widths) // 2)]
        width = [0, 0] * (len(x.shape) - len(pairs)) + [n for pair in reversed(pairs) for n in pair]
        return step.emit(g.PadOp, x, pad_width=tuple(width), mode=mode)

    return convert


def side(step: Step, rows: Any, columns: Any, op: Any, diagonal: int = 0) -> Value:
    """Whether each place of a matrix lies on one side of a diagonal: how `column - row` compares with it."""
    if isinstance(rows, int) and isinstance(columns, int):
        return step.array(_SIDES[op](np.arange(columns)[None, :] - np.arange(rows)[:, None], diagonal))
    row, column = add(step, iota(step, (rows, 1), 0), diagonal), iota(step, (1, columns), 1)
    return step.emit(op, column, row)


_SIDES: dict[Any, Any] = {g.LessEqualOp: np.less_equal, g.GreaterEqualOp: np.greater_equal}


def _triangle(op: Any) -> Convert:
    """What lies on one side of a diagonal; 0 elsewhere."""

    def convert(step: Step) -> Value:
        x = step["self"]
        rows, columns = x.shape[-2:]
        return select(step, side(step, rows, columns, op, step.get("diagonal", 0)), x, 0)

    return convert


def _shuffle(step: Step) -> Value:
    """Depth to space: channels become pixels."""
    x, size = step["self"], step["upscale_factor"]
    *outer, c, h, w = x.shape
    y = reshape(step, x, (*outer, c // size**2, size, size, h, w))
    n = len(outer)
    return reshape(step, transpose(step, y, [*range(n), n, n + 3, n + 1, n + 4, n + 2]), step.shape)


def _unshuffle(step: Step) -> Value:
    x, size = step["self"], step["downscale_factor"]
    *outer, c, h, w = x.shape
    y = reshape(step, x, (*outer, c, h // size, size, w // size, size))
    n = len(outer)
    return reshape(step, transpose(step, y, [*range(n), n, n + 2, n + 4, n + 1, n + 3]), step.shape)


def _copy(step: Step) -> Value:
    return broadcast_to(step, step.typed(step["src"], step.dtype), step.shape)


def _cast(step: Step) -> Value:
    return cast(step, step["self"], step.dtype)


def _cast_prim(step: Step) -> Value:
    return cast(step, step["a"], step.dtype)


def _diagonal(step: Step) -> Value:
    """Elements of two axes whose indices differ by the offset, along a new last axis."""
    flat, places, order = _on_diagonal(step, step.shape[-1])
    return step.emit(g.TakeOp, flat, places, axis=len(order) - 2)


def _diagonal_scatter(step: Step) -> Value:
    """A tensor with a diagonal replaced."""
    x, source = step["self"], step.typed(step["src"], step.dtype)
    flat, places, order = _on_diagonal(step, source.shape[-1])
    index = broadcast_to(step, places, source.shape)
    y = step.emit(g.ScatterElementsOp, flat, index, source, axis=len(order) - 2, reduction="none")
    y = reshape(step, y, tuple(x.shape[axis] for axis in order))
    return transpose(step, y, [order.index(axis) for axis in range(len(order))])


def _on_diagonal(step: Step, count: Any) -> tuple[Value, Value, list[int]]:
    """A tensor with two axes made one, the last; where so many elements of a diagonal are in it; the axes' order."""
    x, offset = step["self"], step.get("offset", 0)
    rank = len(x.shape)
    first, second = axis_of(step.get("dim1", 0), rank), axis_of(step.get("dim2", 1), rank)
    order = [*(axis for axis in range(rank) if axis not in (first, second)), first, second]
    *rest, rows, columns = (x.shape[axis] for axis in order)
    flat = reshape(step, transpose(step, x, order), (*rest, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    return flat, add(step, multiply(step, step.counted(count), columns + 1), start), order


def _as_strided(step: Step) -> Value:
    """Of a contiguous tensor: elements at known places."""
    x, sizes, places = step["self"], step["size"], _strided(step)
    flat = reshape(step, x, (int(np.prod(x.shape)),))
    if places.size == flat.shape[0] and np.array_equal(places.reshape(-1), np.arange(places.size)):
        return reshape(step, x, sizes)
    return step.emit(g.TakeOp, flat, step.array(places.astype(np.int64)), axis=0)


def _strided(step: Step) -> Any:
    """Where the elements of a view by strides stand in a contiguous tensor."""
    places: Any = np.array(step.get("storage_offset", 0))
    for size, stride in zip(step["size"], step["stride"], strict=True):
        places = places[..., None] + np.arange(size) * stride
    return places


def _strided_scatter(step: Step) -> Value:
    """A contiguous tensor with elements at known places replaced."""
    x, places = step["self"], _strided(step).reshape(-1)
    flat = reshape(step, x, (int(np.prod(x.shape)),))
    source = reshape(step, step.typed(step["src"], step.dtype), (places.size,))
    y = step.emit(g.ScatterElementsOp, flat, step.array(places.astype(np.int64)), source, axis=0, reduction="none")
    return reshape(step, y, x.shape)


def _unfold(step: Step) -> Value:
    """Windows along an axis, their elements along a new last one."""
    x = step["self"]
    axis, size, stride = axis_of(step["dimension"], len(x.shape)), step["size"], step["step"]
    count = (x.shape[axis] - size) // stride + 1
    places = add(step, reshape(step, step.counted(count, by=stride), (count, 1)), step.counted(size))
    y = step.emit(g.TakeOp, x, places, axis=axis)
    order = [a for a in range(len(y.shape)) if a != axis + 1]
    return transpose(step, y, [*order, axis + 1])


def named(names: Sequence[str], convert: Convert) -> dict[str, Convert]:
    """Several ops with one converter."""
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
