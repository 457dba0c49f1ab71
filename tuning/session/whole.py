"""The whole model, with the records and without: both are called in turns, and compared in pairs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mlc.driver.models.compile import compile
from mlc.support.dtypes import dtype_of
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.paired import LEVEL, speed_up

if TYPE_CHECKING:
    from mlc.driver.models.load import Source
    from mlc.runtime.executable import Executable

ROUNDS = 25
"""Rounds of the check, each a block of calls with the records and one without."""

BLOCK_S = 0.03
"""The least length of a block in seconds: the clock and the switch of the program are small beside it."""

MOST_S = 30.0
"""The time after which the check ends at the round where it is, after LEAST_ROUNDS of them."""

LEAST_ROUNDS = 6
"""The rounds that an interval of 95 % takes."""


def compare_model(model: Source, records: str | os.PathLike[str], options: Mapping[str, Any]) -> Comparison | str:
    """
    Compare a model compiled with the records of a database to the same without; else the reason why not, as a sentence.

    Two copies of one program are not compared: they differ by where their memory lies, which says nothing of schedules.
    `options` are those of mlc.compile.
    """
    default = compile(model, records=False, **options)
    inputs = random_inputs(default)
    if inputs is None:
        return "the whole model was not compared: sizes of its inputs are open"
    tuned = compile(model, records=records, **options)
    if default.artifact.objects() == tuned.artifact.objects():
        return "the whole model: its program is that of the default schedules"
    return compare_calls(lambda: default(inputs), lambda: tuned(inputs))


def compare_calls(default: Callable[[], object], tuned: Callable[[], object]) -> Comparison:
    """Time two programs in turns; each round begins with the one that the round before ended with."""
    count = _calls(default, tuned)
    before: list[float] = []
    after: list[float] = []
    start = time.perf_counter()
    while len(before) < ROUNDS and (len(before) < LEAST_ROUNDS or time.perf_counter() - start < MOST_S):
        pairs = [(default, before), (tuned, after)]
        for function, seconds in pairs if len(before) % 2 else reversed(pairs):
            function()  # its data comes back into the caches
            seconds.append(_block(function, count))
    found = speed_up(before, after)
    middle = len(before) // 2
    return Comparison(sorted(after)[middle], sorted(before)[middle], found.low, found.high, len(before), LEVEL)


def random_inputs(executable: Executable) -> dict[str, Any] | None:
    """Seeded inputs: normal floats, small non-negative integers; None where the size of one is open."""
    import numpy as np

    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for spec in executable.inputs:
        if spec.shape is None or not all(isinstance(size, int) for size in spec.shape):
            return None
        dtype, shape = dtype_of(spec.dtype), tuple(map(int, spec.shape))
        values = rng.integers(0, 2, shape) if dtype.kind in "iub" else rng.standard_normal(shape)
        inputs[spec.name] = np.asarray(values).astype(dtype)
    return inputs


def _calls(*functions: Callable[[], object]) -> int:
    """The calls of a block."""
    slowest = 0.0
    for function in functions:
        function()
        slowest = max(slowest, _block(function, 1))
    return max(1, int(BLOCK_S / max(slowest, 1e-7)))


def _block(function: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count


__all__ = ["compare_calls", "compare_model", "random_inputs"]
