"""How long something takes, as TVM's time_evaluator measures it."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from mlc.support.errors import UserError


@dataclass(frozen=True)
class BenchmarkResult:
    """Seconds of a run, by TVM's names; `print` it for milliseconds."""

    results: tuple[float, ...]
    """The mean seconds of a run in each repeat."""

    @property
    def mean(self) -> float:
        """The mean of the repeats."""
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        """The quickest repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The slowest repeat."""
        return max(self.results)

    @property
    def std(self) -> float:
        """The standard deviation of the repeats."""
        return statistics.pstdev(self.results)

    def __str__(self) -> str:
        rows = {"mean": self.mean, "median": self.median, "max": self.max, "min": self.min, "std": self.std}
        head = "".join(f"{name + ' (ms)':>13}" for name in rows)
        return f"Execution time summary:\n{head}\n" + "".join(f"{value * 1e3:13.4f}" for value in rows.values())


def measure(call: Callable[[], object], repeat: int, number: int, min_repeat_ms: float | None) -> BenchmarkResult:
    """
    Time `number` calls in each of `repeat` repeats, after one call that does not count.

    If the calls of a repeat take less than `min_repeat_ms` milliseconds together, it is run again with more calls.
    """
    if repeat < 1 or number < 1:
        raise UserError(f"expected repeat and number to be at least 1, but got {repeat} and {number}")
    call()
    results: list[float] = []
    while len(results) < repeat:
        start = time.perf_counter()
        for _ in range(number):
            call()
        seconds = time.perf_counter() - start
        if seconds * 1e3 < (min_repeat_ms or 0):
            number = max(number + 1, int(number * (min_repeat_ms or 0) / max(seconds * 1e3, 1e-6)))
            continue
        results.append(seconds / number)
    return BenchmarkResult(tuple(results))


__all__ = ["BenchmarkResult", "measure"]
