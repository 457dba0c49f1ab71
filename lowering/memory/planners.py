"""
The memory planners by name: each gives every buffer an offset in one arena.

    tokens               TVM's GraphPlanMemory: a buffer takes a free block of 1/16 to 16 times its size
    greedy-by-size       the largest buffer first, each in the tightest gap (TVM's USMP, with gaps filled)
    greedy-by-conflicts  the buffer that is alive together with the most others first
    hill-climb           from greedy-by-size, exchanges places in the order as long as the arena shrinks; uses the seed
    best                 the smallest of the plans above; a later planner runs only if those before miss the lower bound
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from mlc.lowering.memory.hill_climb import hill_climb
from mlc.lowering.memory.lifetimes import Lifetime, align, life_of
from mlc.lowering.memory.placement import Problem
from mlc.support.errors import UserError, did_you_mean

PlannerName = Literal["best", "greedy-by-size", "greedy-by-conflicts", "hill-climb", "tokens"]
PLANNER_NAMES: tuple[str, ...] = get_args(PlannerName)
MATCH_RANGE = 16
"""A token takes a free block of at least 1/16 and at most 16 times its bytes (TVM's GraphPlanMemory)."""


@dataclass(frozen=True)
class MemoryPlan:
    """The offset of each buffer, and figures of the plan's quality."""

    offsets: tuple[int, ...]
    bytes: int
    """The size of the workspace in bytes."""
    sum_bytes: int
    """The total size without sharing; parts are counted with their wholes."""
    bound_bytes: int
    """The most bytes alive at one step: a lower bound of any plan."""


def plan(buffers: Sequence[Lifetime], planner: str = "best", seed: int = 0) -> MemoryPlan:
    """Place the buffers with the planner of that name; UserError where there is none."""
    if planner not in PLANNERS:
        known = ", ".join(PLANNER_NAMES)
        raise UserError(
            f"expected a memory planner among {known}, but got '{planner}'{did_you_mean(planner, PLANNERS)}"
        )
    problem = Problem(buffers)
    roots = PLANNERS[planner](problem, Random(seed))
    offsets = tuple(_offset(buffers, roots, index) for index in range(len(buffers)))
    return MemoryPlan(offsets, problem.total(roots), sum(map(problem.bytes, problem.roots)), problem.bound)


def _offset(buffers: Sequence[Lifetime], roots: dict[int, int], index: int) -> int:
    """The offset of a buffer, once its root is placed."""
    start = 0
    while (outer := buffers[index].inside) is not None:
        start += buffers[index].at
        index = outer
    return roots[index] + start


def _by_size(problem: Problem, random: Random) -> dict[int, int]:
    buffers = problem.buffers
    return problem.place(sorted(problem.roots, key=lambda i: (-buffers[i].bytes, buffers[i].first, i)))


def _by_conflicts(problem: Problem, random: Random) -> dict[int, int]:
    buffers, conflicts = problem.buffers, problem.conflicts
    return problem.place(sorted(problem.roots, key=lambda i: (-len(conflicts[i]), -buffers[i].bytes, i)))


def _tokens(problem: Problem, random: Random) -> dict[int, int]:
    """Blocks are reused in the order of the steps; they lie one after another, each as large as its largest buffer."""
    life = {root: life_of(problem.pieces[root]) for root in problem.roots}
    ends = sorted(problem.roots, key=lambda root: life[root][1])
    sizes: list[int] = []
    block: dict[int, int] = {}
    free: list[tuple[int, int]] = []  # (bytes, block), sorted
    released = 0
    for root in sorted(problem.roots, key=lambda root: life[root][0]):
        while released < len(ends) and life[ends[released]][1] < life[root][0]:
            done = block[ends[released]]
            bisect.insort(free, (sizes[done], done))
            released += 1
        size = problem.bytes(root)
        at = _matching(free, size)
        if at is None:
            block[root] = len(sizes)
            sizes.append(size)
        else:
            block[root] = free.pop(at)[1]
            sizes[block[root]] = max(sizes[block[root]], size)
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    return {root: starts[block[root]] for root in problem.roots}


def _matching(free: Sequence[tuple[int, int]], size: int) -> int | None:
    """The smallest free block that is large enough, else the largest, both within the match range."""
    at = bisect.bisect_left(free, (size, -1))
    if at < len(free) and free[at][0] <= size * MATCH_RANGE:
        return at
    return at - 1 if at > 0 and free[at - 1][0] * MATCH_RANGE >= size else None


def _climb(problem: Problem, random: Random) -> dict[int, int]:
    return hill_climb(problem, random)


def _best(problem: Problem, random: Random) -> dict[int, int]:
    best = _by_size(problem, random)
    for planner in (_by_conflicts, _tokens, _climb):
        if problem.total(best) <= align(problem.bound):
            break
        best = min(best, planner(problem, random), key=problem.total)
    return best


PLANNERS: dict[str, Callable[[Problem, Random], dict[int, int]]] = {
    "best": _best,
    "greedy-by-size": _by_size,
    "greedy-by-conflicts": _by_conflicts,
    "hill-climb": _climb,
    "tokens": _tokens,
}

__all__ = ["PLANNERS", "PLANNER_NAMES", "MemoryPlan", "PlannerName", "plan"]
