"""
loop-reuse-buffers: replace a large scratch buffer by the output, or the other buffer, that is computed from it.

A softmax writes exponentials to scratch, then reads them, scales them and writes the result. If the exponentials are
written to the output's memory, they need none of their own, and the cache lines of the output are fetched while they
are computed. An attention writes scores to scratch, and then their exponentials: one buffer for both is half as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from mlc.dialects import loop
from mlc.dialects.index import ZERO, Index, dim, tile_ranges
from mlc.dialects.loop.access import buffer_type
from mlc.dialects.scalar import byte_size
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.domain import ancestor_in, loops_around
from mlc.passes.loop.index_space.regions import Interval, interval_of
from mlc.passes.loop.index_space.space import IndexSpace

LEAST_BYTES = 1 << 12
"""Bytes of a scratch buffer, at least, that is replaced: smaller ones stay in L1. Measured on softmax."""
Access = loop.LoadOp | loop.StoreOp


Rows = dict[int, Index]
"""The index of the other buffer, over an IndexSpace, along each axis on which the buffer has one element."""


def reuse_buffers(func: loop.FuncOp, least_bytes: int) -> None:
    """Replace scratch buffers of at least `least_bytes` bytes by other buffers where the kernel's meaning allows it."""
    outputs = [a for a in func.args if isinstance(a.type, MemRefType)][-func.outputs.value.data :]
    for alloc in [op for op in walk(func) if isinstance(op, loop.AllocOp)]:
        t = alloc.result.type
        if t.has_static_shape() and prod(t.get_shape()) * byte_size(t.element_type) >= least_bytes:
            for other in [o for o in (*outputs, *_beside(alloc)) if buffer_type(o).element_type == t.element_type]:
                space = IndexSpace()
                if (rows := _rows(space, alloc, other)) is not None:
                    _move(space, alloc, other, rows)
                    break


def _beside(alloc: loop.AllocOp) -> list[SSAValue]:
    """The other scratch buffers that are allocated in the same block, with the same scope and type."""
    assert alloc.parent is not None
    others = [op for op in alloc.parent.ops if isinstance(op, loop.AllocOp) and op is not alloc]
    return [op.result for op in others if (op.scope, op.result.type) == (alloc.scope, alloc.result.type)]


def _rows(space: IndexSpace, alloc: loop.AllocOp, other: SSAValue) -> Rows | None:
    """
    Where in another buffer a buffer may lie; None where the other one may not hold it.

    Each element of the buffer is read for the last time right before the same element of the other is written, and all
    elements of the other that the buffer covers are written, each once, behind all other accesses of the buffer and in
    front of all reads.
    """
    home, accesses, others = alloc.parent, _accesses(alloc.result), _accesses(other)
    reads = [op for op in others if isinstance(op, loop.LoadOp)]
    stores = [op for op in others if op not in reads]
    if home is None or not stores or not accesses or not all(_is_final(store, home) for store in stores):
        return None
    if reads and isinstance(other, BlockArgument):
        return None
    found: list[Rows] = []
    rest = dict.fromkeys(accesses)
    for store in stores:
        load = _last_read(store, accesses)
        rows = None if load is None else _matched(space, load, store, home)
        if load is None or rows is None:
            return None
        rest.pop(load)
        found.append(rows)
    order = {op: k for k, op in enumerate(home.ops)}
    written = [order[ancestor_in(home, store)] for store in stores]
    early = any(order[ancestor_in(home, op)] >= min(written) for op in rest)
    late = any(order[ancestor_in(home, op)] <= max(written) for op in reads)
    if early or late or any(rows != found[0] for rows in found) or not _covers(space, stores, alloc, found[0]):
        return None
    return found[0]


def _accesses(buffer: SSAValue) -> list[Access]:
    """The loads and stores of a buffer; none where anything else uses it."""
    users = [use.operation for use in buffer.uses]
    found = [op for op in users if isinstance(op, loop.LoadOp | loop.StoreOp) and op.buffer is buffer]
    return found if len(found) == len(users) else []


def _is_final(op: Access, home: Block) -> bool:
    """Whether an access is a store without a mask, in loops of constant bounds alone up to a block."""
    if not isinstance(op, loop.StoreOp) or op.mask is not None:
        return False
    parent = op.parent
    while parent is not home:
        f = None if parent is None else parent.parent_op()
        if not isinstance(f, loop.ForOp) or f.extent is None or not f.lower.is_const:
            return False
        parent = f.parent
    return True


