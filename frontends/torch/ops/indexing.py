"""ATen ops that gather and scatter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import Shape, axis_of, broadcast
from mlc.frontends.common.elementwise import add, binary, cast, divide, iota, multiply, select, subtract
from mlc.frontends.common.movement import broadcast_to, concat, dilate_axis, reshape, slice_axis, transpose
from mlc.frontends.common.ops.cumulative import cumulative
from mlc.frontends.common.values import Value
from mlc.frontends.torch.call import AtenCall, Convert

REDUCTIONS = {"add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max", "amin": "min", "": "none"}
"""torch's name of the reduction of a scatter -> the graph dialect's."""


def _extreme(dtype: np.dtype[Any], sign: int) -> Any:
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
"""torch's name of the reduction of a scatter -> its neutral element, by dtype."""


def _embedding(call: AtenCall) -> Value:
    return call.emit(g.TakeOp, call["weight"], call["indices"], axis=0)


def _index_select(call: AtenCall) -> Value:
    x, index = call["self"], call["index"]
    index = index if index.shape else reshape(call, index, (1,))
    return call.emit(g.TakeOp, x, index, axis=call["dim"]) if x.shape else x


def _gather(call: AtenCall) -> Value:
    x, index = call["self"], call["index"]
    return call.emit(g.GatherElementsOp, x, index, axis=call["dim"]) if x.shape else x


@dataclass(frozen=True)
class _IndexTensors:
    """Advanced indexing: the axes that are indexed, which come first in `order`, and an index tensor for each."""

    axes: list[int]
    order: list[int]
    shape: Shape
    indices: list[Value]
    together: bool
    """Whether the axes are adjacent: the axes of the indices then replace them in the result, else they come first."""

    def back(self, rank: int) -> list[int]:
        """The permutation of a result with the axes of the indices first to torch's order of axes."""
        if not self.together:
            return list(range(rank))
        many, first = len(self.shape), self.axes[0]
        return [*range(many, many + first), *range(many), *range(many + first, rank)]


def _unmasked(given: list[Value | None]) -> list[Value | None]:
    """Indices in which each constant mask is replaced by the indices of its true elements, one tensor per axis."""
    result: list[Value | None] = []
    for index in given:
        if index is None or index.dtype_name != "bool" or index.array is None or index.bound:
            result.append(index)
        else:
            result += [Value(None, places, index.name) for places in np.nonzero(index.array)]
    return result


def _places(call: AtenCall, x: Value, given: list[Value | None]) -> _IndexTensors:
    axes = [axis for axis, index in enumerate(given) if index is not None]
    indices = [index for index in given if index is not None]
    if any(index.dtype_name == "bool" for index in indices):
        raise call.fail("expected indices of integers, but got a mask: how much it keeps depends on data; use where")
    shape = broadcast([index.shape for index in indices])
    indices = [broadcast_to(call, cast(call, index, np.int64), shape) for index in indices]
    order = [*axes, *(axis for axis in range(len(x.shape)) if axis not in axes)]
    return _IndexTensors(axes, order, tuple(shape), indices, axes == list(range(axes[0], axes[-1] + 1)))


def _index(call: AtenCall) -> Value:
    """`x[:, i, j]`: one index tensor is a take; several index their axes flattened to one."""
    x, given = call["self"], _unmasked(call["indices"])
    present = [(axis, index) for axis, index in enumerate(given) if index is not None]
    if len(present) == 1 and present[0][1].dtype_name != "bool":
        return call.emit(g.TakeOp, x, present[0][1], axis=present[0][0])
    places = _places(call, x, given)
    sizes = [x.shape[axis] for axis in places.axes]
    flat: Value | None = None
    for index, size in zip(places.indices, sizes, strict=True):
        index = select(call, binary(call, g.LessOp, index, 0), add(call, index, size), index)
        flat = index if flat is None else add(call, multiply(call, flat, size), index)
    assert flat is not None
    moved = transpose(call, x, places.order)
    rest = moved.shape[len(sizes) :]
    y = call.emit(g.TakeOp, reshape(call, moved, (math.prod(sizes), *rest)), flat, axis=0)
    return transpose(call, y, places.back(len(y.shape)))


