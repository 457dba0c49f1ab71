"""
The model-based tuner: learn what candidates cost from those measured, measure those that promise most.

    first batch      the default; candidates that other tasks' records or the analytic model promise most of; such as
                     cover the values of every knob evenly
    each next one    fit the cost model; score all candidates, or those that simulated annealing meets in a large space;
                     lower the best ones, and score these again by their loops; pick the best score, count it as
                     measured, and so on: a batch is never twice the same idea

The score is the expected cost less its standard deviation. One candidate in twenty is random, as in AutoTVM.

Lowering a candidate takes some milliseconds, so that only a few are: what the analytic model would say of the others is
guessed from their knobs (`Estimates`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.tuning.results import MeasureResult
from mlc.tuning.task import Task
from mlc.tuning.tuners.anneal import Annealer, Scores
from mlc.tuning.tuners.base import BaseTuner
from mlc.tuning.tuners.cost_model import CostModel
from mlc.tuning.tuners.encoding import Encoding, Floats, Ints
from mlc.tuning.tuners.estimates import Estimates, Features
from mlc.tuning.tuners.protocol import History
from mlc.tuning.tuners.transfer import Lesson

FIRST = 12
"""Candidates that are measured before the model is asked, the default among them."""
EPSILON = 0.05
"""The part of the candidates that is random. AutoTVM's number."""
CURIOSITY = 1.0
"""Standard deviations that are taken from the expected cost."""
WHOLE = 4096
"""The size of a space up to which every candidate is scored; annealing searches larger ones."""
_POOL = 256
"""Candidates of the best scores, from which a batch is picked."""
LOWERED_FIRST = 48
"""Candidates that are lowered before the first batch, half of them where the others' estimates promise most."""
LIKENESS = 0.25
"""What a candidate of the first batch loses, in powers of two, for each that differs from it in one knob only."""
LOWERED_EACH = 2
"""Candidates that are lowered for each one that is measured later."""


