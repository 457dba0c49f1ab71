"""ATen ops that make tensors of nothing but their shape."""

from __future__ import annotations

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import DimExpr
from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import add, full, iota, multiply
from mlc.frontends.torch.numbers import Number
from mlc.frontends.torch.step import Convert, Step


def _full(step: Step) -> Value:
    value = step.get("fill_value", step.get("value", step.get("s", 0)))
    if isinstance(value, Value | DimExpr | Number):
        return step.emit(g.BroadcastToOp, step.typed(value, step.dtype), shape=step.shape)
    return _filled(step, value)


def _filled(step: Step, value: float) -> Value:
    """A constant, which takes no memory, if its sizes are known."""
    shape = step.shape
    if all(isinstance(size, int) for size in shape):
        return step.array(np.broadcast_to(np.array(value).astype(step.dtype), shape))
    return full(step, shape, float(value), step.dtype)


def _ones(step: Step) -> Value:
    return _filled(step, 1)


def _zeros(step: Step) -> Value:
    return _filled(step, 0)


def _arange(step: Step) -> Value:
    start, by = step.get("start", 0), step.get("step", 1)
    (count,) = step.shape
    if isinstance(count, int) and isinstance(start, int | float):
        return step.array((start + by * np.arange(count)).astype(step.dtype))
    return add(step, multiply(step, iota(step, (count,), 0, step.dtype), by), start)


def _eye(step: Step) -> Value:
    rows, *columns = map(int, step.shape)
    return step.array(np.eye(rows, columns[0] if columns else None, dtype=step.dtype))


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
