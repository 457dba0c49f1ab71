"""Simulated annealing over candidates, with chains that go on from one call to the next (AutoTVM's SAOptimizer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from mlc.tuning.tuners.encoding import Floats, Ints
from mlc.tuning.tuners.genes import Genes

_CHAINS = 128
_ITERATIONS = 120
_PATIENCE = 30
"""Iterations without a change among the best after which a search ends. AutoTVM's are 128, 500 and 50."""

Scores: TypeAlias = Callable[[Ints], Floats]
"""The scores of candidates given as rows of digits: more is better."""


class Annealer:
    """Looks for the candidates of the highest scores; the temperature falls from 1 to 0 in each search."""

    def __init__(self, genes: Genes, random: np.random.Generator) -> None:
        self.genes, self._random = genes, random
        dims = np.array(genes.dims, np.int64)
        self._dims = dims
        several = len(genes.slices) > 1
        self._moves = [
            np.array([at for at in ([0] if several else []) + list(range(place.start, place.stop)) if dims[at] > 1])
            for place in genes.slices
        ]
        self.chains = np.stack([random.integers(0, dims) for _ in range(_CHAINS)]).astype(np.int64)

    def search(self, score: Scores, count: int, excluded: set[int], starts: list[int]) -> list[int]:
        """The best `count` candidates met that are not excluded, best first; `starts` replace the worst chains."""
        scores = score(self.chains)
        for chain, index in zip(np.argsort(scores), starts, strict=False):
            self.chains[chain] = self.genes.digits(index)
        scores = score(self.chains)
        best: dict[int, float] = {}
        self._keep(best, self.chains, scores, count, excluded)
        quiet = 0
        for iteration in range(_ITERATIONS):
            temperature = 1 - iteration / _ITERATIONS
            moved = self._moved()
            new = score(moved)
            accept = self._random.random(len(new)) < np.exp(np.minimum((new - scores) / (temperature + 1e-5), 1))
            self.chains[accept], scores[accept] = moved[accept], new[accept]
            quiet = 0 if self._keep(best, moved, new, count, excluded) else quiet + 1
            if quiet >= _PATIENCE:
                break
        return sorted(best, key=lambda index: (-best[index], index))

    def _moved(self) -> Ints:
        """The chains with one digit changed in each."""
        moved = self.chains.copy()
        heads = self.chains[:, 0] if len(self.genes.slices) > 1 else np.zeros(len(moved), np.int64)
        draws = self._random.random((len(moved), 2))
        for chain, (head, (which, step)) in enumerate(zip(heads, draws, strict=True)):
            moves = self._moves[head]
            if len(moves):
                at = moves[int(which * len(moves))]
                size = self._dims[at]
                moved[chain, at] = (moved[chain, at] + 1 + int(step * (size - 1))) % size
        return moved

    def _keep(self, best: dict[int, float], digits: Ints, scores: Floats, count: int, excluded: set[int]) -> bool:
        """Put candidates among the best `count`; whether any was."""
        limit = min(best.values()) if len(best) >= count else -np.inf
        changed = False
        for row in np.flatnonzero(scores > limit):
            index = self.genes.index(digits[row].tolist())
            if index in excluded or index in best:
                continue
            best[index] = float(scores[row])
            changed = True
            if len(best) > count:
                del best[min(best, key=lambda one: best[one])]
        return changed
