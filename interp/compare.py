"""
Comparison of results: whether two lists of arrays agree, and the first element where they differ.

Integers, booleans, and floats that no pass re-associates must agree bit by bit. Where sums may be re-associated,
|a - b| <= atol + rtol * |b| with rtol = c * eps * sqrt(K): K is the number of terms that a result sums, eps the machine
epsilon of the narrowest type to which the function rounds. A sum that cancels is only as exact as its terms, so atol is
rtol times the largest result. NaN and infinities must stand at the same places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.interp.values import is_float

Array = np.ndarray[Any, np.dtype[Any]]
DEFAULT_C = 8.0
"""The error constant c of a function that declares none."""


@dataclass(frozen=True)
class Tolerance:
    """The allowed floating-point error: the constant `c` and the number of summed terms K; none if `exact`."""

    c: float = DEFAULT_C
    length: int = 1
    exact: bool = False
    epsilon: float = 0.0
    """Machine epsilon of the narrowest type to which intermediate values are rounded, if above the results' own."""

    def rtol(self, dtype: np.dtype[Any]) -> float:
        """c * eps * sqrt(K) for results of this dtype."""
        return 0.0 if self.exact else self.c * max(self.epsilon, epsilon(dtype)) * math.sqrt(max(self.length, 1))


EXACT = Tolerance(exact=True)


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


def differences(expected: Sequence[Any], got: Sequence[Any], tolerance: Tolerance = EXACT) -> Difference | None:
    """The first difference between two lists of results, if there is one."""
    for k, (a, b) in enumerate(zip(expected, got, strict=True)):
        if (found := difference(np.asarray(a), np.asarray(b), tolerance, k)) is not None:
            return found
    return None


def difference(expected: Array, got: Array, tolerance: Tolerance = EXACT, output: int = 0) -> Difference | None:
    """The first element in row-major order that differs; `expected` may be wider than `got` (an f64 reference)."""
    if expected.shape != got.shape:
        return Difference(output, (), f"shape {expected.shape}", f"shape {got.shape}", 0.0)
    if not is_float(got):
        wrong, allowed = expected != got, np.zeros(got.shape)
    else:
        wrong, allowed = _wrong_floats(expected, got, tolerance)
    if not np.any(wrong):
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Difference(output, index, expected[index], got[index], float(allowed[index]))


def _wrong_floats(expected: Array, got: Array, tolerance: Tolerance) -> tuple[Array, Array]:
    rtol = tolerance.rtol(got.dtype)
    b, a = expected.astype(np.float64), got.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        if finite.any() and not tolerance.exact:
            largest = float(np.max(np.abs(b[finite])))
            # a reference in f64 has values where the narrower type overflows or vanishes
            overflows = finite & (np.abs(b) > _largest(got.dtype) * (1 - rtol))
            b = np.where(overflows & np.isinf(a) & (np.sign(a) == np.sign(b)), a, b)
        else:
            largest = 0.0
        allowed = np.broadcast_to(rtol * largest + rtol * np.abs(b), b.shape)
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= allowed)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
    return ~same, np.where(np.isfinite(allowed), allowed, 0.0)


def _largest(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "f":
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] its type depends on the dtype
