"""ATen ops that read or write at places which tensors say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import Shape, axis_of, broadcast
from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import (
    add,
    binary,
    broadcast_to,
    cast,
    concat,
    divide,
    iota,
    multiply,
    part,
    reshape,
    select,
    spread,
    subtract,
    transpose,
)
from mlc.frontends.torch.step import Convert, Step

REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "": "none"}
"""torch's name of how a scatter combines -> the graph dialect's."""


def _extreme(dtype: Any, sign: int) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min
    return sign * np.inf


NEUTRAL: dict[str, Any] = {
    "sum": lambda dtype: 0,
    "mean": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "amax": lambda dtype: _extreme(dtype, -1),
    "amin": lambda dtype: _extreme(dtype, 1),
}
"""torch's name of how a scatter combines -> what changes nothing, for elements of a type."""


def _embedding(step: Step) -> Value:
    return step.emit(g.TakeOp, step["weight"], step["indices"], axis=0)


def _index_select(step: Step) -> Value:
    x, index = step["self"], step["index"]
    index = index if index.shape else reshape(step, index, (1,))
    return step.emit(g.TakeOp, x, index, axis=step["dim"]) if x.shape else x


def _gather(step: Step) -> Value:
    x, index = step["self"], step["index"]
    return step.emit(g.GatherElementsOp, x, index, axis=step["dim"]) if x.shape else x


@dataclass(frozen=True)
class _Places:
    """What an index of tensors says: the axes that they index, which come first in `order`, and one place each."""

    axes: list[int]
    order: list[int]
    shape: Shape
    indices: list[Value]
    together: bool
    """Whether the axes stand side by side: the places then stay where these were."""

    def back(self, rank: int) -> list[int]:
        """The order that puts the places of a result, which come first, where torch has them."""
        if not self.together:
            return list(range(rank))
        many, first = len(self.shape), self.axes[0]
        return [*range(many, many + first), *range(many), *range(many + first, rank)]


def _unmasked(given: list[Value | None]) -> list[Value | None]:
    """An index in which a mask that is a constant is the places that it keeps, one tensor for each of its axes."""
    result: list[Value | None] = []
    for index in given:
        if index is None or index.dtype_name != "bool" or index.array is None or index.bound:
            result.append(index)
        else:
            result += [Value(None, places, index.name) for places in np.nonzero(index.array)]
    return result


def _places(step: Step, x: Value, given: list[Value | None]) -> _Places:
    axes = [axis for axis, index in enumerate(given) if index is not None]
    indices = [index for index in given if index is not None]
    if any(index.dtype_name == "bool" for index in indices):
        raise step.fail("expected indices of integers, but got a mask: how much it keeps depends on data; use where")
    shape = broadcast([index.shape for index in indices])
    indices = [broadcast_to(step, cast(step, index, np.int64), shape) for index in indices]
    order = [*axes, *(axis for axis in range(len(x.shape)) if axis not in axes)]
    return _Places(axes, order, tuple(shape), indices, axes == list(range(axes[0], axes[-1] + 1)))


def _index(step: Step) -> Value:
    """`x[:, i, j]`: one tensor is a take; several are one place in their axes, made one."""
    x, given = step["self"], _unmasked(step["indices"])
    present = [(axis, index) for axis, index in enumerate(given) if index is not None]
    if len(present) == 1 and present[0][1].dtype_name != "bool":
        return step.emit(g.TakeOp, x, present[0][1], axis=present[0][0])
    places = _places(step, x, given)
    sizes = [x.shape[axis] for axis in places.axes]
    flat: Value | None = None
    for index, size in zip(places.indices, sizes, strict=True):
        index = select(step, binary(step, g.LessOp, index, 0), add(step, index, size), index)
        flat = index if flat is None else add(step, multiply(step, flat, size), index)
    assert flat is not None
    moved = transpose(step, x, places.order)
    rest = moved.shape[len(sizes) :]
    y = step.emit(g.TakeOp, reshape(step, moved, (math.prod(sizes), *rest)), flat, axis=0)
    return transpose(step, y, places.back(len(y.shape)))