class ModelTuner(BaseTuner):
    """The search by a cost model; `trees` False keeps to the ridge, None uses trees where lightgbm is installed."""

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        history: History = (),
        features: Features | None = None,
        trees: bool | None = None,
    ) -> None:
        super().__init__(task, seed, history)
        self._numbers = np.random.default_rng(seed)
        self.encoding = Encoding(self.space)
        self.estimates = Estimates(self.encoding, features) if features is not None else None
        self.lesson = Lesson(self.encoding, history)
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
            proposed += self._first(min(count, missing))
        if len(proposed) < count and self._best is not None and len(self._seconds) >= FIRST:
            proposed += self._promising(count - len(proposed))
        return proposed

    def predict(self, indices: Sequence[int]) -> list[float]:
        """What the cost model says of candidates, greater for faster ones; nothing at all before it was fitted."""
        if not self._fitted or not indices:
            return []
        if self.estimates is not None:
            self.estimates.lower([index for index in indices if index not in self.estimates.lowered])
        found = self.model.predict(self.encoding.of(indices), self._means_of(indices), self._loops_of(indices))
        return (-found.costs).tolist()

    # --- the first batch ---

    def _first(self, count: int) -> list[int]:
        """Candidates before anything is known: by the analytic model where there is one."""
        taught = self._taught(count - count // 2) if self.lesson else []
        if self.estimates is None:
            return taught + self._cover(count - len(taught), taught)
        if not self.estimates.lowered:
            self.estimates.lower(self._cover(min(LOWERED_FIRST // 2, self.space.size - len(self.given))))
            self.estimates.lower(self._by_estimate(LOWERED_FIRST // 2))
        best = taught + self._different(count - len(taught) - count // 4, taught)
        return best + self._cover(count - len(best), best)

    def _different(self, count: int, others: Sequence[int]) -> list[int]:
        """Candidates of the best estimates that were not given, each some knobs away from the others."""
        assert self.estimates is not None
        left = [index for index in self.estimates.best() if index not in self.given and index not in others]
        digits, chosen = self.encoding.digits(left), list[int]()
        scores = np.array([float(self.estimates.lowered[index][0]) for index in left])
        while len(chosen) < min(count, len(left)):
            at = int(np.argmin(scores))
            chosen.append(left[at])
            scores[(digits != digits[at]).sum(axis=1) <= 1] += LIKENESS
            scores[at] = np.inf
        return chosen

    def _taught(self, count: int) -> list[int]:
        """Candidates that other tasks' records promise most of."""
        return self._search(lambda digits: -self.lesson.expect(self.encoding.features(digits)), count)[:count]

    def _by_estimate(self, count: int) -> list[int]:
        """Candidates that were not lowered, of the best estimates."""
        assert self.estimates is not None
        estimates = self.estimates
        pool = self._search(lambda digits: -estimates.guess(digits), count + len(estimates.lowered))
        return [index for index in pool if index not in estimates.lowered][:count]

    def _cover(self, count: int, others: Sequence[int] = ()) -> list[int]:
        """Candidates beside the others in which the values of each knob come evenly often."""
        dims = self.encoding.genes.dims
        columns = [[value for _ in range(-(-count // size)) for value in self._shuffled(size)] for size in dims]
        chosen: list[int] = []
        for row in range(count):
            index = self.encoding.genes.index([column[row] for column in columns])
            if index in self.given or index in chosen or index in others:
                index = self._random([*chosen, *others])
            chosen.append(index)
        return chosen

    def _shuffled(self, size: int) -> list[int]:
        return self._numbers.permutation(size).tolist()

    def _random(self, chosen: Sequence[int]) -> int:
        """A random candidate that was not given and is not among the chosen."""
        taken = self.given.union(chosen)
        if self.estimates is not None and len(taken) + len(self.estimates.refused) < self.space.size:
            taken |= self.estimates.refused
        if 2 * len(taken) > self.space.size:
            return self.random.choice([index for index in range(self.space.size) if index not in taken])
        while (index := self.random.randrange(self.space.size)) in taken:
            pass
        return index

    # --- the other batches ---

    def _promising(self, count: int) -> list[int]:
        """The candidates of the best scores, each after the ones before count as measured; some are random."""
        self._fit()
        pool = self._search(self._scores, max(_POOL, 4 * count))
        if self.estimates is not None:
            self.estimates.lower([i for i in pool if i not in self.estimates.lowered][: LOWERED_EACH * count])
            lowered = [index for index in pool if index in self.estimates.lowered]
            pool = [index for index in lowered if not self.estimates.is_refused(index)] or lowered
        prediction = self.model.predict(self.encoding.of(pool), self._means_of(pool), self._loops_of(pool))
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
            if self.estimates is not None:
                self.estimates.lower([index for index in indices if index not in self.estimates.lowered])
            seconds, features = list(self._seconds.values()), self.encoding.of(indices)
            self.model.fit(features, seconds, self._means_of(indices), self._loops_of(indices))
            self._fitted = len(indices)

    def _means_of(self, indices: Sequence[int]) -> Floats | None:
        """What other tasks and the analytic model expect of candidates: linear features of the cost model."""
        estimates = None if self.estimates is None else self.estimates.of(indices)
        return self._columns(estimates, self.encoding.of(indices))

    def _columns(self, estimates: Floats | None, features: Floats) -> Floats | None:
        lesson = self.lesson.expect(features) if self.lesson else None
        columns = [column for column in (estimates, lesson) if column is not None]
        return np.stack(columns, axis=1) if columns else None

    def _loops_of(self, indices: Sequence[int]) -> Floats | None:
        return None if self.estimates is None else self.estimates.loops_of(indices)

    def _scores(self, digits: Ints) -> Floats:
        features = self.encoding.features(digits)
        estimates = None if self.estimates is None else self.estimates.guess(digits)
        prediction = self.model.predict(features, self._columns(estimates, features))
        return CURIOSITY * prediction.deviations - prediction.costs

    def _search(self, scores: Scores, count: int) -> list[int]:
        """The candidates of the best scores that were not given."""
        if self.space.size > WHOLE:
            fastest = sorted(self._seconds, key=lambda index: self._seconds[index])[:8]
            return self.annealer.search(scores, count, self.given, fastest)
        if self._whole is None:
            self._whole = self.encoding.digits(range(self.space.size))
        order = np.argsort(-scores(self._whole), kind="stable").tolist()
        return [index for index in order if index not in self.given][:count]