def _index_put(call: AtenCall) -> Value:
    x, given = call["self"], _unmasked(call["indices"])
    values, accumulate = cast(call, call["values"], call.dtype), bool(call.get("accumulate", False))
    present = [index for index in given if index is not None]
    if len(present) == 1 and present[0].dtype_name == "bool":
        return _masked_put(call, x, given, values, accumulate)
    places = _places(call, x, given)
    depth, count = len(places.axes), math.prod(places.shape)
    moved = transpose(call, x, places.order)
    rest = moved.shape[depth:]
    back = places.back(len(places.shape) + len(rest))
    arranged = [0] * len(back)
    for at, axis in enumerate(back):
        arranged[axis] = at
    whole = (*places.shape, *rest)
    values = broadcast_to(call, values, [whole[axis] for axis in back])
    updates = reshape(call, transpose(call, values, arranged), (count, *rest))
    indices = concat(call, [reshape(call, index, (count, 1)) for index in places.indices], 1)
    y = call.emit(g.ScatterNdOp, moved, indices, updates, reduction="add" if accumulate else "none")
    inverse = [places.order.index(axis) for axis in range(len(x.shape))]
    return transpose(call, y, inverse)


def _masked_put(call: AtenCall, x: Value, given: list[Any], values: Value, accumulate: bool) -> Value:
    """One value written where a mask is true."""
    if math.prod(values.shape) != 1:
        raise call.fail(
            "expected one value for the elements of a mask, but got several: which is which depends on data"
        )
    (axis,) = (a for a, index in enumerate(given) if index is not None)
    mask = given[axis]
    mask = reshape(call, mask, (*mask.shape, *[1] * (len(x.shape) - axis - len(mask.shape))))
    value = reshape(call, values, ())
    return call.emit(g.WhereOp, mask, add(call, x, value) if accumulate else value, x)


def _scatter(call: AtenCall) -> Value:
    x, index, axis = call["self"], call["index"], call["dim"]
    source = call["src"] if "src" in call else call["value"]
    source = call.typed(source, call.dtype)
    reduction = REDUCTIONS["add" if call.kind == "scatter_add" else call.get("reduce", "")]
    if not x.shape:
        return reshape(call, source, ())
    if 0 in index.shape:
        return x
    source = broadcast_to(call, source, index.shape) if not source.shape else source
    for a, size in enumerate(index.shape):
        source = slice_axis(call, source, a, 0, size)
    return call.emit(g.ScatterElementsOp, x, index, source, axis=axis, reduction=reduction)


def _scatter_reduce(call: AtenCall) -> Value:
    """A scatter with a reduction; a mean is sum / count; without include_self the targets are set to neutral first."""
    x, index, axis, how = call["self"], call["index"], call["dim"], call["reduce"]
    kept = call.get("include_self", True)
    if not x.shape or 0 in index.shape or (how != "mean" and kept):
        return _scatter(call)
    source = call.typed(call["src"], call.dtype)
    for a, size in enumerate(index.shape):
        source = slice_axis(call, source, a, 0, size)

    def put(into: Value, what: Any, reduction: str) -> Value:
        what = broadcast_to(call, call.typed(what, call.dtype), index.shape)
        return call.emit(g.ScatterElementsOp, into, index, what, axis=axis, reduction=reduction)

    first = x if kept else put(x, NEUTRAL[how](call.dtype), "none")
    total = put(first, source, REDUCTIONS["sum" if how == "mean" else how])
    if how != "mean":
        return total
    ones = broadcast_to(call, call.typed(1, call.dtype), x.shape)
    count = put(ones if kept else put(ones, 0, "none"), 1, "add")
    if call.dtype.kind in "iu":
        raise call.fail("expected a mean of floats, but got integers")
    return divide(call, total, count)


