"""Ops that move elements: one stage, a read through the op's index map."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops import movement as graph
from mlc.dialects.graph.ops.layout_transform import LayoutTransformOp
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.elementwise import broadcast_read
from mlc.lowering.graph_to_te.layouts import blocked, logical
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name
from mlc.passes.graph.shared.views import reshape_groups


@lowering(graph.TransposeOp)
def transpose(op: graph.TransposeOp, x: Tensor) -> Tensor:
    """Axis i of the result is axis axes[i] of the operand."""
    place = [op.axes.index(a) for a in range(x.ndim)]
    return te.compute(shape_of_result(op), lambda *i: x.read([i[p] for p in place]), stage_name(op))


@lowering(graph.BroadcastToOp)
def broadcast_to(op: graph.BroadcastToOp, x: Tensor) -> Tensor:
    """Index 0 on the axes that stretch."""
    return te.compute(shape_of_result(op), lambda *i: broadcast_read(x, i), stage_name(op))


@lowering(graph.ReshapeOp)
def reshape(op: graph.ReshapeOp, x: Tensor) -> Tensor:
    """Per group of axes with the same elements: linearize the result's indices, delinearize to the operand's."""
    shape = shape_of_result(op)

    def body(*i: te.IndexExpr) -> Scalar:
        stage = te.current_stage()
        at: list[te.IndexLike] = [0] * x.ndim
        for source, target in reshape_groups(x.shape, shape):
            linear = te.IndexExpr(stage, stage.index(0))
            for axis in target:
                linear = linear * shape[axis] + i[axis]
            for axis in reversed(source[1:]):
                at[axis] = linear % x.shape[axis]
                linear = linear // x.shape[axis]
            if source:
                at[source[0]] = linear
        return x.read(at)

    return te.compute(shape, body, stage_name(op))


@lowering(graph.ConcatenateOp)
def concatenate(op: graph.ConcatenateOp, *parts: Tensor) -> Tensor:
    """A chain of masked reads; where the mask of one does not hold, the next is read."""
    axis = op.axis % parts[0].ndim
    parts = tuple(p for p in parts if p.shape[axis])
    starts = [sum(p.shape[axis] for p in parts[:k]) for k in range(len(parts))]

    def body(*i: te.IndexExpr) -> Scalar:
        value: Scalar | int = 0
        for part, start in reversed(list(zip(parts, starts, strict=True))):
            j = i[axis] - start
            inside = te.condition([j, part.shape[axis] - 1 - j])
            value = part.read([*i[:axis], j, *i[axis + 1 :]], mask=inside, otherwise=value)
        assert isinstance(value, Scalar)
        return value

    if not parts:
        return te.full(shape_of_result(op), 0, op.type.element_type)
    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.SliceOp)
def slice_(op: graph.SliceOp, x: Tensor) -> Tensor:
    """begin + i * stride."""
    starts = [_start(n, *b) for n, *b in zip(x.shape, op.begin, op.end, op.strides, strict=True)]

    def body(*i: te.IndexExpr) -> Scalar:
        return x.read([v * stride + te.size(start) for v, start, stride in zip(i, starts, op.strides, strict=True)])

    return te.compute(shape_of_result(op), body, stage_name(op))


def _start(size: Dim, begin: int, end: int, stride: int) -> Dim:
    """The first element of a slice of an axis."""
    if isinstance(size, int):
        return slice(begin, end, stride).indices(size)[0]
    return begin if begin >= 0 else size + begin


@lowering(graph.SplitOp)
def split(op: graph.SplitOp, x: Tensor) -> tuple[Tensor, ...]:
    """One stage a result."""
    axis = op.axis % x.ndim
    results: list[Tensor] = []
    for k in range(len(op.sections)):
        start = sum(op.sections[:k])

        def body(*i: te.IndexExpr, start: int = start) -> Scalar:
            return x.read([*i[:axis], i[axis] + start, *i[axis + 1 :]])

        results.append(te.compute(shape_of_result(op, k), body, stage_name(op)))
    return tuple(results)


@lowering(graph.PadOp)
def pad(op: graph.PadOp, x: Tensor) -> Tensor:
    """Constant padding is one masked read; edge and reflect padding are one stage per axis."""
    before, after = op.pad_width[::2], op.pad_width[1::2]
    if op.mode == "constant":
        return _pad_constant(op, x, before, op.value)
    for axis in range(x.ndim):
        if before[axis] or after[axis]:
            x = _pad_axis(x, axis, before[axis], after[axis], op.mode == "edge")
    return x


def _pad_constant(op: graph.PadOp, x: Tensor, before: Sequence[int], value: float) -> Tensor:
    def body(*i: te.IndexExpr) -> Scalar:
        at = [v - b for v, b in zip(i, before, strict=True)]
        inside = te.condition([e for j, n in zip(at, x.shape, strict=True) for e in (j, n - 1 - j)])
        return x.read(at, mask=inside, otherwise=value)

    return te.compute(shape_of_result(op), body, stage_name(op))


def read_along(
    x: Tensor,
    i: Sequence[te.IndexExpr],
    axis: int,
    at: te.IndexLike,
    mask: Sequence[te.IndexExpr],
    otherwise: Scalar | float,
) -> Scalar:
    """The element at `i`, but at `at` along an axis; `otherwise` where an expression of the mask is negative."""
    return x.read([*i[:axis], at, *i[axis + 1 :]], mask=te.condition(mask), otherwise=otherwise)


def _pad_axis(x: Tensor, axis: int, before: int, after: int, edge: bool) -> Tensor:
    """
    One axis padded by edge or reflect.

    The last axis has three masked reads: before, after, and inside of it, since its elements are lanes of a vector. On
    another one the place is computed, once for a vector: the masks of two axes would be nine reads.
    """
    n = x.shape[axis]
    shape = (*x.shape[:axis], before + n + after, *x.shape[axis + 1 :])

    def reads(*i: te.IndexExpr) -> Scalar:
        j, read = i[axis] - before, partial(read_along, x, i, axis)
        low = read(0 if edge else -j, [-1 - j], 0) if before else 0
        high = read(n - 1 if edge else 2 * (n - 1) - j, [j - n], low) if after else low
        return read(j, [j, n - 1 - j], high)

    def computed(*i: te.IndexExpr) -> Scalar:
        at = te.cast(i[axis] - before, "int64")
        if edge:
            at = te.minimum(te.maximum(at, 0), n - 1)
        else:
            at = te.maximum(at, -at)
            at = te.minimum(at, 2 * (n - 1) - at)
        return x.read([*i[:axis], at, *i[axis + 1 :]])

    return te.compute(shape, reads if axis == x.ndim - 1 else computed, "pad_edge" if edge else "pad_reflect")


@lowering(graph.TakeOp)
def take(op: graph.TakeOp, x: Tensor, indices: Tensor) -> Tensor:
    """A gather with wrapped and clamped indices."""
    axis = op.axis % x.ndim
    size, rank = x.shape[axis], indices.ndim

    def body(*i: te.IndexExpr) -> Scalar:
        at = indices[i[axis : axis + rank]]
        if at.kind == 1:
            at = te.where(at < 0, at + size, at)
            at = te.maximum(at, 0)
        at = te.minimum(te.cast(at, "int64"), size - 1)
        return x.read([*i[:axis], at, *i[axis + rank :]])

    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.TileOp)
def tile(op: graph.TileOp, x: Tensor) -> Tensor:
    """The index modulo the size, on repeated axes."""
    shape = shape_of_result(op)
    sizes = list(zip(shape, x.shape, strict=True))

    def body(*i: te.IndexExpr) -> Scalar:
        return x.read([v if n == wide else v % n for v, (wide, n) in zip(i, sizes, strict=True)])

    return te.compute(shape, body, stage_name(op))


@lowering(graph.FlipOp)
def flip(op: graph.FlipOp, x: Tensor) -> Tensor:
    """The last index minus this one."""
    axes = {a % x.ndim for a in op.axes}

    def body(*i: te.IndexExpr) -> Scalar:
        return x.read([n - 1 - v if a in axes else v for a, (v, n) in enumerate(zip(i, x.shape, strict=True))])

    return te.compute(x.shape, body, stage_name(op))


@lowering(LayoutTransformOp)
def layout_transform(op: LayoutTransformOp, x: Tensor) -> Tensor:
    """A read through the logical indices; padding that the target layout adds is 0."""
    sizes, target = op.logical_sizes(), layout(op.dst)
    padded = [a for a, size in sizes.items() if target.padded(a, size) != size]

    def body(*i: te.IndexExpr) -> Scalar:
        at = logical(op.dst, i)
        inside = te.condition([sizes[a] - 1 - at[a] for a in padded])
        return x.read(blocked(op.src, at), mask=inside)

    return te.compute(shape_of_result(op), body, stage_name(op))
