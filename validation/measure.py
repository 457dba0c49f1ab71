"""
What is measured of a function on one draw of inputs, and the bounds within which another form of it must agree.

Meaning is compared in wide arithmetic (support/arithmetic.py). The bound of an element is

    1e-9 * max|reference|                  the rounding of f64, with room
    + 1000 * movement                      of this element when inputs and constants move by 1e-14, in two draws
    + 16 * max movement under rounding     of the tensor when the constants that the pass made, or removed, move by half
                                           an ulp of their type; only where the first two do not suffice

It is measured on the values as they are and is not multiplied over ops or layers. Where it exceeds 1e-3 of the output's
standard deviation, the comparison says nothing: the element counts as not validated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlc.interp.compare import Difference, difference, epsilon
from mlc.support.arithmetic import OWN, REAL, WIDE, Arithmetic, Noise, perturbed
from mlc.support.dtypes import is_float_dtype
from mlc.validation.execute import RunnableFunction
from mlc.validation.isolated import ProcessDied, isolated

Array = Any
WIDE_BOUND = 1e-9
"""Part of the bound that every element gets, relative to the largest element of the reference."""
NUDGE = 1e-14
"""Relative change of inputs and constants that measures how ill-conditioned a function is."""
NUDGE_FACTOR = 1000.0
"""The bound is this many times the movement that `NUDGE` causes."""
ROUNDING_FACTOR = 16.0
"""The bound is this many times the movement that rounding new constants causes."""
USELESS_BOUND = 1e-3
"""Bound, relative to the standard deviation of the output, above which a comparison says nothing."""
LARGE_INPUTS = 100.0
"""Factor of the inputs on which the range of intermediate values is tested."""
ERROR_GROWTH = 4.0
"""Factor by which a pass may enlarge the error of the own-precision result, unless it declares `error_growth`."""
ERROR_FLOOR = 64.0
"""Errors below this many machine epsilons of the largest result are not compared: any order of summation has them."""

NATIVE_FACTOR = 16.0
"""Factor by which the error of machine code may exceed the measured error of its last interpreted form."""
CAST_FACTOR = 4.0
"""Machine code may move by this many times what all the roundings of casts inside its function move together."""
NATIVE_SECONDS = 600.0
"""Seconds of CPU time after which machine code is taken to run forever."""
SINGLE = float(np.finfo(np.float32).eps)


@dataclass
class Measured:
    """The results of a function in one form, on one draw of inputs."""

    arrays: list[Array]
    wide: list[Array] | None
    """In wide arithmetic; None for forms that have none."""
    own: list[Array]
    large: list[Array]
    """In own arithmetic, on inputs times `LARGE_INPUTS`."""
    moved: list[Array]
    """Largest movement of each element under the nudge."""
    constants: dict[object, object]
    error: list[float]
    """Largest |own - wide| of each output so far."""
    excess: list[float]
    """The part of it beyond one unit of each element's own type, which is the rounding of the result alone."""
    real: list[Array] | None = None
    """Without the rounding of casts; only where a pass needs it."""


@dataclass
class Agreement:
    """The result of a comparison: a difference, or the share of elements about which it says nothing."""

    difference: Difference | None = None
    useless: float = 0.0
    finite: float = 1.0
    """Share of the compared elements that are finite in the reference."""


