"""
Intrinsics declared as IR: the loop nest that a schedule replaces by one is compared with the intrinsic's @means.

    %j, %k of the kernel:    C[i, jo*16 + j] += A[i, ko*4 + k] * B[ko, jo*16 + j, k]
    @means of the intrinsic: c[j]            += a[k]           * b[j, k]

Loop by loop the extents are equal; operation by operation the blocks are; and each index of an access moves with the
loops as the intrinsic's does, from a start that the loops around it give. Then @emits stands for the block's work: its
accesses to `b[e0, e1]` become accesses to `B[ko, jo*16 + e0, e1]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, Index
from mlc.dialects.sched.intrinsic import EMITS, MEANS
from mlc.passes.loop.directives.kernel import Kernel, buffer_name, children, name_of
from mlc.passes.loop.directives.legality import transformable
from mlc.passes.loop.index_space.accesses import accesses, binding_of_argument
from mlc.support.registered.registrations import note

DECLARED: dict[str, sched.IntrinsicOp] = {}
"""The intrinsics that a program or a file declared, by name."""

COMMUTATIVE = {"arith.addf", "arith.addi", "arith.mulf", "arith.muli", "arith.maximumf", "arith.minimumf"}


def declare(intrinsic: sched.IntrinsicOp, key: str | None = None) -> None:
    """Make an intrinsic known to sched.tensorize; a later one of its name replaces it."""
    DECLARED[intrinsic.intrin.data] = intrinsic
    note("intrinsic", intrinsic.intrin.data, str(intrinsic) if key is None else key)


def used_intrinsics(schedule: sched.ScheduleOp, beside: Mapping[str, sched.IntrinsicOp]) -> list[sched.IntrinsicOp]:
    """The declared intrinsics that a schedule uses; those beside it come before the program's."""
    known = {**DECLARED, **beside}
    names = [op.intrin.data for op in schedule.body.block.ops if isinstance(op, sched.TensorizeOp)]
    return [known[name] for name in dict.fromkeys(names) if name in known]


@dataclass
class Side:
    """A nest and the block in it: the kernel's, or that of @means."""

    kernel: Kernel
    loops: list[loop.ForOp]
    block: loop.BlockOp

    @staticmethod
    def at(kernel: Kernel, outer: loop.ForOp) -> Side | str:
        """The nest from a loop inward; a text if it is not one around one block."""
        loops = [outer]
        while True:
            inside = children(loops[-1])
            if len(inside) != 1:
                return f"expected one loop or block in {name_of(loops[-1])}, but got {', '.join(map(name_of, inside))}"
            if isinstance(inside[0], loop.BlockOp):
                return Side(kernel, loops, inside[0])
            assert isinstance(inside[0], loop.ForOp)
            loops.append(inside[0])

    @property
    def store(self) -> loop.StoreOp:
        """The block's last store."""
        return [op for op in self.block.body.block.ops if isinstance(op, loop.StoreOp)][-1]

    def moves(self, op: loop.LoadOp | loop.StoreOp) -> tuple[list[Index], list[tuple[int, ...] | None]]:
        """Of each index of an access: where it starts, and how it moves with each loop (None: not by a fixed step)."""
        return self.moving(next(a for a in accesses(self.kernel.space, self.block) if a.op is op).exprs)

    def moving(self, exprs: Sequence[Index]) -> tuple[list[Index], list[tuple[int, ...] | None]]:
        """The same of expressions over the kernel's loops."""
        space = self.kernel.space
        numbers = [space.number(f.iv) for f in self.loops]
        starts = [e.substitute(dict.fromkeys(numbers, ZERO), space.ranges) for e in exprs]
        steps: list[tuple[int, ...] | None] = []
        for e, start in zip(exprs, starts, strict=True):
            moved = e - start
            by = tuple(moved.coefficient(n) for n in numbers)
            steps.append(by if moved.is_affine and moved.dims() <= set(numbers) and moved.const == 0 else None)
        return starts, steps

    def axis(self, argument: SSAValue) -> Index | None:
        """The binding of an argument of the block over the kernel's loops; None for other values."""
        return binding_of_argument(self.kernel.space, self.block).get(argument)


