"""numpy's element types by the names that mlc gives them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def dtype_of(name: str) -> np.dtype[Any]:
    """
    The numpy dtype called `name`: `float32`, `uint8`, `bool`, ..., and `bfloat16`, which ml_dtypes defines.

    Raises TypeError for a name that is no element type.
    """
    if name == "bfloat16":
        import ml_dtypes  # not before it is needed: the import takes longer than running a small model

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def is_float_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether a numpy dtype is of floats (bfloat16 is no numpy float, and its kind is V)."""
    return dtype.kind in "fV"


_OF_TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i1": "bool", "index": "int64"}


def dtype_of_type(text: str) -> np.dtype[Any]:
    """The numpy dtype of an element type as MLIR writes it: `f32`, `i8`, `ui8`; TypeError for another."""
    bits = text.lstrip("us").removeprefix("i")
    if text not in _OF_TYPES and bits.isdecimal():
        return dtype_of(f"{'uint' if text.startswith('u') else 'int'}{bits}")
    return dtype_of(_OF_TYPES.get(text, text))
