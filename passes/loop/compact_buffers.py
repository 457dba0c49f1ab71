"""
loop-compact-buffers: each buffer moves into the innermost loop that allows it, and shrinks to its access region there.

TVM's StorageFlatten / CompactBufferAllocation, Halide's bounds inference. The region of an access in a block of ops is
a box: per dimension an expression that is fixed in the block, and constant bounds of the terms that vary in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, ZERO, Index, const, term_dims, tile_ranges
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.accesses import retype
from mlc.passes.loop.index_space.coverage import reads_own_writes
from mlc.passes.loop.index_space.domain import (
    ancestor_in,
    is_symbol,
    is_within,
    loop_of,
    loops_around,
    parallel_around,
)
from mlc.passes.loop.index_space.expressions import set_exprs
from mlc.passes.loop.index_space.space import IndexSpace


def common_block(uses: Sequence[Operation], top: Block) -> Block:
    """The innermost block of ops, `top` or one inside of it, that holds all the ops."""

    def chain(op: Operation) -> list[Block]:
        found: list[Block] = []
        block = op.parent
        while block is not None:
            found.append(block)
            if block is top:
                break
            parent = block.parent_op()
            block = parent.parent if parent is not None else None
        return found[::-1]

    chains = [chain(op) for op in uses]
    best = top
    for level in zip(*chains, strict=False):
        if any(b is not level[0] for b in level):
            break
        best = level[0]
    return best


def home_of(ops: Sequence[loop.AccessOp], top: Block) -> Block:
    """
    The innermost block that holds all accesses and writes, each time it runs, all of the buffer that it reads.

    The accesses are given in the order of the text, here and below.
    """
    block = common_block(ops, top)
    while block is not top and (_carries_values(block, ops) or not writes_cover_reads(block, ops)):
        parent = block.parent_op()
        assert parent is not None
        assert parent.parent is not None
        block = parent.parent
    return block


Box = list[tuple[Index, int, int]]
"""Per dimension: the terms of the subscript that are fixed in a block, and the bounds of the other terms."""


def writes_cover_reads(block: Block, ops: Sequence[loop.AccessOp]) -> bool:
    """Whether the box of each load in a block lies in the box of the stores before it."""
    space = IndexSpace()
    same = _same_in_each_run(ops, space, block)
    sizes = [n for k, n in enumerate(loop.buffer_type(ops[0].buffer).get_shape()) if k not in same]
    written: list[Box] = []
    for op in ops:
        box = [one for k, one in enumerate(_box(op, space, block)) if k not in same]
        if isinstance(op, loop.StoreOp):
            written = _joined(written, box)
        elif isinstance(op, loop.GatherOp) or not any(_covers(w, box, sizes) for w in written):
            return False
    return True


def _same_in_each_run(ops: Sequence[loop.AccessOp], space: IndexSpace, home: Block) -> set[int]:
    """
    The axes of symbolic size along which each run of the block stores at the same indices.

    What one run reads was stored by some run, so along such an axis this run stored it, too.
    """
    (buffer,) = {op.buffer for op in ops}
    axes = {k for k, n in enumerate(loop.buffer_type(buffer).get_shape()) if n < 0}
    for op in ops:
        if isinstance(op, loop.StoreOp) and axes:
            exprs = space.exprs(op.map.data, op.indices)
            axes = {k for k in axes if all(d < 0 or _is_fixed(space.values[d], home) for d in exprs[k].dims())}
    return axes


def _is_fixed(value: SSAValue, home: Block) -> bool:
    """Whether a value is a symbol, or the index of a loop in the block whose bounds use only such values."""
    if is_symbol(value):
        return True
    f = loop_of(value)
    return f is not None and is_within(value, home) and all(_is_fixed(v, home) for v in f.indices)


def _box(op: loop.AccessOp, space: IndexSpace, home: Block) -> Box:
    """The box that an access touches in a block, as the values defined there vary."""
    ranges = space.ranges_with(tile_ranges(op.tile_sizes))
    box: Box = []
    for e in space.exprs(op.map.data, op.indices):
        outer = _outer_part(e, space, home)
        box.append((outer, *(e - outer).bounds(ranges)))
    return box


def _joined(written: list[Box], box: Box) -> list[Box]:
    """The boxes with one more; boxes of equal fixed terms become one (parts of a split loop write side by side)."""
    same = [w for w in written if all(a[0] == b[0] for a, b in zip(w, box, strict=True))]
    for w in same:
        box = [(a[0], min(a[1], b[1]), max(a[2], b[2])) for a, b in zip(w, box, strict=True)]
    return [w for w in written if w not in same] + [box]


def _covers(w: Box, r: Box, sizes: Sequence[int]) -> bool:
    """Whether a written box holds a read one: what is read lies in the buffer, so a whole dimension holds all of it."""
    return all(
        (a[0] == ZERO and a[1] <= 0 <= size - 1 <= a[2]) or (a[0] == b[0] and a[1] <= b[1] and b[2] <= a[2])
        for a, b, size in zip(w, r, sizes, strict=True)
    )


def _carries_values(home: Block, ops: Sequence[loop.AccessOp]) -> bool:
    """
    Whether one iteration of a block may read what an earlier one wrote: then the buffer must be outside of the block.

    It cannot where the first access stores, and does so in each iteration: without a predicate, or with one that
    holds for the first lane and the first iteration of the loops further in.
    """
    access = ops[0]
    if not isinstance(access, loop.StoreOp):
        return True
    space = IndexSpace()
    mask = space.exprs(access.mask_exprs, access.indices)
    starts = {-1 - k: const(0) for k in range(len(access.tile_sizes))}
    starts |= {
        n: f.lower
        for f in loops_around(access, home.parent_op())
        if (n := space.numbers.get(f.iv)) is not None and f.lower.is_const
    }
    return any(e.substitute(starts).bounds(space.ranges)[0] < 0 for e in mask)


def _outer_part(e: Index, space: IndexSpace, home: Block) -> Index:
    """The terms of a subscript that are fixed in the block where the buffer lives."""
    fixed = {t: c for t, c in e.terms if not any(d < 0 or is_within(space.values[d], home) for d in term_dims(t))}
    return Index.of(0, fixed)


Order = Mapping[Operation, int]
"""The number of each op in the text of a kernel."""


def accesses_of(alloc: loop.AllocOp, order: Order) -> list[loop.AccessOp] | None:
    """The loads, stores and gathers that are all uses of a buffer, in the order of the text; None of other uses."""
    uses = [use.operation for use in alloc.result.uses]
    found = [op for op in uses if isinstance(op, loop.AccessOp)]
    return sorted(found, key=lambda op: order[op]) if len(found) == len(uses) else None


def split_among_siblings(alloc: loop.AllocOp, top: Block, order: Order) -> list[loop.AllocOp]:
    """
    A buffer that several runs of sibling ops use, with no value passed from one to another, becomes one buffer per run.

    Such are the main part and the rest of a partitioned loop; a rest of one iteration is several ops. Each of these may
    be a partitioned loop again. -> the buffers.
    """
    ops = accesses_of(alloc, order)
    if ops is None or len(ops) < 2:
        return [alloc]
    home = home_of(ops, top)
    parts: dict[Operation, list[loop.AccessOp]] = {}
    for op in ops:
        parts.setdefault(ancestor_in(home, op), []).append(op)
    block = alloc.parent
    assert block is not None
    allocs = [alloc]
    for part in _independent_runs(home, parts)[1:]:
        copy = alloc.clone()
        block.insert_op_after(copy, alloc)
        for op in part:
            op.operands = [copy.result if v is alloc.result else v for v in op.operands]
        allocs.append(copy)
    return [part for one in allocs for part in split_among_siblings(one, top, order)] if len(allocs) > 1 else allocs


def _independent_runs(home: Block, parts: dict[Operation, list[loop.AccessOp]]) -> list[list[loop.AccessOp]]:
    """The accesses below each op of a block, joined where one op reads what an earlier one wrote."""
    if len(parts) > 1 and not any(home_of(part, home) is home for part in parts.values()):
        return list(parts.values())
    runs: list[list[loop.AccessOp]] = []
    waiting: list[loop.AccessOp] = []
    for op in reversed([op for op in home.ops if op in parts]):
        waiting = [*parts[op], *waiting]
        if reads_own_writes(home, waiting):
            runs.append(waiting)
            waiting = []
    return [*([waiting] if waiting else []), *reversed(runs)]


def compact_buffer(alloc: loop.AllocOp, order: Order) -> None:
    """Move one buffer inwards, never outwards, and shrink it to its access region."""
    ops = accesses_of(alloc, order)
    if not ops:
        return
    assert alloc.parent is not None
    home = home_of(ops, alloc.parent)
    alloc.detach()
    home.insert_op_before(alloc, ancestor_in(home, ops[0]))
    parallel = any(parallel_around(op) is not None for op in ops)
    alloc.properties["scope"] = StringAttr("local" if parallel_around(alloc) is not None or not parallel else "shared")
    space = IndexSpace()
    found = [(op, space.exprs(op.map.data, op.indices)) for op in ops]
    t = alloc.result.type
    shape, origin = list(t.get_shape()), list[Index]()
    for k in range(len(shape)):
        origin.append(_shrink_axis(k, shape, found, space, home))
    if shape == list(t.get_shape()):
        return
    retype(alloc, MemRefType(t.element_type, shape))
    for op, exprs in found:
        moved = [e - o for e, o in zip(exprs, origin, strict=True)]
        set_exprs(space, op, {"map": moved, "mask": space.exprs(op.mask_exprs, op.indices)})


def _shrink_axis(
    k: int,
    shape: list[int],
    found: Sequence[tuple[loop.AccessOp, tuple[Index, ...]]],
    space: IndexSpace,
    home: Block,
) -> Index:
    """The origin of the access region along one axis; the axis' size shrinks to the region's extent."""
    lows, highs = list[int](), list[int]()
    outer: Index | None = None
    for op, exprs in found:
        if isinstance(op, loop.GatherOp) and op.at.value.data == k:
            return ZERO
        fixed = _outer_part(exprs[k], space, home)
        if outer is None:
            outer = fixed
        elif outer != fixed:
            return ZERO
        low, high = (exprs[k] - fixed).bounds(space.ranges_with(tile_ranges(op.tile_sizes)))
        lows.append(low)
        highs.append(high)
    low, high = min(lows), max(highs)
    assert outer is not None
    if high - low + 1 >= (shape[k] if shape[k] >= 0 else UNBOUNDED >> 10):
        return ZERO
    shape[k] = high - low + 1
    return outer + low


def compact_buffers(func: loop.FuncOp) -> None:
    """All buffers of a kernel."""
    order = {op: k for k, op in enumerate(walk(func))}
    for alloc in [op for op in order if isinstance(op, loop.AllocOp)]:
        assert alloc.parent is not None
        for part in split_among_siblings(alloc, alloc.parent, order):
            compact_buffer(part, order)


class CompactBuffersPass(ModulePass):
    """
    A buffer that only one iteration of a loop uses moves into that loop, at the size of what it touches.

    `%b = loop.alloc "shared" : memref<56x64xf32>` above `loop.for %i = 0 to 4 parallel` whose body touches rows
    `%i * 14 .. %i * 14 + 13` -> `%b = loop.alloc "local" : memref<14x64xf32>` inside of it, indexed from 0.
    """

    name = "loop-compact-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                compact_buffers(func)
