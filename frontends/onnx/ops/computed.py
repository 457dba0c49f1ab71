"""
Data-dependent sizes: ops that make padded tensors of computed sizes (Range, ConstantOfShape, Expand, Reshape, Slice,
OneHot), and ops that reduce, slice or join along the padded axis. Other nodes are left to the ops' own converters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, DimExpr, greatest
from mlc.dialects.graph.dims import least as lesser
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of, element_of
from mlc.frontends.common.counted import marked, plain
from mlc.frontends.common.elementwise import add, binary, cast, divide, full, iota, multiply, select, subtract
from mlc.frontends.common.movement import broadcast_to, index_axis, reshape, slice_axis
from mlc.frontends.common.sizes import LARGEST_SIZE, size_array
from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.common.spans import MAX_SPAN_ELEMENTS, span_of
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node, Result
from mlc.frontends.onnx.ops import selection
from mlc.frontends.onnx.table import Wrapper, Wraps, wraps

MAX_BOUND = 1 << 28
"""The largest bound of a data-dependent size."""


def scalar(node: Node, value: Value) -> Value:
    """A value of one element as an i64."""
    return cast(node, reshape(node, value, ()), np.int64)


def counted(node: Node, x: Value, axis: int, count: Value) -> Value:
    """`x` with a count along an axis in place of the one it may have; unchanged if the count is the whole axis."""
    if count.array is not None and not count.bound and int(count.array) == x.shape[axis]:
        return x
    return selection.counted(node, plain(x), axis, count)


def at_least_zero(node: Node, count: Value) -> Value:
    """`max(count, 0)`"""
    return binary(node, g.MaximumOp, count, 0)


def least(node: Node, a: Value, b: Value | int) -> Value:
    """`min(a, b)`"""
    return binary(node, g.MinimumOp, a, b)


# --- sizes that are computed from values with bounds -----------------------------------------------------------------


def _range(node: Node, own: Converter) -> Result:
    start, limit, delta = (reshape(node, node.input(i), ()) for i in range(3))
    first, last, by = (span_of(v) for v in (start, limit, delta))
    known = all(v.array is not None for v in (start, limit, delta))
    if known or first is None or last is None or by is None or by[0] != by[1] or by[0] == 0:
        return own(node)
    step = by[0].item()
    extent = last[1].item() - first[0].item() if step > 0 else last[0].item() - first[1].item()
    bound = greatest(0, -(-extent // step)) if isinstance(extent, DimExpr) else max(0, math.ceil(extent / step))
    _check_bound(node, bound)
    if np.dtype(dtype_like(start)).kind in "iu":
        rest = subtract(node, limit, start) if step > 0 else subtract(node, start, limit)
        count = divide(node, add(node, rest, abs(step) - 1), abs(step))
    else:
        ends = [cast(node, v, np.float64) for v in (start, limit, delta)]
        count = node.emit(g.CeilOp, divide(node, subtract(node, ends[1], ends[0]), ends[2]))
    steps = multiply(node, cast(node, iota(node, (bound,), 0), dtype_like(start)), delta)
    return counted(node, add(node, steps, start), 0, at_least_zero(node, scalar(node, count)))


def _check_bound(node: Node, bound: Dim) -> None:
    if isinstance(bound, int) and bound > MAX_BOUND:
        raise node.fail(f"expected a size of at most {MAX_BOUND}, but it may be up to {bound}")


def computed_shape(node: Node, value: Value) -> tuple[list[Dim], int, Value] | None:
    """(padded sizes, the padded axis, its count) of a shape that is computed; None if it is known or has no bounds."""
    span = None if value.array is not None else span_of(value)
    if span is None or len(value.shape) != 1:
        return None
    open_axes = np.flatnonzero(span[0] != span[1]).tolist()
    if len(open_axes) > 1:
        raise node.fail(f"expected a shape of which the data says at most one size, but got {len(open_axes)}")
    axis = open_axes[0] if open_axes else 0
    sizes = span[1].tolist()
    for size in sizes:
        _check_bound(node, size)
    return sizes, axis, scalar(node, slice_axis(node, value, 0, axis, axis + 1))


def _constant_of_shape(node: Node, own: Converter) -> Result:
    found = computed_shape(node, node.input(0))
    if found is None:
        return own(node)
    sizes, axis, count = found
    value = node.attr("value", np.zeros(1, np.float32))
    return counted(node, full(node, sizes, value.reshape(()).item(), value.dtype), axis, count)


def _expand(node: Node, own: Converter) -> Result:
    x = node.input(0)
    found = computed_shape(node, node.input(1))
    if found is None:
        return own(node)
    sizes, axis, count = found
    rank = max(len(x.shape), len(sizes))
    sizes, axis = [1] * (rank - len(sizes)) + sizes, axis + rank - len(sizes)
    mine = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    whole = [m if s == 1 else s for m, s in zip(mine, sizes, strict=True)]
    if mine[axis] not in (1, sizes[axis]) or (mine[axis] != 1 and x.counted is None):
        raise node.fail(f"expected a size of 1 where the data says the new one, but got {mine[axis]} of axis {axis}")
    return counted(node, broadcast_to(node, plain(x), whole), axis, count)


def _reshape(node: Node, own: Converter) -> Result:
    x, found = node.input(0), computed_shape(node, node.input(1)) if node.opset >= 5 else None
    if found is None:
        return own(node)
    sizes = [x.shape[k] if n == 0 and k < len(x.shape) else n for k, n in enumerate(found[0])]
    total = math.prod(x.shape)
    if sizes.count(-1) == 1 and math.prod(sizes):
        sizes[sizes.index(-1)] = total // -math.prod(sizes)
    if x.counted is None or math.prod(sizes) != total:
        raise node.fail(f"expected a shape that is known, or of the sizes of a counted input, but got up to {sizes}")
    return reshape(node, x, sizes)


def _one_hot(node: Node, own: Converter) -> Result:
    indices, depth, values = (node.input(i) for i in range(3))
    span = None if depth.array is not None else span_of(depth)
    if span is None:
        return own(node)
    bound = span[1].reshape(()).item()
    _check_bound(node, bound)
    axis = axis_of(node.attr("axis", -1), len(indices.shape) + 1)
    count, places = scalar(node, depth), cast(node, indices, np.int64)
    places = select(node, binary(node, g.LessOp, places, 0), add(node, places, count), places)
    places = reshape(node, places, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    hot = binary(node, g.EqualOp, places, iota(node, (*indices.shape[:axis], bound, *indices.shape[axis:]), axis))
    return counted(node, select(node, hot, index_axis(node, values, 0, 1), index_axis(node, values, 0, 0)), axis, count)


# --- along the padded axis -------------------------------------------------------------------------------------------


def _size(node: Node, x: Value, axis: int) -> Value:
    """The number of valid elements along an axis."""
    if x.counted is not None and x.counted.axis == axis:
        return x.counted.value
    return node.array(size_array(x.shape[axis]))


def _slice(node: Node, own: Converter) -> Result:
    """Bounds along one axis that are computed at run time, or a slice of the padded axis."""
    x = node.input(0)
    if node.opset < 10 or not (node.has(1) and node.has(2)):
        return own(node)
    starts, ends = node.input(1), node.input(2)
    axes = [axis_of(a, len(x.shape)) for a in node.ints(3, None, list(range(starts.shape[0])))]
    steps = node.ints(4, None, [1] * len(axes))
    special = [k for k, axis in enumerate(axes) if x.counted is not None and x.counted.axis == axis]
    if starts.array is None or ends.array is None:
        if len(axes) > 1:
            raise_unless_known(node, (starts, ends))
        special = [0]
    if not special:
        return own(node)
    (k,) = special
    if steps[k] != 1:
        error = node.fail(f"expected steps of 1 along an axis whose size the data says, but got {steps[k]}")
        raise NeedsValues(str(error), node.importer.sources(starts) | node.importer.sources(ends))
    rest = [j for j in range(len(axes)) if j != k]
    y = _window(node, x, axes[k], index_axis(node, starts, 0, k), index_axis(node, ends, 0, k))
    if not rest:
        return y
    assert starts.array is not None
    assert ends.array is not None
    bounds: list[Any] = [(0, END, 1)] * len(x.shape)
    for j in rest:
        if not isinstance(x.shape[axes[j]], int):
            raise node.fail(f"expected axis {axes[j]} of a known size, beside one the data says, but got {x.shape}")
        first, last, step = slice(int(starts.array[j]), int(ends.array[j]), steps[j]).indices(x.shape[axes[j]])
        bounds[axes[j]] = first, last if last >= 0 else -x.shape[axes[j]] - 1, step
    begin, end, strides = zip(*bounds, strict=True)
    return node.emit(g.SliceOp, y, begin=begin, end=end, strides=strides)


def raise_unless_known(node: Node, values: Sequence[Value]) -> None:
    """NeedsValues for values that are not known at import."""
    for value in values:
        node.known(value, f"'{value.name}'")


def known(value: Value) -> bool:
    """Whether a value is a constant of numbers, independent of the inputs."""
    return value.array is not None and value.array.dtype != object and not value.bound


def _window(node: Node, x: Value, axis: int, start: Value, end: Value) -> Value:
    """`x[start:end]` along an axis."""
    size = _size(node, x, axis)

    def place(value: Value) -> Value:
        value = cast(node, value, np.int64)
        if known(value) and int(value.array) >= LARGEST_SIZE:
            return size
        value = select(node, binary(node, g.LessOp, value, 0), add(node, value, size), value)
        return least(node, at_least_zero(node, value), size)

    first, last = place(start), place(end)
    count = at_least_zero(node, subtract(node, last, first))
    span, room = span_of(count), x.shape[axis]
    bound = room if span is None else greatest(0, lesser(room, span[1].item()))
    if known(first):
        begin = int(first.array)
        return counted(node, slice_axis(node, plain(x), axis, begin, begin + bound), axis, count)
    if bound == 0:
        return node.array(np.zeros((*x.shape[:axis], 0, *x.shape[axis + 1 :]), dtype_like(x)))
    places = least(node, add(node, iota(node, (bound,), 0), first), node.array(np.array(room - 1)))
    return counted(node, node.emit(g.TakeOp, plain(x), places, axis=axis), axis, count)


def _concat(node: Node, own: Converter) -> Result:
    """The valid parts of the operands one after the other, in a padded tensor."""
    parts = [node.input(i) for i in range(len(node.inputs))]
    axis = axis_of(node.attr("axis"), len(parts[0].shape))
    if not any(x.counted is not None and x.counted.axis == axis for x in parts):
        return own(node)
    whole, total = parts[0], _size(node, parts[0], axis)
    for x in parts[1:]:
        room, more = whole.shape[axis], _size(node, x, axis)
        joined = node.emit(g.ConcatenateOp, plain(whole), plain(x), axis=axis)
        places = iota(node, (room + x.shape[axis],), 0)
        behind = add(node, subtract(node, places, total), room)
        places = select(node, binary(node, g.LessOp, places, total), places, behind)
        places = least(node, places, room + x.shape[axis] - 1)
        total = add(node, total, more)
        whole = counted(node, node.emit(g.TakeOp, joined, places, axis=axis), axis, total)
    return whole


def _gather(node: Node, own: Converter) -> Result:
    """Indices along the padded axis; negative ones count from the end of the valid part."""
    x, places = node.input(0), node.input(1)
    axis = axis_of(node.attr("axis", 0), len(x.shape))
    if x.counted is None or x.counted.axis != axis:
        return own(node)
    behind = add(node, places, cast(node, x.counted.value, dtype_like(places)))
    places = select(node, binary(node, g.LessOp, places, 0), behind, places)
    return node.emit(g.TakeOp, plain(x), places, axis=axis)


def masked(node: Node, x: Value, fill: float) -> Value:
    """A padded tensor with its padding set to `fill`."""
    assert x.counted is not None
    axis, size = x.counted.axis, x.shape[x.counted.axis]
    sizes = [size if a == axis else 1 for a in range(len(x.shape))]
    there = binary(node, g.LessOp, reshape(node, iota(node, (size,), 0), sizes), x.counted.value)
    dtype = np.dtype(dtype_like(x))
    if np.isinf(fill) and dtype.kind in "iu":
        fill = np.iinfo(dtype).max if fill > 0 else np.iinfo(dtype).min
    return select(node, there, plain(x), fill)


def _axes(node: Node, rank: int) -> set[int]:
    """The axes of a reduction."""
    if node.proto.op_type in ("ArgMax", "ArgMin"):
        return {axis_of(node.attr("axis", 0), rank)}
    axes = node.ints(1, "axes")
    if not axes:
        return set() if node.attr("noop_with_empty_axes", 0) else set(range(rank))
    return {axis_of(a, rank) for a in axes}


def _reduced(name: str, fill: float) -> Wrapper:
    """A reduction over the valid elements: the padding is set to the neutral element `fill`."""

    def convert(node: Node, own: Converter) -> Result:
        x = node.input(0)
        if x.counted is None or x.counted.axis not in _axes(node, len(x.shape)):
            y = own(node)
            return _bound_sum_of_booleans(x, y) if name == "ReduceSum" and isinstance(y, Value) else y
        node.inputs[0] = masked(node, x, fill)
        y = own(node)
        if name != "ReduceMean":
            return y
        assert isinstance(y, Value)
        count = cast(node, x.counted.value, np.float32)
        share = divide(node, count, node.array(np.array(x.shape[x.counted.axis]), like=count))
        return divide(node, y, cast(node, share, dtype_like(y)))

    return convert


def _bound_sum_of_booleans(x: Value, y: Value) -> Value:
    """Give a sum of booleans its bounds: 0 and their number."""
    source = x.ssa
    while source is not None and isinstance(source.owner, g.CastOp | g.ReshapeOp) and not is_boolean(source):
        source = source.owner.operands[0]
    sizes = (*x.shape, *y.shape)
    known = all(isinstance(n, int) and n > 0 for n in sizes) and math.prod(y.shape) <= MAX_SPAN_ELEMENTS
    if known and y.span is None and y.array is None and source is not None and is_boolean(source):
        many = math.prod(x.shape) // math.prod(y.shape)
        y.span = np.zeros(y.shape, np.int64), np.full(y.shape, many, np.int64)
    return y


def is_boolean(value: SSAValue) -> bool:
    """Whether a value is of booleans."""
    return str(element_of(value)) == "i1"


def _scatter_nd(node: Node, own: Converter) -> Result:
    """Updates at a data-dependent number of indices; the padding of the indices is out of range, and so not written."""
    x, places, updates = (node.input(k) for k in range(3))
    if x.counted is None and places.counted is None and updates.counted is None:
        return own(node)
    axes = {v.counted.axis for v in (places, updates) if v.counted is not None}
    if x.counted is not None or places.counted is None or axes != {0} or updates.shape[:1] != places.shape[:1]:
        raise node.fail("expected the data to say how many places there are, and as many updates")
    node.inputs[1:] = [masked(node, places, math.inf), plain(updates)]
    return own(node)


def _softmax(node: Node, own: Converter) -> Result:
    x = node.input(0)
    if x.counted is None or axis_of(node.attr("axis", -1), len(x.shape)) != x.counted.axis:
        return own(node)
    if node.opset < 13:
        raise node.fail("expected a size known at import, or an opset of at least 13, where it is along one axis")
    node.inputs[0] = masked(node, x, -math.inf)
    y = own(node)
    assert isinstance(y, Value)
    return marked(y, x.counted.axis, x.counted.value)


def _top_k(node: Node, own: Converter) -> Result:
    x = node.input(0)
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    if x.counted is None or x.counted.axis != axis:
        return own(node)
    node.inputs[0] = masked(node, x, -math.inf if node.attr("largest", 1) else math.inf)
    if (k := node.input(1)).array is not None and int(k.array.reshape(())) > x.shape[axis]:
        node.inputs[1] = node.array(np.array([x.shape[axis]], np.int64))
    results = own(node)
    assert not isinstance(results, Value)
    count = least(node, scalar(node, k), x.counted.value)
    return [counted(node, y, axis, count) for y in results if y is not None]


NEUTRAL: dict[str, float] = {
    "ReduceSum": 0, "ReduceL1": 0, "ReduceL2": 0, "ReduceSumSquare": 0, "ReduceMean": 0, "ReduceProd": 1,
    "ReduceMax": -math.inf, "ReduceMin": math.inf, "ReduceLogSumExp": -math.inf, "ArgMax": -math.inf,
    "ArgMin": math.inf,
}  # fmt: skip
"""The neutral element of each reduction."""

CONVERTERS: dict[str, Converter | Wraps] = {
    "Range": wraps("indexing", _range),
    "ConstantOfShape": wraps("shape", _constant_of_shape),
    "Expand": wraps("shape", _expand),
    "Reshape": wraps("shape", _reshape),
    "OneHot": wraps("indexing", _one_hot),
    "Slice": wraps("shape", _slice),
    "Concat": wraps("shape", _concat),
    "Gather": wraps("shape", _gather),
    "ScatterND": wraps("indexing", _scatter_nd),
    "TopK": wraps("selection", _top_k),
    "Softmax": wraps("math", _softmax),
    "LogSoftmax": wraps("math", _softmax),
    **{name: wraps("math", _reduced(name, fill)) for name, fill in NEUTRAL.items()},
}
