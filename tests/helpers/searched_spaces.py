"""Spaces that were searched exhaustively (`benchmarks/search_spaces.py`), and searches in them without a compiler."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np

from mlc.tuning.results import ErrorCode, MeasureResult
from mlc.tuning.space import Knob, KnobValue, Part, Space
from mlc.tuning.task import Task
from mlc.tuning.tuners.encoding import Floats
from mlc.tuning.tuners.protocol import Tuner, make_tuner

FOLDER = Path(__file__).parents[1] / "data" / "tuning"
NEAR = 0.95
"""The part of the best candidate's speed that a search is to reach."""


@dataclasses.dataclass(frozen=True, eq=False)
class Searched:
    """A space with the seconds of every candidate, infinite for those that are refused."""

    name: str
    task: Task
    seconds: tuple[float, ...]
    rows: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    """The features of the candidates' loops."""

    def features(self, indices: Sequence[int]) -> Floats:
        """What lowering these candidates would give."""
        return self.rows[list(indices)]

    @property
    def goal(self) -> float:
        """The seconds of a candidate that is fast enough."""
        return min(self.seconds) / NEAR

    def result(self, index: int) -> MeasureResult:
        """What a farm would answer."""
        if self.seconds[index] == float("inf"):
            return MeasureResult((), ErrorCode.INSTANTIATION_ERROR, "refused")
        return MeasureResult((self.seconds[index],))

    def trials(self, tuner: Tuner, batch: int = 8, most: int = 10**9) -> int:
        """How many candidates a search measures until one is fast enough, or `most` and more."""
        count = 0
        while count < most and (proposed := tuner.propose(batch)):
            for index in proposed:
                count += 1
                if self.seconds[index] <= self.goal:
                    return count
            tuner.update([(index, self.result(index)) for index in proposed])
        return count

    def from_a_poor_default(self) -> Searched:
        """The same space with a candidate of median speed as its default: what the search finds is its own."""
        valid = [index for index, seconds in enumerate(self.seconds) if seconds < float("inf")]
        middle = sorted(valid, key=lambda index: self.seconds[index])[len(valid) // 2]
        values, space = self.task.space[middle], self.task.space
        parts = tuple(
            dataclasses.replace(
                part, knobs=tuple(dataclasses.replace(knob, default=values[knob.name]) for knob in part.knobs)
            )
            for part in space.parts
        )
        return dataclasses.replace(self, task=dataclasses.replace(self.task, space=Space(parts)))


def _value(value: int | str | list[int]) -> KnobValue:
    return tuple(value) if isinstance(value, list) else value


@cache
def searched(name: str, folder: Path = FOLDER) -> Searched:
    """A space by the name of its file."""
    data = np.load(folder / f"{name}.npz")
    parts = tuple(
        Part(part["strategy"], tuple(Knob(n, tuple(map(_value, c)), _value(d)) for n, c, d in part["knobs"]))
        for part in json.loads(str(data["space"]))
    )
    task = Task(name, f"kernel {name}", str(data["machine"]), 1, Space(parts), int(data["flops"]))
    rows = data["features"].astype(np.float64) if "features" in data.files else np.zeros((0, 0))
    return Searched(name, task, tuple(float(s) for s in data["seconds"]), rows)


def median_trials(space: Searched, kind: str, seeds: range) -> float:
    """The median over seeds of the trials that a kind of tuner needs."""
    counts = [space.trials(make_tuner(kind, space.task, seed)) for seed in seeds]
    return median(counts)
