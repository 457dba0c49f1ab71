"""The state of a schedule's application: the kernel's loops and blocks, handles on them, errors of directives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, Index
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.accesses import extent_predicates
from mlc.passes.loop.index_space.domain import body_ops, loops_around
from mlc.passes.loop.index_space.expressions import exprs_of, set_exprs
from mlc.passes.loop.index_space.predicates import unproved
from mlc.passes.loop.index_space.regions import interval_of
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.support.errors import did_you_mean, fail

Payload = loop.ForOp | loop.BlockOp | sched.KnobValue


class Kernel:
    """One `loop.func` under its schedule; `directive` is the op that is being applied."""

    def __init__(self, func: loop.FuncOp, directive: Operation) -> None:
        self.func = func
        self.directive = directive
        self.space = IndexSpace()
        self.blocks: dict[str, loop.BlockOp] = {b.name_: b for b in blocks_below(func)}
        self.handles: dict[SSAValue, Payload] = {}
        self.consumed: dict[SSAValue, Operation] = {}
        self.intrinsics: dict[str, sched.IntrinsicOp] = {}
        """Intrinsics that are declared beside the schedule, by name."""
        # Parallel loops into which a directive has moved a block since they were checked.
        self.unchecked: dict[loop.ForOp, Operation] = {}
        # Blocks that run on only a part of their domain.
        self.partial = {b for b in self.blocks.values() if not self._covers(b)}

    # --- errors -------------------------------------------------------------------------------------------------

    def fail(self, message: str) -> NoReturn:
        """Stop with the reason why the directive is not legal."""
        fail(self.directive, f"{self.directive.name}: {message}")

    def check(self, reason: str | None) -> None:
        """Stop if a legality check gave a reason."""
        if reason is not None:
            self.fail(reason)

    def check_later(self, at: Operation) -> None:
        """Check the parallel loops around a place again when the schedule is complete."""
        for f in (*loops_around(at), at):
            if isinstance(f, loop.ForOp) and (f.kind.data == "parallel" or f.kind.data.startswith("bind:")):
                self.unchecked[f] = self.directive

    # --- handles ------------------------------------------------------------------------------------------------

    def _payload(self, handle: SSAValue) -> Payload:
        if (by := self.consumed.get(handle)) is not None:
            self.fail(f"expected a live handle, but %{handle.name_hint or '?'} was consumed by {by.name}")
        return self.handles[handle]

    def loop(self, handle: SSAValue) -> loop.ForOp:
        """The loop behind a handle."""
        found = self._payload(handle)
        assert isinstance(found, loop.ForOp)
        return found

    def loops(self, handles: Sequence[SSAValue]) -> list[loop.ForOp]:
        """The loops behind handles, which must be different ones."""
        found = [self.loop(h) for h in handles]
        if not found:
            self.fail("expected at least one loop")
        for k, f in enumerate(found):
            if f in found[:k]:
                self.fail(f"expected different loops, but got {name_of(f)} twice")
        return found

    def block(self, handle: SSAValue) -> loop.BlockOp:
        """The block behind a handle."""
        found = self._payload(handle)
        assert isinstance(found, loop.BlockOp)
        return found

    def knob(self, handle: SSAValue) -> int:
        """The value of a knob."""
        found = self._payload(handle)
        if not isinstance(found, int) or found < 1:
            self.fail(f"expected a knob whose value is a positive integer, but got {found!r}")
        return found

    def give(self, handle: SSAValue, payload: Payload) -> None:
        """Let a result of the directive stand for a loop, a block or a number."""
        self.handles[handle] = payload

    def retire(self, gone: Payload) -> None:
        """Consume all handles on a loop or block that the directive did away with."""
        for handle, payload in self.handles.items():
            if payload is gone:
                self.consumed[handle] = self.directive

    # --- blocks -------------------------------------------------------------------------------------------------

    def find(self, name: str) -> loop.BlockOp:
        """The block of this name."""
        if name not in self.blocks:
            known = ", ".join(f'"{b}"' for b in self.blocks)
            near = did_you_mean(name, self.blocks)
            self.fail(f'expected the name of a block of @{self.func.sym_name.data} ({known}), but got "{name}"{near}')
        return self.blocks[name]

    def name_block(self, block: loop.BlockOp, name: str) -> None:
        """Register a new block under a name that no other has."""
        unique, n = name, 1
        while unique in self.blocks:
            n += 1
            unique = f"{name}_{n}"
        block.properties["block_name"] = StringAttr(unique)
        self.blocks[unique] = block

    def drop_block(self, block: loop.BlockOp) -> None:
        """Erase a block, and the loops that held nothing else."""
        del self.blocks[block.name_]
        self.retire(block)
        parent = block.parent_op()
        block.detach()
        block.erase()
        self.drop_empty(parent)

    def drop_empty(self, op: Operation | None) -> None:
        """Erase empty loops, from the inside out."""
        while isinstance(op, loop.ForOp) and not children(op):
            parent = op.parent_op()
            self.retire(op)
            op.detach()
            op.erase()
            op = parent

    def where(self, block: loop.BlockOp) -> list[Index]:
        """A block's predicates over the space."""
        return exprs_of(self.space, block).get("where", []) if block.where is not None else []

    def _covers(self, block: loop.BlockOp) -> bool:
        """Whether the loops around a block, each along one axis or several along it densely, reach all its points."""
        if any(p not in extent_predicates(self.space, block) for p in self.where(block)):
            return False
        seen: set[int] = set()
        for b, size in zip(self.bindings(block), self.extents(block), strict=True):
            if not size.is_const:  # one loop with just these iterations
                loops = [f for f in loops_around(block) if b == self.space.dim(f.iv)]
                if not loops or self.extent(loops[0]) != size or seen & b.dims():
                    return False
                seen |= b.dims()
                continue
            e = size.const
            values = interval_of(b, (), self.space.ranges)
            if not values.exact or values.base != ZERO or values.extent < e or seen & b.dims():
                return False
            seen |= b.dims()
        return True

    def whole(self, block: loop.BlockOp) -> str | None:
        """Why a block does not provably run on its whole domain; None where it does."""
        if block in self.partial:
            return f"expected a block that runs on its whole domain, but {name_of(block)} runs on a part of it"
        return None

    def bindings(self, block: loop.BlockOp) -> list[Index]:
        """A block's bindings over the space."""
        return exprs_of(self.space, block)["bindings"]

    def add_where(self, block: loop.BlockOp, more: Sequence[Index]) -> None:
        """Guard a block by further predicates, as far as they do not hold anyway."""
        self.rebind(block, self.bindings(block), [*self.where(block), *more])

    def rebind(self, block: loop.BlockOp, bindings: Sequence[Index], where: Sequence[Index] = ()) -> None:
        """Bind a block's axes anew."""
        extents = self.extents(block)
        set_exprs(self.space, block, {"extents": extents, "bindings": bindings, "where": unproved(self.space, where)})

    def extents(self, block: loop.BlockOp) -> list[Index]:
        """A block's extents over the space."""
        return exprs_of(self.space, block)["extents"]

    def extent(self, f: loop.ForOp) -> Index:
        """The number of iterations of a loop from 0, over the space."""
        return exprs_of(self.space, f)["bounds"][1]


