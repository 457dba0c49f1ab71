"""When threads are worth it."""

from __future__ import annotations

from math import ceil

from mlc.targets.target import Target


def balance(tasks: int, threads: int) -> float:
    """The part of the time that threads work when equal tasks are dealt out to them."""
    return tasks / (ceil(tasks / threads) * threads)


def worth_threads(cycles: float, threads: int, target: Target) -> bool:
    """Whether dealing a kernel of `cycles` cycles out to threads saves more time than waking the threads costs."""
    return threads > 1 and cycles * (1 - 1 / threads) > target.core.dispatch_cycles


def least_work(cycles: float, points: int, threads: int, target: Target) -> int:
    """The number of points from which on threads are worth it, if `points` points take one thread `cycles` cycles."""
    return max(1, round(points * target.core.dispatch_cycles / (max(cycles, 1.0) * (1 - 1 / threads))))