@dataclass
class FunctionRunner:
    """Runs one function, counting runs; results are of fresh arrays."""

    executable: RunnableFunction
    ran: int = field(default=0)

    def run(self, arrays: Sequence[Array], arithmetic: Arithmetic = OWN) -> list[Array]:
        """The results on copies of the arrays."""
        self.ran += 1
        with np.errstate(all="ignore"):
            if self.executable.compile is not None:
                return self.machine_code([a.copy() for a in arrays], self.executable.compile)
            return self.executable.run([a.copy() for a in arrays], arithmetic)

    def machine_code(self, arrays: list[Array], compile_all: Callable[[], object]) -> list[Array]:
        """The results of machine code; ProcessDied if it ends the process that runs it, which is a child of this."""
        compile_all()
        outcome = isolated(lambda: self.executable.run(arrays, OWN), NATIVE_SECONDS)
        if outcome.value is None:
            raise ProcessDied(outcome.died)
        return outcome.value

    def measure(self, arrays: list[Array]) -> Measured:
        """The first measurement of a function."""
        own = self.run(arrays)
        if not self.executable.is_wide:
            return Measured(arrays, None, own, self.large(arrays), [], self.executable.constants, [], [])
        wide = self.run(arrays, WIDE)
        draws = [self.nudged(arrays, seed) for seed in (1, 2)]
        moved = [_movement(w, [draw[k] for draw in draws]) for k, w in enumerate(wide)]
        real = self.real(arrays) if self.executable.epsilon > epsilon(np.dtype(np.float32)) else None
        facts = moved, self.executable.constants, errors(own, wide), errors(own, wide, 1.0), real
        return Measured(arrays, wide, own, self.large(arrays), *facts)

    def large(self, arrays: Sequence[Array]) -> list[Array]:
        """The results on large inputs, each in its own type."""
        return self.run([_scaled(a) for a in arrays])

    def nudged(self, arrays: Sequence[Array], seed: int) -> list[Array]:
        """The wide results on inputs and constants that are moved a little."""
        moved = [perturbed(a, NUDGE, seed + k) if is_float_dtype(a.dtype) else a for k, a in enumerate(arrays)]
        return self.run(moved, Arithmetic(True, True, Noise(seed, NUDGE)))

    def rounding(self, arrays: Sequence[Array], wide: Sequence[Array], made: frozenset[object]) -> list[float]:
        """Largest movement of each output when the constants `made` move by an ulp of their type, in two draws."""
        relative = (self.executable.epsilon or float(np.finfo(np.float32).eps)) / 2
        draws = [self.run(arrays, Arithmetic(True, True, Noise(seed, relative, made))) for seed in (1, 2)]
        return [float(np.max(_movement(w, [d[k] for d in draws]), initial=0.0)) for k, w in enumerate(wide)]

    def real(self, arrays: Sequence[Array]) -> list[Array]:
        """The results in wide arithmetic without the rounding of casts."""
        return self.run(arrays, REAL)


def _scaled(array: Array) -> Array:
    return (array * array.dtype.type(LARGE_INPUTS)).astype(array.dtype) if is_float_dtype(array.dtype) else array


def _movement(reference: Array, draws: Sequence[Array]) -> Array:
    """The largest distance of the draws from the reference, by element; 0 where one is not finite."""
    base = np.asarray(reference, np.float64)
    with np.errstate(all="ignore"):
        moved = [
            np.abs(np.asarray(d, np.float64) - base) if d.shape == base.shape else np.zeros_like(base) for d in draws
        ]
        return np.nan_to_num(np.maximum.reduce(moved), nan=0.0, posinf=0.0)


def largest(values: Array) -> float:
    """The largest finite absolute value; 0 without one."""
    held = np.abs(np.asarray(values, np.float64))
    return float(np.max(held, where=np.isfinite(held), initial=0.0))


def errors(own: Sequence[Array], wide: Sequence[Array], units: float = 0.0) -> list[float]:
    """The largest |own - wide| of each output beyond so many units of the element; finite ones only, 0 for integers."""
    return [
        _beyond(a, b, units * epsilon(a.dtype)) if is_float_dtype(a.dtype) else 0.0
        for a, b in zip(own, wide, strict=True)
    ]


def _beyond(a: Array, b: Array, relative: float) -> float:
    """The largest finite |a - b| beyond a part of |b|."""
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    with np.errstate(all="ignore"):
        return largest(np.maximum(np.abs(x - y) - relative * np.abs(y), 0.0))


# --- comparisons -------------------------------------------------------------------------------------------------


def compare_meaning(
    reference: Sequence[Array], got: Sequence[Array], moved: Sequence[Array], slack: Sequence[float] = ()
) -> Agreement:
    """Whether two wide results mean the same, within the measured bounds."""
    verdict, useless, finite, count = Agreement(), 0, 0, 0
    for k, (a, b) in enumerate(zip(reference, got, strict=True)):
        if a.shape != b.shape:
            return Agreement(Difference(k, (), f"shape {a.shape}", f"shape {b.shape}", 0.0))
        extra = ROUNDING_FACTOR * slack[k] if slack else 0.0
        allowed = _allowed(a, moved[k], extra)
        if is_float_dtype(a.dtype):
            spread = float(np.std(a[np.isfinite(a)])) if np.isfinite(a).any() else 0.0
            useless += int(np.sum(allowed > USELESS_BOUND * (spread or largest(a) or 1.0)))
            finite += int(np.isfinite(a).sum())
        else:
            finite += a.size
        count += a.size
        if verdict.difference is None:
            verdict.difference = difference(a, b, allowed, k)
    verdict.useless, verdict.finite = useless / max(count, 1), finite / max(count, 1)
    return verdict


