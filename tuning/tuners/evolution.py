"""
Evolutionary search on the choices of candidates, as MetaSchedule evolves traces: a cost model decides who survives.

A trace is a strategy with its decisions, here a candidate's digits. Each round starts from the fastest candidates
measured and random ones, mutates them for some generations, and proposes those that the cost model expects to be
fastest; a few are random. Before anything was measured, the candidates are random.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.tuning.task import Task
from mlc.tuning.tuners.anneal import Scores
from mlc.tuning.tuners.encoding import Floats, is_size
from mlc.tuning.tuners.estimates import Features
from mlc.tuning.tuners.model import ModelTuner
from mlc.tuning.tuners.protocol import History

POPULATION = 512
GENERATIONS = 4
MEASURED = 0.2
"""The part of the first generation that was measured: the fastest candidates."""
MUTATION = 0.85
"""The probability with which a candidate of the next generation is mutated."""
SIZE_WEIGHT = 0.9
"""How often a mutation changes a size rather than another choice. All five numbers are MetaSchedule's."""


class EvolutionTuner(ModelTuner):
    """MetaSchedule's EvolutionarySearch on knob values, with the cost model and the first batch of the model tuner."""

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        history: History = (),
        features: Features | None = None,
        trees: bool | None = None,
    ) -> None:
        super().__init__(task, seed, history, features, trees)
        self._sizes: list[list[int]] = []
        """For each part, the digits that choose sizes."""
        self._others: list[list[int]] = []
        """For each part, the other digits that can change, that of the strategy among them."""
        genes = self.encoding.genes
        head = [0] if len(self.space.parts) > 1 else []
        for part, place in zip(self.space.parts, genes.slices, strict=True):
            at = dict(zip(range(place.start, place.stop), part.knobs, strict=True))
            self._sizes.append([d for d, knob in at.items() if is_size(knob) and genes.dims[d] > 1])
            others = [d for d, knob in at.items() if not is_size(knob) and genes.dims[d] > 1]
            self._others.append(head + others)

    def _search(self, scores: Scores, count: int) -> list[int]:
        """The candidates of the best scores of some generations, that were not given."""
        population = self._first_generation()
        met: dict[int, float] = {}
        for generation in range(GENERATIONS + 1):
            digits = np.array(population, np.int64)
            values = scores(digits)
            met |= {self.encoding.genes.index(row): float(v) for row, v in zip(population, values, strict=True)}
            if generation < GENERATIONS:
                population = [self._mutated(population[at]) for at in self._parents(values)]
        best = sorted(met, key=lambda index: (-met[index], index))
        return [index for index in best if index not in self.given][:count]

    def _first_generation(self) -> list[list[int]]:
        """The fastest candidates that were measured, and random ones."""
        genes = self.encoding.genes
        fastest = sorted(self._seconds, key=lambda index: self._seconds[index])[: int(MEASURED * POPULATION)]
        missing = POPULATION - len(fastest)
        random = self._numbers.integers(0, genes.dims, (missing, len(genes.dims))).tolist()
        return [*(genes.digits(index) for index in fastest), *random]

    def _parents(self, scores: Floats) -> list[int]:
        """Places of the population, drawn by the speed that the scores expect."""
        weights = np.exp(np.clip(scores - scores.max(), -50, 0))
        return self._numbers.choice(len(scores), POPULATION, p=weights / weights.sum()).tolist()

    def _mutated(self, digits: Sequence[int]) -> list[int]:
        """The candidate with one choice changed, or the candidate itself."""
        changed = list(digits)
        part = changed[0] if len(self.space.parts) > 1 else 0
        sizes, others = self._sizes[part], self._others[part]
        if self.random.random() >= MUTATION or not (sizes or others):
            return changed
        among = sizes if sizes and (not others or self.random.random() < SIZE_WEIGHT) else others
        at = self.random.choice(among)
        changed[at] = self.random.choice([v for v in range(self.encoding.genes.dims[at]) if v != changed[at]])
        return changed
