"""
Memory planning in pools of declared sizes: each buffer goes to the first pool that has room for it.

The pools lie one after another in the arena, each as long as what is used of it. A pool that has no room for all the
buffers that are left takes the largest ones that fit, and the next pool those that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlc.lowering.memory.lifetimes import Lifetime, align
from mlc.lowering.memory.placement import Problem
from mlc.lowering.memory.planners import MemoryPlan, plan
from mlc.support.errors import UserError
from mlc.support.registered.memory_pools import DeclaredPool


@dataclass(frozen=True)
class UsedPool:
    """A pool of the arena: the offset of its first byte, and the bytes that are used of it."""

    pool: DeclaredPool
    start: int
    used: int


def plan_in_pools(
    buffers: Sequence[Lifetime], pools: Sequence[DeclaredPool], planner: str, seed: int, name: Callable[[int], str]
) -> tuple[MemoryPlan, list[UsedPool]]:
    """
    The places of the buffers in the arena that the pools make up, and what is used of each pool.

    Raises UserError, which names the buffer by `name`, for one that fits none of the pools.
    """
    whole = plan(buffers, planner, seed)
    if not pools:
        return whole, []
    left, start = Problem(buffers).roots, 0
    offsets = [0] * len(buffers)
    found: list[UsedPool] = []
    for pool in pools:
        chosen, placed = _placed(buffers, left, pool.bytes, planner, seed)
        used = max((placed[i] + align(buffers[i].bytes) for i in chosen), default=0)
        for index, at in placed.items():
            offsets[index] = start + at
        found.append(UsedPool(pool, start, used))
        left = [root for root in left if root not in chosen]
        start += used
    if left:
        largest = max(left, key=lambda root: buffers[root].bytes)
        room = ", ".join(f"'{one.pool.name}' of {one.pool.bytes}" for one in found)
        need = f"all need {whole.bytes} bytes in one pool"
        raise UserError(
            f"expected room for {name(largest)} in the workspace pools ({room} bytes), but there is none; {need}"
        )
    return MemoryPlan(tuple(offsets), start, whole.sum_bytes, whole.bound_bytes), found


def _placed(
    buffers: Sequence[Lifetime], roots: Sequence[int], size: int, planner: str, seed: int
) -> tuple[set[int], dict[int, int]]:
    """The roots that a pool takes, and the offsets in it of their buffers."""
    group = _with_parts(buffers, roots)
    planned = plan(_renumbered(buffers, group), planner, seed)
    if planned.bytes <= size:
        return set(roots), dict(zip(group, planned.offsets, strict=True))
    taken: set[int] = set()
    for root in sorted(roots, key=lambda i: (-buffers[i].bytes, i)):
        tried = _with_parts(buffers, [*sorted(taken), root])
        if align(buffers[root].bytes) <= size and plan(_renumbered(buffers, tried), "greedy-by-size").bytes <= size:
            taken.add(root)
    group = _with_parts(buffers, sorted(taken))
    planned = plan(_renumbered(buffers, group), "greedy-by-size")
    return taken, dict(zip(group, planned.offsets, strict=True))


def _with_parts(buffers: Sequence[Lifetime], roots: Sequence[int]) -> list[int]:
    """The buffers that are these roots or lie in them, in order."""
    chosen = set(roots)

    def root(index: int) -> int:
        while (outer := buffers[index].inside) is not None:
            index = outer
        return index

    return [index for index in range(len(buffers)) if root(index) in chosen]


def _renumbered(buffers: Sequence[Lifetime], group: Sequence[int]) -> list[Lifetime]:
    """Some of the buffers, with the numbers of their wholes among them."""
    number = {index: k for k, index in enumerate(group)}
    wholes = [buffers[index].inside for index in group]
    return [
        replace(buffers[index], inside=None if whole is None else number[whole])
        for index, whole in zip(group, wholes, strict=True)
    ]


def place_constants(sizes: Sequence[int], pools: Sequence[DeclaredPool]) -> tuple[list[int], list[UsedPool]]:
    """The offset of each constant in the weights, each in the first pool with room for it, and what is used."""
    if not pools:
        offsets, end = list[int](), 0
        for size in sizes:
            offsets.append(end)
            end += align(size)
        return offsets, []
    used, homes = [0] * len(pools), list[tuple[int, int]]()
    for size in sizes:
        home = next((k for k, pool in enumerate(pools) if used[k] + align(size) <= pool.bytes), None)
        if home is None:
            room = ", ".join(f"'{pool.name}' of {pool.bytes}" for pool in pools)
            total = sum(map(align, sizes))
            raise UserError(
                f"expected room for a constant of {size} bytes in the constant pools ({room} bytes), but there is "
                f"none; all constants need {total} bytes"
            )
        homes.append((home, used[home]))
        used[home] += align(size)
    starts = [sum(used[:k]) for k in range(len(pools))]
    found = [UsedPool(pool, start, size) for pool, start, size in zip(pools, starts, used, strict=True)]
    return [starts[home] + at for home, at in homes], found


__all__ = ["UsedPool", "place_constants", "plan_in_pools"]
