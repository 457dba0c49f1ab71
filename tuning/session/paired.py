"""
How much faster one thing is than another on a noisy machine: both are measured in turns, and compared in pairs.

Each round gives one ratio of seconds, from measurements that stand beside each other, so that what slows the machine
down for a while slows both. The interval is that of Wilcoxon's signed-rank test on the logarithms of the ratios (the
Hodges-Lehmann estimate with its exact confidence interval): no outlier moves it, and no distribution is assumed but
that the ratios scatter symmetrically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import exp, inf, log

LEVEL = 0.95
"""The probability that an interval holds the speed-up, or that all intervals of a task do."""


@dataclass(frozen=True)
class SpeedUp:
    """How many times as fast the second series is: the estimate and its confidence interval."""

    estimate: float
    low: float
    high: float


def speed_up(before: Sequence[float], after: Sequence[float], level: float = LEVEL) -> SpeedUp:
    """
    The speed-up from `before` to `after`, seconds of each round in the same order.

    The interval is open, from 0 to infinity, where there are too few rounds for its level.
    """
    ratios = [log(b / a) for b, a in zip(before, after, strict=True)]
    if not ratios:
        raise ValueError("expected at least one round")
    averages = sorted((x + y) / 2 for i, x in enumerate(ratios) for y in ratios[i:])
    count = len(averages)
    middle = (averages[(count - 1) // 2] + averages[count // 2]) / 2
    rank = critical_rank(len(ratios), level)
    if rank == 0:
        return SpeedUp(exp(middle), 0.0, inf)
    return SpeedUp(exp(middle), exp(averages[rank - 1]), exp(averages[count - rank]))


@cache
def critical_rank(rounds: int, level: float) -> int:
    """
    Which of the sorted Walsh averages, counted from 1, bounds the interval of that level; 0: no one does.

    It is the greatest k for which the sum of signed ranks is below k with a probability of at most (1 - level) / 2.
    """
    counts = [1]
    for rank in range(1, rounds + 1):  # subsets of 1..rank by their sum
        wider = counts + [0] * rank
        for total, ways in enumerate(counts):
            wider[total + rank] += ways
        counts = wider
    tail, below = (1 - level) / 2 * 2.0**rounds, 0
    for total, ways in enumerate(counts):
        below += ways
        if below > tail:
            return total
    raise AssertionError("all subsets together pass any tail")


__all__ = ["LEVEL", "SpeedUp", "critical_rank", "speed_up"]