@dataclass
class Operand:
    """A buffer of the kernel in the place of one of the intrinsic's: its dimensions, and where each starts."""

    op: loop.LoadOp | loop.StoreOp
    starts: list[Index]
    dims: dict[int, int] = field(default_factory=dict[int, int])
    """The intrinsic's dimension -> the buffer's."""


class Correspondence:
    """Compares a nest with what an intrinsic means; `operands` are the buffers by the intrinsic's arguments."""

    def __init__(self, here: Side, meaning: Side) -> None:
        self.here, self.meaning = here, meaning
        self.operands: dict[SSAValue, Operand] = {}

    def difference(self) -> str | None:
        """What differs, or None."""
        here, meaning = self.here, self.meaning
        if len(here.loops) != len(meaning.loops):
            got = ", ".join(map(name_of, here.loops))
            return f"expected {len(meaning.loops)} loops inside each other, but got {len(here.loops)}: {got}"
        for f, g in zip(here.loops, meaning.loops, strict=True):
            if f.extent != g.extent:
                return f"expected {g.extent} iterations of {name_of(f)}, as {name_of(g)} has, but got {f.extent}"
        stores = [[op for op in s.block.body.block.ops if isinstance(op, loop.StoreOp)] for s in (here, meaning)]
        if len(stores[0]) != 1 or len(stores[1]) != 1:
            return f"expected one store in {name_of(here.block)}, but got {len(stores[0])}"
        return self.value(here.store.value, meaning.store.value) or self.access(here.store, meaning.store)

    def value(self, mine: SSAValue, wanted: SSAValue) -> str | None:
        """What differs between two values and all that they are computed from."""
        a, b = mine.owner, wanted.owner
        if isinstance(a, Block) or isinstance(b, Block):
            if mine.type != wanted.type or isinstance(a, Block) != isinstance(b, Block):
                return f"expected a value of type {wanted.type}, but got one of {mine.type}"
            return self.argument(mine, wanted)
        if a.name != b.name or mine.type != wanted.type:
            return f"expected {b.name} to {wanted.type}, but got {a.name} to {mine.type}"
        if isinstance(a, loop.LoadOp) and isinstance(b, loop.LoadOp):
            return self.access(a, b)
        if {k: v for k, v in a.properties.items() if k != "fastmathFlags"} != {
            k: v for k, v in b.properties.items() if k != "fastmathFlags"
        }:
            return f"expected `{b}`, but got `{a}`"
        known = {v: Operand(o.op, o.starts, dict(o.dims)) for v, o in self.operands.items()}
        reason = self.all(a.operands, b.operands)
        pair = 2 if b.name in COMMUTATIVE or isinstance(b, loop.FmaOp) else 0
        if reason is not None and pair:
            self.operands = known
            swapped = [*reversed(a.operands[:2]), *a.operands[2:]]
            return None if self.all(swapped, b.operands) is None else reason
        return reason

    def argument(self, mine: SSAValue, wanted: SSAValue) -> str | None:
        """What differs between two axes that are computed with: @emits is not told where the kernel's starts."""
        here, meaning = self.here.axis(mine), self.meaning.axis(wanted)
        if here is None or meaning is None:
            return f"expected axes of blocks, but got %{wanted.name_hint or '?'} and %{mine.name_hint or '?'}"
        if self.here.moving([here]) != self.meaning.moving([meaning]):
            values = self.here.kernel.space.values
            got = here.text(lambda d: f"%{values[d].name_hint or '?'}")
            return f"expected the value of %{wanted.name_hint or '?'} in @means, but got {got}"
        return None

    def all(self, mine: Sequence[SSAValue], wanted: Sequence[SSAValue]) -> str | None:
        """The first difference among operands."""
        return next((r for x, y in zip(mine, wanted, strict=True) if (r := self.value(x, y)) is not None), None)

    def access(self, mine: loop.LoadOp | loop.StoreOp, wanted: loop.LoadOp | loop.StoreOp) -> str | None:
        """What differs between two accesses: they move alike, and always start at one place of one buffer."""
        called, other = f"%{buffer_name(mine.buffer)}", f"%{buffer_name(wanted.buffer)}"
        if loop.buffer_type(mine.buffer).element_type != loop.buffer_type(wanted.buffer).element_type:
            return f"expected elements as of {other}, {loop.buffer_type(wanted.buffer)}, but got {called}"
        if mine.mask_exprs or wanted.mask_exprs:
            return f"expected an access to {called} without a mask"
        starts, steps = self.here.moves(mine)
        begin, pattern = self.meaning.moves(wanted)
        moving = [k for k, s in enumerate(steps) if s is None or any(s)]
        moved = [k for k, s in enumerate(pattern) if s is None or any(s)]
        if [steps[k] for k in moving] != [pattern[k] for k in moved] or None in steps:
            return f"expected {called} at indices that move as {_shown(wanted)} does, but got {_shown(mine)}"
        if any(begin[k] != ZERO for k in moved):
            return f"expected @means to access {other} from index 0 on, but got {_shown(wanted)}"
        known = self.operands.get(wanted.buffer)
        if known is None:
            self.operands[wanted.buffer] = Operand(mine, starts, dict(zip(moved, moving, strict=True)))
        elif known.op.buffer is not mine.buffer or known.starts != starts:
            return f"expected one place of one buffer for {other}, but got {_shown(known.op)} and {_shown(mine)}"
        return None


