"""
Loops are split where masks of their loads turn: the edges of a padded row, the parts of a concatenation.

    for %i = 0 to 40 { block { load %a[%i] mask (29 - %i) else (load %b[%i - 30] mask (%i - 30) else 0) } }
    -> for %i = 0 to 30 { block { load %a[%i] } }  for %i = 30 to 40 { block { load %b[%i - 30] } }

A loop is halved, and masks that are decided in a half are settled there, before the halves are: of the n loads of a
concatenation each part keeps few. A parallel loop stays whole; in it stand two versions of its body, in loops that run
once or not at all:

    for %i = 0 to 40 parallel {
        for %a = 0 to 1 - (%i + 10) floordiv 40 { .. }
        for %b = 0 to (%i + 10) floordiv 40 { .. }
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_COLD
from mlc.dialects.index import Index, Range, const, dim
from mlc.passes.loop.index_space.domain import blocks_of, is_symbol, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.cuts import cut, two_bodies

MASKED_BLOCKS = 2
"""Blocks in a loop, at most, that is split where their masks turn: whole tiles of a row, and its rest. Those of loops
marked `cold`, which cover what is shorter than a tile, do not count."""
MOVED_OPERATIONS = 8
"""Arithmetic operations of a block, at most, whose loop is split."""


def cut_at_masks(func: loop.FuncOp) -> None:
    """
    Split loops around few blocks where masks turn: parallel loops, then serial ones, outer ones first.

    Each part has copies of the loops inside, which are split in the next round.
    """
    for f in _masked_loops(func, "parallel"):
        if f.lower.const == 0:
            _version(f, f, sorted(turning_points(f)), (0, f.upper.const))
    while any([_halve(f, sorted(turning_points(f))) for f in _masked_loops(func, "serial")]):
        pass


def _masked_loops(func: loop.FuncOp, kind: str) -> list[loop.ForOp]:
    """The loops of a kind and of known extents around few blocks that move elements, some of them by a mask."""
    masked = {f for block in blocks_of(func) if _has_masks(block) and moves(block) for f in loops_around(block)}
    found: list[loop.ForOp] = []
    for f in [op for op in loops_and_blocks(func) if isinstance(op, loop.ForOp) and op in masked]:
        blocks = blocks_of(f)
        plain = f.kind.data == kind and not f.results and f.extent is not None and f.lower.is_const
        warm = [one for one in blocks if not any(LOOP_COLD in g.attributes for g in loops_around(one, f))]
        if plain and len(warm) <= MASKED_BLOCKS and all(map(moves, blocks)):
            found.append(f)
    return found


def _has_masks(block: loop.BlockOp) -> bool:
    """Whether a block has a masked load."""
    return any(type(op) is loop.LoadOp and op.mask is not None for op in block.body.block.ops)


def moves(block: loop.BlockOp) -> bool:
    """Whether a block moves elements, with little arithmetic, and writes whole tiles."""
    ops = list(block.body.block.ops)
    stores = [op for op in ops if isinstance(op, loop.StoreOp)]
    loads = [op for op in ops if isinstance(op, loop.LoadOp | arith.ConstantOp)]
    return len(ops) - len(loads) - len(stores) <= MOVED_OPERATIONS and not any(op.mask is not None for op in stores)


def _halve(f: loop.ForOp, points: list[int]) -> bool:
    """Split a loop at the middle one of some iterations, and the parts at the others; False if it has none of them."""
    inside = [at for at in points if f.lower.const < at < f.upper.const]
    if not inside:
        return False
    for part in cut(f, inside[len(inside) // 2]):
        for block in blocks_of(part):
            settle_masks(block, {})
        _halve(part, inside)
    return True


def _version(f: loop.ForOp, around: loop.ForOp, points: list[int], span: tuple[int, int]) -> None:
    """Version the body of f, or of a loop in it, at the middle one of some iterations, for those in `span`."""
    inside = [at for at in points if span[0] < at < span[1]]
    if not inside:
        return
    space, at, end = IndexSpace(), inside[len(inside) // 2], f.upper.const
    behind = (dim(space.number(f.iv)) + (end - at)).floordiv(end)
    bodies = two_bodies(around, const(1) - behind, behind, space)
    for body, (first, last) in zip(bodies, ((span[0], at), (at, span[1])), strict=True):
        for block in blocks_of(body):
            settle_masks(block, {f.iv: (first, last - 1)})
        _version(f, body, inside, (first, last))


def turning_points(f: loop.ForOp) -> set[int]:
    """The iterations of a loop at which masks of its loads turn, masks that depend on this loop and on lanes in it."""
    points: set[int] = set()
    for block in blocks_of(f):
        space = IndexSpace()
        lanes = {g.iv for g in loops_around(block) if g.kind.data == "vectorized" and f.is_ancestor(g)}
        for _, mask in masks_of(block, space):
            for e in mask:
                points |= _turns(e, f, lanes, space)
    return points


def masks_of(block: loop.BlockOp, space: IndexSpace) -> Iterator[tuple[loop.LoadOp, list[Index]]]:
    """The masked loads of a block, with those parts of their masks that are over the loops around it."""
    bound = space.exprs(block.bindings.data, block.args)
    bindings: dict[SSAValue, Index] = dict(zip(block.body.block.args, bound, strict=True))
    for op in list(block.body.block.ops):
        if isinstance(op, loop.LoadOp) and op.mask is not None:
            known = bindings | {v: space.dim(v) for v in op.indices if is_symbol(v)}
            to = {d: known[v] for d, v in enumerate(op.indices) if v in known}
            yield op, [e.substitute(to, space.ranges) for e in op.mask_exprs if e.dims() <= to.keys()]


def _turns(e: Index, f: loop.ForOp, lanes: set[SSAValue], space: IndexSpace) -> set[int]:
    """The iterations from which on `e >= 0` holds in some lanes and in all of them, or fails in some and in all."""
    if not all(isinstance(t, int) and (space.values[t] is f.iv or space.values[t] in lanes) for t, _ in e.terms):
        return set()
    step = e.coefficient(space.numbers[f.iv]) if f.iv in space.numbers else 0
    if not step:
        return set()
    bounds = (e - dim(space.numbers[f.iv]) * step).bounds(space.ranges)
    return {-(rest // step) if step > 0 else rest // -step + 1 for rest in bounds}


def settle_masks(block: loop.BlockOp, known: Mapping[SSAValue, Range]) -> None:
    """
    A load whose mask never holds is its else value, one whose mask always holds has none; loads without readers go.

    `known` are ranges of loop indices in the version of a body in which the block stands.
    """
    space = IndexSpace()
    loads: list[loop.LoadOp] = []
    for load, mask in masks_of(block, space):
        ranges = space.ranges_with({n: known[v] for n, v in enumerate(space.values) if v in known})
        bounds = [e.bounds(ranges) for e in mask]
        if any(high < 0 for _, high in bounds):
            assert load.otherwise is not None
            load.result.replace_all_uses_with(load.otherwise)
        elif len(mask) == len(load.mask_exprs) and all(low >= 0 for low, _ in bounds):
            whole = loop.LoadOp.make(load.buffer, load.map.data, load.indices)
            whole.location = load.location
            block.body.block.insert_op_before(whole, load)
            load.result.replace_all_uses_with(whole.result)
        loads.append(load)
    for load in reversed(loads):
        if not load.result.uses.get_length():
            load.detach()
            load.erase()
