"""
Loops whose last tile is ragged by a size that is known at run time only: what `loop-partition` makes of them.

A predicate is `N - 1 - P - inner >= 0`: N over the kernel's symbols, P the tile's place, inner the loops of the tile.
Where N is `(A + g) floordiv g`, the predicate is `A - g * P - g * inner >= 0`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, Term, at_least, const, dim
from mlc.passes.loop import cuts
from mlc.passes.loop.cuts import set_exprs, two_bodies
from mlc.passes.loop.nest import Numbering, is_symbol, loops_around
from mlc.passes.loop.regions import block_of, implies

if TYPE_CHECKING:
    from mlc.passes.loop.partition import Changed, Partition

Accessing = loop.LoadOp | loop.StoreOp | loop.GatherOp


@dataclass(frozen=True)
class Ragged:
    """A predicate at a loop `f`, and its parts."""

    f: loop.ForOp
    e: Index
    inner: Index
    low: int
    """The least that inner comes to, as it stands in the predicate: 1 less the size of the tile, or 0."""
    unit: int
    """g."""
    numbering: Numbering

    @staticmethod
    def of(f: loop.ForOp, e: Index, numbering: Numbering) -> Ragged | None:
        """The predicate at a loop that reduces nothing, round a tile; None where it is of another form."""
        inner, tile = _inside(f, e, numbering)
        low, high = inner.bounds(numbering.ranges())
        plain = not f.results and not f.lower.terms and f.kind.data in ("serial", "parallel")
        if not (plain and tile and high <= 0 and low > -UNBOUNDED // 2):
            return None
        moving = [c for t, c in e.terms if not _over_symbols(t, numbering)]
        return Ragged(f, e, inner, low, gcd(*moving), numbering)

    @property
    def number(self) -> int:
        """The loop's index, numbered."""
        return self.numbering.numbers[self.f.iv]

    @property
    def tile(self) -> int:
        """The size of the tile."""
        return 1 - self.low // self.unit

    @property
    def half(self) -> int:
        """The size of the tile that goes along what is left where that is small."""
        return (self.tile + 1) // 2

    @property
    def step(self) -> int:
        """How far the tile moves from one iteration to the next."""
        return -self.e.coefficient(self.number) // self.unit

    @property
    def begins(self) -> Index:
        """Not negative where the tile's first point is inside."""
        return self.e - self.inner

    @property
    def whole(self) -> Index:
        """Not negative where all of the tile is inside."""
        return self.begins + self.low

    @property
    def size(self) -> Index:
        """N."""
        own = tuple((t, c) for t, c in self.begins.terms if _over_symbols(t, self.numbering))
        return Index(self.begins.const + self.unit, own).floordiv(self.unit, self.numbering.ranges())

    @property
    def place(self) -> Index:
        """P."""
        moving = [(t, c) for t, c in self.begins.terms if not _over_symbols(t, self.numbering)]
        return Index(0, tuple((t, -c // self.unit) for t, c in moving))


def split(partition: Partition, f: loop.ForOp, e: Index, numbering: Numbering) -> Changed:
    """
    One step on a predicate at a loop.

    -> where the loop runs to `N ceildiv T`, it is cut at `N floordiv T`, as the predicate fails in its last iteration
    only. In any other loop round the tile, whole tiles and the ragged one have a body each, and what lies beyond none.
    """
    r = Ragged.of(f, e, numbering)
    if r is None:
        return None
    key = f.iv, r.whole.substitute(lambda d: dim(partition.known.number(numbering.values[d])))
    if key in partition.chosen:
        return None
    partition.chosen.add(key)
    if _reduces(f):  # each point once, in order
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
    f, body = r.f, r.f.body.block
    guard = loop.ForOp.make(at_least(r.begins), operands=r.numbering.values, name="inside")
    for op in [op for op in body.ops if not isinstance(op, loop.YieldOp)]:
        op.detach()
        guard.body.block.add_op(op)
    guard.body.block.add_op(loop.YieldOp.create())
    body.insert_op_before(guard, f.yield_op)
    drop(guard, r.begins, r.numbering)
    return guard


def cut(partition: Partition, r: Ragged) -> tuple[loop.ForOp, loop.ForOp, SSAValue] | None:
    """`for %o = 0 to N ceildiv T { .. }` -> cut at `N floordiv T`."""
    f, size, step = r.f, r.size, r.step
    over = {r.numbering.number(v): dim(k) for k, v in enumerate(f.indices)}
    ranges = r.numbering.ranges()
    if f.extent is not None or f.kind.data != "serial" or step < r.tile or not size.dims() <= over.keys():
        return None
    whole = size.floordiv(step, ranges).substitute(over)
    wanted = (size + (step - 1)).floordiv(step, ranges).substitute(over)
    if f.lower.const or f.upper != wanted or r.place != dim(r.number) * step:
        return None
    main, tail = cuts.cut(f, whole)
    assert isinstance(main, loop.ForOp)
    assert isinstance(tail, loop.ForOp)
    drop(main, r.begins - (step - 1) * r.unit, r.numbering)
    inner = Numbering()
    inner.numbers, inner.values = dict(r.numbering.numbers), list(r.numbering.values)
    again = r.whole.substitute({r.number: dim(inner.number(tail.iv))})
    partition.chosen.add((tail.iv, again.substitute(lambda d: dim(partition.known.number(inner.values[d])))))
    return main, tail, tail.iv


def choose(r: Ragged) -> tuple[loop.ForOp, loop.ForOp, SSAValue]:
    """`for %i { S }` -> `for %i { for 0 to (all of the tile is inside) { S } for 0 to (a part of it is) { S } }`."""
    whole = at_least(r.whole)
    first, second = two_bodies(r.f, whole, at_least(r.begins) - whole, r.numbering)
    drop(first, r.whole, r.numbering)
    return first, second, r.f.iv


def shift(r: Ragged, ragged: loop.ForOp, iv: SSAValue, halves: bool) -> tuple[loop.ForOp, loop.ForOp] | None:
    """
    The ragged tile, where the size is that of a tile at least, is moved back to end where the axis does.

    It computes some points again, to the same values. (Halide calls this ShiftInwards.) With `halves`, only where more
    than half of the tile is left. -> the moved tile, and the one as it was.
    """
    numbering = Numbering()
    numbering.numbers, numbering.values = dict(r.numbering.numbers), list(r.numbering.values)
    number = numbering.number(iv)
    place = r.place.substitute({r.number: dim(number)})
    if not _may_move(ragged, iv, r.step, [numbering.values[d] for d in place.dims()]):
        return None
    fits, moves = r.size - r.tile, at_least(r.size - r.tile)
    if halves:
        moves = (moves + at_least(r.size - place - (r.half + 1))).floordiv(2)
    moved, small = two_bodies(ragged, moves, const(1) - moves, numbering)
    begins = r.begins.substitute({r.number: dim(number)})
    drop(moved, begins + r.low, numbering)  # which the moved tile will be: inside
    _follow(moved, fits - place, number, r.step, numbering)
    small.attributes["cold"] = UnitAttr()
    return moved, small


def retile(r: Ragged, small: loop.ForOp, iv: SSAValue) -> None:
    """
    Half of the tile (in the end one row) goes along what is left.

    `for %i = 0 to 12 vectorized { S where N - 1 - P - %i }` ->
    `for %p = 0 to (N - P) ceildiv 6 { for %i = 0 to 6 vectorized { S where N - 1 - P - %p * 6 - %i } }`
    """
    rows = _rows(r, small)
    assert rows is not None
    numbering = Numbering()
    numbering.numbers, numbering.values = dict(r.numbering.numbers), list(r.numbering.values)
    number = numbering.number(iv)
    left = r.size - r.place.substitute({r.number: dim(number)})
    along = loop.ForOp.make((left + (r.half - 1)).floordiv(r.half), operands=numbering.values, name="part")
    for op in [op for op in small.body.block.ops if not isinstance(op, loop.YieldOp)]:
        op.detach()
        along.body.block.add_op(op)
    along.body.block.add_op(loop.YieldOp.create())
    small.body.block.insert_op_before(along, small.yield_op)
    for f in rows:
        f.properties["bounds"] = IndexMapAttr((f.lower, const(r.half)))
    _follow(along, dim(numbering.number(along.iv)) * r.half, number, r.step, numbering)


def _rows(r: Ragged, small: loop.ForOp) -> list[loop.ForOp] | None:
    """The loops of the tile along the ragged axis, one a block, where they are not the lanes; else None."""
    found: list[loop.ForOp] = []
    for block in cuts.blocks_in(small):
        own = Numbering()
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


def _follow(body: loop.ForOp, by: Index, number: int, step: int, numbering: Numbering) -> None:
    """Move the blocks of a tile whose indices grow with a loop's: by so much, for one step of it."""
    for block in _blocks(body):
        own = Numbering()
        own.numbers, own.values = dict(numbering.numbers), list(numbering.values)
        exprs = [own.exprs(es, block.args) for es in (block.bindings.data, block.where_exprs)]
        now = [[x + by * (x.coefficient(number) // step) for x in es] for es in exprs]
        known = own.ranges()
        set_exprs(block, now[0], [w for w in now[1] if w.bounds(known)[0] < 0], own)


def _may_move(body: loop.ForOp, iv: SSAValue, step: int, place: Sequence[SSAValue]) -> bool:
    """
    Whether a tile, whose place depends on some indices, may be computed at any other, perhaps twice.

    What it accumulates must begin in it, its indices must follow its place, and what it reads must be there whatever
    these indices are: computed outside of their loops. So must be what others read of it: in a loop of the place they
    have a part of the buffer only, as of a panel that is packed for them; but other tiles read what they begin. What it
    leaves must be final: zeros to which others add stay where they are.
    """
    if step <= 0 or any(iv in f.indices for f in body.walk() if isinstance(f, loop.ForOp) and f is not body):
        return False
    begun: set[SSAValue] = set()
    added = {buffer for block in _blocks(body) for buffer in _accumulated(block)}
    for block in _blocks(body):
        numbers = [k for k, v in enumerate(block.args) if v is iv]
        exprs = (*block.bindings.data, *block.where_exprs)
        if any(e.coefficient(n) % step or _within(e, n) for e in exprs for n in numbers):
            return False
        accesses = [op for op in block.walk() if isinstance(op, Accessing)]
        stored = {op.buffer for op in accesses if isinstance(op, loop.StoreOp)}
        for buffer in {op.buffer for op in accesses if not isinstance(op, loop.StoreOp)}:
            if buffer in stored and not block.has_init and buffer not in begun:
                return False
            if buffer not in begun and any(_below(buffer, v, body, loop.StoreOp) for v in place):
                return False
        if any(_read_below(buffer, v, body) for buffer in stored if _is_part(buffer) for v in place):
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
    blocks = {block_of(use.operation) for use in buffer.uses if isinstance(use.operation, loop.StoreOp)}
    return any(block is not None and buffer in _accumulated(block) for block in blocks)


def _is_part(buffer: SSAValue) -> bool:
    return isinstance(buffer.owner, loop.AllocOp)


def _below(buffer: SSAValue, index: SSAValue, body: loop.ForOp, kind: Any) -> list[Operation]:
    """The ops of a kind that use a buffer in the loop of an index, outside of a body."""
    around = index.owner.parent_op() if isinstance(index.owner, Block) else None
    if not isinstance(around, loop.ForOp):
        return []
    users: list[Any] = [u.operation for u in buffer.uses if isinstance(u.operation, kind)]
    return [op for op in users if op.buffer is buffer and around.is_ancestor(op) and not body.is_ancestor(op)]


def _read_below(buffer: SSAValue, index: SSAValue, body: loop.ForOp) -> bool:
    """Whether what a body leaves in a buffer may be read in the loop of an index by others than it."""
    users = _below(buffer, index, body, Accessing)
    begins = [u.operation for u in buffer.uses if isinstance(u.operation, loop.StoreOp) and _begins(u.operation)]
    for op in users:
        around: Operation | None = op
        while around is not None and not any(around.is_ancestor(store) for store in begins):
            around = around.parent_op()
        if around is None or around.is_ancestor(body):
            return True
    return False


def _begins(store: loop.StoreOp) -> bool:
    """Whether a store does not depend on what the buffer held."""
    block = block_of(store)
    return block is not None and (block.has_init or store.buffer not in _accumulated(block))


def _within(e: Index, number: int) -> bool:
    """Whether a dimension occurs in a quotient."""
    return any(not isinstance(t, int) and t.expr.uses(number) for t, _ in e.terms)


def drop(op: Operation, known: Index, numbering: Numbering) -> None:
    """Forget, in all of an op, predicates that follow from `known >= 0`."""
    for block in cuts.blocks_in(op):
        own = Numbering()
        own.numbers, own.values = dict(numbering.numbers), list(numbering.values)
        exprs = own.exprs(block.where_exprs, block.args)
        ranges = own.ranges()
        keep = [x for x in exprs if not implies(known, x, ranges)]
        if len(keep) < len(exprs):
            set_exprs(block, own.exprs(block.bindings.data, block.args), keep, own)


def _over_symbols(term: Term, numbering: Numbering) -> bool:
    return all(is_symbol(numbering.values[d]) for d in _dims(term))


def _inside(f: loop.ForOp, e: Index, numbering: Numbering) -> tuple[Index, bool]:
    """The terms of a predicate that loops inside of a loop change, and whether these are all vectorized."""
    loops = [g for g in f.body.walk() if isinstance(g, loop.ForOp) and g.iv in numbering.numbers]
    loops = [g for g in loops if e.uses(numbering.numbers[g.iv])]
    numbers = {numbering.numbers[g.iv] for g in loops}
    inner = Index(0, tuple((t, c) for t, c in e.terms if _dims(t) & numbers))
    return inner, all(g.kind.data == "vectorized" for g in loops)


def _dims(term: Term) -> set[int]:
    return {term} if isinstance(term, int) else term.expr.dims()


def _reduces(f: loop.ForOp) -> bool:
    """Whether a loop runs along a reduction axis of a block."""
    pairs = [(b, e) for b in _blocks(f) if f.iv in b.args for e in b.bindings.data[b.num_spatial :]]
    return any(e.uses(b.args.index(f.iv)) for b, e in pairs)


def _blocks(op: Operation) -> Iterator[loop.BlockOp]:
    return iter([b for b in op.walk() if isinstance(b, loop.BlockOp)])


__all__ = ["Ragged", "drop", "split"]
