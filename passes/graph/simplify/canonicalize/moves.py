"""Canonical forms of data movements: those that keep the order of elements are reshapes, and chains are one op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    BatchMatmulOp,
    BinaryOp,
    BroadcastToOp,
    LayoutTransformOp,
    ReduceOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    op_classes,
    shape_of,
)
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.types import Dim, broadcast, product
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

MOVES = Rules()
T = TypeVar("T")


@MOVES.on(TransposeOp)
def transpose_of_units(op: TransposeOp, rw: Rewriter) -> Replacement:
    """`graph.transpose %x -> graph.reshape %x` where only axes of size 1 move."""
    shape = shape_of(op.operands[0].type)
    kept = [axis for axis in op.axes if shape[axis] != 1]
    return rw.insert(ReshapeOp.make(op.operands[0], result=op.type)) if kept == sorted(kept) else None


@MOVES.on(TransposeOp)
def transpose_of_squeeze(op: TransposeOp, rw: Rewriter) -> Replacement:
    """`transpose(reshape(x)) -> reshape(transpose(x))` where the reshape drops axes of size 1 of a movement."""
    reshape = defining_op(op.operands[0], ReshapeOp)
    if reshape is None or not reshape.result.has_one_use():
        return None
    if not isinstance(reshape.operands[0].owner, LayoutTransformOp | TransposeOp):
        return None
    before, after = shape_of(reshape.operands[0].type), shape_of(reshape.type)
    kept = [axis for axis, size in enumerate(before) if size != 1]
    if len(after) >= len(before) or [before[axis] for axis in kept] != [size for size in after if size != 1]:
        return None
    # The axis of x that becomes each axis of the reshaped tensor; none for its axes of size 1.
    names = iter(kept)
    origin = [next(names) if size != 1 else None for size in after]
    moved = [place for axis in op.axes if (place := origin[axis]) is not None]
    dropped = [axis for axis in range(len(before)) if before[axis] == 1]
    value = rw.make(TransposeOp, reshape.operands[0], axes=(*dropped, *moved))
    return rw.insert(ReshapeOp.make(value, result=op.type))


@MOVES.on(LayoutTransformOp)
def layout_of_units(op: LayoutTransformOp, rw: Rewriter) -> Replacement:
    """`graph.layout_transform %x -> graph.reshape %x` where only axes of size 1 move."""
    source, target = layout(op.src), layout(op.dst)
    x, result = shape_of(op.operands[0].type), shape_of(op.type)
    if product(x) != product(result):
        return None
    orders: list[list[tuple[str, Dim]]] = []
    for order, shape in ((source, x), (target, result)):
        orders.append([(a, size) for (a, _), size in zip(order.parts, shape, strict=True) if size != 1])
    letters = [[a for a, _ in order] for order in orders]
    if orders[0] != orders[1] and not _equal_merged(letters[0], letters[1]):
        return None
    return rw.insert(ReshapeOp.make(op.operands[0], result=op.type))


@MOVES.on(LayoutTransformOp)
def unpadding_of_units(op: LayoutTransformOp, rw: Rewriter) -> Replacement:
    """`layout_transform %x -> slice (reshape %x)` where only axes of size 1 move, and padding at the end is dropped."""
    source, target = layout(op.src), layout(op.dst)
    x, result = shape_of(op.operands[0].type), shape_of(op.type)
    if not is_static(x) or not is_static(result) or not target.is_plain:
        return None
    letters = [a for (a, _), size in zip(source.parts, x, strict=True) if size != 1]
    kept = [a for (a, _), size in zip(target.parts, result, strict=True) if size != 1]
    if len(set(letters)) != 1 or kept != letters[:1] or math.prod(x) <= math.prod(result):
        return None
    flat = rw.insert(ReshapeOp.make(op.operands[0], shape=(math.prod(x),)))
    part = rw.make(SliceOp, flat, begin=(0,), end=(math.prod(result),), strides=(1,))
    return rw.insert(ReshapeOp.make(part, result=op.type))


def _equal_merged(a: list[str], b: list[str]) -> bool:
    """Whether two orders of axis parts are equal once adjacent parts of one axis are merged."""
    runs = [[x for i, x in enumerate(order) if i == 0 or order[i - 1] != x] for order in (a, b)]
    return runs[0] == runs[1] and len(set(runs[0])) == len(runs[0])


@MOVES.on(BroadcastToOp)
def reshape_from_broadcast(op: BroadcastToOp, rw: Rewriter) -> Replacement:
    """`graph.broadcast_to %x -> graph.reshape %x` where only axes of size 1 are added."""
    x, result = shape_of(op.operands[0].type), shape_of(op.type)
    rank = len(result) - len(x)
    same = result[rank:] == x and all(size == 1 for size in result[:rank])
    return rw.insert(ReshapeOp.make(op.operands[0], result=op.type)) if same else None


@MOVES.on(*op_classes(BinaryOp))
def broadcast_operand(op: BinaryOp, rw: Rewriter) -> Replacement:
    """`add(x, broadcast_to(y)) -> add(x, y)` where the result has the same shape."""
    for index, value in enumerate(op.operands):
        inner = defining_op(value, BroadcastToOp)
        if inner is None:
            continue
        operands = [inner.operands[0] if i == index else v for i, v in enumerate(op.operands)]
        if broadcast([shape_of(v.type) for v in operands]) == shape_of(op.type):
            return rw.clone(op, *operands)
    return None


@MOVES.on(TransposeOp)
def transpose_of_layout(op: TransposeOp, rw: Rewriter) -> Replacement:
    """`transpose(layout_transform(x, a, NCHW)) -> layout_transform(x, a, NHWC)`."""
    inner = defining_op(op.operands[0], LayoutTransformOp)
    if inner is None or not layout(inner.dst).is_plain or not inner.result.has_one_use():
        return None
    name = "".join(inner.dst[axis] for axis in op.axes)
    return rw.make(LayoutTransformOp, inner.operands[0], src=inner.src, dst=name, result=op.type)


@MOVES.on(LayoutTransformOp)
def layout_of_transpose(op: LayoutTransformOp, rw: Rewriter) -> Replacement:
    """`layout_transform(transpose(x), NCHW, a) -> layout_transform(x, NHWC, a)`."""
    inner = defining_op(op.operands[0], TransposeOp)
    if inner is None or not layout(op.src).is_plain or not inner.result.has_one_use():
        return None
    name = "".join(op.src[inner.axes.index(axis)] for axis in range(len(inner.axes)))
    return rw.make(LayoutTransformOp, inner.operands[0], src=name, dst=op.dst, result=op.type)


@MOVES.on(SliceOp)
def slice_of_transpose(op: SliceOp, rw: Rewriter) -> Replacement:
    """`slice(transpose(x)) -> transpose(slice(x))` where all readers of the transpose are slices."""
    inner = defining_op(op.operands[0], TransposeOp)
    if inner is None or not all(isinstance(use.operation, SliceOp) for use in inner.result.uses):
        return None
    places = [inner.axes.index(axis) for axis in range(len(inner.axes))]
    part = rw.make(
        SliceOp,
        inner.operands[0],
        begin=tuple(op.begin[place] for place in places),
        end=tuple(op.end[place] for place in places),
        strides=tuple(op.strides[place] for place in places),
    )
    return rw.make(TransposeOp, part, axes=inner.axes)


@MOVES.on(BatchMatmulOp)
def matmul_of_transpose(op: BatchMatmulOp, rw: Rewriter) -> Replacement:
    """`batch_matmul(a, transpose(b)) -> batch_matmul(a, b) {transpose_b}` where the last two axes swap."""
    sources = [_swapped(operand) for operand in op.operands]
    if sources == [None, None]:
        return None
    operands = [
        operand if source is None else rw.insert(ReshapeOp.make(source, shape=_swap(shape_of(operand.type))))
        for operand, source in zip(op.operands, sources, strict=True)
    ]
    flags = [
        flag != (source is not None) for flag, source in zip((op.transpose_a, op.transpose_b), sources, strict=True)
    ]
    return rw.make(BatchMatmulOp, *operands, transpose_a=flags[0], transpose_b=flags[1])


def _swap(items: Sequence[T]) -> tuple[T, ...]:
    """The items with the last two exchanged."""
    return (*items[:-2], items[-1], items[-2])


def _swapped(value: SSAValue) -> SSAValue | None:
    """The operand of a transpose that swaps the last two axes and moves no others, save those of size 1."""
    transpose = defining_op(value, TransposeOp)
    if transpose is None:
        return None
    shape = shape_of(transpose.operands[0].type)
    order = [axis for axis in _swap(transpose.axes) if shape[axis] != 1]
    return transpose.operands[0] if order == sorted(order) else None


@MOVES.on(ReshapeOp)
def keepdims_from_reshape(op: ReshapeOp, rw: Rewriter) -> Replacement:
    """`reshape(sum(x) {axes = [1]}) -> sum(x) {axes = [1], keepdims}` where the reshape puts the axes back."""
    inner = defining_op(op.operands[0], ReduceOp)
    if inner is None or inner.keepdims or not inner.result.has_one_use():
        return None
    kept = [1 if axis in inner.reduced_axes else size for axis, size in enumerate(shape_of(inner.operands[0].type))]
    if tuple(kept) != shape_of(op.type):
        return None
    return rw.make(type(inner), inner.operands[0], axes=inner.axes, keepdims=True)
