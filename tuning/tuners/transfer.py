"""What the records of other tasks teach: which values of the knobs that a strategy shares between tasks are fast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.tuning.results import MeasureResult
from mlc.tuning.space import Values
from mlc.tuning.tuners.encoding import Encoding, Floats
from mlc.tuning.tuners.protocol import History
from mlc.tuning.tuners.ridge import Ridge

_TASKS = 6
"""Other tasks that are learned from: the first ones, which are most alike."""
_EACH = 48
"""Candidates of each of them: the faster half of these, and others evenly spread over the slower ones."""
_LEAST = 8
"""Candidates, below which a task teaches nothing."""


class Lesson:
    """How much slower than its task's best a candidate with these values of knobs is expected to be, in logarithms."""

    def __init__(self, encoding: Encoding, history: History) -> None:
        rows: list[Floats] = []
        costs: list[float] = []
        for _, results in history:
            if len(rows) >= _TASKS * _EACH:
                break
            known = _known(encoding, results)
            if len(known) >= _LEAST:
                best = known[0][0]
                rows += [row for _, row in _spread(known)]
                costs += [float(np.log(cost / best)) for cost, _ in _spread(known)]
        self._ridge = Ridge(encoding.groups) if rows else None
        if self._ridge is not None:
            self._ridge.fit(np.array(rows), np.array(costs))

    def __bool__(self) -> bool:
        return self._ridge is not None

    def expect(self, features: Floats) -> Floats:
        """The expected logarithms of candidates given by their features; none without other tasks' records."""
        assert self._ridge is not None, "there is nothing to learn from"
        return self._ridge.predict(features).costs


def _known(encoding: Encoding, results: Sequence[tuple[Values, MeasureResult]]) -> list[tuple[float, Floats]]:
    """The costs and features of another task's candidates that ran, fastest first."""
    found: list[tuple[float, Floats]] = []
    for values, result in results:
        row = encoding.of_values(values)
        if row is not None and 0 < result.cost < float("inf"):
            found.append((result.cost, row))
    return sorted(found, key=lambda one: one[0])


def _spread(known: list[tuple[float, Floats]]) -> list[tuple[float, Floats]]:
    if len(known) <= _EACH:
        return known
    half = _EACH // 2
    slower = np.linspace(half, len(known) - 1, _EACH - half).round().astype(int).tolist()
    return known[:half] + [known[at] for at in slower]
