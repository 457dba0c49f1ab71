"""
Bounds of small values that the model computes at run time, so that sizes made of them have a bound.

A count lies between 0 and its bound. The bounds of the result of an op that is monotonic in its operands are its
results on the operands' lower and upper bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim, DimExpr, greatest, least
from mlc.frontends.common.sizes import size_array
from mlc.frontends.common.values import Array, Value

Bounds: TypeAlias = "tuple[Array, Array]"
"""Elementwise lower and upper bounds."""
MAX_SPAN_ELEMENTS = 64
"""Elements of the largest value whose bounds are kept."""


def span_of(value: Value) -> Bounds | None:
    """The bounds of each element; None where they are not known."""
    if value.array is not None and not value.bound:
        return (value.array, value.array) if value.array.size <= MAX_SPAN_ELEMENTS else None
    return value.span


def result_span(
    cls: type[GraphOp], operands: Sequence[Value], evaluate: Callable[[list[Value]], list[Value] | None]
) -> Bounds | None:
    """The bounds of an op's result; None where they are not known. `evaluate` folds the op on constants."""
    spans = [span_of(v) for v in operands]
    if cls is g.WhereOp:
        spans[0] = spans[0] if spans[0] is not None and (spans[0][0] == spans[0][1]).all() else None
        if spans[0] is None and None not in spans[1:]:
            lows, highs = zip(*spans[1:], strict=True)
            least_of, greatest_of = np.frompyfunc(least, 2, 1), np.frompyfunc(greatest, 2, 1)
            return size_array(least_of(*lows)), size_array(greatest_of(*highs))
    if any(span is None for span in spans):
        return None
    lows, highs = ([span[end] for span in spans if span is not None] for end in (0, 1))
    if cls is g.SubtractOp:
        lows[1], highs[1] = highs[1], lows[1]
    elif cls is g.NegOp:
        lows, highs = highs, lows
    elif cls in (g.MultiplyOp, g.DivideOp):
        if any(_may_be_negative(n) for low in lows for n in low.reshape(-1)):
            return None
        if cls is g.DivideOp and ((lows[1] != highs[1]).any() or (lows[1] == 0).any()):
            return None
    elif cls is g.TakeOp and (lows[1] != highs[1]).any():
        return None
    elif cls not in MONOTONIC:
        return None
    try:
        low, high = (evaluate([Value(None, np.asarray(array), "") for array in ends]) for ends in (lows, highs))
    except (VerifyException, ValueError):  # sizes that an op needs as numbers
        return None
    return None if low is None or high is None else (low[0].array, high[0].array)


def _may_be_negative(value: Dim) -> bool:
    return bool(value.bounds()[0] < 0 if isinstance(value, DimExpr) else value < 0)


MONOTONIC = frozenset(
    {
        g.AddOp, g.MinimumOp, g.MaximumOp, g.CastOp, g.ReshapeOp, g.TakeOp, g.ConcatenateOp, g.SliceOp, g.ClipOp,
        g.IdentityOp, g.CeilOp, g.FloorOp, g.TransposeOp, g.BroadcastToOp, g.SumOp, g.MaxOp, g.MinOp, g.SqrtOp,
        g.WhereOp, g.ReluOp, g.TileOp,
    }
)  # fmt: skip
"""Ops that are monotonically non-decreasing in each operand."""