# --- nests -------------------------------------------------------------------------------------------------------


def name_of(op: Operation) -> str:
    """The name of a loop or a block in messages."""
    if isinstance(op, loop.BlockOp):
        return f'block "{op.name_}"'
    if isinstance(op, loop.ForOp):
        return f"loop %{op.iv.name_hint}" if op.iv.name_hint else f"the loop of {op.extent} iterations"
    return op.name


def buffer_name(buffer: SSAValue) -> str:
    """The name of a buffer in messages and in names of blocks."""
    if buffer.name_hint:
        return buffer.name_hint
    if isinstance(buffer.owner, Block):
        return f"arg{buffer.owner.args.index(buffer)}"
    return "buffer"


def body_of(op: Operation) -> Block:
    """The block of ops inside a loop or kernel."""
    return op.regions[0].block


def children(op: Operation) -> list[Operation]:
    """The ops in a loop or kernel, the terminator left out."""
    return body_ops(body_of(op))


def blocks_below(op: Operation) -> list[loop.BlockOp]:
    """The blocks inside a loop or kernel in program order; what stands inside blocks is not searched."""
    found: list[loop.BlockOp] = []
    for child in body_of(op).ops:
        if isinstance(child, loop.BlockOp):
            found.append(child)
        elif isinstance(child, loop.ForOp):
            found += blocks_below(child)
    return found


def is_below(op: Operation, outer: Operation) -> bool:
    """Whether an op stands inside another one."""
    return op is not outer and outer.is_ancestor(op)


def comes_before(a: Operation, b: Operation) -> bool:
    """Whether a stands before b in program order; neither inside the other."""
    up: Operation | None = a
    while up is not None and up.parent is not None:
        other = up.parent.find_ancestor_op_in_block(b)
        if other is not None:
            return other is not up and up.is_before_in_block(other)
        up = up.parent_op()
    return False


def move_ops(source: Block, to: Block) -> None:
    """Move all ops but the terminator in front of the other block's terminator."""
    last = to.last_op
    for op in list(source.ops):
        if not isinstance(op, loop.YieldOp):
            op.detach()
            to.insert_op_before(op, last) if last is not None else to.add_op(op)


def make_loop(extent: int | Index, name: str | None, like: Operation, values: Sequence[SSAValue] = ()) -> loop.ForOp:
    """An empty serial loop with the location of `like`; the extent is an expression over `values`."""
    found = loop.ForOp.make(extent, operands=values, name=name)
    found.body.block.add_op(loop.YieldOp.create())
    found.location = like.location
    return found


def make_nest(
    extents: Sequence[int | Index], names: Sequence[str | None], like: Operation, values: Sequence[SSAValue] = ()
) -> list[loop.ForOp]:
    """A nest of new loops, outer to inner; extents are expressions over `values`."""
    return nested([make_loop(e, n, like, values) for e, n in zip(extents, names, strict=True)])


def nested(loops: list[loop.ForOp]) -> list[loop.ForOp]:
    """Nest new loops, outer to inner."""
    for outer, inner in pairwise(loops):
        insert_last(outer, inner)
    return loops


def locate(op: Operation, like: Operation) -> None:
    """Give a new op, and all ops in it, the location of another one."""
    for inner in walk(op):
        inner.location = like.location


def insert_last(outer: Operation, op: Operation) -> None:
    """Put an op at the end of a loop's body."""
    block = body_of(outer)
    assert block.last_op is not None
    block.insert_op_before(op, block.last_op)


def insert_before(op: Operation, at: Operation) -> None:
    """Put an op in front of another one."""
    assert at.parent is not None
    at.parent.insert_op_before(op, at)


def insert_after(op: Operation, at: Operation) -> None:
    """Put an op behind another one."""
    assert at.parent is not None
    at.parent.insert_op_after(op, at)


def insert_alloc(kernel: Kernel, alloc: loop.AllocOp) -> None:
    """Put a buffer at the top of the kernel, after the allocations that are there."""
    block = body_of(kernel.func)
    at = next((op for op in block.ops if not isinstance(op, loop.AllocOp)), None)
    block.insert_op_before(alloc, at) if at is not None else block.add_op(alloc)
