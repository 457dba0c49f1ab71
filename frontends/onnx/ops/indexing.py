"""ONNX ops that gather, scatter, sort, accumulate along an axis, or are made of index comparisons."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, binary, cast, full, iota, multiply, number, select, subtract
from mlc.frontends.common.movement import index_axis, reshape, slice_axis
from mlc.frontends.common.ops.cumulative import Combine, cumulative
from mlc.frontends.common.sizes import holds_sizes
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node


def _gather_elements(node: Node) -> Value:
    return gather_elements(node, node.input(0), node.input(1), node.attr("axis", 0))


def gather_elements(node: Node, x: Value, indices: Value, axis: int) -> Value:
    """
    Elements at indices along an axis; by linear indices where another axis than that one has a symbolic size.

    (A vector along an axis of symbolic size must not read indices beyond its end.)
    """
    axis, rank = axis_of(axis, len(x.shape)), len(x.shape)
    open_axes = [a for a, n in enumerate(indices.shape) if not isinstance(n, int)]
    if not open_axes or open_axes == [axis] or (axis == rank - 1 and axis in open_axes):
        return node.emit(g.GatherElementsOp, x, indices, axis=axis)
    size = node.array(np.array(x.shape[axis], object))
    places = cast(node, indices, np.int64)
    places = select(node, binary(node, g.LessOp, places, 0), node.emit(g.AddOp, places, size), places)
    linear: Value | None = None
    for a, n in enumerate(x.shape):
        at = places if a == axis else iota(node, indices.shape, a)
        if linear is not None:
            linear = node.emit(g.MultiplyOp, linear, node.array(np.array(n, object)))
        linear = at if linear is None else node.emit(g.AddOp, linear, at)
    assert linear is not None
    return node.emit(g.TakeOp, reshape(node, x, (math.prod(x.shape),)), linear, axis=0)


def _gather_nd(node: Node) -> Value:
    return gather_nd(node, node.input(0), node.input(1), node.attr("batch_dims", 0))


def gather_nd(node: Node, x: Value, indices: Value, batch: int = 0) -> Value:
    """Rows at tuples of indices: the indexed axes are flattened to one, and the tuples to linear indices."""
    depth = _depth(node, indices)
    sizes = x.shape[batch : batch + depth]
    if not 0 < depth <= len(x.shape) - batch:
        raise node.fail(f"expected indices of 1 to {len(x.shape) - batch} axes, but got {depth}")
    place: Value | None = None
    for axis, size in enumerate(sizes):
        at = cast(node, index_axis(node, indices, -1, axis), np.int64)
        at = select(node, binary(node, g.LessOp, at, 0), add(node, at, size), at) if depth > 1 else at
        place = at if place is None else add(node, binary(node, g.MultiplyOp, place, size), at)
    assert place is not None
    flat = reshape(node, x, (*x.shape[:batch], math.prod(sizes), *x.shape[batch + depth :]))
    return node.emit(g.GatherRowsOp, flat, place, batch_dims=batch)


def _depth(node: Node, indices: Value) -> int:
    """The number of axes that tuples of indices index."""
    if not isinstance(depth := indices.shape[-1], int):
        raise node.fail(f"expected a known number of axes that the indices name, but got {depth}; give it with shapes=")
    return depth


def _scatter_elements(node: Node) -> Value:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    axis, reduction = axis_of(node.attr("axis", 0), len(x.shape)), node.attr("reduction", "none")
    if _is_constant(indices) and reduction == "none" and all(isinstance(n, int) for n in x.shape):
        places = list(np.indices(indices.shape))
        places[axis] = indices.array.astype(np.int64) % x.shape[axis]
        flat = np.ravel_multi_index(places, x.shape).reshape(-1)
        return _put(node, x, flat, reshape(node, updates, (flat.size,)), len(x.shape))
    return node.emit(g.ScatterElementsOp, x, indices, updates, axis=axis, reduction=reduction)


def _scatter_nd(node: Node) -> Value:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    depth, reduction = _depth(node, indices), node.attr("reduction", "none")
    count = math.prod(indices.shape[:-1])
    updates = reshape(node, updates, (count, *x.shape[depth:]))
    if _is_constant(indices) and reduction == "none" and all(isinstance(n, int) for n in x.shape):
        sizes = x.shape[:depth]
        places = indices.array.astype(np.int64).reshape(count, depth) % np.array(sizes)
        flat: Any = np.ravel_multi_index(tuple(places.T), sizes)
        return _put(node, x, flat, updates, depth)
    indices = reshape(node, indices, (count, depth))
    return node.emit(g.ScatterNdOp, x, indices, updates, reduction=reduction)


def _is_constant(indices: Value) -> bool:
    """Whether indices are constant and not empty."""
    return indices.array is not None and not indices.bound and indices.array.size > 0


def _put(node: Node, x: Value, places: np.ndarray, updates: Value, depth: int) -> Value:
    """
    Updates written at constant linear indices over the first `depth` axes; each row is read from its last update.

    `scatter(x, places, updates)` -> `where(hit, gather_rows(updates, last), x)`
    """
    rows, tail = math.prod(x.shape[:depth]), x.shape[depth:]
    last = np.full(rows, -1)
    last[places] = np.arange(len(places))
    taken = node.emit(g.GatherRowsOp, updates, node.array(np.maximum(last, 0)))
    hit = node.array((last >= 0).reshape(rows, *[1] * len(tail)))
    return reshape(node, select(node, hit, taken, reshape(node, x, (rows, *tail))), x.shape)


def _tensor_scatter(node: Node) -> Value:
    """Updates written into a cache from a start position, one per batch."""
    cache, update = node.input(0), node.input(1)
    axis = axis_of(node.attr("axis", -2), len(cache.shape))
    places = iota(node, update.shape, axis)
    if node.has(2):
        starts = cast(node, node.input(2), np.int64)
        places = add(node, places, reshape(node, starts, (starts.shape[0], *[1] * (len(cache.shape) - 1))))
    if node.attr("mode", "linear") == "circular":
        places = binary(node, g.ModOp, places, cache.shape[axis])
    return node.emit(g.ScatterElementsOp, cache, places, update, axis=axis)


def _one_hot(node: Node) -> Value:
    indices, values = node.input(0), node.input(2)
    depth = int(node.constant(1).reshape(()))
    axis = axis_of(node.attr("axis", -1), len(indices.shape) + 1)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    places = cast(node, indices, np.int64)
    negative = binary(node, g.LessOp, places, 0)
    places = select(node, negative, add(node, places, depth), places)
    places = reshape(node, places, (*indices.shape[:axis], 1, *indices.shape[axis:]))
    hot = node.emit(g.EqualOp, places, iota(node, shape, axis))
    return select(node, hot, index_axis(node, values, 0, 1), index_axis(node, values, 0, 0))


def _top_k(node: Node) -> list[Value]:
    x = node.input(0)
    axis = axis_of(node.attr("axis", -1), len(x.shape))
    count, size = k_of(node), x.shape[axis]
    if not isinstance(size, int) or not isinstance(count, int):
        return _open_top_k(node, x, axis, count)
    if not 0 <= count <= size:
        raise node.fail(f"expected k in 0..{size}, but got {count}")
    if count == 0:
        empty = [*x.shape[:axis], 0, *x.shape[axis + 1 :]]
        return [node.array(np.zeros(empty), like=x), node.array(np.zeros(empty, np.int64))]
    order = node.emit(g.ArgsortOp, x, axis=axis, descending=bool(node.attr("largest", 1)), count=count)
    return [gather_elements(node, x, order, axis), order]


def k_of(node: Node) -> Any:
    """The k of a TopK: a number or a size."""
    return node.attr("k") if node.opset < 10 else node.constant(1).reshape(()).item()


def _open_top_k(node: Node, x: Value, axis: int, count: Dim) -> list[Value]:
    """The first k of all elements sorted, where the axis or k is symbolic."""
    if isinstance(size := x.shape[axis], DimExpr):
        node.importer.symbols.at_least(size - count, 0)
    elif not node.importer.symbols.at_most(count, size):
        raise node.fail(f"expected k of at most {size}, but got {count}")
    keys = cast(node, x, np.float32) if x.dtype_name in ("float16", "bfloat16") else x
    known = count if isinstance(count, int) else 0
    order = node.emit(g.ArgsortOp, keys, axis=axis, descending=bool(node.attr("largest", 1)), count=known)
    order = order if known else slice_axis(node, order, axis, 0, count)
    return [gather_elements(node, x, order, axis), order]


def _cumulative(combine: Combine) -> Converter:
    """A running sum or product."""

    def convert(node: Node) -> Value:
        axis = int(node.constant(1).reshape(()))
        return cumulative(
            node, node.input(0), axis, combine, bool(node.attr("exclusive", 0)), bool(node.attr("reverse", 0))
        )

    return convert


def _trilu(node: Node) -> Value:
    x = node.input(0)
    size = x.shape[-2:]
    diagonal = subtract(node, iota(node, size, 1), iota(node, size, 0))
    k: Value | float = reshape(node, cast(node, node.input(1), np.int64), ()) if node.has(1) else 0
    compare = g.GreaterEqualOp if node.attr("upper", 1) else g.LessEqualOp
    return select(node, binary(node, compare, diagonal, k), x, 0)


def _reverse_sequence(node: Node) -> Value:
    """The first elements along the time axis in reverse order, as many as the length of each batch."""
    x = node.input(0)
    rank = len(x.shape)
    batch, time = axis_of(node.attr("batch_axis", 1), rank), axis_of(node.attr("time_axis", 0), rank)
    lengths = reshape(
        node, cast(node, node.input(1), np.int64), [x.shape[batch] if a == batch else 1 for a in range(rank)]
    )
    at = iota(node, x.shape, time)
    back = subtract(node, add(node, lengths, -1), at)
    places = select(node, node.emit(g.LessOp, at, lengths), back, at)
    return gather_elements(node, x, places, time)


def _hardmax(node: Node) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    axis = axis_of(node.attr("axis", -1 if node.opset >= 13 else 1), rank)
    shape = x.shape if node.opset >= 13 else (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    axis = axis if node.opset >= 13 else 1
    flat = reshape(node, x, shape)
    best = node.emit(g.ArgmaxOp, flat, axes=(axis,), keepdims=True)
    hot = node.emit(g.EqualOp, best, iota(node, shape, axis))
    return reshape(node, cast(node, hot, dtype_like(x)), x.shape)


def _eye_like(node: Node) -> Value:
    from mlc.frontends.onnx.files import dtype_of

    x = node.input(0)
    wanted = node.attr("dtype")
    dtype = dtype_like(x) if wanted is None else dtype_of(wanted, node.path)
    diagonal = subtract(node, iota(node, x.shape, 1), iota(node, x.shape, 0))
    return cast(node, binary(node, g.EqualOp, diagonal, node.attr("k", 0)), dtype)


def _range(node: Node) -> Value:
    start, limit, delta = (node.constant(i).reshape(()) for i in range(3))
    if any(holds_sizes(one) for one in (start, limit, delta)):
        return _range_of_sizes(node, start.item(), limit.item(), delta.item())
    if delta == 0 or abs((limit - start) / delta) > MAX_RANGE:
        raise node.fail(f"expected a range of at most {MAX_RANGE} elements, but got {start}..{limit} by {delta}")
    if not any(node.input(i).bound for i in range(3)):
        return node.array(np.arange(start, limit, delta, dtype=start.dtype))
    count = max(0, math.ceil((limit.astype(np.float64) - start.astype(np.float64)) / delta.astype(np.float64)))
    first, step = (reshape(node, node.input(i), (1,)) for i in (0, 2))
    steps = node.emit(g.MultiplyOp, cast(node, iota(node, (count,), 0), start.dtype), step)
    return node.emit(g.AddOp, steps, first)


def _range_of_sizes(node: Node, start: Any, limit: Any, delta: Any) -> Value:
    """A range whose bounds or step are symbolic sizes."""
    count = _steps(limit - start, delta)
    if count is None:
        raise node.fail(f"expected a range upwards in known or whole steps, but got {start} to {limit} by {delta}")
    places = iota(node, (count,), 0)
    scaled = places if isinstance(delta, int) and delta == 1 else multiply(node, places, number(node, delta, places))
    return scaled if isinstance(start, int) and start == 0 else add(node, scaled, number(node, start, places))


def _steps(extent: Dim, delta: Dim) -> Dim | None:
    """`ceil(extent / delta)`; None where it cannot be expressed: a symbolic `delta` must divide the extent."""
    if isinstance(delta, int):
        return (extent + delta - 1) // delta if delta >= 1 else None
    ((atoms, factor),) = delta.terms if len(delta.terms) == 1 else [((), 0)]
    count: Dim = 0
    for product, coefficient in DimExpr.of(extent).terms:
        rest = list(product)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if factor < 1 or coefficient % factor:
            return None
        count = count + DimExpr({tuple(rest): coefficient // factor})
    return count.evaluate({}) if isinstance(count, DimExpr) else count


MAX_RANGE = 1 << 31
"""Elements of the longest range."""


def _max_unpool(node: Node) -> Value:
    """The maxima of a pool written back to where they came from; the rest is 0."""
    x, places = node.input(0), node.input(1)
    kernel = node.attr("kernel_shape")
    rank = len(kernel)
    strides, pads = node.attr("strides", [1] * rank), node.attr("pads", [0] * (2 * rank))
    sizes = [
        (n - 1) * s + k - pads[a] - pads[a + rank]
        for a, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    inner = (*x.shape[:2], *sizes)
    shape = tuple(node.ints(2, None, inner))
    if shape != inner:
        places = _relocated(node, places, inner, shape)
    count = math.prod(x.shape)
    flat = full(node, (math.prod(shape),), 0, dtype_like(x))
    operands = (flat, reshape(node, places, (count,)), reshape(node, x, (count,)))
    return reshape(node, node.emit(g.ScatterElementsOp, *operands), shape)


def _relocated(node: Node, places: Value, inner: tuple[int, ...], outer: tuple[int, ...]) -> Value:
    """Linear indices into one shape as linear indices of the same elements in another."""
    result: Value | None = None
    left, scale = places, 1
    for old, new in zip(reversed(inner), reversed(outer), strict=True):
        digit = binary(node, g.MultiplyOp, binary(node, g.ModOp, left, old), scale)
        left, scale = binary(node, g.DivideOp, left, old), scale * new
        result = digit if result is None else add(node, result, digit)
    assert result is not None
    return result


CONVERTERS: dict[str, Converter] = {
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TensorScatter": _tensor_scatter,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "CumSum": _cumulative("add"),
    "CumProd": _cumulative("mul"),
    "Trilu": _trilu,
    "Hardmax": _hardmax,
    "ReverseSequence": _reverse_sequence,
    "EyeLike": _eye_like,
    "Range": _range,
    "MaxUnpool": _max_unpool,
}
