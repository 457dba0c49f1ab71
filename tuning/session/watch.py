"""What a session tells while it runs: a command line shows it, a test collects it, a program ignores it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlc.tuning.results import MeasureResult
from mlc.tuning.space import Values
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from mlc.tuning.records.record import Comparison


@dataclass(frozen=True)
class Standing:
    """Where the session stands after a trial."""

    trials: int
    """The trials of this session."""
    latency: float
    """The model's estimated latency in seconds: uses times best cost, summed; infinite while a task has no time."""
    default_latency: float


class Watcher:
    """Hears of a session's events; every method may be left as it is."""

    def tasks(self, tasks: Sequence[Task], resumed: int) -> None:
        """The tasks are known, and how many results the database has of them."""

    def trial(self, number: int, values: Values, result: MeasureResult, standing: Standing) -> None:
        """A candidate of the task of that number was measured, and is stored."""

    def phase(self, text: str, done: int, total: int) -> None:
        """What the session does now, apart from trials, and how much of it is done."""

    def compared(self, number: int, values: Values, comparison: Comparison, kept: bool) -> None:
        """The best candidate of a task was compared with the default."""


@dataclass
class Point:
    """A trial of a task, for plots."""

    trial: int
    """Its number in the session, from 1."""
    cost: float
    predicted: float | None = None
    """What the tuner predicted, in a unit of its own, greater for faster candidates; None where it does not predict."""


@dataclass
class Trail:
    """What a session did for one task."""

    task: Task
    points: list[Point] = field(default_factory=list[Point])
    errors: dict[str, int] = field(default_factory=dict[str, int])
    """The number of failed trials by the name of their error."""


__all__ = ["Point", "Standing", "Trail", "Watcher"]
