"""How the tasks of a model share the trials, and when the search ends."""

from __future__ import annotations

import dataclasses
from math import inf

import pytest
from tuning_spaces import made_up_task, tiles

from mlc.tuning.budget import Budget, StopReason
from mlc.tuning.space import Space
from mlc.tuning.task import Task

SPACE = Space((tiles(),))


def tasks(*weights: int, names: str = "", flops: int = 1_000_000) -> list[Task]:
    """Tasks of different families, or of those that the letters of `names` say."""
    letters = names or "abcdefgh"
    return [
        dataclasses.replace(made_up_task(SPACE, f"{letters[n]}_{n}", flops), weight=weight)
        for n, weight in enumerate(weights)
    ]


class Clock:
    """Seconds that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_task_has_a_round_before_any_has_two() -> None:
    budget = Budget(tasks(1, 100, 1), round_size=4)
    turns: list[int] = []
    for _ in range(3):
        turn = budget.next()
        assert turn is not None
        turns.append(turn[0])
        budget.record(turn[0], [1.0] * turn[1])
    assert turns == [0, 1, 2]


def test_the_gradient_is_ansors() -> None:
    # Two tasks of different families, weights 2 and 1, each with 4 rounds.
    budget = Budget(tasks(2, 1))
    for costs in ([10.0], [8.0], [8.0], [7.0]):
        budget.record(0, costs)
    for costs in ([20.0], [20.0], [20.0], [14.0]):
        budget.record(1, costs)
    # 0: 2 x (0.2 x (7 - 10) / 3 + 0.8 x (-7 / 4)) = -3.2;  1: 0.2 x (14 - 20) / 3 + 0.8 x (-14 / 4) = -3.2
    assert [budget._gradient(state) for state in budget._states] == pytest.approx([-3.2, -3.2])
    budget.record(1, [14.0])  # 0.2 x (14 - 20) / 3 + 0.8 x (-14 / 5) = -2.64
    assert budget._gradient(budget._states[1]) == pytest.approx(-2.64)
    assert budget.next() == (0, 8)


def test_a_task_slower_than_its_family_gets_the_next_round() -> None:
    # One family: the best has 1e6 flops in 1 s. 0.8 x (2 x 1 - 5) = -2.4 against 0.8 x (-5 / 4) = -1 on its own.
    together, apart = (Budget(tasks(1, 1, names=names)) for names in ("dd", "de"))
    for budget in (together, apart):
        for _ in range(4):
            budget.record(0, [1.0])
            budget.record(1, [5.0])
    assert together._gradient(together._states[1]) == pytest.approx(-2.4)
    assert apart._gradient(apart._states[1]) == pytest.approx(-1.0)


def test_a_task_that_stays_slow_leaves_its_family() -> None:
    budget = Budget(tasks(1, 1, names="dd"))
    budget.record(0, [1.0])
    for _ in range(6):
        budget.record(1, [5.0])
    assert budget._states[1].group == "d"
    budget.record(1, [5.0])
    assert budget._states[1].group is None


def test_a_task_without_a_time_comes_first() -> None:
    budget = Budget(tasks(100, 1))
    budget.record(0, [1.0])
    budget.record(1, [inf])
    assert budget.next() == (1, 8)
    assert budget.latency == inf
    assert budget.gain == 0.0


def test_trials_end_the_search_to_the_number() -> None:
    budget, counts = Budget(tasks(1, 1), trials=19, round_size=8), []
    while (turn := budget.next()) is not None:
        counts.append(turn[1])
        budget.record(turn[0], [1.0] * turn[1])
    assert counts == [8, 8, 3]
    assert budget.trials == 19
    assert budget.reason is StopReason.TRIALS


def test_time_ends_the_search_and_shortens_the_last_round() -> None:
    clock = Clock()
    budget = Budget(tasks(1), seconds=10.0, round_size=8, clock=clock)
    assert budget.next() == (0, 8)
    budget.record(0, [1.0] * 8)
    clock.now += 8.0
    assert budget.next() == (0, 2)
    clock.now += 2.0
    assert budget.next() is None
    assert budget.reason is StopReason.SECONDS


def test_the_gain_that_was_asked_for_ends_the_search() -> None:
    budget = Budget(tasks(3, 1), until=0.05)
    budget.record(0, [2.0])
    budget.record(1, [10.0, 9.9])  # 15.9 of 16
    assert budget.next() is not None
    budget.record(0, [inf, 1.8])
    assert budget.default_latency == pytest.approx(16.0)
    assert budget.latency == pytest.approx(15.3)
    assert budget.next() is not None
    budget.record(1, [9.7])
    assert budget.gain == pytest.approx(1 - 15.1 / 16)
    assert budget.next() is None
    assert budget.reason is StopReason.UNTIL


def test_early_stopping_takes_one_task_out() -> None:
    budget = Budget(tasks(50, 1), early_stopping=4, round_size=2)
    budget.record(0, [1.0, 2.0])
    budget.record(1, [1.0, 0.5])
    budget.record(0, [1.0, 1.0])
    assert budget.next() == (0, 2)
    budget.record(0, [1.0])  # the fourth since the best
    assert budget.next() == (1, 2)
    budget.exhaust(1)
    assert budget.next() is None
    assert budget.reason is StopReason.TASKS


def test_what_an_earlier_run_measured_costs_nothing() -> None:
    budget = Budget(tasks(1), trials=8)
    budget.record(0, [2.0, 1.0], earlier=True)
    assert budget.next() == (0, 8)
    assert budget.gain == 0.5
