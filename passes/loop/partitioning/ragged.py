"""
Partitioning of loops whose last tile is partial by a symbolic size: the symbolic rewrites of `loop-partition`.

The predicate of a tile is `N - 1 - P - inner >= 0`: N the size of the axis, over the kernel's symbols, P the tile's
origin, inner the indices of the loops in the tile. Where N is `(A + g) floordiv g`, the predicate stands without the
division, as `A - g * P - g * inner >= 0`. The rewrites are index set splitting (`cut`), loop versioning (`choose`),
Halide's ShiftInwards of the partial tile (`shift`), and a smaller tile for what is left (`retile`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, Term, at_least, const, dim, term_dims
from mlc.passes.loop.index_space.accesses import block_of
from mlc.passes.loop.index_space.domain import blocks_of, body_ops, loop_of, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import set_bindings
from mlc.passes.loop.index_space.predicates import implies
from mlc.passes.loop.index_space.regions import running_terms
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning import cuts
from mlc.passes.loop.partitioning.cuts import move_ops, two_bodies

if TYPE_CHECKING:
    from mlc.passes.loop.partitioning.partition import Changed, Partition


@dataclass(frozen=True)
class Ragged:
    """The predicate `e >= 0` of a partial tile at a loop `f` around the tile, decomposed."""

    f: loop.ForOp
    e: Index
    inner: Index
    """The terms of the loops in the tile, with their signs in the predicate."""
    low: int
    """The smallest value of `inner`: g * (1 - size of the tile), or 0 for a tile of one point."""
    unit: int
    """g, the common factor of the terms that are not over symbols."""
    space: IndexSpace

    @staticmethod
    def of(f: loop.ForOp, e: Index, space: IndexSpace) -> Ragged | None:
        """The parts of a predicate at a loop around a tile; None where the predicate or the loop is of another form."""
        inner, tile = _inside(f, e, space)
        low, high = inner.bounds(space.ranges)
        plain = not f.results and not f.lower.terms and f.kind.data in ("serial", "parallel")
        if not (plain and tile and high <= 0 and low > -UNBOUNDED // 2):
            return None
        moving = [c for t, c in e.terms if not _over_symbols(t, space)]
        return Ragged(f, e, inner, low, gcd(*moving), space)

    @property
    def number(self) -> int:
        """The dimension of the loop's index."""
        return self.space.numbers[self.f.iv]

    @property
    def tile(self) -> int:
        """The size of the tile."""
        return 1 - self.low // self.unit

    @property
    def half(self) -> int:
        """The size of the smaller tile for what is left, where that is half a tile or less."""
        return (self.tile + 1) // 2

    @property
    def step(self) -> int:
        """The distance of the tile's origins in two consecutive iterations."""
        return -self.e.coefficient(self.number) // self.unit

    @property
    def begins(self) -> Index:
        """>= 0 where the first point of the tile is inside of the axis."""
        return self.e - self.inner

    @property
    def whole(self) -> Index:
        """>= 0 where all points of the tile are inside of the axis."""
        return self.begins + self.low

    @property
    def size(self) -> Index:
        """N, the size of the axis."""
        own = tuple((t, c) for t, c in self.begins.terms if _over_symbols(t, self.space))
        return Index(self.begins.const + self.unit, own).floordiv(self.unit, self.space.ranges)

    @property
    def place(self) -> Index:
        """P, the origin of the tile."""
        moving = [(t, c) for t, c in self.begins.terms if not _over_symbols(t, self.space)]
        return Index(0, tuple((t, -c // self.unit) for t, c in moving))


def split(partition: Partition, f: loop.ForOp, e: Index, space: IndexSpace) -> Changed:
    """
    Rewrite a loop around a tile for one predicate; None where there is nothing to do.

    A loop that runs to `N ceildiv T` is split at `N floordiv T`, as the predicate fails in its last iteration only. In
    any other loop around the tile, the body is versioned for whole tiles and for the partial one; tiles beyond the axis
    do not run.
    """
    r = Ragged.of(f, e, space)
    if r is None:
        return None
    key = f.iv, r.whole.substitute(lambda d: dim(partition.known.number(space.values[d])))
    if key in partition.chosen:
        return None
    partition.chosen.add(key)
    if _reduces(f):  # a reduction must visit each point once
        found = cut(partition, r) if r.low < 0 else None
        return None if found is None else list(found[:2])
    if r.low == 0:
        return [_guarded(r)]
    main, tail, iv = cut(partition, r) or choose(r)
    rows = _rows(r, tail) if r.step >= r.tile else None
    moved = shift(r, tail, iv, halves=rows is not None)
    if moved is None:
        return [main, tail]
    if rows is not None:
        retile(r, moved[1], iv)
    return [main, *moved]


def _guarded(r: Ragged) -> loop.ForOp:
    """`for %i { S where e }` -> `for %i { for 0 to (e >= 0) { S } }`."""
    guard = loop.ForOp.make(at_least(r.begins), operands=r.space.values, name="inside")
    guard.location = r.f.location
    move_ops(body_ops(r.f.body.block), guard)
    drop(guard, r.begins, r.space)
    return guard


def cut(partition: Partition, r: Ragged) -> tuple[loop.ForOp, loop.ForOp, SSAValue] | None:
    """Split `for %o = 0 to N ceildiv T` at `N floordiv T`: the two loops and the second one's index; else None."""
    f, size, step = r.f, r.size, r.step
    over = {r.space.number(v): dim(k) for k, v in enumerate(f.indices)}
    ranges = r.space.ranges
    if f.extent is not None or f.kind.data != "serial" or step < r.tile or not size.dims() <= over.keys():
        return None
    whole = size.floordiv(step, ranges).substitute(over)
    wanted = (size + (step - 1)).floordiv(step, ranges).substitute(over)
    if f.lower.const or f.upper != wanted or r.place != dim(r.number) * step:
        return None
    main, tail = cuts.cut(f, whole)
    assert isinstance(main, loop.ForOp)
    assert isinstance(tail, loop.ForOp)
    drop(main, r.begins - (step - 1) * r.unit, r.space)
    inner = r.space.copy()
    again = r.whole.substitute({r.number: dim(inner.number(tail.iv))})
    partition.chosen.add((tail.iv, again.substitute(lambda d: dim(partition.known.number(inner.values[d])))))
    return main, tail, tail.iv


def choose(r: Ragged) -> tuple[loop.ForOp, loop.ForOp, SSAValue]:
    """`for %i { S }` -> `for %i { for 0 to (the tile is inside) { S } for 0 to (a part of it is inside) { S } }`."""
    whole = at_least(r.whole)
    first, second = two_bodies(r.f, whole, at_least(r.begins) - whole, r.space)
    drop(first, r.whole, r.space)
    return first, second, r.f.iv


def shift(r: Ragged, ragged: loop.ForOp, iv: SSAValue, halves: bool) -> tuple[loop.ForOp, loop.ForOp] | None:
    """
    Halide's ShiftInwards: the partial tile moves back to end where the axis does, if the axis is as long as a tile.

    It computes some points again, to the same values. With `halves`, it moves only where more than half of the tile is
    left. -> the moved tile, and the one at its old place; None where it must not move.
    """
    space = r.space.copy()
    number = space.number(iv)
    place = r.place.substitute({r.number: dim(number)})
    if not _may_move(ragged, iv, r.step, [space.values[d] for d in place.dims()]):
        return None
    fits, moves = r.size - r.tile, at_least(r.size - r.tile)
    if halves:
        moves = (moves + at_least(r.size - place - (r.half + 1))).floordiv(2)
    moved, small = two_bodies(ragged, moves, const(1) - moves, space)
    begins = r.begins.substitute({r.number: dim(number)})
    drop(moved, begins + r.low, space)  # it holds once the tile has moved
    _follow(moved, fits - place, number, r.step, space)
    small.attributes["cold"] = UnitAttr()
    return moved, small


def retile(r: Ragged, small: loop.ForOp, iv: SSAValue) -> None:
    """
    Let a tile of half the rows (of one row in the end) step over what is left of the axis.

    `for %i = 0 to 12 vectorized { S where N - 1 - P - %i }` ->
    `for %p = 0 to (N - P) ceildiv 6 { for %i = 0 to 6 vectorized { S where N - 1 - P - %p * 6 - %i } }`
    """
    rows = _rows(r, small)
    assert rows is not None
    space = r.space.copy()
    number = space.number(iv)
    left = r.size - r.place.substitute({r.number: dim(number)})
    along = loop.ForOp.make((left + (r.half - 1)).floordiv(r.half), operands=space.values, name="part")
    along.location = r.f.location
    move_ops(body_ops(small.body.block), along)
    for f in rows:
        f.properties["bounds"] = IndexMapAttr((f.lower, const(r.half)))
    _follow(along, dim(space.number(along.iv)) * r.half, number, r.step, space)


def _rows(r: Ragged, small: loop.ForOp) -> list[loop.ForOp] | None:
    """The loops of the tile along the partial axis, one for each block, where they are not the lanes; else None."""
    found: list[loop.ForOp] = []
    for block in cuts.blocks_in(small):
        own = IndexSpace()
        around = {f.iv: f for f in loops_around(block, small)}
        for e in own.exprs(block.where_exprs, block.args):
            inner = [(t, c) for t, c in e.terms if isinstance(t, int) and own.values[t] in around]
            if len(inner) != 1 or inner[0][1] != -r.unit:
                return None
            f = around[own.values[inner[0][0]]]
            lanes = isinstance(f.body.block.first_op, loop.BlockOp)
            if lanes or f.extent != r.tile or f.lower.const or f.lower.terms:
                return None
            found.append(f)
    return found or None


def _follow(body: loop.ForOp, by: Index, number: int, step: int, space: IndexSpace) -> None:
    """Move a tile's origin: add `by` wherever the blocks of the tile add `step` times the dimension `number`."""
    for block in blocks_of(body):
        own = space.copy()
        exprs = [own.exprs(es, block.args) for es in (block.bindings.data, block.where_exprs)]
        bindings, where = ([x + by * (x.coefficient(number) // step) for x in es] for es in exprs)
        set_bindings(own, block, bindings, [w for w in where if w.bounds(own.ranges)[0] < 0])


def _may_move(body: loop.ForOp, iv: SSAValue, step: int, place: Sequence[SSAValue]) -> bool:
    """
    Whether a tile may be computed at another origin, and some of its points twice; `place`: the indices of its origin.

    - Its accumulators are initialised in it, and its indices move with its origin.
    - What it reads is computed outside of the loops of its origin, so that all of it is there at any origin.
    - What it stores is not read elsewhere in these loops, where only the part of one origin would be there; other tiles
      may read what they initialise themselves.
    - What it stores is final: no other block accumulates on it.
    """
    if step <= 0 or any(iv in f.indices for f in body.walk() if isinstance(f, loop.ForOp) and f is not body):
        return False
    begun: set[SSAValue] = set()
    added = {buffer for block in blocks_of(body) for buffer in _accumulated(block)}
    for block in blocks_of(body):
        numbers = [k for k, v in enumerate(block.args) if v is iv]
        exprs = (*block.bindings.data, *block.where_exprs)
        if any(e.coefficient(n) % step or _in_division(e, n) for e in exprs for n in numbers):
            return False
        accesses = [op for op in block.walk() if isinstance(op, loop.AccessOp)]
        stored = {op.buffer for op in accesses if isinstance(op, loop.StoreOp)}
        for buffer in {op.buffer for op in accesses if not isinstance(op, loop.StoreOp)}:
            if buffer in stored and not block.has_init and buffer not in begun:
                return False
            if buffer not in begun and any(_stored_below(buffer, v, body) for v in place):
                return False
        if any(_read_below(buffer, v, body) for buffer in stored if _is_local(buffer) for v in place):
            return False
        if any(_is_accumulated(buffer) for buffer in stored - added):
            return False
        begun |= stored
    return True


def _accumulated(block: loop.BlockOp) -> set[SSAValue]:
    """The buffers that a block both reads and writes."""
    stored = {op.buffer for op in block.walk() if isinstance(op, loop.StoreOp)}
    return {op.buffer for op in block.walk() if isinstance(op, loop.LoadOp | loop.GatherOp)} & stored


def _is_accumulated(buffer: SSAValue) -> bool:
    """Whether any block both reads and writes a buffer."""
    blocks = {block_of(use.operation) for use in buffer.uses if isinstance(use.operation, loop.StoreOp)}
    return any(block is not None and buffer in _accumulated(block) for block in blocks)


def _is_local(buffer: SSAValue) -> bool:
    """Whether a buffer is allocated in the kernel, so that a loop may use only a part of it."""
    return isinstance(buffer.owner, loop.AllocOp)


def _accesses_below(buffer: SSAValue, index: SSAValue, body: loop.ForOp) -> list[loop.AccessOp]:
    """The ops that access a buffer in the loop of an index, outside of a body."""
    around = loop_of(index)
    if around is None:
        return []
    found = [u.operation for u in buffer.uses if isinstance(u.operation, loop.AccessOp)]
    return [op for op in found if op.buffer is buffer and around.is_ancestor(op) and not body.is_ancestor(op)]


def _stored_below(buffer: SSAValue, index: SSAValue, body: loop.ForOp) -> bool:
    """Whether a buffer is stored to in the loop of an index, outside of a body."""
    return any(isinstance(op, loop.StoreOp) for op in _accesses_below(buffer, index, body))


def _read_below(buffer: SSAValue, index: SSAValue, body: loop.ForOp) -> bool:
    """Whether what a body stores in a buffer may be read outside of the body in the loop of an index."""
    users = _accesses_below(buffer, index, body)
    begins = [u.operation for u in buffer.uses if isinstance(u.operation, loop.StoreOp) and _begins(u.operation)]
    for op in users:
        around: Operation | None = op
        while around is not None and not any(around.is_ancestor(store) for store in begins):
            around = around.parent_op()
        if around is None or around.is_ancestor(body):
            return True
    return False


def _begins(store: loop.StoreOp) -> bool:
    """Whether a store initializes the buffer: it does not depend on the contents."""
    block = block_of(store)
    return block is not None and (block.has_init or store.buffer not in _accumulated(block))


def _in_division(e: Index, number: int) -> bool:
    """Whether a dimension occurs in a floordiv or mod."""
    return any(not isinstance(t, int) and t.expr.uses(number) for t, _ in e.terms)


def drop(op: Operation, known: Index, space: IndexSpace) -> None:
    """Drop, in all blocks of an op, the predicates that follow from `known >= 0`."""
    for block in cuts.blocks_in(op):
        own = space.copy()
        where = own.exprs(block.where_exprs, block.args)
        keep = [x for x in where if not implies(known, x, own.ranges)]
        if len(keep) < len(where):
            set_bindings(own, block, own.exprs(block.bindings.data, block.args), keep)


def _over_symbols(term: Term, space: IndexSpace) -> bool:
    return space.is_symbolic(term_dims(term))


def _inside(f: loop.ForOp, e: Index, space: IndexSpace) -> tuple[Index, bool]:
    """The terms of a predicate that use loops inside of a loop, and whether all these loops are vectorized."""
    loops = [g for g in loops_and_blocks(f) if g is not f and isinstance(g, loop.ForOp) and g.iv in space.numbers]
    loops = [g for g in loops if e.uses(space.numbers[g.iv])]
    inner = running_terms(e, e.dims() - space.numbers_of(loops))
    return inner, all(g.kind.data == "vectorized" for g in loops)


def _reduces(f: loop.ForOp) -> bool:
    """Whether a loop runs along a reduction axis of a block."""
    pairs = [(b, e) for b in blocks_of(f) if f.iv in b.args for e in b.bindings.data[b.num_spatial :]]
    return any(e.uses(b.args.index(f.iv)) for b, e in pairs)


__all__ = ["Ragged", "drop", "split"]
