"""The directive compute_inline: a producer's value computed wherever it is read."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, Index
from mlc.passes.loop.directives.compute_at import Box, buffers_written, inputs_unchanged, single
from mlc.passes.loop.directives.kernel import Kernel, buffer_name, comes_before, name_of
from mlc.passes.loop.index_space.accesses import accesses, blocks_accessing, in_axes
from mlc.passes.loop.index_space.expressions import exprs_of, substitute
from mlc.passes.loop.index_space.regions import Interval


def inlinable(kernel: Kernel, block: loop.BlockOp) -> str | None:
    """A block without reduction that stores one value, at its axes, to a buffer which only others read."""
    if len(block.extents.data) > block.num_spatial:
        return f"expected a block without reduction, but {name_of(block)} reduces; use sched.compute_at"
    if (reason := kernel.whole(block)) is not None:
        return reason
    stores = [a for a in accesses(kernel.space, block) if a.is_store]
    if len(stores) != 1 or any(op.regions for op in block.body.block.ops):
        return f"expected a block that stores one value, but {name_of(block)} does not"
    store = stores[0]
    assert isinstance(store.op, loop.StoreOp)
    called = f"%{buffer_name(store.buffer)}"
    if not isinstance(store.buffer.owner, loop.AllocOp):
        return f"{name_of(block)} writes the output {called}, which cannot be dropped"
    axes = [single(e) for e in in_axes(kernel.space, store) if not e.is_const]
    used = {a for a in axes if a is not None}
    whole = all(a in used or n == 1 for a, n in enumerate(block.static_extents))
    if None in axes or len(used) != len(axes) or store.op.mask is not None or not whole:
        return f"expected {name_of(block)} to store at its axes, each once"
    if blocks_accessing(store.buffer, stores=True) != [block] or block in blocks_accessing(store.buffer, stores=False):
        return f"expected {name_of(block)} alone to write {called}, and not to read it"
    return _readable(block, store.buffer)


def _readable(block: loop.BlockOp, buffer: SSAValue) -> str | None:
    readers = blocks_accessing(buffer, stores=False)
    if not readers:
        return f"expected a consumer of {name_of(block)}, but nothing reads %{buffer_name(buffer)}"
    for reader in readers:
        if not comes_before(block, reader):
            return f"{name_of(reader)} reads {name_of(block)} in front of it"
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, loop.GatherOp) or (isinstance(op, loop.LoadOp) and op.mask is not None):
            return f"a masked or gathered read of %{buffer_name(buffer)} cannot take its value; use te-inline"
        if isinstance(op, loop.LoadOp) and op.tile_sizes:
            return f"a read of a tile of %{buffer_name(buffer)} cannot take its value; use sched.compute_inline earlier"
    return None


def compute_inline(kernel: Kernel, op: sched.ComputeInlineOp) -> None:
    """Substitute a producer's value for the reads of it."""
    block = kernel.block(op.block)
    kernel.check(inlinable(kernel, block))
    (buffer,) = buffers_written(block)
    readers = blocks_accessing(buffer, stores=False)
    for reader in readers:
        for points in _points_read(kernel, block, reader, buffer):
            kernel.check(inputs_unchanged(kernel, block, reader, points))
        kernel.check_later(reader)
    for use in list(buffer.uses):
        if isinstance(use.operation, loop.LoadOp):
            _take_value(kernel, block, use.operation)
    kernel.drop_block(block)
    alloc = buffer.owner
    assert isinstance(alloc, loop.AllocOp)
    alloc.detach()
    alloc.erase()


def _points_read(kernel: Kernel, block: loop.BlockOp, reader: loop.BlockOp, buffer: SSAValue) -> list[Box]:
    """The point of a block's axes that each load of its buffer reads."""
    (store,) = (a for a in accesses(kernel.space, block) if a.is_store)
    own = in_axes(kernel.space, store)
    found: list[Box] = []
    for read in (a for a in accesses(kernel.space, reader) if a.buffer is buffer and not a.is_store):
        box: Box = {}
        for e, wanted in zip(own, read.exprs, strict=True):
            if (axis := single(e)) is not None:
                box[axis] = Interval(wanted - e.const, 1)
        found.append(box)
    return found


def _take_value(kernel: Kernel, block: loop.BlockOp, load: loop.LoadOp) -> None:
    """Copy the block's computation in front of a load and use its value instead."""
    body = block.body.block
    store = next(op for op in body.ops if isinstance(op, loop.StoreOp))
    at = exprs_of(kernel.space, load)["map"]
    to: dict[SSAValue, Index] = dict.fromkeys(body.args, ZERO)
    for own, wanted in zip(store.map.data, at, strict=True):
        axis = single(own)
        if axis is not None:
            to[store.indices[axis]] = wanted - own.const
    mapped: dict[SSAValue, SSAValue] = {}
    copies: list[Operation] = []
    assert load.parent is not None
    for op in body.ops:
        if not isinstance(op, loop.StoreOp | loop.YieldOp):
            copies.append(op.clone(mapped))
            load.parent.insert_op_before(copies[-1], load)
    substitute(kernel.space, copies, to)
    load.result.replace_all_uses_with(mapped.get(store.value, store.value))
    load.detach()
    load.erase()