def _allowed(reference: Array, moved: Array, extra: float) -> Array:
    """The bound of each element; integers may move as far as they were seen to move."""
    if is_float_dtype(reference.dtype):
        return WIDE_BOUND * largest(reference) + NUDGE_FACTOR * moved + extra
    return np.maximum(moved, np.ceil(extra / ROUNDING_FACTOR))


def lost_range(before: Sequence[Array], after: Sequence[Array]) -> str:
    """Where a result that was finite no longer is; empty if all are."""
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        if is_float_dtype(b.dtype) and a.shape == b.shape:
            lost = np.isfinite(a.astype(np.float64)) & ~np.isfinite(b.astype(np.float64))
            if lost.any():
                index = tuple(int(i) for i in np.argwhere(lost)[0])
                at = ", ".join(map(str, index))
                return f"output {k} at [{at}]: expected a finite value such as {a[index]}, but got {b[index]}"
    return ""


def grown_error(before: Measured, own: Sequence[Array], wide: Sequence[Array], growth: float, narrow: float) -> str:
    """
    Where the rounding error of the own-precision results grew more than `growth` times; empty if nowhere.

    Errors that any order of summation may have are not compared: `ERROR_FLOOR` units of the result, or of its movement
    when inputs and constants move by a unit.
    """
    for k, (old, new) in enumerate(zip(before.error, errors(own, wide), strict=True)):
        if not is_float_dtype(own[k].dtype):
            continue
        unit = max(narrow, epsilon(own[k].dtype))
        floor = ERROR_FLOOR * unit * max(largest(wide[k]), largest(before.moved[k]) / NUDGE)
        if new > max(growth * old, floor):
            return (
                f"output {k}: the rounding error in its own precision grows from {old:.3g} to {new:.3g}, "
                f"more than {growth:g} times"
            )
    return ""


def compare_native(before: Measured, own: Sequence[Array], eps: float) -> Difference | None:
    """Whether results without a wide form agree with the last ones that had one, as exactly as those were."""
    for k, (old, new) in enumerate(zip(before.own, own, strict=True)):
        if old.shape != new.shape:
            return Difference(k, (), f"shape {old.shape}", f"shape {new.shape}", 0.0)
        if not is_float_dtype(new.dtype):
            found = integer_difference(old, new, k, bool(eps))
        else:
            reference = old if before.wide is None else before.wide[k]
            found = difference(_clipped(reference, new), new, _native_bound(before, k, new.dtype, eps), k)
        if found is not None:
            return found
    return None


def _native_bound(before: Measured, k: int, dtype: np.dtype[Any], eps: float) -> Array | float:
    """
    How far machine code may be from output `k`, where `eps` is the epsilon of the narrowest float type of its function.

    Where casts to narrower floats round, an element may move by two units of its own type, and by what the casts
    inside the function round, which was measured: a cast rounds to the other neighbour only where it rounds by half a
    unit. The error of another order of summation is of the type in which the function sums: what is left of the
    measured error.
    """
    reference = before.own[k] if before.wide is None else before.wide[k]
    size, unit = largest(reference), epsilon(dtype)
    if before.wide is None or before.real is None:
        return NATIVE_FACTOR * (before.error[k] if before.error else 0.0) + ERROR_FLOOR * max(eps, unit) * size
    casts = _beyond(before.real[k], before.wide[k], unit / 2)
    sums = max(0.0, before.excess[k] - 2 * casts)
    held = np.abs(np.asarray(reference, np.float64))
    return (
        NATIVE_FACTOR * sums
        + CAST_FACTOR * casts
        + ERROR_FLOOR * min(SINGLE, unit) * size
        + 2 * unit * np.where(np.isfinite(held), held, 0.0)
    )


def _clipped(reference: Array, got: Array) -> Array:
    """The reference, infinite where the narrower type of `got` overflows to the same infinity."""
    held, b = np.asarray(reference, np.float64), got.astype(np.float64)
    limit = float(np.finfo(got.dtype).max) if got.dtype.kind == "f" else 3.3e38
    return np.where(np.isinf(b) & (np.sign(b) == np.sign(held)) & (np.abs(held) > 0.99 * limit), b, held)


def integer_difference(old: Array, new: Array, output: int, from_floats: bool) -> Difference | None:
    """Integers must be equal; where floats decide them, at most 1 % may be one step off."""
    apart = np.abs(old.astype(np.float64) - new.astype(np.float64))
    few = from_floats and int((apart > 0).sum()) <= max(1, new.size // 100)
    return difference(old, new, 1.0 if few else 0.0, output)