def _index_put(step: Step) -> Value:
    x, given = step["self"], _unmasked(step["indices"])
    values, accumulate = cast(step, step["values"], step.dtype), bool(step.get("accumulate", False))
    present = [index for index in given if index is not None]
    if len(present) == 1 and present[0].dtype_name == "bool":
        return _masked_put(step, x, given, values, accumulate)
    places = _places(step, x, given)
    depth, count = len(places.axes), math.prod(places.shape)
    moved = transpose(step, x, places.order)
    rest = moved.shape[depth:]
    back = places.back(len(places.shape) + len(rest))
    arranged = [0] * len(back)
    for at, axis in enumerate(back):
        arranged[axis] = at
    whole = (*places.shape, *rest)
    values = broadcast_to(step, values, [whole[axis] for axis in back])
    updates = reshape(step, transpose(step, values, arranged), (count, *rest))
    indices = concat(step, [reshape(step, index, (count, 1)) for index in places.indices], 1)
    y = step.emit(g.ScatterNdOp, moved, indices, updates, reduction="add" if accumulate else "none")
    inverse = [places.order.index(axis) for axis in range(len(x.shape))]
    return transpose(step, y, inverse)


def _masked_put(step: Step, x: Value, given: list[Any], values: Value, accumulate: bool) -> Value:
    """One value where a mask says so."""
    if math.prod(values.shape) != 1:
        raise step.fail(
            "expected one value for the elements of a mask, but got several: which is which depends on data"
        )
    (axis,) = (a for a, index in enumerate(given) if index is not None)
    mask = given[axis]
    mask = reshape(step, mask, (*mask.shape, *[1] * (len(x.shape) - axis - len(mask.shape))))
    value = reshape(step, values, ())
    return step.emit(g.WhereOp, mask, add(step, x, value) if accumulate else value, x)


def _scatter(step: Step) -> Value:
    x, index, axis = step["self"], step["index"], step["dim"]
    source = step["src"] if "src" in step else step["value"]
    source = step.typed(source, step.dtype)
    reduction = REDUCTIONS["add" if step.kind == "scatter_add" else step.get("reduce", "")]
    if not x.shape:
        return reshape(step, source, ())
    if 0 in index.shape:
        return x
    source = broadcast_to(step, source, index.shape) if not source.shape else source
    for a, size in enumerate(index.shape):
        source = part(step, source, a, 0, size)
    return step.emit(g.ScatterElementsOp, x, index, source, axis=axis, reduction=reduction)


def _scatter_reduce(step: Step) -> Value:
    """What is scattered, combined; a mean is the sum over the count, and what is not included is 0 or 1 before."""
    x, index, axis, how = step["self"], step["index"], step["dim"], step["reduce"]
    kept = step.get("include_self", True)
    if not x.shape or 0 in index.shape or (how != "mean" and kept):
        return _scatter(step)
    source = step.typed(step["src"], step.dtype)
    for a, size in enumerate(index.shape):
        source = part(step, source, a, 0, size)

    def put(into: Value, what: Any, reduction: str) -> Value:
        what = broadcast_to(step, step.typed(what, step.dtype), index.shape)
        return step.emit(g.ScatterElementsOp, into, index, what, axis=axis, reduction=reduction)

    first = x if kept else put(x, NEUTRAL[how](step.dtype), "none")
    total = put(first, source, REDUCTIONS["sum" if how == "mean" else how])
    if how != "mean":
        return total
    ones = broadcast_to(step, step.typed(1, step.dtype), x.shape)
    count = put(ones if kept else put(ones, 0, "none"), 1, "add")
    if step.dtype.kind in "iu":
        raise step.fail("expected a mean of floats, but got integers")
    return divide(step, total, count)


