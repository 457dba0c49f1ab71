"""
Which task is tuned next, and when to stop: the tasks of a model share one budget by the gradient of its latency.

The model's latency is the sum of weight times best cost over its tasks. After one round for each task, the next round
goes to the task that promises to lower it most (Ansor: Zheng et al., OSDI 2020, section 6; TVM's TaskScheduler).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from mlc.tuning.task import Task

_ALPHA = 0.2
"""The part of a task's own last gains in its gradient; the rest is the optimistic guess. Ansor's number."""
_BETA = 2.0
"""How many times slower than the best of its group, in FLOP/s, a task is expected to stay. Ansor's number."""
_WINDOW = 3
"""The rounds over which the last gains are averaged. Ansor's number."""
_LEAVES_GROUP = 5
"""Rounds beyond those of any other of its group after which a task that is _BETA times slower is on its own. TVM's."""

UNMEASURED = 1e10
"""Seconds of a task of which no candidate has run, as in TVM: such a task is tuned first."""


class StopReason(StrEnum):
    """Why the search is over."""

    TRIALS = "all trials are done"
    SECONDS = "the time is up"
    UNTIL = "the model's estimated latency has gained what was asked for"
    TASKS = "every task has stopped: its space is exhausted, or it found nothing better for long"


@dataclass
class _State:
    """What is known of a task."""

    task: Task
    group: str | None
    costs: list[float] = field(default_factory=list[float])
    """The best cost after each round."""
    first: float = inf
    """The cost of the first candidate that ran: the default, which tuners propose first."""
    best: float = UNMEASURED
    trials: int = 0
    since_best: int = 0
    """Trials since the best one."""
    stopped: bool = False

    @property
    def speed(self) -> float:
        """FLOP/s of the best candidate."""
        return self.task.flops / self.best


def family(task: Task) -> str:
    """The group of tasks that are expected to reach a similar speed: a kernel's name without its hash."""
    return task.name.rpartition("_")[0] or task.name


class Budget:
    """
    Deals out rounds of trials to tasks: `next()` says whose turn it is, `record` takes what was measured.

    `trials` and `seconds` bound the whole search; `until` is the part of the default schedules' latency after whose
    gain it ends (0.05: the model takes 5 % less time); `early_stopping` ends a task after so many trials without a
    better candidate, as in AutoTVM. `clock` gives seconds.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        *,
        trials: int | None = None,
        seconds: float | None = None,
        until: float | None = None,
        early_stopping: int | None = None,
        round_size: int = 8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._states = [_State(task, family(task)) for task in tasks]
        self._trials, self._seconds, self._until, self._early = trials, seconds, until, early_stopping
        self._round_size, self._clock, self._start = round_size, clock, clock()
        self._spent = 0
        self.reason: StopReason | None = None
        """Why `next` gave None."""

    @property
    def latency(self) -> float:
        """The model's estimated latency in seconds: weight times best cost, summed; infinite while a task has none."""
        return self._sum(state.best if state.best < UNMEASURED else inf for state in self._states)

    @property
    def default_latency(self) -> float:
        """The same of the default schedules."""
        return self._sum(state.first for state in self._states)

    @property
    def gain(self) -> float:
        """The part of the default schedules' latency that was gained; 0 while a task was not measured."""
        before, now = self.default_latency, self.latency
        return 1 - now / before if now < inf and 0 < before < inf else 0.0

    @property
    def trials(self) -> int:
        """The trials that were recorded, without those of earlier runs."""
        return self._spent

    def next(self) -> tuple[int, int] | None:
        """Give the number of the task whose turn it is and how many candidates to measure; None: stop (`reason`)."""
        self.reason = self._stops()
        if self.reason is not None:
            return None
        return self._whose_turn(), self._count()

    def record(self, number: int, costs: Sequence[float], earlier: bool = False) -> None:
        """
        Take the costs of a round of a task in the order of its proposals, infinite for errors.

        `earlier` marks measurements of an earlier run: they cost nothing of this one.
        """
        state = self._states[number]
        for cost in costs:
            state.since_best += 1
            if state.first == inf:
                state.first = cost
            if cost < state.best:
                state.best, state.since_best = cost, 0
        state.trials += len(costs)
        state.costs.append(state.best)
        self._spent += 0 if earlier else len(costs)
        if self._early is not None and state.since_best >= self._early:
            state.stopped = True
        self._leave_group(state)

    def exhaust(self, number: int) -> None:
        """Take a task out, whose tuner has nothing to propose."""
        self._states[number].stopped = True

    def _sum(self, costs: Iterable[float]) -> float:
        return sum(state.task.weight * cost for state, cost in zip(self._states, costs, strict=True))

    def _stops(self) -> StopReason | None:
        if self._trials is not None and self._spent >= self._trials:
            return StopReason.TRIALS
        if self._seconds is not None and self._clock() - self._start >= self._seconds:
            return StopReason.SECONDS
        if self._until is not None and self.gain >= self._until:
            return StopReason.UNTIL
        return StopReason.TASKS if all(state.stopped for state in self._states) else None

    def _count(self) -> int:
        """A round, or what trials and time leave of it."""
        count = self._round_size
        if self._trials is not None:
            count = min(count, self._trials - self._spent)
        if self._seconds is not None and self._spent:
            spent = self._clock() - self._start
            fit = (self._seconds - spent) / (spent / self._spent) if spent > 0 else count
            count = min(count, max(1, int(fit)))
        return count

    def _whose_turn(self) -> int:
        open_tasks = [number for number, state in enumerate(self._states) if not state.stopped]
        for number in open_tasks:  # the warm-up: one round each
            if not self._states[number].costs:
                return number
        return min(open_tasks, key=lambda number: self._gradient(self._states[number]))

    def _gradient(self, state: _State) -> float:
        """The change of the model's latency that another round of a task promises, in seconds; not positive."""
        rounds, costs = len(state.costs), state.costs
        backward = (costs[-1] - costs[-1 - _WINDOW]) / _WINDOW if rounds > _WINDOW else 0.0
        expected = state.best - state.best / rounds
        others = [other for other in self._states if other.group == state.group and state.group is not None]
        if len(others) > 1:
            expected = min(expected, _BETA * state.task.flops / max(1e-30, *(other.speed for other in others)))
        return state.task.weight * (_ALPHA * backward + (1 - _ALPHA) * (expected - state.best))

    def _leave_group(self, state: _State) -> None:
        """Take a task out of its group that stays slower than it for long: it is not like the others."""
        others = [other for other in self._states if other.group == state.group and other is not state]
        if state.group is None or not others:
            return
        slower = state.speed < max(state.speed, *(other.speed for other in others)) / _BETA
        if slower and len(state.costs) > _LEAVES_GROUP + max(len(other.costs) for other in others):
            state.group = None
