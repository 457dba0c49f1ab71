"""
Loops over blocks that masked reads leave out: a causal attention computes half of its scores.

A sum or a maximum that reads a buffer with a mask, its neutral element outside, needs no more of the buffer than the
mask lets through. Where all that read a buffer in a kernel's scratch agree, who writes it need not compute the rest,
and so on up to the first product. Loops with the attribute `band` get bounds that say so:

    for %k = 0 to 64 { block { s[%i, %k] = .. } }        for %k = 0 to 64 { block { m max= s[%i, %k] mask (%i - %k) } }
    -> for %k = 0 to %i + 1 { block { s[%i, %k] = .. } } for %k = 0 to %i + 1 { block { m max= s[%i, %k] } }
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_BAND
from mlc.dialects.index import Div, Index, at_least, const, dim
from mlc.passes.loop.index_space.accesses import blocks_accessing
from mlc.passes.loop.index_space.domain import blocks_of, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import set_bindings, set_exprs
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.masked_operands import add_predicates, masked_operand, over_arguments, remove_mask

MOST_TERMS = 64
"""Values of a loop's bound that lie outside of the loop's range, at most; each is a comparison at run time."""

Predicates = frozenset[Index]
"""Expressions that must not be negative, over the arguments of a block or over the dimensions of a buffer."""


def clip_bands(func: loop.FuncOp) -> None:
    """Clip the loops of a kernel that are marked."""
    marked = [op for op in loops_and_blocks(func) if LOOP_BAND in op.attributes and isinstance(op, loop.ForOp)]
    if not marked:
        return
    masked = {b: load for b in blocks_of(func) if (load := masked_operand(b)) is not None}
    needed = {b: frozenset(over_arguments(b, load.mask_exprs, load.indices)) for b, load in masked.items()}
    unread = unread_parts(func, needed)
    for block, load in masked.items():
        remove_mask(load)
        add_predicates(block, sorted(needed[block], key=str))
    for block, predicates in unread.items():
        add_predicates(block, sorted(predicates, key=str))
    for f in marked:
        clip(f)
        del f.attributes[LOOP_BAND]
    for block, predicates in unread.items():
        drop_predicates(block, predicates)


def drop_predicates(block: loop.BlockOp, predicates: Predicates) -> None:
    """Undo `add_predicates`, as far as they have not become bounds of loops."""
    space = IndexSpace()
    bindings = space.exprs(block.bindings.data, block.args)
    added = {e.substitute(bindings.__getitem__, space.ranges) for e in predicates}
    where = space.exprs(block.where_exprs, block.args)
    set_bindings(space, block, bindings, [e for e in where if e not in added])


# --- parts of buffers that no block reads ----------------------------------------------------------------------------


def unread_parts(func: loop.FuncOp, needed: Mapping[loop.BlockOp, Predicates]) -> dict[loop.BlockOp, Predicates]:
    """
    The blocks that write what is only read where predicates hold, with these predicates over their arguments.

    `needed` has the predicates of the blocks that read with masks.
    """
    known = dict(needed)
    found: dict[loop.BlockOp, Predicates] = {}
    positions = {op: n for n, op in enumerate(func.walk())}
    allocs = [op.result for op in func.walk() if isinstance(op, loop.AllocOp)]
    written = {b: blocks_accessing(b, stores=True) for b in allocs}
    for buffer in sorted(allocs, key=lambda b: -max((positions[w] for w in written[b]), default=0)):
        readers = [r for r in blocks_accessing(buffer, stores=False) if r not in written[buffer]]
        needs = {_over_dimensions(r, buffer, known.get(r, frozenset())) for r in readers}
        if len(needs) != 1 or not (need := needs.pop()):
            continue
        for block in written[buffer]:
            if (own := _where_it_writes(block, need)) is not None:
                known[block] = found[block] = own
    return found


def _over_dimensions(block: loop.BlockOp, buffer: SSAValue, predicates: Predicates) -> Predicates:
    """Predicates over a block's arguments as ones over the dimensions of a buffer that it loads; none where not so."""
    found: set[Predicates] = set()
    for load in [op for op in block.walk() if isinstance(op, loop.AccessOp) and op.buffer is buffer]:
        if not isinstance(load, loop.LoadOp) or any(v not in block.body.block.args for v in load.indices):
            return frozenset()
        at = over_arguments(block, load.map.data, load.indices)
        used = {d for e in predicates for d in e.dims()}
        if any(dim(d) not in at for d in used):
            return frozenset()
        found.add(frozenset(e.substitute(lambda d, at=at: dim(at.index(dim(d)))) for e in predicates))
    return found.pop() if len(found) == 1 else frozenset()