def _last_read(store: Access, accesses: Sequence[Access]) -> loop.LoadOp | None:
    """The one access of the buffer in a store's block, a load without a mask in front of it."""
    near = [op for op in accesses if op.parent is store.parent]
    if len(near) != 1 or not isinstance(near[0], loop.LoadOp) or near[0].mask is not None:
        return None
    return near[0] if near[0].is_before_in_block(store) else None


def _matched(space: IndexSpace, load: loop.LoadOp, store: Access, home: Block) -> Rows | None:
    """The other's index on the axes where the buffer has one element; None where two accesses differ on others."""
    if load.tile_sizes != store.tile_sizes:
        return None
    sizes = buffer_shape(load.buffer)
    rows: Rows = {}
    pairs = zip(
        space.exprs(load.map.data, load.indices), space.exprs(store.map.data, store.indices), sizes, strict=True
    )
    inside = space.numbers_of([f for f in loops_around(store) if home.find_ancestor_op_in_block(f) is not None])
    for k, (own, other, size) in enumerate(pairs):
        if own == other and size == buffer_shape(store.buffer)[k]:
            continue
        if size != 1 or own != ZERO or any(d < 0 or d in inside for d in other.dims()):
            return None
        rows[k] = other
    return rows


def buffer_shape(buffer: SSAValue) -> tuple[int, ...]:
    """The sizes of a buffer."""
    return buffer_type(buffer).get_shape()


def _covers(space: IndexSpace, stores: Sequence[Access], alloc: loop.AllocOp, rows: Rows) -> bool:
    """Whether stores write each element that a buffer stands for once: disjoint boxes, as many points as elements."""
    home = alloc.parent
    assert home is not None
    boxes: list[list[Interval]] = []
    total = 0
    for store in stores:
        inside = [f for f in loops_around(store) if home.find_ancestor_op_in_block(f) is not None]
        running = space.numbers_of(inside)
        fixed = {n for n in range(len(space.values)) if n not in running}
        ranges = space.ranges_with(tile_ranges(store.tile_sizes))
        exprs = space.exprs(store.map.data, store.indices)
        box = [interval_of(e, fixed, ranges) for k, e in enumerate(exprs) if k not in rows]
        points = prod(f.extent or 0 for f in inside) * prod(store.tile_sizes)
        if not all(s.exact and s.base.is_const for s in box) or points != prod(s.extent for s in box):
            return False
        boxes.append(box)
        total += points
    return total == prod(buffer_shape(alloc.result)) and all(_apart(a, b) for a, b in combinations(boxes, 2))


def _apart(a: Sequence[Interval], b: Sequence[Interval]) -> bool:
    """Whether two boxes of constant bases share no point."""
    pairs = zip(a, b, strict=True)
    return any(x.base.const + x.extent <= y.base.const or y.base.const + y.extent <= x.base.const for x, y in pairs)


def _move(space: IndexSpace, alloc: loop.AllocOp, other: SSAValue, rows: Rows) -> None:
    """Let every access of a buffer be one of another, which is there as early."""
    if isinstance(later := other.owner, loop.AllocOp) and alloc.is_before_in_block(later):
        later.detach()
        Rewriter.insert_op(later, InsertPoint.before(alloc))
    for op in _accesses(alloc.result):
        count = len(op.indices)
        operands = [*op.indices, *space.values]
        shifted = {k: e.substitute(lambda d, n=count: dim(d + n)) for k, e in rows.items()}
        exprs = [shifted.get(k, e) for k, e in enumerate(op.map.data)]
        new: Access
        if isinstance(op, loop.LoadOp):
            new = loop.LoadOp.make(other, exprs, operands, op.tile_sizes, op.mask_exprs, op.otherwise)
            op.result.replace_all_uses_with(new.result)
        else:
            new = loop.StoreOp.make(op.value, other, exprs, operands, op.tile_sizes, op.mask_exprs)
        new.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(new, op)
        op.detach()
        op.erase()
    alloc.detach()
    alloc.erase()


@dataclass(frozen=True)
class ReuseBuffersPass(ModulePass):
    """
    A scratch buffer of at least `least_bytes` lies in the output, or buffer, whose elements are computed from its own.

    `loop.store %e, %s[0, d0 + %i * 16]  ..  %l = loop.load %s[0, d0 + %j * 16]; loop.store f(%l), %o[%r, d0 + %j * 16]`
    -> `loop.store %e, %o[%r, d0 + %i * 16]  ..  %l = loop.load %o[%r, d0 + %j * 16]; loop.store f(%l), %o[..]`
    """

    name = "loop-reuse-buffers"

    least_bytes: int = LEAST_BYTES

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                reuse_buffers(func, self.least_bytes)
