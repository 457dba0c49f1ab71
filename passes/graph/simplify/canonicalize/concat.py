"""Canonical forms of concatenations: of adjacent parts of one tensor, of other concatenations, and parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from xdsl.ir import SSAValue

from mlc.dialects.graph import ConcatenateOp, SliceOp, SplitOp, shape_of
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.graph.shared.views import may_be_in_place
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
        whole = _part(rw, a[0], axis, (a[1], b[2]))
        return _concatenated(op, rw, [*operands[:index], whole, *operands[index + 2 :]])
    return None


def _slice_of(value: SSAValue, axis: int) -> tuple[SSAValue, int, int] | None:
    """(x, begin, end) of a slice of x along this axis alone with stride 1; None for other values."""
    cut = defining_op(value, SliceOp)
    if cut is None or set(cut.strides) != {1} or (spans := _spans(cut)) is None:
        return None
    x, (first, end) = cut.operands[0], spans[axis]
    return (x, first, end) if first < end and _keeps_all_but(cut, axis) else None


def _spans(cut: SliceOp) -> list[tuple[int, int]] | None:
    """The first and past-the-end index of a slice along each axis; None of symbolic sizes."""
    shape = shape_of(cut.operands[0].type)
    if not is_static(shape):
        return None
    return [slice(*span).indices(size)[:2] for *span, size in zip(cut.begin, cut.end, shape, strict=True)]


def _keeps_all_but(cut: SliceOp, axis: int) -> bool:
    """Whether a slice keeps all elements along all axes but one."""
    pairs = zip(shape_of(cut.type), shape_of(cut.operands[0].type), strict=True)
    return all(kept == size for i, (kept, size) in enumerate(pairs) if i != axis)


@CONCATS.on(SliceOp)
def slice_of_concatenate(op: SliceOp, rw: Rewriter) -> Replacement:
    """`slice(concatenate(a, b)) -> slice(a)` where it ends within a."""
    joined = defining_op(op.operands[0], ConcatenateOp)
    spans = _spans(op)
    if joined is None or spans is None:
        return None
    axis = axis_of(joined.axis, len(spans))
    first, end = spans[axis]
    for value, (low, high) in zip(joined.operands, _places(joined), strict=True):
        if op.strides[axis] == 1 and low <= first < end <= high:
            return _part(rw, value, axis, (first - low, end - low), op)
    return None


@CONCATS.on(SliceOp)
def slice_across_concatenate(op: SliceOp, rw: Rewriter) -> Replacement:
    """
    `slice(concatenate(a, b, c)) -> concatenate(slice(a), b)`, which nothing else reads, where c is not reached.

    An operand that a kernel can write into its part of the result stays whole, and is cut afterwards: a view.
    """
    joined = defining_op(op.operands[0], ConcatenateOp)
    spans = _spans(op)
    if joined is None or spans is None or set(op.strides) != {1} or not joined.result.has_one_use():
        return None
    axis = axis_of(joined.axis, len(spans))
    first, end = spans[axis]
    kept: list[SSAValue] = []
    dropped = 0  # elements along the axis in front of those that are kept
    for value, (low, high) in zip(joined.operands, _places(joined), strict=True):
        cut = max(low, first) - low, min(high, end) - low
        if cut[0] >= cut[1]:
            dropped += high - low if high <= first else 0
        elif cut == (0, high - low) or not _keeps_all_but(op, axis) or may_be_in_place(joined, value):
            kept.append(value)
        else:
            kept.append(_part(rw, value, axis, cut))
            dropped += cut[0]
    if len(kept) < 2 or kept == list(joined.operands):
        return None
    shorter = _concatenated(joined, rw, kept)
    return _part(rw, shorter, axis, (first - dropped, end - dropped), op)


@CONCATS.on(SplitOp)
def split_of_concatenate(op: SplitOp, rw: Rewriter) -> Replacement:
    """`split(concatenate(a, b)) -> a, b` where each part is one of the operands, or a part of one."""
    joined = defining_op(op.operands[0], ConcatenateOp)
    if joined is None or not is_static(shape_of(joined.type)) or not _same_axis(joined, op):
        return None
    axis = axis_of(op.axis, len(shape_of(joined.type)))
    ends = list(accumulate(op.sections))
    places = list(zip(joined.operands, _places(joined), strict=True))
    found = [
        (value, (end - size - low, end - low))
        for size, end in zip(op.sections, ends, strict=True)
        for value, (low, high) in places
        if low <= end - size < end <= high
    ]
    return [_part(rw, value, axis, cut) for value, cut in found] if len(found) == len(ends) else None


def _places(joined: ConcatenateOp) -> list[tuple[int, int]]:
    """The first and past-the-end index of each operand of a concatenation of static sizes, along its axis."""
    axis = axis_of(joined.axis, len(shape_of(joined.type)))
    ends = list(accumulate(int(shape_of(value.type)[axis]) for value in joined.operands))
    return list(pairwise([0, *ends]))


def _part(rw: Rewriter, x: SSAValue, axis: int, span: tuple[int, int], like: SliceOp | None = None) -> SSAValue:
    """A slice of x along an axis, along others as another slice cuts them; x itself where that is all of it."""
    shape = [int(size) for size in shape_of(x.type)]
    begin, end = [0] * len(shape), shape
    strides: Sequence[int] = [1] * len(shape)
    if like is not None:
        begin, end, strides = list(like.begin), list(like.end), like.strides
    begin[axis], end[axis] = span
    part = SliceOp.make(x, begin=tuple(begin), end=tuple(end), strides=tuple(strides))
    if part.results[0].type != x.type or set(strides) != {1}:
        return rw.insert(part)
    part.erase()
    return x


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
