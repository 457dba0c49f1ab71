"""ATen ops that create tensors: fills, ranges, identity matrices."""

from __future__ import annotations

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import DimExpr
from mlc.frontends.common.elementwise import add, full, iota, multiply
from mlc.frontends.common.values import Value
from mlc.frontends.torch.call import AtenCall, Convert
from mlc.frontends.torch.numbers import SymbolicNumber


def _full(call: AtenCall) -> Value:
    value = call.get("fill_value", call.get("value", call.get("s", 0)))
    if isinstance(value, Value | DimExpr | SymbolicNumber):
        return call.emit(g.BroadcastToOp, call.typed(value, call.dtype), shape=call.shape)
    return _filled(call, value)


def _filled(call: AtenCall, value: float) -> Value:
    """A constant (a broadcast array, which takes no memory) if its sizes are known."""
    shape = call.shape
    if all(isinstance(size, int) for size in shape):
        return call.array(np.broadcast_to(np.array(value).astype(call.dtype), shape))
    return full(call, shape, float(value), call.dtype)


def _ones(call: AtenCall) -> Value:
    return _filled(call, 1)


def _zeros(call: AtenCall) -> Value:
    return _filled(call, 0)


def _arange(call: AtenCall) -> Value:
    start, by = call.get("start", 0), call.get("step", 1)
    (count,) = call.shape
    if isinstance(count, int) and isinstance(start, int | float):
        return call.array((start + by * np.arange(count)).astype(call.dtype))
    return add(call, multiply(call, iota(call, (count,), 0, call.dtype), by), start)


def _eye(call: AtenCall) -> Value:
    rows, *columns = map(int, call.shape)
    return call.array(np.eye(rows, columns[0] if columns else None, dtype=call.dtype))


CONVERTERS: dict[str, Convert] = {
    **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor", "fill"), _full),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _ones),
    **dict.fromkeys(
        ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "empty_permuted", "new_empty", "empty_strided"),
        _zeros,
    ),
    "arange": _arange,
    "eye": _eye,
}
