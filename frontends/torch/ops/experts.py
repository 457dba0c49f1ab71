"""Ops with which mixtures of experts group rows: products of runs of rows with a matrix each, and histograms."""

from __future__ import annotations

import math

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import binary, cast, divide, multiply, reduce, select, subtract
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.values import Value
from mlc.frontends.torch.call import AtenCall, Convert


def _grouped_product(rows: str, matrices: str) -> Convert:
    """
    `y[s] = x[s] @ w[e]` for the rows s from `offs[e - 1]` up to `offs[e]`; zeros behind the last offset.

    Each row is multiplied by the matrix that its number among the offsets chooses.
    """

    def convert(call: AtenCall) -> Value:
        x, w, ends = call[rows], call[matrices], call.get("offs")
        if len(x.shape) != 2 or len(w.shape) != 3 or ends is None:
            raise call.fail("expected rows [n, k], matrices [groups, k, m] and offsets, but got other ranks or none")
        if call.get("bias") is not None:
            raise call.fail("expected no bias, but got one")
        (count, depth), groups = x.shape, w.shape[0]
        numbers = reshape(call, call.counted(count), (count, 1))
        ends = reshape(call, cast(call, ends, "int64"), (1, groups))
        passed = cast(call, binary(call, g.GreaterEqualOp, numbers, ends), "int64")
        group = reduce(call, g.SumOp, passed, [1])
        chosen = call.emit(g.TakeOp, w, call.emit(g.ClipOp, group, max=float(groups - 1)), axis=0)
        product = call.emit(g.BatchMatmulOp, reshape(call, x, (count, 1, depth)), chosen)
        inside = reshape(call, binary(call, g.LessOp, group, groups), (count, 1))
        y = reshape(call, product, (count, w.shape[2]))
        return cast(call, select(call, inside, y, 0), call.dtype)

    return convert


def _histc(call: AtenCall) -> Value:
    """How many elements fall into each of `bins` equal parts from `min` to `max`; the last one holds `max`."""
    x, bins, low, high = call["self"], call.get("bins", 100), call.get("min", 0), call.get("max", 0)
    if not low < high:
        raise call.fail("expected a range from min to max, but got none: it would depend on data")
    count = math.prod(x.shape)
    flat = reshape(call, x, (1, count))
    place = divide(call, multiply(call, subtract(call, flat, low), bins), high - low)
    place = select(call, binary(call, g.EqualOp, flat, high), bins - 1, call.emit(g.FloorOp, place))
    numbers = reshape(call, cast(call, call.counted(bins), call.dtype), (bins, 1))
    return reduce(call, g.SumOp, cast(call, binary(call, g.EqualOp, place, numbers), call.dtype), [1])


CONVERTERS: dict[str, Convert] = {
    "histc": _histc,
    "_grouped_mm": _grouped_product("self", "mat2"),
    "transformers::grouped_mm_fallback": _grouped_product("input", "weight"),
}
