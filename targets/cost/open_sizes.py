"""Choices where sizes are known at run time only: the sizes at which they are compared, and which of them is taken."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeVar

from mlc.targets.cost.thresholds import OPEN_BLOCK, OPEN_BLOCKS, OPEN_TASK_CYCLES, SCORED_POWERS

Choice = TypeVar("Choice")


def scored_sizes(rows: int, extent: int) -> list[int]:
    """
    The numbers of rows (or tiles of rows) at which a choice is scored: `rows` alone if `extent` is 0, which stands for
    a known number; else the numbers that the axis has at powers (`SCORED_POWERS`) of `extent`, its typical size.

    Powers treat an axis that n symbols were merged to as they treat each symbol: (s1 * s2) ** p = s1 ** p * s2 ** p.
    """
    return [max(1, round(rows * extent ** (power - 1))) for power in SCORED_POWERS] if extent else [rows]


def least_regret(scored: Sequence[tuple[Sequence[float], Choice]]) -> Choice:
    """The choice with the least sum of its costs at the scored sizes, each divided by the least cost at that size."""
    least = [min(costs) for costs in zip(*(costs for costs, _ in scored), strict=True)]
    return min(scored, key=lambda one: sum(cost / best for cost, best in zip(one[0], least, strict=True)))[1]


def open_blocks(count: int) -> list[int]:
    """Blocks of a number of tiles that is known at run time: powers of two, and half as much again."""
    return [n for n in OPEN_BLOCKS if n <= count]


def open_block(cycles: float, threads: int) -> int:
    """
    The most rows of a block if the number of rows is symbolic; one row takes `cycles` cycles.

    The block's loop has a constant trip count, so it also runs over masked rows past the end; and a block that holds
    all rows leaves the other threads idle.
    """
    return OPEN_BLOCK if threads == 1 else max(2, min(OPEN_BLOCK, ceil(OPEN_TASK_CYCLES / max(cycles, 1.0))))
