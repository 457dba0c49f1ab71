"""
The model-based tuner: learn what candidates cost from those measured, measure those that promise most.

    first batch      the default, and candidates that cover the values of every knob evenly
    each next one    fit the cost model; score all candidates, or those that simulated annealing meets in a large space;
                     pick the best score, count it as measured, and so on: a batch is never twice the same idea

The score is the expected cost less its standard deviation. One candidate in twenty is random, as in AutoTVM.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.tuning.results import MeasureResult
from mlc.tuning.task import Task
from mlc.tuning.tuners.anneal import Annealer
from mlc.tuning.tuners.base import BaseTuner
from mlc.tuning.tuners.cost_model import CostModel
from mlc.tuning.tuners.encoding import Encoding, Floats, Ints
from mlc.tuning.tuners.protocol import History
from mlc.tuning.tuners.ridge import Prediction

FIRST = 8
"""Candidates that are measured before the model is asked, the default among them."""
EPSILON = 0.05
"""The part of the candidates that is random. AutoTVM's number."""
CURIOSITY = 1.0
"""Standard deviations that are taken from the expected cost."""
WHOLE = 4096
"""The size of a space up to which every candidate is scored; annealing searches larger ones."""
_POOL = 256
"""Candidates of the best scores, from which a batch is picked."""


class ModelTuner(BaseTuner):
    """The search by a cost model; `trees` False keeps to the ridge, None uses trees where lightgbm is installed."""

    def __init__(self, task: Task, seed: int = 0, history: History = (), trees: bool | None = None) -> None:
        super().__init__(task, seed, history)
        self._numbers = np.random.default_rng(seed)
        self.encoding = Encoding(self.space)
        self.model = CostModel(self.encoding, seed, trees)
        self.annealer = Annealer(self.encoding.genes, self._numbers)
        self._seconds: dict[int, float] = {}
        self._whole: Ints | None = None
        self._fitted = 0

    def _learn(self, results: Sequence[tuple[int, MeasureResult]]) -> None:
        for index, result in results:
            self._seconds[index] = result.cost

    def _next(self, count: int) -> list[int]:
        proposed: list[int] = []
        if len(self._seconds) < FIRST or self._best is None:
            missing = max(1, FIRST - len(self._seconds)) if self._best is not None else count
            proposed += self._cover(min(count, missing))
        if len(proposed) < count and self._best is not None and len(self._seconds) >= FIRST:
            proposed += self._promising(count - len(proposed))
        return proposed

    def predict(self, indices: Sequence[int]) -> list[float]:
        """What the cost model says of candidates, greater for faster ones; nothing at all before it was fitted."""
        if not self._fitted or not indices:
            return []
        return (-self._predict(self.encoding.digits(list(indices))).costs).tolist()

    # --- the first batch ---

    def _cover(self, count: int) -> list[int]:
        """Candidates in which the values of each knob come evenly often."""
        dims = self.encoding.genes.dims
        columns = [[value for _ in range(-(-count // size)) for value in self._shuffled(size)] for size in dims]
        chosen: list[int] = []
        for row in range(count):
            index = self.encoding.genes.index([column[row] for column in columns])
            if index in self.given or index in chosen:
                index = self._random(chosen)
            chosen.append(index)
        return chosen

    def _shuffled(self, size: int) -> list[int]:
        return self._numbers.permutation(size).tolist()

    def _random(self, chosen: Sequence[int]) -> int:
        """A random candidate that was not given and is not among the chosen."""
        taken = self.given.union(chosen)
        if 2 * len(taken) > self.space.size:
            return self.random.choice([index for index in range(self.space.size) if index not in taken])
        while (index := self.random.randrange(self.space.size)) in taken:
            pass
        return index

    # --- the other batches ---

    def _promising(self, count: int) -> list[int]:
        """The candidates of the best scores, each after the ones before count as measured; some are random."""
        self._fit()
        pool = self._pool(max(_POOL, 4 * count))
        prediction = self._predict(self.encoding.digits(pool))
        chosen: list[int] = []
        while len(chosen) < count:
            if self.random.random() < EPSILON or len(chosen) >= len(pool):
                index = self._random(chosen)
            else:
                scores = prediction.costs - CURIOSITY * prediction.deviations
                scores[[at for at, index in enumerate(pool) if index in chosen]] = np.inf
                at = int(np.argmin(scores))
                prediction.measure(at)
                index = pool[at]
            chosen.append(index)
        return chosen

    def _fit(self) -> None:
        if self._fitted < len(self._seconds):
            indices = list(self._seconds)
            self.model.fit(self.encoding.of(indices), list(self._seconds.values()))
            self._fitted = len(indices)

    def _predict(self, digits: Ints) -> Prediction:
        return self.model.predict(self.encoding.features(digits))

    def _scores(self, digits: Ints) -> Floats:
        prediction = self._predict(digits)
        return CURIOSITY * prediction.deviations - prediction.costs

    def _pool(self, count: int) -> list[int]:
        """The candidates of the best scores that were not given."""
        if self.space.size > WHOLE:
            fastest = sorted(self._seconds, key=lambda index: self._seconds[index])[:8]
            return self.annealer.search(self._scores, count, self.given, fastest)
        if self._whole is None:
            self._whole = self.encoding.digits(range(self.space.size))
        order = np.argsort(-self._scores(self._whole), kind="stable").tolist()
        return [index for index in order if index not in self.given][:count]
