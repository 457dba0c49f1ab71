"""A farm that measures nothing: the seconds of a candidate are a function of its values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from mlc.tuning.farm import Evaluation
from mlc.tuning.results import ErrorCode, MeasureInput, MeasureResult
from mlc.tuning.space import Values
from mlc.tuning.task import Task

Seconds = Callable[[Task, Values], "float | ErrorCode"]


class FakeFarm:
    """
    Answers by `seconds(task, values)`, a number or an error, at once or after `delay_s` for each.

    In `compare`, round r takes `noise(r)` times as long, the same for all that is compared.
    """

    def __init__(self, seconds: Seconds, delay_s: float = 0.0, noise: Callable[[int], float] = lambda _: 1.0) -> None:
        self.seconds, self.delay_s, self.noise = seconds, delay_s, noise
        self.measured: list[MeasureInput] = []
        self.batches: list[int] = []
        self.compared: list[MeasureInput] = []
        self.is_closed = False

    def measure(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, device: str | None = None
    ) -> Iterator[tuple[int, MeasureResult]]:
        """The results in the order of the inputs."""
        self.batches.append(len(inputs))
        for number, one in enumerate(inputs):
            time.sleep(self.delay_s)
            self.measured.append(one)
            yield number, self._result(one, 1.0)

    def compare(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, rounds: int, device: str | None = None
    ) -> list[list[MeasureResult]]:
        """The results of all rounds."""
        self.compared += inputs
        return [[self._result(one, self.noise(turn)) for turn in range(rounds)] for one in inputs]

    def close(self) -> None:
        """Remember that it was closed."""
        self.is_closed = True

    def _result(self, one: MeasureInput, factor: float) -> MeasureResult:
        seconds = self.seconds(one.task, one.values)
        if isinstance(seconds, ErrorCode):
            return MeasureResult((), seconds, "refused", timestamp=time.time())
        return MeasureResult((factor * seconds,), timestamp=time.time(), machine={"host": "fake"})
