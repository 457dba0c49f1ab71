"""
Whether a candidate computes what the default kernel does.

A float may differ from the default kernel's by

    64 epsilon * max|reference|    which any order of summation has: ERROR_FLOOR of validation/measure.py; epsilon is
                                   that of the narrowest type that reductions sum in
    + 16 * largest movement        of the output when the inputs move by one unit of rounding, in two draws
    + 2 epsilon of its own type    times the value

An integer must be the same; where floats decide it, one in a hundred may be a step away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlc.interp.compare import Difference, difference, epsilon
from mlc.support.dtypes import is_float_dtype
from mlc.tuning.measure.regions import Array
from mlc.validation.measure import ERROR_FLOOR, ROUNDING_FACTOR, integer_difference, largest

SINGLE = float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Reference:
    """The default kernel's outputs, and how far a candidate's may be from them."""

    outputs: list[Array]
    allowed: list[float]
    """The same for all elements of an output."""
    from_floats: bool

    def difference(self, got: Sequence[Array], growth: float = 1.0) -> Difference | None:
        """The first element of a candidate's outputs that differs by more than `growth` times what is allowed."""
        for number, (a, b, allowed) in enumerate(zip(self.outputs, got, self.allowed, strict=True)):
            found = _compared(a, b, growth * allowed, number, self.from_floats)
            if found is not None:
                return found
        return None


def _compared(a: Array, b: Array, allowed: float, number: int, from_floats: bool) -> Difference | None:
    if not is_float_dtype(a.dtype):
        return None if np.array_equal(a, b) else integer_difference(a, b, number, from_floats)
    if a.dtype.itemsize >= 4 and a.size:
        with np.errstate(all="ignore"):
            if np.abs(a - b).max() <= allowed:  # false where an element is no number
                return None
    held = np.abs(a.astype(np.float64))
    return difference(a, b, allowed + 2 * epsilon(a.dtype) * np.where(np.isfinite(held), held, 0.0), number)


def allowances(outputs: Sequence[Array], moved: Sequence[Sequence[Array]], unit: float) -> list[float]:
    """How far each output may be off, where inputs that moved by a unit of rounding gave `moved` (draws of outputs)."""
    found: list[float] = []
    for number, output in enumerate(outputs):
        if not is_float_dtype(output.dtype):
            found.append(0.0)
            continue
        movement = max((_movement(output, draw[number]) for draw in moved), default=0.0)
        floor = ERROR_FLOOR * max(unit, min(epsilon(output.dtype), SINGLE)) * largest(output)
        found.append(floor + ROUNDING_FACTOR * movement)
    return found


def _movement(base: Array, moved: Array) -> float:
    """The largest distance of two outputs, where both are finite."""
    with np.errstate(all="ignore"):
        return largest(moved.astype(np.float64) - base.astype(np.float64))


def silent_share(base: Sequence[Array], moved: Sequence[Array]) -> float:
    """The share of the floats of all outputs that are not finite, or that do not move when the inputs do."""
    silent = count = 0
    for a, b in zip(base, moved, strict=True):
        if is_float_dtype(a.dtype):
            x, y = a.astype(np.float64), b.astype(np.float64)
            silent += int(np.sum(~np.isfinite(x) | (x == y)))
            count += a.size
    return silent / count if count else 0.0
