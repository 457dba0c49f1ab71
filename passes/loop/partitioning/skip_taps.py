"""
Taps of a window that lie in the padding for a whole tile are left out: they would add zeros.

In a loop with the attribute `skip`, the bounds leave out iterations in which a block reads nothing but the zeros of a
padded copy. A tile that lies partly in the padding is computed whole. Sizes may be symbols:

    for %k = 0 to 3 { block { y[%i] += x_padded[%i + %k * 12] * w[%k] } }        x_padded: x, with 12 zeros around it
    -> for %k = n to 3 - m { .. }      n and m count the k that fail for %i, or for all places of a tile that has it
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_SKIP
from mlc.dialects.index import Index, dim, term_dims
from mlc.passes.loop.index_space.accesses import blocks_accessing
from mlc.passes.loop.index_space.domain import blocks_of, is_symbol, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import set_exprs
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.clip import failing


def skip_taps(func: loop.FuncOp) -> None:
    """Bound the marked loops of a kernel that stand around one block."""
    marked = [op for op in loops_and_blocks(func) if isinstance(op, loop.ForOp) and LOOP_SKIP in op.attributes]
    for f in marked:
        del f.attributes[LOOP_SKIP]
        blocks = blocks_of(f)
        if len(blocks) == 1 and f.extent is not None and f.lower.is_const and not f.results:
            _bound(f, blocks[0])


def _bound(f: loop.ForOp, block: loop.BlockOp) -> None:
    """Leave out the iterations of a loop in which a block reads zeros alone."""
    space = IndexSpace()
    bindings = space.exprs(block.bindings.data, block.args)
    inside = space.numbers_of(loops_around(block, f))
    iv, lower, upper = space.number(f.iv), f.lower, f.upper
    bounded = set[bool]()  # each end once: iterations that two masks leave out would count twice
    for e in _inside_of_copies(block, bindings, space):
        inner = Index.of(0, {t: c for t, c in e.terms if term_dims(t) & inside})
        step = e.coefficient(iv)
        if step and (step > 0) not in bounded and inner.is_affine and not (e - dim(iv) * step).uses(iv):
            bounded.add(step > 0)
            fails = failing(e - inner + inner.bounds(space.ranges)[1], iv, f, space)
            lower, upper = (lower + fails, upper) if step > 0 else (lower, upper - fails)
    set_exprs(space, f, {"bounds": [lower, upper]})


def _inside_of_copies(block: loop.BlockOp, bindings: Sequence[Index], space: IndexSpace) -> list[Index]:
    """What is not negative where a block reads what padded copies have copied, and not the zeros around it."""
    arguments: dict[SSAValue, Index] = dict(zip(block.body.block.args, bindings, strict=True))
    found: list[Index] = []
    for load in [op for op in block.body.block.ops if type(op) is loop.LoadOp and op.mask is None]:
        if all(v in arguments for v in load.indices):
            of = [arguments[v] for v in load.indices]
            at = [e.substitute(of.__getitem__, space.ranges) for e in load.map.data]
            copies = {_copied(one, at, space) for one in blocks_accessing(load.buffer, stores=True)}
            found += copies.pop() or () if len(copies) == 1 else ()
    return found


def _copied(block: loop.BlockOp, at: Sequence[Index], space: IndexSpace) -> tuple[Index, ...] | None:
    """The mask with which a block copies to the place `at` of a buffer, zeros elsewhere; None of other blocks."""
    stores = [op for op in block.body.block.ops if isinstance(op, loop.StoreOp)]
    load = stores[0].value.owner if len(stores) == 1 else None
    if not isinstance(load, loop.LoadOp) or load.mask is None or not _is_zero(load.otherwise):
        return None
    known = {v: space.dim(v) for v in load.indices if is_symbol(v)}
    for e, place in zip(stores[0].map.data, at, strict=True):
        known |= {stores[0].indices[d]: place for d in e.dims() if e == dim(d)}
    to = {d: known[v] for d, v in enumerate(load.indices) if v in known}
    if any(not e.dims() <= to.keys() for e in load.mask_exprs):
        return None
    return tuple(e.substitute(to, space.ranges) for e in load.mask_exprs)


def _is_zero(value: SSAValue | None) -> bool:
    op = None if value is None else value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == 0.0
