"""
The loop of a session: a budget picks a task, its tuner proposes, the farm measures, the database stores.

    defaults of all tasks  ->  budget.next() -> tuner.propose -> lease -> farm.measure -> database.add -> tuner.update
                                      ^-------------------------------------------------------------------'

Nothing else runs while the farm times a kernel: the session waits for the next result. A result is in the database
before anything else hears of it, so that a session that is killed loses no measurement.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeAlias, runtime_checkable

from mlc.support.errors import UserError
from mlc.tuning.budget import Budget
from mlc.tuning.farm import Evaluation, Farm
from mlc.tuning.records.database import Database
from mlc.tuning.results import ErrorCode, MeasureInput, MeasureResult
from mlc.tuning.session.watch import Point, Standing, Trail, Watcher
from mlc.tuning.space import Values
from mlc.tuning.task import Task
from mlc.tuning.tuners.protocol import Lower, Tuner, make_tuner

SEED_TASKS = 3
"""Tasks most like one whose fastest candidates are measured early for it, too, where its space has them."""

Measured: TypeAlias = Sequence[tuple[Values, MeasureResult]]
"""Candidates with their results."""

INTERRUPTED = "it was interrupted"
"""Why a session is over that Ctrl-C ended."""


@dataclass(frozen=True)
class Plan:
    """What a session is to do."""

    trials: int | None = None
    """Candidates to measure; with `resume` those in the database count."""
    seconds: float | None = None
    tuner: str = "model"
    seed: int = 0
    resume: bool = False
    until: float | None = None
    """The part of the default schedules' latency after whose gain the search ends."""
    early_stopping: int | None = None
    """Trials of a task without a better one after which it is left."""
    round_size: int = 16
    """Candidates of one task that are built together."""
    evaluation: Evaluation = field(default_factory=Evaluation)
    device: str | None = None
    """The device key of a cluster's workers."""


@runtime_checkable
class Predicting(Protocol):
    """A tuner that can say what it expects of candidates."""

    def predict(self, indices: Sequence[int]) -> Sequence[float]:
        """A score for each, greater for faster ones; none at all while nothing is learned."""
        ...


