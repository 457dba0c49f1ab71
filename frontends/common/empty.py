"""Ops with empty results or empty operands, which are replaced by constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects.graph import (
    BatchMatmulOp,
    DenseOp,
    GraphOp,
    MaxOp,
    MeanOp,
    MinOp,
    ProdOp,
    SumOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.types import element_of, is_static, numpy_dtype
from mlc.frontends.common.values import Array


def without_elements(op: GraphOp) -> list[Array] | None:
    """The results of an op whose results, or the operands that it reduces, are empty; None of any other."""
    if not all(is_static(shape_of(t)) for t in (*op.result_types, *op.input_types)):
        return None
    if all(0 in shape_of(result.type) for result in op.results):
        return [np.zeros(static_shape(result.type), numpy_dtype(element_of(result))) for result in op.results]
    if not any(0 in shape_of(t) for t in op.input_types) or not isinstance(op, (*_EMPTY, DenseOp, BatchMatmulOp)):
        return None
    dtype = numpy_dtype(op.type.element_type)
    return [np.full(static_shape(op.type), _EMPTY.get(type(op), lambda dtype: 0)(dtype), dtype)]


def _least(dtype: np.dtype[Any]) -> float:
    return -np.inf if dtype.kind in "fV" else np.iinfo(dtype).min if dtype.kind in "iu" else False


def _most(dtype: np.dtype[Any]) -> float:
    return np.inf if dtype.kind in "fV" else np.iinfo(dtype).max if dtype.kind in "iu" else True


_EMPTY: dict[type[GraphOp], Callable[[np.dtype[Any]], float]] = {
    SumOp: lambda dtype: 0,
    ProdOp: lambda dtype: 1,
    MeanOp: lambda dtype: np.nan if dtype.kind in "fV" else 0,
    MaxOp: _least,
    MinOp: _most,
}
"""The value of a reduction of no elements, by the dtype."""
