"""
loop-plan-memory: the buffers inside a kernel whose lives do not overlap share memory.

In: loop.func, before convert-loop-to-llvm. Out: the same, with the place of each loop.alloc as an attribute:

    mlc.offset = 4096    static sizes: the byte offset in a thread's scratch (scope "local") or in the workspace
    mlc.slot = 0         symbolic sizes: a piece of memory as large as this buffer
    mlc.shares = 0       symbolic sizes: in the slot of that number, whose buffer is at least as large at any sizes

A buffer is alive from its first to its last access, as ops of the block that allocates it: a loop in that block which
accesses the buffer counts as a whole, and each execution of the block begins with a new buffer. Scratch and workspace
are planned apart. The threads of a parallel loop are at different places of its body: a shared buffer that is allocated
in a parallel loop is alive during the whole outermost one, and a local one only in the order of its own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.attributes import KERNEL_TYPICAL, LOOP_OFFSET, LOOP_SHARES, LOOP_SLOT
from mlc.dialects.constants import integers
from mlc.dialects.index import TYPICAL, Index, const
from mlc.dialects.walk import walk
from mlc.lowering.memory.kernel_buffers import factors, is_local, is_symbolic, static_bytes
from mlc.lowering.memory.lifetimes import Lifetime
from mlc.lowering.memory.planners import PlannerName, plan
from mlc.passes.loop.index_space.domain import ancestor_in, parallel_around, range_of


def lives_of(func: loop.FuncOp) -> dict[loop.AllocOp, tuple[int, int]]:
    """The first and last step at which each buffer of a kernel is alive; a step is an op, outer ones before inner."""
    first = {op: step for step, op in enumerate(walk(func))}
    last: dict[Operation, int] = {}
    for op in reversed(first):
        last[op] = max(
            (last[o] for region in op.regions for block in region.blocks for o in block.ops), default=first[op]
        )
    lives: dict[loop.AllocOp, tuple[int, int]] = {}
    for op in first:
        if isinstance(op, loop.AllocOp):
            around = _spans(op)
            lives[op] = min(first[o] for o in around), max(last[o] for o in around)
    return lives


def _spans(alloc: loop.AllocOp) -> list[Operation]:
    """The ops that span a buffer's life: the ops of its block that access it, or the parallel loop around them."""
    if not is_local(alloc) and (outermost := parallel_around(alloc)) is not None:
        return [outermost]
    assert alloc.parent is not None
    return [ancestor_in(alloc.parent, use.operation) for use in alloc.result.uses] or [alloc]


def plan_kernel(func: loop.FuncOp, planner: str = "best", seed: int = 0) -> None:
    """Give each buffer of a kernel its place."""
    lives = lives_of(func)
    for alloc in lives:
        for name in (LOOP_OFFSET, LOOP_SLOT, LOOP_SHARES):
            alloc.attributes.pop(name, None)
    slots = 0
    for local in (False, True):
        mine = {alloc: life for alloc, life in lives.items() if is_local(alloc) == local}
        static = [alloc for alloc in mine if not is_symbolic(alloc)]
        buffers = [Lifetime(static_bytes(alloc.result.type), *mine[alloc]) for alloc in static]
        for alloc, offset in zip(static, plan(buffers, planner, seed).offsets, strict=True):
            alloc.attributes[LOOP_OFFSET] = IntegerAttr(offset, i64)
        for slot in _slots(func, {alloc: mine[alloc] for alloc in mine if is_symbolic(alloc)}):
            for alloc in slot:
                alloc.attributes[LOOP_SLOT if alloc is slot[0] else LOOP_SHARES] = IntegerAttr(slots, i64)
            slots += 1


def _slots(func: loop.FuncOp, lives: Mapping[loop.AllocOp, tuple[int, int]]) -> list[list[loop.AllocOp]]:
    """Groups of buffers that are never alive together, each led by one that is at least as large at any sizes."""
    symbols = func.symbols
    known = integers(func.attributes.get(KERNEL_TYPICAL)) or (TYPICAL,) * len(symbols)
    sizes = {alloc: factors(alloc, symbols) for alloc in lives}
    ranges = [range_of(symbol) for symbol in symbols]
    typical = {alloc: prod(int(e.evaluate(known)) for e in row) for alloc, row in sizes.items()}
    slots: list[list[loop.AllocOp]] = []
    for alloc in sorted(lives, key=lambda one: (-typical[one], lives[one])):
        for slot in slots:
            apart = all(lives[alloc][1] < lives[o][0] or lives[o][1] < lives[alloc][0] for o in slot)
            if apart and is_at_least(sizes[slot[0]], sizes[alloc], ranges):
                slot.append(alloc)
                break
        else:
            slots.append([alloc])
    return slots


def is_at_least(large: Iterable[Index], small: Iterable[Index], ranges: Sequence[tuple[int, int]]) -> bool:
    """Whether one product of sizes is proved to be at least another one, at any values of the symbols."""
    rest, other = list(large), list(small)
    for factor in list(rest):
        if factor in other:
            rest.remove(factor)
            other.remove(factor)
    rest, other = _merged(rest), _merged(other)
    width = max(len(rest), len(other))
    rest, other = ([*row, *(const(1),) * (width - len(row))] for row in (rest, other))
    return any(
        all(
            (a - b).bounds(ranges)[0] >= 0 and (width == 1 or b.bounds(ranges)[0] >= 0)
            for a, b in zip(rest, order, strict=True)
        )
        for order in permutations(other)
    )


def _merged(row: Sequence[Index]) -> list[Index]:
    """The factors with the constant ones multiplied into the first of the others."""
    number = prod(e.const for e in row if e.is_const)
    found = [e for e in row if not e.is_const]
    return [found[0] * number, *found[1:]] if found else [const(number)]


@dataclass(frozen=True)
class PlanMemoryPass(ModulePass):
    """
    Write the place of each buffer inside a kernel: buffers that are not alive together share memory.

    `%a = loop.alloc "local" : memref<1024xf32>` -> `%a = loop.alloc "local" {mlc.offset = 4160 : i64} : ...`
    """

    name = "loop-plan-memory"

    planner: PlannerName = "best"
    """How the buffers are placed: lowering/memory/planners.py."""
    seed: int = 0
    """The random choices of the planner "hill-climb"."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                plan_kernel(func, self.planner, self.seed)


__all__ = ["PlanMemoryPass", "is_at_least", "lives_of", "plan_kernel"]
