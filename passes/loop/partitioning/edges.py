"""
Versions of the body of a loop of symbolic extent: the inside of a picture, and its edges, where masks of loads fail.

    for %i = 0 to %n { block { load %a[%i - 1] mask (%i - 1) else 0 } }
    -> for %i = 0 to %n {
           for %main = 0 to <1 where all masks hold> { block { load %a[%i - 1] } }
           for %ragged = 0 to <1 elsewhere> { block { load %a[%i - 1] mask (%i - 1) else 0 } }
       }

Where a loop of known extent turns is known, too: `mask_cuts` splits it there.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_COLD
from mlc.dialects.index import ZERO, Index, at_least, const, term_dims
from mlc.passes.loop.index_space.domain import blocks_of, loops_around
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.cuts import two_bodies
from mlc.passes.loop.partitioning.mask_cuts import masks_of, moves
from mlc.passes.loop.partitioning.masked_operands import remove_mask


def version_edges(func: loop.FuncOp) -> None:
    """Version the bodies of the innermost loops of symbolic extent around blocks with masked loads."""
    homes: dict[loop.ForOp, list[loop.BlockOp]] = {}
    for block in blocks_of(func):
        around = loops_around(block)
        open_loops = [f for f in around if f.extent is None and not f.results]
        if open_loops and moves(block) and not any(LOOP_COLD in f.attributes for f in around):
            homes.setdefault(open_loops[-1], []).append(block)
    for home, blocks in homes.items():
        _version(home, blocks)


def _version(home: loop.ForOp, blocks: list[loop.BlockOp]) -> None:
    """Version the body of one loop: where the masks of all loads in `blocks` hold for all of the loops inside."""
    space = IndexSpace()
    loads: list[loop.LoadOp] = []
    conditions: dict[Index, None] = {}
    for block in blocks:
        inside = {f.iv for f in loops_around(block, home)}
        for load, mask in masks_of(block, space):
            least = [_least(e, inside, space) for e in mask]
            if len(mask) == len(load.mask_exprs) and all(e is not None for e in least):
                loads.append(load)
                conditions |= dict.fromkeys(e for e in least if e is not None and e.bounds(space.ranges)[0] < 0)
    if not conditions:
        return
    outer = IndexSpace()
    holding = sum((at_least(outer.expr(e, space.values)) for e in conditions), ZERO)
    main = holding.floordiv(len(conditions), outer.ranges)
    two_bodies(home, main, const(1) - main, outer)
    for load in loads:
        remove_mask(load)


def _least(e: Index, inside: set[SSAValue], space: IndexSpace) -> Index | None:
    """The smallest value of an expression over the loops inside of a body; None where it is not a sum of terms."""
    within = {space.number(v) for v in inside}
    inner = Index.of(0, {t: c for t, c in e.terms if term_dims(t) & within})
    if not all(term_dims(t) <= within for t, _ in inner.terms):
        return None
    return e - inner + inner.bounds(space.ranges)[0]
