"""
Random values for a kernel's inputs (`random_fill`), and draws of them that are tried until one says something.

Integers that index, divide or shift are in range (signature.py); bytes have all values, wider integers 0 to 3; floats
are normally distributed. Which floats a kernel accepts is not read off its ops but seen in its results: where nearly
none is finite, or moves when the inputs do, the next draw is tried, as `validation/informative.py` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from mlc.support.dtypes import is_float_dtype
from mlc.tuning.measure.artefact import TensorInfo
from mlc.tuning.measure.regions import Array
from mlc.validation.informative import FACTORS

BLOCK = 1_048_583
"""Random numbers that are drawn; larger arrays repeat them. A prime, so that no axis of a tensor has this period."""
_OFFSET = 7919
"""Where in the block the next input begins, so that inputs of one shape differ."""


@dataclass(frozen=True)
class Draw:
    """The distribution of floats: normal, or of its absolute values, times a factor."""

    factor: float = 1.0
    positive: bool = False


DRAWS = tuple(Draw(factor, positive) for positive in (False, True) for factor in FACTORS)
"""The draws in the order in which they are tried."""


@cache
def _normals() -> Array:
    return np.random.default_rng(0).standard_normal(BLOCK, np.float32)


@cache
def _signs() -> Array:
    return np.random.default_rng(1).integers(0, 2, BLOCK).astype(np.float32) * 2 - 1


def random_fill(array: Array, info: TensorInfo, number: int, draw: Draw = DRAWS[0]) -> None:
    """Give an array, input `number` of a kernel, random values; the same ones for the same arguments."""
    flat, dtype = array.reshape(-1), array.dtype
    if not is_float_dtype(dtype):
        low, high = info.span or _integers(dtype)
        low, high = max(low, 0) if dtype.kind in "ub" else low, min(high, _largest(dtype))
        flat[:] = np.random.default_rng(number).integers(low, high, flat.size, endpoint=True).astype(dtype)
        return
    block = np.roll(_normals(), -number * _OFFSET)
    block = (np.abs(block) * 0.5 + 0.1 if draw.positive else block) * np.float32(draw.factor)
    _repeat(flat, block.astype(dtype))


def nudge(array: Array, relative: float, number: int) -> None:
    """Move the elements of a float array by `relative` of themselves, up or down; others stay."""
    if is_float_dtype(array.dtype):
        flat, step = array.reshape(-1), (1 + relative * np.roll(_signs(), -number * _OFFSET)).astype(array.dtype)
        for first in range(0, flat.size, BLOCK):
            part = flat[first : first + BLOCK]
            part *= step[: part.size]


def _repeat(flat: Array, block: Array) -> None:
    for first in range(0, flat.size, BLOCK):
        part = flat[first : first + BLOCK]
        part[:] = block[: part.size]


def _integers(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest value of integers that have no role: those of validation/inputs.py."""
    if dtype == np.bool_:
        return 0, 1
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if dtype.itemsize == 1 else (0, 3)


def _largest(dtype: np.dtype[Any]) -> int:
    return 1 if dtype == np.bool_ else int(np.iinfo(dtype).max)
