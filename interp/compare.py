"""
Comparison of results: the first element where two arrays differ by more than is allowed.

Integers and booleans are equal, or as many steps apart as is allowed. NaN and infinities must stand at the same places.
What is allowed is measured by those who compare (validation/measure.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.support.dtypes import is_float_dtype

Array = Any


@dataclass(frozen=True)
class Difference:
    """The first place where two results differ."""

    output: int
    index: tuple[int, ...]
    expected: Any
    got: Any
    allowed: float

    def __str__(self) -> str:
        at = ", ".join(map(str, self.index))
        allowed = f" (allowed {self.allowed:.3g})" if self.allowed else ""
        return f"output {self.output} at [{at}]: expected {self.expected}, but got {self.got}{allowed}"


def epsilon(dtype: np.dtype[Any]) -> float:
    """Machine epsilon of a floating-point type, bf16 included: the distance from 1 to the next larger number."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] its type depends on the dtype


def differences(expected: Sequence[Any], got: Sequence[Any]) -> Difference | None:
    """The first element that is not the same in two lists of results, if there is one."""
    pairs = enumerate(zip(expected, got, strict=True))
    return next((found for k, (a, b) in pairs if (found := difference(a, b, output=k)) is not None), None)


def difference(expected: Array, got: Array, allowed: Array | float = 0.0, output: int = 0) -> Difference | None:
    """
    The first element in row-major order that differs by more than `allowed`, one bound or one for each element.

    `expected` may be wider than `got` (an f64 reference).
    """
    a, b = np.asarray(expected), np.asarray(got)
    if a.shape != b.shape:
        return Difference(output, (), f"shape {a.shape}", f"shape {b.shape}", 0.0)
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        near = np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= allowed)
        # integers above 2^53 are equal in f64 though they differ
        same = (x == y) | (np.isnan(x) & np.isnan(y)) if is_float_dtype(a.dtype) else a == b
        wrong = ~(same | (near & (np.asarray(allowed) > 0)))
    if not np.any(wrong):
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(output, index, a[index], b[index], float(np.broadcast_to(allowed, wrong.shape)[index]))
