"""The numpy semantics of graph ops: `evaluate(op, arrays)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.types import FLOATS, numpy_dtype


def evaluate(op: GraphOp, arrays: Sequence[Any], float_dtype: Any = None) -> tuple[Any, ...]:
    """The results of an op on arrays; with `float_dtype`, floating-point results are of that dtype instead."""
    with np.errstate(all="ignore"):
        values = op.evaluate(np, *arrays)
    return tuple(
        np.asarray(value).astype(result_dtype(result.type, float_dtype), copy=False)
        for value, result in zip(values, op.results, strict=True)
    )


def result_dtype(type: Any, float_dtype: Any = None) -> Any:
    """The dtype of a tensor type's elements; `float_dtype`, if given, replaces that of floats."""
    if float_dtype is not None and isinstance(type.element_type, FLOATS):
        return np.dtype(float_dtype)
    return numpy_dtype(type.element_type)
