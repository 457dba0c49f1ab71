"""
Index set clipping: iterations of a reduction that only add padding are left out of the bounds of its loops.

A sum over a padded picture reads zeros where a mask fails. In a loop with the attribute `clip`, such masks become
predicates of the block, and predicates become bounds: exactly, where they depend on no loop inside; else the loop is
peeled into its iterations, and the loops inside start where the predicate begins to hold (Halide: trim_no_ops).
A weight that is infinite or NaN is not multiplied by the zeros of the padding.
"""

from __future__ import annotations

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_CLIP
from mlc.dialects.index import ZERO, Index, IndexMapAttr, const
from mlc.passes.loop.index_space.domain import blocks_of, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import set_bindings, set_exprs
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.cuts import cut, erase_nest
from mlc.passes.loop.partitioning.masked_operands import add_predicates, masked_operand, over_arguments, remove_mask


def clip_loops(func: loop.FuncOp) -> None:
    """Clip the loops of a kernel that are marked, outer ones first."""
    while f := next(
        (op for op in loops_and_blocks(func) if LOOP_CLIP in op.attributes and isinstance(op, loop.ForOp)), None
    ):
        del f.attributes[LOOP_CLIP]
        blocks = blocks_of(f)
        for block in blocks:
            mask_to_predicate(block)
        if len(blocks) == 1 and f.extent is not None and f.lower.is_const and not clip_bounds(f, blocks[0]):
            peel(f)


def mask_to_predicate(block: loop.BlockOp) -> None:
    """`block { acc += load(x, mask m, else 0) * w }  ->  block where m { acc += load(x) * w }`."""
    if (load := masked_operand(block)) is not None:
        predicates = over_arguments(block, load.mask_exprs, load.indices)
        remove_mask(load)
        add_predicates(block, predicates)


def clip_bounds(f: loop.ForOp, block: loop.BlockOp) -> bool:
    """
    Predicates over a loop and those around it become the loop's bounds; False where there are none.

    `for %k = 0 to 3 { block where (%i + %k * 12 - 12) }` -> `for %k = n to 3`, where n counts the k that fail.
    """
    space = IndexSpace()
    where = space.exprs(block.where_exprs, block.args)
    inside = space.numbers_of(loops_around(block, f))
    iv = space.number(f.iv)
    own = [e for e in where if e.coefficient(iv) and not e.dims() & inside and not _rest(e, iv).uses(iv)]
    rising = [e for e in own if e.coefficient(iv) > 0][:1]
    falling = [e for e in own if e.coefficient(iv) < 0][:1]
    if not own:
        return False
    lower, upper = f.lower, f.upper
    for e in rising:
        lower = lower + failing(e, iv, f, space)
    for e in falling:
        upper = upper - failing(e, iv, f, space)
    set_exprs(space, f, {"bounds": [lower, upper]})
    bindings = space.exprs(block.bindings.data, block.args)
    set_bindings(space, block, bindings, [e for e in where if e not in (*rising, *falling)])
    return True


def _rest(e: Index, iv: int) -> Index:
    return e - Index(0, ((iv, e.coefficient(iv)),))


def failing(e: Index, iv: int, f: loop.ForOp, space: IndexSpace) -> Index:
    """The number of iterations for which `e >= 0` fails: `-(e floordiv n)` is 1 for e in [-n, -1], 0 for [0, n - 1]."""
    total = ZERO
    for k in range(f.lower.const, f.upper.const):
        at = e.substitute({iv: const(k)}, space.ranges)
        low, high = at.bounds(space.ranges)
        total = total - at.floordiv(1 << max(-low, high + 1, 1).bit_length(), space.ranges)
    return total


def peel(f: loop.ForOp) -> None:
    """Replace a loop by its iterations; in each, loops inside start where the predicates begin to hold."""
    parent = f.parent
    assert parent is not None
    for k in range(f.lower.const, f.upper.const):
        one = f.clone()
        parent.insert_op_before(one, f)
        one.properties["bounds"] = IndexMapAttr((const(k), const(k + 1)))
        for block in blocks_of(one):
            begin(block, one)
    f.detach()
    f.erase()


def begin(block: loop.BlockOp, within: loop.ForOp) -> None:
    """
    Raise the first iteration of loops around a block, inside of `within`, to where its predicates may hold.

    A predicate over a loop that is yet to be clipped waits for that.
    """
    around = loops_around(block, within)
    marked = [f for f in around if LOOP_CLIP in f.attributes]
    for f in around:
        for one in block.where_exprs:
            space = IndexSpace()
            iv, e = space.number(f.iv), space.expr(one, block.args)
            step = e.coefficient(iv)
            if step <= 0 or f.extent is None or not f.lower.is_const or _rest(e, iv).uses(iv):
                continue
            if e.dims() & space.numbers_of(marked):
                continue
            low, high = _rest(e, iv).bounds(space.ranges)
            first, sure = -(high // step), -(low // step)
            if first >= f.upper.const:
                erase_nest(block)
                return
            if first > f.lower.const:
                f.properties["bounds"] = IndexMapAttr((const(first), f.upper))
            if f.lower.const < sure < f.upper.const and f.kind.data == "serial":
                for part in cut(f, sure):
                    for copy in blocks_of(part):
                        begin(copy, within)
                return
