"""Embedding bags: rows of a table, reduced over bags of indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import binary, cast, divide, full, multiply, reduce, select
from mlc.frontends.common.movement import reshape, slice_axis
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.torch.call import AtenCall, Convert

SUM, MEAN, MAX = range(3)
"""torch's modes of reduction."""


def _bags(call: AtenCall) -> list[Value | None]:
    """The reduced rows; the other results are only for the gradient, and not computed."""
    table, indices, offsets, mode = call["weight"], call["indices"], call["offsets"], call.get("mode", SUM)
    rows = call.emit(g.TakeOp, table, indices, axis=0)
    (count,), padding = indices.shape, call.get("padding_idx", -1)
    bags = call.shape[0]
    kept: Value | None = None
    if padding >= 0:
        kept = call.emit(g.LogicalNotOp, binary(call, g.EqualOp, indices, padding))
    if _of_one_size(offsets, count, bags):
        inside = None if kept is None else reshape(call, kept, (bags, count // bags))
    else:
        inside = _inside(call, offsets, count, bags)
        inside = inside if kept is None else call.emit(g.LogicalAndOp, inside, reshape(call, kept, (1, count)))
    if (weights := call.get("per_sample_weights")) is not None:
        rows = multiply(call, rows, reshape(call, weights, (count, 1)))
    size = count // bags if _of_one_size(offsets, count, bags) else count
    rows = reshape(call, rows, (count // size, size, table.shape[1]))
    return [_reduced(call, rows, inside, mode, bags), None, None, None]


def _of_one_size(offsets: Value, count: int, bags: int) -> bool:
    """Whether the offsets are constant and all bags have the same number of indices, at least one."""
    known = offsets.array
    if known is None or not bags or not count or count % bags:
        return False
    return np.array_equal(known[:bags], np.arange(0, count, count // bags)) and known[bags:].tolist() in ([], [count])


def _inside(call: AtenCall, offsets: Value, count: int, bags: int) -> Value:
    """The mask, bags x indices, of the indices in each bag: from its offset up to the next one."""
    places = reshape(call, call.counted(count), (1, count))
    offsets = cast(call, offsets, np.int64)
    begins = reshape(call, slice_axis(call, offsets, 0, 0, bags), (bags, 1))
    after = [slice_axis(call, offsets, 0, 1, offsets.shape[0])] if offsets.shape[0] > 1 else []
    if offsets.shape[0] == bags:
        after.append(call.array(np.array([count], np.int64)))
    ends = after[0] if len(after) == 1 else call.emit(g.ConcatenateOp, *after, axis=0)
    ends = reshape(call, ends, (bags, 1))
    return call.emit(g.LogicalAndOp, call.emit(g.GreaterEqualOp, places, begins), call.emit(g.LessOp, places, ends))


def _reduced(call: AtenCall, rows: Value, inside: Value | None, mode: int, bags: int) -> Value:
    """Rows, bags (or 1) x indices x units, reduced over the indices that the mask has in each bag."""
    dtype, size = dtype_like(rows), rows.shape[1]
    if inside is None:
        return reduce(call, (g.SumOp, g.MeanOp, g.MaxOp)[mode], rows, [1])
    each = reshape(call, inside, (bags, size, 1))
    if mode == MAX:
        best = reduce(call, g.MaxOp, select(call, each, rows, -math.inf), [1])
        some = cast(call, reduce(call, g.MaxOp, cast(call, inside, np.int32), [1], True), np.bool_)
        return select(call, some, best, 0)
    total = _sum(call, rows, inside, each)
    if mode == SUM:
        return total
    number = reduce(call, g.SumOp, cast(call, inside, dtype), [1], True)
    return divide(call, total, call.emit(g.MaximumOp, number, call.array(1, like=number)))


def _sum(call: AtenCall, rows: Value, inside: Value, each: Value) -> Value:
    """The masked sum; a matrix product of mask and rows where all bags share the rows."""
    if rows.shape[0] > 1:
        return reduce(call, g.SumOp, select(call, each, rows, 0), [1])
    flat = reshape(call, rows, rows.shape[1:])
    return call.emit(g.BatchMatmulOp, cast(call, inside, dtype_like(rows)), flat)


def _no_bags(call: AtenCall) -> Any:
    """The result without any indices: every bag is empty."""
    return [full(call, call.shape, 0, call.dtype), None, None, None]


def _convert(call: AtenCall) -> list[Value | None]:
    return _bags(call) if call["indices"].shape[0] else _no_bags(call)


CONVERTERS: dict[str, Convert] = {"_embedding_bag": _convert, "_embedding_bag_forward_only": _convert}
