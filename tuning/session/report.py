"""What a session found: a row for each task, the whole model, and why it ended; it prints as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from textwrap import wrap
from typing import TYPE_CHECKING, cast

from mlc.tuning.session.watch import Point
from mlc.tuning.space import STRATEGY, Values
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from mlc.tuning.graph_tuner.report import LayoutReport
    from mlc.tuning.records.record import Comparison

COLUMNS = ("kernel", "trials", "default", "best", "GFLOP/s", "speed-up (95 %)")
_WIDTH = 80


@dataclass(frozen=True)
class TaskReport:
    """What was found for one task."""

    task: Task
    default_seconds: float
    """The cost of the default, infinite where it has none."""
    best_seconds: float
    """The least cost that was measured, before any check."""
    best: Values | None
    """The candidate of that cost."""
    known: int
    """The results in the database, those of earlier sessions included."""
    points: Sequence[Point] = ()
    """The trials of this session."""
    errors: dict[str, int] = field(default_factory=dict[str, int])
    """Failed trials of this session by the name of their error."""
    comparison: Comparison | None = None
    """The paired check of the kept candidate, or of the one that came closest; None where nothing was checked."""
    kept: Values | None = None
    """The candidate in force, which passed the check; None: the default."""

    @property
    def gflops(self) -> float:
        """GFLOP/s of the best candidate."""
        return self.task.flops / self.best_seconds / 1e9 if self.best_seconds < inf else 0.0

    @property
    def spent(self) -> float:
        """The seconds that a run of the model spends in it by default; 0 where the default has no time."""
        return self.task.weight * self.default_seconds if self.default_seconds < inf else 0.0

    @property
    def changes(self) -> dict[str, str]:
        """The knobs of the kept candidate that differ from the default's: `{"tile": "4 -> 6"}`."""
        return {} if self.kept is None else changes_of(self.task.space.default, self.kept)