def _select_scatter(step: Step) -> Value:
    """A tensor with one slice replaced."""
    x, axis = step["self"], axis_of(step["dim"], len(step["self"].shape))
    index = step["index"] % x.shape[axis]
    source = reshape(step, step.typed(step["src"], step.dtype), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return concat(step, [part(step, x, axis, 0, index), source, part(step, x, axis, index + 1, x.shape[axis])], axis)


def _slice_scatter(step: Step) -> Value:
    """A tensor with some slices replaced: its parts round them, or a choice where they are not side by side."""
    x, source = step["self"], step.typed(step["src"], step.dtype)
    axis = axis_of(step.get("dim", 0), len(x.shape))
    size = x.shape[axis]
    if not isinstance(size, int):
        return _slice_put(step, x, source, axis)
    start, end, stride = slice(step.get("start"), step.get("end"), step.get("step", 1)).indices(size)
    count = len(range(start, end, stride))
    if not count:
        return x
    if stride == 1:
        return concat(step, [part(step, x, axis, 0, start), source, part(step, x, axis, end, size)], axis)
    apart = spread(step, source, axis, stride, start, size)
    hot = np.zeros(size, bool)
    hot[start:end:stride] = True
    mask = step.array(hot.reshape([size if a == axis else 1 for a in range(len(x.shape))]))
    return step.emit(g.WhereOp, mask, apart, x)


def _slice_put(step: Step, x: Value, source: Value, axis: int) -> Value:
    """A tensor with a slice of an axis of open size replaced: each place says which element it takes, or none."""
    size, rank = x.shape[axis], len(x.shape)
    start, end, stride = step.get("start", 0), step.get("end", END), step.get("step", 1)
    start, end = (
        size + place
        if isinstance(place, int) and place < 0
        else size
        if isinstance(place, int) and place >= END
        else place
        for place in (start, end)
    )
    places = subtract(step, step.counted(size), start)
    inside = binary(
        step, g.LogicalAndOp, binary(step, g.GreaterEqualOp, places, 0), binary(step, g.LessOp, step.counted(size), end)
    )
    if stride != 1:
        inside = binary(step, g.LogicalAndOp, inside, binary(step, g.EqualOp, binary(step, g.ModOp, places, stride), 0))
        places = binary(step, g.DivideOp, places, stride)
    chosen = step.emit(g.TakeOp, source, binary(step, g.MaximumOp, places, 0), axis=axis)
    mask = reshape(step, inside, [size if a == axis else 1 for a in range(rank)])
    return step.emit(g.WhereOp, mask, chosen, x)


def _masked_scatter(step: Step) -> Value:
    """Where a mask says so, the next element of the source."""
    x, mask, source = step["self"], step["mask"], step.typed(step["source"], step.dtype)
    mask = broadcast_to(step, mask, x.shape)
    flat = reshape(step, cast(step, mask, np.int64), (math.prod(x.shape),))
    count = step.onnx("CumSum", [flat, step.array(np.array(0, np.int64))])[0]
    place = select(step, binary(step, g.GreaterOp, count, 0), add(step, count, -1), 0)
    elements = reshape(step, source, (math.prod(source.shape),))
    place = step.emit(g.MinimumOp, place, step.array(elements.shape[0] - 1, like=place))
    chosen = reshape(step, step.emit(g.TakeOp, elements, place, axis=0), x.shape)
    return step.emit(g.WhereOp, mask, chosen, x)


def _one_hot(step: Step) -> Value:
    x, depth = step["self"], step.shape[-1]
    places = reshape(step, x, (*x.shape, 1))
    return cast(step, step.emit(g.EqualOp, places, iota(step, (depth,), 0)), step.dtype)


def _bucketize(step: Step) -> Value:
    """How many boundaries lie below (or, with `right`, not above) each element."""
    name = "boundaries" if "boundaries" in step else "sorted_sequence"
    if step.get("sorter") is not None:
        raise step.fail("expected boundaries in order, but got a sorter")
    x, bounds = step.promoted("self", name)
    many = len(bounds.shape) > 1
    bounds = reshape(step, bounds, (*bounds.shape[:-1], 1, bounds.shape[-1])) if many else bounds
    right = step.get("right", False) or step.get("side", "left") == "right"
    above = step.emit(g.GreaterEqualOp if right else g.GreaterOp, reshape(step, x, (*x.shape, 1)), bounds)
    return step.emit(g.SumOp, cast(step, above, step.dtype), axes=(len(x.shape),))


CONVERTERS: dict[str, Convert] = {
    "embedding": _embedding, "index_select": _index_select, "gather": _gather, "index": _index, "_unsafe_index": _index,
    "index_put": _index_put, "_unsafe_index_put": _index_put, "scatter": _scatter, "scatter_add": _scatter,
    "scatter_reduce": _scatter_reduce, "select_scatter": _select_scatter, "slice_scatter": _slice_scatter,
    "masked_scatter": _masked_scatter, "one_hot": _one_hot, "bucketize": _bucketize, "searchsorted": _bucketize,
}  # fmt: skip
