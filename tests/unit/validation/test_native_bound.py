"""How far machine code may be from its last interpreted form where results are rounded to 16 bits."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mlc.interp.compare import Difference, epsilon
from mlc.validation.measure import Measured, compare_native, errors

Array = np.ndarray[Any, Any]
SIZE, TERMS = 64, 100
RNG = np.random.default_rng(3)
A, B = RNG.standard_normal((SIZE, TERMS)), RNG.standard_normal((TERMS, SIZE))
SUMS = A @ B
SINGLE_SUMS = (A.astype(np.float32) @ B.astype(np.float32)).astype(np.float64)
"""The same sums with the rounding of f32."""


def rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    return np.asarray(values).astype(np.float32).astype(dtype)


def compared(native: Array, dtype: np.dtype[Any], own: Array = SINGLE_SUMS) -> Difference | None:
    """What is said of machine code whose last form summed in f32 and rounded the sums to a narrow type."""
    wide, interpreted = rounded(SUMS, dtype).astype(np.float64), rounded(own, dtype)
    error, excess = (errors([interpreted], [wide], units) for units in (0.0, 1.0))
    measured = Measured([], [wide], [interpreted], [interpreted], [np.zeros_like(wide)], {}, error, excess, [SUMS])
    return compare_native(measured, [native], 0.0)


@pytest.mark.parametrize("dtype", [np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)], ids=["bf16", "f16"])
def test_a_lost_term_of_a_narrow_sum_is_seen(dtype: np.dtype[Any]) -> None:
    """The largest of 100 terms is added to the neighbour's sum: a fifth of the largest result."""
    i, k, j = np.unravel_index(np.argmax(np.abs(A[:, :, None] * B[None, :, :-1])), (SIZE, TERMS, SIZE - 1))
    wrong = SUMS.copy()
    wrong[i, j] -= A[i, k] * B[k, j]
    wrong[i, j + 1] += A[i, k] * B[k, j]
    found = compared(rounded(wrong, dtype), dtype)
    assert found is not None
    assert found.index == (i, j)
    assert found.allowed < 0.02 * np.abs(SUMS).max()


@pytest.mark.parametrize("dtype", [np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)], ids=["bf16", "f16"])
def test_other_orders_of_summation_and_other_roundings_are_right(dtype: np.dtype[Any]) -> None:
    backwards = np.zeros_like(SUMS, dtype=np.float32)
    for k in reversed(range(TERMS)):
        backwards += A[:, k : k + 1].astype(np.float32) * B[k].astype(np.float32)
    assert compared(rounded(backwards, dtype), dtype) is None
    unit = epsilon(dtype)
    assert compared(rounded(SUMS * (1 + unit * RNG.uniform(-0.5, 0.5, SUMS.shape)), dtype), dtype) is None


def test_sums_in_a_narrow_type_may_be_as_inexact_as_they_were() -> None:
    """The form sums in f16 itself: the error of other orders is some factor of its own."""
    narrow = np.zeros_like(SUMS, dtype=np.float16)
    other = narrow.copy()
    for k in range(TERMS):
        narrow += (A[:, k : k + 1] * B[k]).astype(np.float16)
    for k in reversed(range(TERMS)):
        other += (A[:, k : k + 1] * B[k]).astype(np.float16)
    assert compared(other, np.dtype(np.float16), narrow.astype(np.float64)) is None
