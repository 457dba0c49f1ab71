"""What all tuners share: which candidates were given, the best one, and the default as the first proposal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf
from random import Random

from mlc.tuning.results import MeasureResult
from mlc.tuning.task import Task
from mlc.tuning.tuners.protocol import History


class BaseTuner(ABC):
    """A tuner of one task; a kind of search implements `_next`, and `_learn` where it learns."""

    def __init__(self, task: Task, seed: int = 0, history: History = ()) -> None:
        self.task = task
        self.space = task.space
        self.random = Random(seed)
        self.given: set[int] = set()
        """The candidates that were proposed or measured."""
        self._best: tuple[int, float] | None = None

    @property
    def best(self) -> tuple[int, float] | None:
        """The candidate of the least cost and its seconds; None before one ran without an error."""
        return self._best

    def propose(self, count: int) -> list[int]:
        """Give at most `count` candidates that were not given before: the default first, none when all were given."""
        proposed: list[int] = []
        default = self.space.index_of(self.space.default)
        if count > 0 and default not in self.given:
            proposed.append(default)
            self.given.add(default)
        wanted = min(count - len(proposed), self.space.size - len(self.given))
        if wanted > 0:
            for index in self._next(wanted):
                assert index not in self.given, f"candidate {index} was proposed before"
                self.given.add(index)
                proposed.append(index)
        return proposed

    def update(self, results: Sequence[tuple[int, MeasureResult]]) -> None:
        """Learn what was measured: the fastest candidate without an error is the best."""
        for index, result in results:
            self.given.add(index)
            if result.cost < (inf if self._best is None else self._best[1]):
                self._best = index, result.cost
        self._learn(results)

    @abstractmethod
    def _next(self, count: int) -> list[int]:
        """At least 1 and at most `count` candidates that are not in `given`; at least `count` are left."""

    def _learn(self, results: Sequence[tuple[int, MeasureResult]]) -> None:  # noqa: B027
        """Take the results into account; a kind of search that learns nothing leaves it out."""
