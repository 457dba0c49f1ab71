"""All candidates in the order of their numbers."""

from __future__ import annotations

from itertools import count as numbers
from itertools import islice

from mlc.tuning.task import Task
from mlc.tuning.tuners.base import BaseTuner
from mlc.tuning.tuners.protocol import History


class GridTuner(BaseTuner):
    """AutoTVM's GridSearchTuner: 0, 1, 2 ..., after the default."""

    def __init__(self, task: Task, seed: int = 0, history: History = ()) -> None:
        super().__init__(task, seed, history)
        self._numbers = numbers()

    def _next(self, count: int) -> list[int]:
        return list(islice((index for index in self._numbers if index not in self.given), count))
