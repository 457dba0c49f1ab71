"""Embedding bags: rows of a table, reduced over bags of indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Value, dtype_like
from mlc.frontends.onnx.tools import binary, cast, divide, full, multiply, part, reduce, reshape, select
from mlc.frontends.torch.step import Convert, Step

SUM, MEAN, MAX = range(3)
"""torch's modes."""


def _bags(step: Step) -> list[Value | None]:
    """The reduced rows; what torch needs to go backward is not computed."""
    table, indices, offsets, mode = step["weight"], step["indices"], step["offsets"], step.get("mode", SUM)
    rows = step.emit(g.TakeOp, table, indices, axis=0)
    (count,), padding = indices.shape, step.get("padding_idx", -1)
    bags = step.shape[0]
    kept: Value | None = None
    if padding >= 0:
        kept = step.emit(g.LogicalNotOp, binary(step, g.EqualOp, indices, padding))
    if _of_one_size(offsets, count, bags):
        inside = None if kept is None else reshape(step, kept, (bags, count // bags))
    else:
        inside = _inside(step, offsets, count, bags)
        inside = inside if kept is None else step.emit(g.LogicalAndOp, inside, reshape(step, kept, (1, count)))
    if (weights := step.get("per_sample_weights")) is not None:
        rows = multiply(step, rows, reshape(step, weights, (count, 1)))
    size = count // bags if _of_one_size(offsets, count, bags) else count
    rows = reshape(step, rows, (count // size, size, table.shape[1]))
    return [_reduced(step, rows, inside, mode, bags), None, None, None]


def _of_one_size(offsets: Value, count: int, bags: int) -> bool:
    """Whether it is known that the bags have the same number of indices, which is not 0."""
    known = offsets.array
    if known is None or not bags or not count or count % bags:
        return False
    return np.array_equal(known[:bags], np.arange(0, count, count // bags)) and known[bags:].tolist() in ([], [count])


def _inside(step: Step, offsets: Value, count: int, bags: int) -> Value:
    """For each bag and each index, whether it holds it: from its offset to the next one."""
    places = reshape(step, step.counted(count), (1, count))
    offsets = cast(step, offsets, np.int64)
    begins = reshape(step, part(step, offsets, 0, 0, bags), (bags, 1))
    after = [part(step, offsets, 0, 1, offsets.shape[0])] if offsets.shape[0] > 1 else []
    if offsets.shape[0] == bags:
        after.append(step.array(np.array([count], np.int64)))
    ends = after[0] if len(after) == 1 else step.emit(g.ConcatenateOp, *after, axis=0)
    ends = reshape(step, ends, (bags, 1))
    return step.emit(g.LogicalAndOp, step.emit(g.GreaterEqualOp, places, begins), step.emit(g.LessOp, places, ends))


def _reduced(step: Step, rows: Value, inside: Value | None, mode: int, bags: int) -> Value:
    """Bags x indices x units, or 1 x indices x units, of which each bag takes what is inside."""
    dtype, size = dtype_like(rows), rows.shape[1]
    if inside is None:
        return reduce(step, (g.SumOp, g.MeanOp, g.MaxOp)[mode], rows, [1])
    each = reshape(step, inside, (bags, size, 1))
    if mode == MAX:
        best = reduce(step, g.MaxOp, select(step, each, rows, -math.inf), [1])
        some = cast(step, reduce(step, g.MaxOp, cast(step, inside, np.int32), [1], True), np.bool_)
        return select(step, some, best, 0)
    total = _sum(step, rows, inside, each)
    if mode == SUM:
        return total
    number = reduce(step, g.SumOp, cast(step, inside, dtype), [1], True)
    return divide(step, total, step.emit(g.MaximumOp, number, step.array(1, like=number)))


def _sum(step: Step, rows: Value, inside: Value, each: Value) -> Value:
    """A product of matrices where all bags choose from the same rows."""
    if rows.shape[0] > 1:
        return reduce(step, g.SumOp, select(step, each, rows, 0), [1])
    flat = reshape(step, rows, rows.shape[1:])
    return step.emit(g.BatchMatmulOp, cast(step, inside, dtype_like(rows)), flat)


def _no_bags(step: Step) -> Any:
    """Without indices every bag is empty."""
    return [full(step, step.shape, 0, step.dtype), None, None, None]


def _convert(step: Step) -> list[Value | None]:
    return _bags(step) if step["indices"].shape[0] else _no_bags(step)


CONVERTERS: dict[str, Convert] = {"_embedding_bag": _convert, "_embedding_bag_forward_only": _convert}
