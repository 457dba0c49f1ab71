"""
The hill-climb planner, after TVM's USMP: small changes of the order of placement, kept where the arena shrinks.

A change takes a buffer at the end of the arena, or one that is alive together with it, and exchanges its place in the
order with an earlier buffer of its neighbourhood. A change that enlarges the arena is kept with a small probability,
which falls with the attempts.
"""

from __future__ import annotations

from random import Random

from mlc.lowering.memory.lifetimes import align
from mlc.lowering.memory.placement import Problem

ATTEMPTS = 500
"""Changes of the order that are tried (TVM's USMP)."""
PLACEMENTS = 100_000
"""Placements of single buffers in all attempts: bounds the time for programs of thousands of buffers."""
FIRST_LEVEL_SHARE = 0.25
"""The share of changes that exchange with a direct neighbour, not with a neighbour's neighbour (TVM's USMP)."""
UPHILL = 0.5
"""Probability of keeping a change, for each part by which it enlarges the arena, at the first attempt (TVM's USMP)."""


def hill_climb(problem: Problem, random: Random) -> dict[int, int]:
    """The offset of each root: the best of all orders tried."""
    order = sorted(problem.roots, key=lambda i: (-problem.buffers[i].bytes, problem.buffers[i].first, i))
    offsets = problem.place(order)
    current = total = problem.total(offsets)
    best = offsets
    attempts = min(ATTEMPTS, PLACEMENTS // max(1, len(order)))
    for attempt in range(1, attempts + 1):
        if total <= align(problem.bound):
            break
        changed = _exchanged(problem, order, offsets, current, random)
        if changed is None:
            break
        found = problem.place(changed)
        size = problem.total(found)
        if size <= current or random.random() < UPHILL * (size - current) / current / attempt:
            order, offsets, current = changed, found, size
        if size < total:
            best, total = found, size
    return best


def _exchanged(
    problem: Problem, order: list[int], offsets: dict[int, int], total: int, random: Random
) -> list[int] | None:
    """The order with two buffers exchanged; None where no buffer has a neighbour."""
    peak = [root for root in problem.roots if offsets[root] + problem.bytes(root) == total]
    chosen = random.choice(peak)
    first = problem.conflicts[chosen]
    if not first:
        return None
    one = random.choice([chosen, *first])
    second = sorted({far for near in first for far in problem.conflicts[near]})
    other = random.choice(first if random.random() < FIRST_LEVEL_SHARE else second)
    changed = order.copy()
    i, j = order.index(one), order.index(other)
    changed[i], changed[j] = order[j], order[i]
    return changed


__all__ = ["hill_climb"]
