"""Finds races of a kernel of loops: its parallel iterations run each on the memory of before the loop."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from mlc.dialects import loop
from mlc.interp.loop import TranslatedProgram, prepare


class Race(Exception):
    """Two iterations of a parallel loop store different values in one element."""


def without_races(func: loop.FuncOp) -> TranslatedProgram:
    """
    A kernel that raises Race where what its parallel iterations compute depends on their order.

    Each iteration begins with the memory of before the loop, as if all ran at once; in the end memory has what each of
    them stored. Buffers that each thread has for itself are left alone.
    """
    program = prepare(func)
    private = set(re.findall(r"_poison\((\w+)\)", program.source))

    def span(low: int, high: int) -> Iterator[int]:
        names = sys._getframe(1).f_locals
        arrays = [a for n, a in names.items() if isinstance(a, np.ndarray) and a.flags.writeable and n not in private]
        return isolated(low, high, arrays)

    program.call.__globals__["_span"] = span
    return program


def isolated(low: int, high: int, arrays: list[Any]) -> Iterator[int]:
    """The iterations of a parallel loop; `arrays` are restored before each."""
    before, after = ([a.copy() for a in arrays] for _ in "ba")
    stored = [np.zeros(a.shape, bool) for a in arrays]
    for i in range(low, high):
        for array, old in zip(arrays, before, strict=True):
            array[...] = old
        yield i
        for array, old, new, seen in zip(arrays, before, after, stored, strict=True):
            changed = unequal(array, old)
            if (changed & seen & unequal(array, new)).any():
                raise Race
            new[changed] = array[changed]
            seen |= changed
    for array, new in zip(arrays, after, strict=True):
        array[...] = new


def unequal(a: Any, b: Any) -> Any:
    """Where two arrays differ; NaN equals NaN."""
    with np.errstate(all="ignore"):
        return (a != b) & ~((a != a) & (b != b))