class Search:
    """
    Searches the tasks of a model; `run` returns when the plan is done, or was interrupted.

    With `lower` the tuners that have a cost model learn from the loops of candidates, too (`make_tuner`).
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        database: Database,
        farm: Farm,
        plan: Plan,
        watcher: Watcher | None = None,
        clock: Callable[[], float] = time.monotonic,
        lower: Lower | None = None,
    ) -> None:
        self._lower = lower
        self.tasks, self.database, self.farm, self.plan = list(tasks), database, farm, plan
        self.watcher, self.clock, self.start = watcher or Watcher(), clock, clock()
        self.trails = [Trail(task) for task in self.tasks]
        self.reason = ""
        """Why the search is over, as a clause."""
        self._tuners: list[Tuner | None] = [None] * len(self.tasks)
        self._seeds: dict[int, list[int]] = {}
        """Candidates of each task that are measured before its tuner's: those that records recommend."""
        self._earlier = [self._known(task) for task in self.tasks]
        counted = sum(map(len, self._earlier)) if plan.resume else 0
        self.budget = Budget(
            self.tasks,
            trials=None if plan.trials is None else max(0, plan.trials - counted),
            seconds=plan.seconds,
            until=plan.until,
            early_stopping=plan.early_stopping,
            round_size=plan.round_size,
            clock=clock,
        )
        self.trials = 0
        self._least = [min((result.cost for _, result in known), default=inf) for known in self._earlier]
        """The least cost of each task."""

    def run(self) -> None:
        """Search until the budget ends; an interruption (Ctrl-C) ends it, too."""
        self.watcher.tasks(self.tasks, sum(map(len, self._earlier)))
        try:
            self._recall()
            self._measure_defaults()
            while (turn := self.budget.next()) is not None:
                self._round(*turn)
            assert self.budget.reason is not None
            self.reason = str(self.budget.reason)
        except KeyboardInterrupt:
            self.reason = INTERRUPTED

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.reason == INTERRUPTED

    def _known(self, task: Task) -> list[tuple[int, MeasureResult]]:
        """The results of a task in the database, the default's first; candidates that the space lost are left out."""
        found: dict[int, MeasureResult] = {}
        for values, result in self.database.results(task):
            index = _index(task, values)
            if index is not None:
                found.setdefault(index, result)
        default = task.space.index_of(task.space.default)
        return sorted(found.items(), key=lambda one: one[0] != default)

    def _recall(self) -> None:
        """Tell the budget what the database has."""
        for number, (task, known) in enumerate(zip(self.tasks, self._earlier, strict=True)):
            if known and known[0][0] == task.space.index_of(task.space.default):
                self.budget.record(number, [result.cost for _, result in known], earlier=True)

    def _measure_defaults(self) -> None:
        """
        Measure what the compiler chooses for each task, where the database has it not; one alone first.

        So the first record is stored soon, the model's latency is known, and the budget begins where time is spent.
        """
        left = [n for n, task in enumerate(self.tasks) if not self._has(n, task.space.index_of(task.space.default))]
        if left:
            self._sweep(left[:1])
        for first in range(1, len(left), self.plan.round_size):
            self._sweep(left[first : first + self.plan.round_size])

    def _sweep(self, numbers: Sequence[int]) -> None:
        if (turn := self.budget.next()) is not None:
            self._measure([(n, index) for n in numbers[: turn[1]] for index in self._tuner(n).propose(1)])

    def _has(self, number: int, index: int) -> bool:
        return any(known == index for known, _ in self._earlier[number])

    def _tuner(self, number: int) -> Tuner:
        """The tuner of a task, made when its first turn comes."""
        tuner = self._tuners[number]
        if tuner is None:
            task = self.tasks[number]
            history, foreign = self.database.history(like=task), self.database.foreign(task)
            lessons = [(task, foreign), *history] if foreign else history
            tuner = make_tuner(self.plan.tuner, task, self.plan.seed, lessons, lower=self._lower)
            tuner.update(self._earlier[number])
            self._seeds[number] = self._recommended(number, foreign, history)
            self._tuners[number] = tuner
        return tuner

    def _recommended(self, number: int, foreign: Measured, history: Sequence[tuple[Task, Measured]]) -> list[int]:
        """
        Candidates that another compiler's log has, what the compiler would choose by other algorithms, and the fastest
        ones of tasks like this one; none is known.
        """
        task = self.tasks[number]
        ran = [[one for one in known if one[1].cost < inf] for _, known in history[:SEED_TASKS]]
        winners = [min(known, key=lambda one: one[1].cost) for known in ran if known]
        likely = [*(one for one, _ in foreign), *task.space.choices[1:], *(one for one, _ in winners)]
        seeds = dict.fromkeys(index for values in likely if (index := _index(task, values)) is not None)
        known = {task.space.index_of(task.space.default), *(index for index, _ in self._earlier[number])}
        return [index for index in seeds if index not in known]

    def _round(self, number: int, count: int) -> None:
        tuner = self._tuner(number)
        seeds = self._seeds[number][: max(1, count // 2)]
        del self._seeds[number][: len(seeds)]
        indices = list(dict.fromkeys([*seeds, *tuner.propose(count - len(seeds))]))
        if not indices:
            self.budget.exhaust(number)
            return
        self._measure([(number, index) for index in indices])

    def _measure(self, proposed: Sequence[tuple[int, int]]) -> None:
        """Measure candidates, given as numbers of task and candidate; then tell their tuners and the budget."""
        evaluation = self.plan.evaluation
        lease = len(proposed) * (evaluation.build_timeout_s + evaluation.run_timeout_s)
        ours = [(n, i) for n, i in proposed if self.database.lease(self.tasks[n], i, lease)]
        predicted = {one: score for one, score in zip(ours, self._predicted(ours), strict=True)}
        inputs = [MeasureInput(self.tasks[n], self.tasks[n].space[i]) for n, i in ours]
        results: dict[tuple[int, int], MeasureResult] = {}
        measured = self.farm.measure(inputs, evaluation, self.plan.device) if inputs else iter(())
        try:
            for place, result in measured:
                number, index = ours[place]
                self.database.add(inputs[place].task, inputs[place].values, result)
                results[number, index] = result
                self._note(number, result, predicted[number, index])
                self.watcher.trial(number, inputs[place].values, result, self._standing())
                if self._is_late():
                    break
        finally:
            if isinstance(measured, Generator):
                measured.close()
            self._tell(proposed, results)

    def _tell(self, proposed: Sequence[tuple[int, int]], results: dict[tuple[int, int], MeasureResult]) -> None:
        """Tell the tuners and the budget the results, and those that another tuner's process stored meanwhile."""
        for number in dict.fromkeys(number for number, _ in proposed):
            indices = [index for n, index in proposed if n == number]
            own = [(i, results[number, i]) for i in indices if (number, i) in results]
            foreign = self._foreign(number, [i for i in indices if (number, i) not in results])
            self._tuner(number).update([*own, *foreign])
            if foreign:
                self.budget.record(number, [result.cost for _, result in foreign], earlier=True)
            if own or not foreign:
                self.budget.record(number, [result.cost for _, result in own])

    def _foreign(self, number: int, indices: Sequence[int]) -> list[tuple[int, MeasureResult]]:
        """The results of candidates that this session did not measure."""
        known = dict(self._known(self.tasks[number])) if indices else {}
        return [(index, known[index]) for index in indices if index in known]

    def _predicted(self, ours: Sequence[tuple[int, int]]) -> list[float | None]:
        """What the tuners expect of the candidates."""
        found: dict[tuple[int, int], float] = {}
        for number in dict.fromkeys(number for number, _ in ours):
            tuner, indices = self._tuner(number), [index for n, index in ours if n == number]
            if isinstance(tuner, Predicting):
                found.update(zip([(number, index) for index in indices], tuner.predict(indices), strict=False))
        return [found.get(one) for one in ours]

    def _note(self, number: int, result: MeasureResult, predicted: float | None) -> None:
        self.trials += 1
        trail = self.trails[number]
        trail.points.append(Point(self.trials, result.cost, predicted))
        self._least[number] = min(self._least[number], result.cost)
        if result.error is not ErrorCode.NO_ERROR:
            trail.errors[result.error.name] = trail.errors.get(result.error.name, 0) + 1

    def _standing(self) -> Standing:
        """The estimate of the latency, with the results of the round that is going on."""
        latency = sum(task.weight * cost for task, cost in zip(self.tasks, self._least, strict=True))
        return Standing(self.trials, latency, self.budget.default_latency)

    def _is_late(self) -> bool:
        return self.plan.seconds is not None and self.clock() - self.start >= self.plan.seconds


def _index(task: Task, values: Values) -> int | None:
    """The number of a candidate; None where the task's space does not have it."""
    try:
        return task.space.index_of(values)
    except UserError:
        return None


__all__ = ["INTERRUPTED", "Plan", "Predicting", "Search"]