def _shown(op: loop.LoadOp | loop.StoreOp) -> str:
    """`%b[%j, %k]`."""
    names = [v.name_hint or "?" for v in op.indices]
    exprs = ", ".join(e.text(lambda d: f"%{names[d]}" if d >= 0 else f"d{-1 - d}") for e in op.map.data)
    return f"%{buffer_name(op.buffer)}[{exprs}]"


def matched(kernel: Kernel, f: loop.ForOp, intrinsic: sched.IntrinsicOp) -> Correspondence | str:
    """The nest that an intrinsic stands for, compared with what it means; or what differs."""
    here = Side.at(kernel, f)
    if isinstance(here, str):
        return here
    for g in here.loops:
        if (reason := transformable(g)) is not None:
            return reason
    if here.block.has_init:
        return f"expected {name_of(here.block)} without its init region; use sched.decompose_reduction first"
    numbers = {kernel.space.number(g.iv) for g in here.loops}
    if any(p.dims() & numbers for p in kernel.where(here.block)):
        return f"expected {name_of(here.block)} to run in each iteration of {name_of(f)}, but it has a predicate"
    function = intrinsic.function(MEANS)
    meaning = Side.at(Kernel(function, kernel.directive), _outermost(function))
    if isinstance(meaning, str):
        return f"expected loops around one block in @means: {meaning}"
    comparison = Correspondence(here, meaning)
    reason = comparison.difference()
    return comparison if reason is None else reason


def _outermost(function: loop.FuncOp) -> loop.ForOp:
    return next(op for op in function.body.block.ops if isinstance(op, loop.ForOp))


def emitted(comparison: Correspondence, intrinsic: sched.IntrinsicOp) -> list[Operation]:
    """The operations of @emits on the buffers of the kernel."""
    function, means = intrinsic.function(EMITS), intrinsic.function(MEANS)
    operands = {a: comparison.operands.get(m) for a, m in zip(function.args, means.args, strict=True)}
    values: dict[SSAValue, SSAValue] = {}
    found: list[Operation] = []
    for op in function.body.block.ops:
        if isinstance(op, loop.YieldOp):
            continue
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            operand = operands[op.buffer]
            assert operand is not None
            exprs = list(operand.op.map.data)
            for k, e in enumerate(op.map.data):
                if k in operand.dims:
                    exprs[operand.dims[k]] = exprs[operand.dims[k]] + e
            place = (operand.op.buffer, exprs, list(operand.op.indices))
            if isinstance(op, loop.LoadOp):
                new: Operation = loop.LoadOp.make(*place, tile=op.tile_sizes)
                values[op.result] = new.results[0]
            else:
                new = loop.StoreOp.make(values[op.value], *place, tile=op.tile_sizes)
        else:
            new = op.clone(values)
        found.append(new)
    return found
