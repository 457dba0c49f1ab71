"""
The paired check at the end of a session: the best few candidates of a task and the default are measured in turns.

A candidate is kept only where the lower end of the confidence interval of its speed-up is above 1: what is compiled
with the records is not slower than the default choice beyond the noise, however lucky a candidate was in the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlc.support.errors import UserError
from mlc.tuning.algorithms import keep_choice
from mlc.tuning.farm import Evaluation, Farm
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.results import MeasureInput, MeasureResult
from mlc.tuning.session.paired import LEVEL, speed_up
from mlc.tuning.session.watch import Watcher
from mlc.tuning.space import STRATEGY, Values
from mlc.tuning.task import Task

ROUNDS = 15
"""Rounds of a check; with 3 candidates the least for an interval of 95 % of all of them is 7."""

CANDIDATES = 3
"""The best candidates of a task that are checked: by one number alone the best is not known under noise."""

HOPELESS = 1.1
"""Times the default's cost, beyond which a candidate is not checked: it was measured once, under noise."""

LEAST_MS = 5.0
"""The length of a timed loop of a round in milliseconds: the clock and the call are below 0.1 % of it."""


@dataclass(frozen=True)
class Checked:
    """The outcome for a task: what is in force now, by which comparison, and whether it is another than the default."""

    values: Values
    comparison: Comparison
    is_faster: bool


class Confirmation:
    """Checks tasks one after another; `run` stores what is kept."""

    def __init__(self, database: Database, farm: Farm, evaluation: Evaluation, device: str | None = None) -> None:
        self.database, self.farm, self.device = database, farm, device
        least = max(evaluation.min_repeat_ms, LEAST_MS)
        self.evaluation = replace(evaluation, number=1, repeat=1, min_repeat_ms=least, stop_factor=0.0)

    def run(self, tasks: Sequence[Task], watcher: Watcher) -> list[Checked | None]:
        """The outcome for each task; None where no candidate was worth a check."""
        watcher.phase("checking the best against the default", 0, len(tasks))
        found: list[Checked | None] = []
        for number, task in enumerate(tasks):
            checked = self.check(task)
            if checked is not None:
                watcher.compared(number, checked.values, checked.comparison, checked.is_faster)
            found.append(checked)
            watcher.phase("checking the best against the default", number + 1, len(tasks))
        return found

    def check(self, task: Task) -> Checked | None:
        """Measure the best few of a task beside its default, and keep the winner; None where none is worth it."""
        few = self.candidates(task)
        if not few:
            return None
        inputs = [MeasureInput(task, values) for values in (task.space.default, *few)]
        default, *others = self.farm.compare(inputs, self.evaluation, ROUNDS, self.device)
        found = [
            (one, comparison)
            for one, rounds in zip(few, others, strict=True)
            if (comparison := compared(default, rounds, len(few))) is not None
        ]
        if not found:
            return None
        values, comparison = max(found, key=lambda one: one[1].low)
        if comparison.low > 1:
            keep_choice(self.database, task, values, comparison)
            return Checked(values, comparison, True)
        if self.database.best(task) is not None:  # an earlier winner, which is among these few
            keep_choice(self.database, task, task.space.default, no_change(comparison))
        return Checked(values, comparison, False)

    def withdraw(self, tasks: Sequence[Task]) -> None:
        """Put the default back in force for all of these tasks."""
        for task in tasks:
            record = self.database.best(task)
            if record is None or record.comparison is None:
                continue
            if not task.space.is_default(record.values):
                keep_choice(self.database, task, task.space.default, no_change(record.comparison))

    def candidates(self, task: Task) -> list[Values]:
        """The fastest candidates in the database that are not the default, and the one that is kept now."""
        costs: list[tuple[float, int, Values]] = []
        limit = 0.0
        for number, (values, result) in enumerate(self.database.results(task)):
            if not _is_of(task, values):
                continue
            if task.space.is_default(values):
                limit = HOPELESS * result.cost
            else:
                costs.append((result.cost, number, values))
        few = [values for cost, _, values in sorted(costs, key=lambda one: one[:2])[:CANDIDATES] if cost <= limit]
        kept = self.database.best(task)
        if kept is not None and (_is_of(task, kept.values) or _is_of_another_strategy(task, kept.values)):
            values = dict(kept.values)
            if not task.space.is_default(values) and values not in map(dict, few):
                few.append(kept.values)
        return few


def compared(
    default: Sequence[MeasureResult], rounds: Sequence[MeasureResult], candidates: int = 1
) -> Comparison | None:
    """
    The comparison of a candidate's rounds with the default's; None where a round of either failed.

    With several candidates the level of each one's interval rises, so that all of them hold at the level (Bonferroni).
    """
    before, after = [one.cost for one in default], [one.cost for one in rounds]
    if not before or float("inf") in (*before, *after):
        return None
    found = speed_up(before, after, 1 - (1 - LEVEL) / candidates)
    return Comparison(_median(after), _median(before), found.low, found.high, len(before), LEVEL)


def no_change(comparison: Comparison) -> Comparison:
    """The comparison of a task that keeps its default: both times are the default's, the speed-up is 1."""
    seconds = comparison.default_seconds
    return Comparison(seconds, seconds, 1.0, 1.0, comparison.rounds, comparison.level)


def _is_of(task: Task, values: Values) -> bool:
    """Whether the task's space of today has a candidate."""
    try:
        task.space.index_of(values)
    except UserError:
        return False
    return True


def _is_of_another_strategy(task: Task, values: Values) -> bool:
    """Whether values are of a strategy that this session does not search: building one tells if it is valid."""
    return values.get(STRATEGY) not in [part.strategy for part in task.space.parts]


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


__all__ = ["CANDIDATES", "ROUNDS", "Checked", "Confirmation", "compared"]
