"""The numpy semantics of graph ops: `evaluate(op, arrays)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.types import FLOATS, Array, numpy_dtype

FloatDType = type[np.floating[Any]] | np.dtype[Any]


def evaluate(op: GraphOp, arrays: Sequence[Array], float_dtype: FloatDType | None = None) -> tuple[Array, ...]:
    """The results of an op on arrays; with `float_dtype`, floating-point results are of that dtype instead."""
    with np.errstate(all="ignore"):
        values = op.evaluate(np, *arrays)
    return tuple(
        np.asarray(value).astype(result_dtype(result.type, float_dtype), copy=False)
        for value, result in zip(values, op.results, strict=True)
    )


def result_dtype(type: Attribute, float_dtype: FloatDType | None = None) -> np.dtype[Any]:
    """The dtype of a tensor type's elements; `float_dtype`, if given, replaces that of floats."""
    assert isinstance(type, TensorType)
    if float_dtype is not None and isinstance(type.element_type, FLOATS):
        return np.dtype(float_dtype)
    return numpy_dtype(type.element_type)