def _select_scatter(call: AtenCall) -> Value:
    """A tensor with one slice replaced."""
    x, axis = call["self"], axis_of(call["dim"], len(call["self"].shape))
    index = call["index"] % x.shape[axis]
    source = reshape(call, call.typed(call["src"], call.dtype), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
    return concat(
        call, [slice_axis(call, x, axis, 0, index), source, slice_axis(call, x, axis, index + 1, x.shape[axis])], axis
    )


def _slice_scatter(call: AtenCall) -> Value:
    """A tensor with a slice replaced: a concatenation, or a select for strides other than 1."""
    x, source = call["self"], call.typed(call["src"], call.dtype)
    axis = axis_of(call.get("dim", 0), len(x.shape))
    size = x.shape[axis]
    if not isinstance(size, int):
        return _slice_put(call, x, source, axis)
    start, end, stride = slice(call.get("start"), call.get("end"), call.get("step", 1)).indices(size)
    count = len(range(start, end, stride))
    if not count:
        return x
    if stride == 1:
        return concat(call, [slice_axis(call, x, axis, 0, start), source, slice_axis(call, x, axis, end, size)], axis)
    apart = dilate_axis(call, source, axis, stride, start, size)
    hot = np.zeros(size, bool)
    hot[start:end:stride] = True
    mask = call.array(hot.reshape([size if a == axis else 1 for a in range(len(x.shape))]))
    return call.emit(g.WhereOp, mask, apart, x)


def _slice_put(call: AtenCall, x: Value, source: Value, axis: int) -> Value:
    """A tensor with a slice of an axis of symbolic size replaced, by a gather and a select."""
    size, rank = x.shape[axis], len(x.shape)
    start, end, stride = call.get("start", 0), call.get("end", END), call.get("step", 1)
    start, end = (
        size + place
        if isinstance(place, int) and place < 0
        else size
        if isinstance(place, int) and place >= END
        else place
        for place in (start, end)
    )
    places = subtract(call, call.counted(size), start)
    inside = binary(
        call, g.LogicalAndOp, binary(call, g.GreaterEqualOp, places, 0), binary(call, g.LessOp, call.counted(size), end)
    )
    if stride != 1:
        inside = binary(call, g.LogicalAndOp, inside, binary(call, g.EqualOp, binary(call, g.ModOp, places, stride), 0))
        places = binary(call, g.DivideOp, places, stride)
    chosen = call.emit(g.TakeOp, source, binary(call, g.MaximumOp, places, 0), axis=axis)
    mask = reshape(call, inside, [size if a == axis else 1 for a in range(rank)])
    return call.emit(g.WhereOp, mask, chosen, x)


def _masked_scatter(call: AtenCall) -> Value:
    """The elements of the source written in order where a mask is true."""
    x, mask, source = call["self"], call["mask"], call.typed(call["source"], call.dtype)
    mask = broadcast_to(call, mask, x.shape)
    flat = reshape(call, cast(call, mask, np.int64), (math.prod(x.shape),))
    count = cumulative(call, flat, 0, "add")
    place = select(call, binary(call, g.GreaterOp, count, 0), add(call, count, -1), 0)
    elements = reshape(call, source, (math.prod(source.shape),))
    place = call.emit(g.MinimumOp, place, call.array(elements.shape[0] - 1, like=place))
    chosen = reshape(call, call.emit(g.TakeOp, elements, place, axis=0), x.shape)
    return call.emit(g.WhereOp, mask, chosen, x)


def _one_hot(call: AtenCall) -> Value:
    x, depth = call["self"], call.shape[-1]
    places = reshape(call, x, (*x.shape, 1))
    return cast(call, call.emit(g.EqualOp, places, iota(call, (depth,), 0)), call.dtype)


def _bucketize(call: AtenCall) -> Value:
    """The number of boundaries below (with `right`, not above) each element."""
    name = "boundaries" if "boundaries" in call else "sorted_sequence"
    if call.get("sorter") is not None:
        raise call.fail("expected boundaries in order, but got a sorter")
    x, bounds = call.promoted("self", name)
    many = len(bounds.shape) > 1
    bounds = reshape(call, bounds, (*bounds.shape[:-1], 1, bounds.shape[-1])) if many else bounds
    right = call.get("right", False) or call.get("side", "left") == "right"
    above = call.emit(g.GreaterEqualOp if right else g.GreaterOp, reshape(call, x, (*x.shape, 1)), bounds)
    return call.emit(g.SumOp, cast(call, above, call.dtype), axes=(len(x.shape),))


CONVERTERS: dict[str, Convert] = {
    "embedding": _embedding, "index_select": _index_select, "gather": _gather, "index": _index, "_unsafe_index": _index,
    "index_put": _index_put, "_unsafe_index_put": _index_put, "scatter": _scatter, "scatter_add": _scatter,
    "scatter_reduce": _scatter_reduce, "select_scatter": _select_scatter, "slice_scatter": _slice_scatter,
    "masked_scatter": _masked_scatter, "one_hot": _one_hot, "bucketize": _bucketize, "searchsorted": _bucketize,
}  # fmt: skip