def _where_it_writes(block: loop.BlockOp, need: Predicates) -> Predicates | None:
    """Predicates over a buffer's dimensions as ones over the arguments of a block whose one store writes to it."""
    stores = [op for op in block.walk() if isinstance(op, loop.StoreOp)]
    arguments = list(block.body.block.args)
    if block.has_init or len(stores) != 1 or any(v not in arguments for v in stores[0].indices):
        return None
    at = over_arguments(block, stores[0].map.data, stores[0].indices)
    return frozenset(e.substitute(lambda d: at[d]) for e in need)


# --- bounds ------------------------------------------------------------------------------------------------------


def clip(f: loop.ForOp) -> None:
    """
    The predicates of the blocks in a loop become its bounds, where all blocks have the same ones.

    `for %k = 0 to 64 { block where (%i - %k floordiv 4) }` -> `for %k = 0 to %i * 4 + 4 { block }`, at most to 64
    """
    blocks = blocks_of(f)
    if f.extent is None or not f.lower.is_const or f.results or not blocks:
        return
    space = IndexSpace()
    inside = space.numbers_of([g for b in blocks for g in loops_around(b, f)])
    iv = space.number(f.iv)
    outer: list[set[Index]] = [{e for e in space.exprs(b.where_exprs, b.args) if not e.dims() & inside} for b in blocks]
    lower, upper, used = f.lower, f.upper, set[Index]()
    for e in sorted(outer[0].intersection(*outer[1:]), key=str):
        limit = _limit(e, iv, space)
        if limit is None:
            continue
        end, rises = limit
        low, high = f.lower.const, f.upper.const
        if (bound := clamp(end, low, high, space)) is None:
            continue
        lower, upper = (bound, upper) if rises else (lower, bound)
        used.add(e)
    if not used:
        return
    for block in blocks:
        where = [e for e in space.exprs(block.where_exprs, block.args) if e not in used]
        set_bindings(space, block, space.exprs(block.bindings.data, block.args), where)
    set_exprs(space, f, {"bounds": [lower, upper]})


def _limit(e: Index, iv: int, space: IndexSpace) -> tuple[Index, bool] | None:
    """
    The iteration at which a predicate begins to hold (True) or to fail (False); None where it is not of this form.

    `a - %k floordiv n >= 0` fails from (a + 1) * n on, `%k floordiv n - a >= 0` holds from a * n on.
    """
    own = [(t, c) for t, c in e.terms if t == iv or (isinstance(t, Div) and t.expr.uses(iv))]
    if not own:  # it holds for all iterations or for none
        first, last = space.ranges[iv]
        return at_least(e) * (last + 1 - first) + first, False
    if len(own) != 1 or abs(own[0][1]) != 1:
        return None
    ((term, c),) = own
    rest = e - Index(0, ((term, c),))
    if isinstance(term, int):
        n = 1
    elif isinstance(term, Div) and not term.is_mod and term.expr == dim(iv):
        n = term.by
    else:
        return None
    return ((rest + 1) * n, False) if c < 0 else (rest * -n, True)


def clamp(x: Index, low: int, high: int, space: IndexSpace) -> Index | None:
    """`min(max(x, low), high)`; None where too many values of x lie outside."""
    if x.is_const:
        return const(min(max(x.const, low), high))
    step = gcd(*(c for _, c in x.terms))
    first, last = x.bounds(space.ranges)
    values = range(first + (x.const - first) % step, last + 1, step)
    above, below = [v for v in values if v > high], [v for v in values if v < low][::-1]
    if min(high - low, len(above) + len(below)) > MOST_TERMS:
        return None
    if high - low < len(above) + len(below):
        steps = [at_least(x - v) for v in range(low + 1, high + 1)]
        return sum(steps, const(low))
    result = x
    for v, inner in zip(above, [high, *above], strict=False):
        result = result - at_least(x - v) * (v - inner)
    for v, inner in zip(below, [low, *below], strict=False):
        result = result + at_least(-x + v) * (inner - v)
    return result
