"""
Whole tiles at the end of an axis: the accesses of their blocks are predicated, instead of versions of the loops.

An axis of 13 in tiles of 4 has a last tile that is not whole. loop-partition splits loops there, so that their bodies
are copied once for each axis and once more for each pair. Where a schedule marks loops of a tile with `tail`, the last
tile is computed whole, and only what would leave a buffer is predicated (Halide: TailStrategy::PredicateStores,
PredicateLoads):

    for %i = 0 to 4 {tail = 1} { block (%v : 13 = %o * 4 + %i) where (12 - %o * 4 - %i) { .. out[%v] = .. } }
    -> for %i = 0 to 4 { block (%v : 16 = %o * 4 + %i) { .. out[%v] = .. mask (12 - %v) } }

A buffer of the kernel's own grows instead, so that it has room for the whole tile.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_TAIL
from mlc.dialects.index import Index, const
from mlc.dialects.scalar import TRAPPING
from mlc.passes.loop.index_space.accesses import retype
from mlc.passes.loop.index_space.domain import blocks_of, body_ops, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import set_exprs
from mlc.passes.loop.index_space.space import IndexSpace


def predicate_tails(func: loop.FuncOp) -> None:
    """Predicate the accesses of the blocks in marked loops; what does not allow that is left to be partitioned."""
    marked = [f for f in loops_and_blocks(func) if isinstance(f, loop.ForOp) and LOOP_TAIL in f.attributes]
    if not marked:
        return
    for block in blocks_of(func):  # in the order of the text: a buffer has grown before it is read
        around = [f for f in loops_around(block) if f in marked]
        if around and block.where is not None and _is_pointwise(block):
            _compute_whole(block, around)
    for f in marked:
        del f.attributes[LOOP_TAIL]


def _is_pointwise(block: loop.BlockOp) -> bool:
    """
    Whether a block may compute what is not wanted: each point alone, of floats, at indices that are not read.

    A sum would count the points, an index might be outside of its buffer, and a division of integers by 0 traps.
    """
    arguments = set(block.body.block.args)
    for op in body_ops(block.body.block):
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            value = op.value if isinstance(op, loop.StoreOp) else op.result
            if not isinstance(value.type, AnyFloat) or not arguments.issuperset(op.indices):
                return False
        elif isinstance(op, (loop.GatherOp, *TRAPPING)) or op.regions or not op.results:
            return False
    return not block.has_init and block.num_spatial == len(block.extents.data)


def _compute_whole(block: loop.BlockOp, around: Sequence[loop.ForOp]) -> None:
    """Enlarge the axes of a block that marked loops leave unfinished, and predicate its accesses instead."""
    space = IndexSpace()
    bindings = space.exprs(block.bindings.data, block.args)
    extents = [*space.exprs(block.extents.data, block.args)]
    numbers = space.numbers_of(around)
    cut: dict[int, int] = {}  # the axes, and the extents that they had
    kept: list[Index] = []
    for e in space.exprs(block.where_exprs, block.args):
        axis = next((k for k, (n, at) in enumerate(zip(extents, bindings, strict=True)) if n - 1 - at == e), None)
        if axis is None or not extents[axis].is_const or not e.dims() & numbers:
            kept.append(e)
        else:
            cut[axis] = extents[axis].const
    for axis in cut:
        extents[axis] = const(bindings[axis].bounds(space.ranges)[1] + 1)
    set_exprs(space, block, {"extents": extents, "bindings": bindings, "where": kept})
    for op in body_ops(block.body.block):
        if isinstance(op, loop.LoadOp | loop.StoreOp):
            _predicate(block, op, cut)


def _predicate(block: loop.BlockOp, op: loop.LoadOp | loop.StoreOp, cut: dict[int, int]) -> None:
    """Mask an access that would leave its buffer; a buffer of the kernel's own that is stored to grows."""
    buffer, t = op.buffer, op.buffer.type
    assert isinstance(t, MemRefType)
    space = IndexSpace()
    sizes = [e.bounds(space.ranges)[1] + 1 for e in space.exprs(op.map.data, op.indices)]
    grown = [max(n, size) if n >= 0 else n for n, size in zip(t.get_shape(), sizes, strict=True)]
    if grown == [*t.get_shape()]:
        return
    if isinstance(op, loop.StoreOp) and isinstance(buffer.owner, loop.AllocOp):
        retype(buffer.owner, MemRefType(t.element_type, grown))
        return
    arguments: list[SSAValue] = [*block.body.block.args]
    used = {arguments.index(op.indices[d]) for e in op.map.data for d in e.dims()}
    over = IndexSpace()
    exprs = over.exprs(op.map.data, op.indices)
    inside = [over.dim(arguments[k]) * -1 + (n - 1) for k, n in cut.items() if k in used]
    mask = [*over.exprs(op.mask_exprs, op.indices), *inside]
    if isinstance(op, loop.StoreOp):
        new: list[Operation] = [loop.StoreOp.make(op.value, buffer, exprs, over.values, (), mask)]
    else:
        assert isinstance(t.element_type, AnyFloat)
        zero = arith.ConstantOp(FloatAttr(0.0, t.element_type))
        load = loop.LoadOp.make(buffer, exprs, over.values, (), mask, op.otherwise or zero.result)
        new = [zero, load] if op.otherwise is None else [load]
    new[-1].location = op.location
    Rewriter.replace_op(op, new)
