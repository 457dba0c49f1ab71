"""Candidates in a random order, without repetition."""

from __future__ import annotations

from mlc.tuning.task import Task
from mlc.tuning.tuners.base import BaseTuner
from mlc.tuning.tuners.protocol import History
from mlc.tuning.tuners.shuffle import LazyShuffle


class RandomTuner(BaseTuner):
    """AutoTVM's RandomTuner: uniform over the candidates that are left."""

    def __init__(self, task: Task, seed: int = 0, history: History = ()) -> None:
        super().__init__(task, seed, history)
        self._order = LazyShuffle(self.space.size, self.random)

    def _next(self, count: int) -> list[int]:
        taken: list[int] = []
        while len(taken) < count:
            if (index := self._order.take()) not in self.given:
                taken.append(index)
        return taken