@dataclass(frozen=True)
class Report:
    """What a session found."""

    tasks: tuple[TaskReport, ...]
    """In the order of the model, which is that of its calls."""
    records: str
    """The database."""
    trials: int
    """The trials of this session."""
    seconds: float
    """How long it took, checks included."""
    reason: str
    """Why the search ended, as a clause."""
    model: Comparison | None = None
    """The whole model, compiled with the records and without; None for an operator, or where it was not measured."""
    note: str = ""
    """What there is to say about the whole model, where it was not measured or nothing changed."""
    seed: int = 0
    layouts: LayoutReport | None = None
    """What was found for the layouts, where they were tuned."""
    search_seconds: float = 0.0
    """How long the search took, without extraction and checks."""
    left_out: str = ""
    """How many calls of kernels were not tuned, and why, as a clause; empty where all were."""

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search or the check."""
        return "interrupted" in f"{self.reason} {self.note}"

    @property
    def kept(self) -> tuple[TaskReport, ...]:
        """The tasks whose kept candidate is another than the default."""
        return tuple(task for task in self.tasks if task.kept is not None)

    def rows(self) -> list[tuple[str, ...]]:
        """The table, a row for each task in the order of time spent in it, with the header COLUMNS."""
        return [_row(one) for one in sorted(self.tasks, key=lambda one: -one.spent)]

    def fitting_rows(self, width: int, between: int = 2, around: int = 0) -> list[tuple[str, ...]]:
        """
        The rows for a table of that width, with so many columns of text between two cells and around all.

        Names are shortened in their middle; the hash at their end tells kernels of one name apart.
        """
        rows = self.rows()
        others = [max(len(row[column]) for row in [COLUMNS, *rows]) for column in range(1, len(COLUMNS))]
        left = max(12, width - sum(others) - between * len(others) - around)
        return [(shortened(row[0], left), *row[1:]) for row in rows]

    def conclusion(self) -> list[str]:
        """The lines below the table, at most 80 columns wide where no name is longer."""
        a_trial = f", {self.search_seconds / self.trials:.2f} s a trial" if self.trials else ""
        lines = [
            f"{_count(self.trials, 'trial')} of {_count(len(self.tasks), 'task')} in {self.seconds:.0f} s{a_trial}",
            f"the search ended: {self.reason}",
            f"{_count(len(self.kept), 'kernel')} faster than the default for sure: kept in {self.records}"
            if self.kept
            else "no kernel is faster than its default schedule for sure",
        ]
        if (failed := self.errors()) and self.trials:
            kinds = ", ".join(f"{count} {name}" for name, count in failed.items())
            lines.append(f"{_count(sum(failed.values()), 'trial')} failed: {kinds}")
        if self.left_out:
            lines.append(self.left_out)
        if self.layouts is not None:
            lines.append(layouts_text(self.layouts))
        if self.model is not None:
            lines.append(f"the whole model: {model_text(self.model)}")
        if self.note:
            lines.append(self.note)
        return [part for line in lines for part in wrap(line, _WIDTH, subsequent_indent="  ", break_long_words=False)]

    def errors(self) -> dict[str, int]:
        """Failed trials of all tasks by the name of their error."""
        total: dict[str, int] = {}
        for task in self.tasks:
            for name, count in task.errors.items():
                total[name] = total.get(name, 0) + count
        return total

    def plot(self, path: str | os.PathLike[str]) -> None:
        """
        Draw the best so far of each task, and predicted against measured costs, as an .svg file.

        Raises UserError for another suffix and where the file cannot be written.
        """
        from mlc.tuning.session.plot import write_plot

        write_plot(self, path)

    def __str__(self) -> str:
        rows = [COLUMNS, *self.fitting_rows(_WIDTH)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        return "\n".join([*lines, *self.conclusion()])


def model_text(comparison: Comparison) -> str:
    """`12.3 ms by default, 11.2 ms tuned: 1.10 times as fast (95 %: 1.08 to 1.12)`."""
    interval = f"{100 * comparison.level:.0f} %: {comparison.low:.2f} to {comparison.high:.2f}"
    return (
        f"{duration(comparison.default_seconds)} by default, {duration(comparison.seconds)} tuned: "
        f"{comparison.speedup:.2f} times as fast ({interval})"
    )


def layouts_text(found: LayoutReport) -> str:
    """`layouts: 3 of 8 convolutions and dense layers in other blocks: 2 ms by default, ..`, or why none was kept."""
    if found.comparison is None:
        return "layouts: those by default are the best by the times of their kernels and transforms"
    if found.values is None:
        return f"layouts: those by default stay; the best others: {model_text(found.comparison)}"
    changed = f"{found.changed} of {_count(found.sites, 'convolution')} and dense layers in other blocks"
    return f"layouts: {changed}: {model_text(found.comparison)}"


def duration(seconds: float) -> str:
    """`12.3 us`, with three digits; a dash for what was not measured."""
    if seconds == inf:
        return "-"
    units = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    unit, size = next((one for one in units if seconds >= one[1]), units[-1])
    value = seconds / size
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def shortened(name: str, width: int) -> str:
    """A kernel's name in that width; the hash at its end stays."""
    if len(name) <= width:
        return name
    tail = min(9, width - 2)
    return f"{name[: width - tail - 1]}…{name[-tail:]}"


def changes_of(default: Values, values: Values) -> dict[str, str]:
    """The knobs whose values differ; a knob of one of two strategies alone has a dash on the other side."""
    names = dict.fromkeys([STRATEGY, *default, *values])
    return {
        name: f"{_value(default.get(name))} -> {_value(values.get(name))}"
        for name in names
        if default.get(name) != values.get(name)
    }


def _row(one: TaskReport) -> tuple[str, ...]:
    uses = f"{one.task.weight} x " if one.task.weight > 1 else ""
    comparison, default, best = one.comparison, one.default_seconds, one.best_seconds
    if comparison is not None and one.kept is not None:  # the checked numbers, not the luckiest ones
        default, best = comparison.default_seconds, comparison.seconds
    return (
        f"{uses}{one.task.name}",
        str(one.known),
        duration(default),
        duration(best),
        f"{one.task.flops / best / 1e9:.1f}" if best < inf else "-",
        _speed_up(one),
    )


def _speed_up(one: TaskReport) -> str:
    if one.comparison is None:
        return "-"
    if one.kept is None:
        return "default kept"
    found = one.comparison
    return f"{found.speedup:.2f} [{found.low:.2f}, {found.high:.2f}]"


def _value(value: object) -> str:
    if value is None:
        return "-"
    return "x".join(map(str, cast("tuple[int, ...]", value))) if isinstance(value, tuple) else str(value)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


__all__ = ["COLUMNS", "Report", "TaskReport", "changes_of", "duration", "model_text", "shortened"]
