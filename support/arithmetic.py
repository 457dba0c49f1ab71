"""
The arithmetic in which the interpreters run a program: each value in its own type, or every float in f64.

Runs in f64 answer whether two programs mean the same: their results agree to about 1e-13 unless the meaning differs.
Three things need care there:

    constants   a float constant of an f32 program means its value rounded to f32, also in the f64 run
    casts       a cast to a narrower float rounds to the values of that type (`rounds`); everything between is f64
    jumps       floor, rounding, casts to integers and comparisons turn an error of 1e-16 into a whole step. A value
                within `SNAP` of the jump counts as lying on it, so that both programs decide alike

`Noise` perturbs constants, which measures how much a result depends on their rounding.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from mlc.support.dtypes import is_float_dtype

Array = Any
"""An array or a scalar of numpy."""
choose: Callable[[Array, Array, Array], Array] = np.where
"""`np.where` of three arguments."""
SNAP = 1e-11
"""Distance from a jump, relative to the value or 1, within which a value counts as lying on it. It is far above the
rounding errors of f64 (1e-16, a few thousand times enlarged by a program), and far below those of f32 (1e-7)."""
EXACT_BITS = 12
"""Significant bits up to which a constant counts as written by a person (1, 0.5, 6), and is not perturbed."""


@dataclass(frozen=True)
class Noise:
    """Perturbs float constants by the relative amount `relative`, with signs drawn from `seed` and the value."""

    seed: int
    relative: float
    only: frozenset[object] | None = None
    """The keys (`constant_key`) of the constants to perturb; all of them if None."""

    def __call__(self, value: Array, key: object) -> Array:
        """The value (of f64), perturbed unless its key is not among `only`."""
        if self.only is not None and key not in self.only:
            return value
        return perturbed(value, self.relative, self.seed + zlib.crc32(repr(key).encode()))


@dataclass(frozen=True)
class Arithmetic:
    """How a program is run: `OWN`, `WIDE`, `REAL`, or one of the wide ones with noise."""

    wide: bool = False
    """Whether every float is f64."""
    rounds: bool = True
    """Whether casts to a narrower float round in wide arithmetic."""
    noise: Noise | None = None

    def dtype(self, own: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype in which values of a type are held."""
        return np.dtype(np.float64) if self.wide and is_float_dtype(own) else own

    def constant(self, value: Array, own: np.dtype[Any]) -> Array:
        """A constant of type `own`: rounded to it, and then held in the dtype of this arithmetic."""
        exact = np.asarray(value).astype(own)
        if not self.wide or not is_float_dtype(own):
            return exact
        held = exact.astype(np.float64)
        return self.noise(held, constant_key(held)) if self.noise is not None else held

    def narrowed(self, value: Array, own: np.dtype[Any]) -> Array:
        """A value cast to the float type `own`."""
        if not self.wide:
            return np.asarray(value).astype(own)
        held = np.asarray(value).astype(np.float64)
        return snapped_cast(held, own) if self.rounds and own != np.dtype(np.float64) else held

    @property
    def numpy(self) -> ModuleType:
        """The numpy module, in wide arithmetic with functions that decide jumps by `SNAP`."""
        return SNAPPED_NUMPY if self.wide else np


OWN = Arithmetic()
"""Each value in its own type."""
WIDE = Arithmetic(wide=True)
"""Every float in f64, casts to narrower floats round."""
REAL = Arithmetic(wide=True, rounds=False)
"""Every float in f64, and no rounding at all."""


def constant_key(value: Array) -> object:
    """What identifies a constant: its value, or of an array the hash of its content."""
    array = np.asarray(value, np.float64)
    if array.size == 1 or (array.size and (array == array.flat[0]).all()):
        return float(array.flat[0])
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def is_exact(value: float) -> bool:
    """Whether a constant has few significant bits, so that no rounding went into it."""
    mantissa, _ = np.frexp(value)
    return not np.isfinite(value) or float(mantissa) * 2**EXACT_BITS % 1 == 0


def perturbed(value: Array, relative: float, seed: int) -> Array:
    """A float array whose elements are moved by `relative` of themselves, up or down, in f64."""
    held = np.asarray(value, np.float64)
    signs = np.random.default_rng(seed).integers(0, 2, held.shape) * 2 - 1
    return held * (1 + relative * signs)


# --- jumps -------------------------------------------------------------------------------------------------------


def near(a: Array, b: Array) -> Array:
    """Whether two numbers are equal but for rounding errors of f64; no NaN is near anything."""
    with np.errstate(all="ignore"):
        return (a == b) | (np.abs(a - b) <= SNAP * np.maximum(1.0, np.abs(b)))


def _at_integers(function: Callable[..., Any]) -> Callable[[Array], Array]:
    """A function with jumps at the integers."""

    def snapped(x: Array, *args: Any, **kwargs: Any) -> Array:
        if not _is_double(x):
            return function(x, *args, **kwargs)
        nearest = np.rint(x)
        return choose(near(x, nearest), nearest, function(x))[()]

    return snapped


def _at_halves(function: Callable[..., Any]) -> Callable[[Array], Array]:
    """A function with jumps half-way between the integers."""

    def snapped(x: Array, *args: Any, **kwargs: Any) -> Array:
        if not _is_double(x) or args or kwargs:
            return function(x, *args, **kwargs)
        middle = np.floor(x) + 0.5
        return choose(near(x, middle), function(middle), function(x))[()]

    return snapped


def plain_round_away(x: Array) -> Array:
    """Rounding to the nearest integer, ties away from zero, with no snapping."""
    return choose(np.abs(x) < 2.0**52, np.trunc(x + np.copysign(0.5, x)), x)


def _comparison(function: Callable[..., Any], at_equality: bool) -> Callable[[Array, Array], Array]:
    def snapped(a: Array, b: Array) -> Array:
        found = function(a, b)
        if not (_is_double(a) or _is_double(b)):
            return found
        return np.where(near(np.asarray(a), np.asarray(b)), at_equality, found)[()]

    return snapped


def _is_double(x: Array) -> bool:
    return getattr(x, "dtype", None) == np.float64 or isinstance(x, float)


def _sign(x: Array) -> Array:
    return np.where(near(x, 0.0), 0.0, np.sign(x))[()] if _is_double(x) else np.sign(x)


def snapped_cast(value: Array, own: np.dtype[Any]) -> Array:
    """f64 values rounded to a narrower float and held in f64; a value next to a tie takes the larger neighbour."""
    with np.errstate(all="ignore"):
        low, high = (np.asarray(value * (1 + s)).astype(own).astype(np.float64) for s in (-SNAP, SNAP))
        return np.where(np.abs(low) > np.abs(high), low, high)[()]


floor, ceil, trunc = (_at_integers(f) for f in (np.floor, np.ceil, np.trunc))
rint = _at_halves(np.rint)
round_away = _at_halves(plain_round_away)
COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "equal": _comparison(np.equal, True),
    "not_equal": _comparison(np.not_equal, False),
    "less": _comparison(np.less, False),
    "less_equal": _comparison(np.less_equal, True),
    "greater": _comparison(np.greater, False),
    "greater_equal": _comparison(np.greater_equal, True),
}
"""The comparisons of numpy, by its names, with jumps decided by `SNAP`."""


class _SnappedNumpy(ModuleType):
    """The numpy module, for the semantics of graph ops in wide arithmetic."""

    def __init__(self) -> None:
        super().__init__("numpy")
        self.floor, self.ceil, self.trunc, self.rint, self.sign = floor, ceil, trunc, rint, _sign
        for name, function in COMPARISONS.items():
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


SNAPPED_NUMPY = _SnappedNumpy()
