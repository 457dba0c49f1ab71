"""Canonical forms of concatenations: of adjacent parts of one tensor, and of other concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from mlc.dialects.graph import ConcatenateOp, SliceOp, SplitOp, shape_of
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

CONCATS = Rules()


@CONCATS.on(ConcatenateOp)
def concatenate_of_split(op: ConcatenateOp, rw: Rewriter) -> Replacement:
    """`concatenate(.., a, b, ..) -> concatenate(.., x, ..)` where a and b are all parts of a split of x, in order."""
    operands: list[SSAValue] = list(op.operands)
    for index, value in enumerate(operands):
        split = defining_op(value, SplitOp)
        if split is None or not _same_axis(split, op):
            continue
        if operands[index : index + len(split.results)] == list(split.results):
            whole = split.operands[0]
            return _concatenated(op, rw, [*operands[:index], whole, *operands[index + len(split.results) :]])
    return None


@CONCATS.on(ConcatenateOp)
def concatenate_of_slices(op: ConcatenateOp, rw: Rewriter) -> Replacement:
    """`concatenate(.., x[a:b], x[b:c], ..) -> concatenate(.., x[a:c], ..)`."""
    operands: list[SSAValue] = list(op.operands)
    axis = axis_of(op.axis, len(shape_of(op.type)))
    for index, (left, right) in enumerate(pairwise(operands)):
        a, b = _slice_of(left, axis), _slice_of(right, axis)
        if a is None or b is None or a[0] is not b[0] or a[2] != b[1]:
            continue
        rank = len(shape_of(op.type))
        begin = tuple(a[1] if i == axis else 0 for i in range(rank))
        end = tuple(b[2] if i == axis else size for i, size in enumerate(shape_of(a[0].type)))
        whole = rw.make(SliceOp, a[0], begin=begin, end=end, strides=(1,) * rank)
        return _concatenated(op, rw, [*operands[:index], whole, *operands[index + 2 :]])
    return None


def _slice_of(value: SSAValue, axis: int) -> tuple[SSAValue, int, int] | None:
    """(x, begin, end) of a slice of x along this axis alone with stride 1; None for other values."""
    cut = defining_op(value, SliceOp)
    if cut is None:
        return None
    x, shape = cut.operands[0], shape_of(cut.operands[0].type)
    if not is_static(shape) or set(cut.strides) != {1}:
        return None
    spans = [slice(*b).indices(n)[:2] for *b, n in zip(cut.begin, cut.end, shape, strict=True)]
    whole = all(span == (0, size) for i, (span, size) in enumerate(zip(spans, shape, strict=True)) if i != axis)
    return (x, *spans[axis]) if whole and spans[axis][0] < spans[axis][1] else None


@CONCATS.on(ConcatenateOp)
def concatenate_of_concatenate(op: ConcatenateOp, rw: Rewriter) -> Replacement:
    """`concatenate(.., concatenate(a, b), ..) -> concatenate(.., a, b, ..)` where the inner one has no other reader."""
    for index, value in enumerate(op.operands):
        inner = defining_op(value, ConcatenateOp)
        if inner is not None and _same_axis(inner, op) and value.has_one_use():
            operands = list(op.operands)
            return _concatenated(op, rw, [*operands[:index], *inner.operands, *operands[index + 1 :]])
    return None


@CONCATS.on(ConcatenateOp)
def concatenate_of_prefix(op: ConcatenateOp, rw: Rewriter) -> Replacement:
    """`concatenate(a, b, c) -> concatenate(x, c)` where x = concatenate(a, b) exists already."""
    operands = list(op.operands)
    best: ConcatenateOp | None = None
    for use in operands[0].uses:
        other = use.operation
        if not isinstance(other, ConcatenateOp) or other is op or not _same_axis(other, op):
            continue
        count = len(other.operands)
        if 2 <= count < len(operands) and list(other.operands) == operands[:count] and _is_before(other, op):
            best = other if best is None or count > len(best.operands) else best
    return None if best is None else _concatenated(op, rw, [best.result, *operands[len(best.operands) :]])


def _is_before(first: ConcatenateOp, second: ConcatenateOp) -> bool:
    return second.parent is not None and first.parent is second.parent and first.is_before_in_block(second)


def _same_axis(a: ConcatenateOp | SplitOp, b: ConcatenateOp | SplitOp) -> bool:
    rank = len(shape_of(b.operands[0].type))
    return axis_of(a.axis, rank) == axis_of(b.axis, rank)


def _concatenated(op: ConcatenateOp, rw: Rewriter, operands: Sequence[SSAValue]) -> SSAValue:
    return operands[0] if len(operands) == 1 else rw.make(ConcatenateOp, *operands, axis=op.axis)
