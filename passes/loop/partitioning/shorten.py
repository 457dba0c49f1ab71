"""Fewer iterations of a loop over tiles in the last iteration of a loop around it, in place of a second body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from mlc.dialects import loop
from mlc.dialects.index import ZERO, Index, IndexMapAttr, Range, Term, const, dim, term_dims
from mlc.passes.loop.index_space.domain import blocks_of, loop_of, loops_and_blocks
from mlc.passes.loop.index_space.expressions import replace_terms, set_bindings, set_exprs
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.cuts import move_ops


def shorten(
    term: Term, e: Index, span: Range, space: IndexSpace, around: Sequence[loop.ForOp]
) -> list[Operation] | None:
    """
    Give a loop over tiles fewer iterations where `term`, over loops around it, has its last value.

    `for %p = 0 to 2 parallel { for %i = 0 to 10 { for %j = 0 to 9 { block where (168 - %p * 90 - %i * 9 - %j) } } }` ->
    `for %p = 0 to 2 parallel { for %i = 0 to 10 - (%p + 1) floordiv 2 * 2 { .. block } for %ragged = 0 to (%p + 1)
    floordiv 2 { for %i = 8 to 9 { .. block where (78 - %i * 9 - %j) } } }`. Loop versioning would have the body of
    whole tiles twice. `span` is the range of the term; the predicate `e >= 0` may fail only for the last value. None
    where no loop over tiles has predicates of that form on all of its blocks.
    """
    for tiles in around:
        k = space.numbers.get(tiles.iv)
        if k is not None and _is_loop_over_tiles(tiles) and _is_linear(e, k) and _is_inside(tiles, term, space):
            if (last := LastTiles.of(tiles, k, term, e, span, space)) is not None:
                return last.apply()
    return None


def _is_loop_over_tiles(f: loop.ForOp) -> bool:
    """Whether a loop of a constant trip count, which runs on the machine, stands around another one."""
    if f.kind.data != "serial" or f.results or f.extent is None or f.lower != ZERO:
        return False
    return any(isinstance(g, loop.ForOp) and g.kind.data == "serial" and g is not f for g in loops_and_blocks(f))


def _is_inside(f: loop.ForOp, term: Term, space: IndexSpace) -> bool:
    """Whether a loop stands in the loops of a term."""
    outer = [loop_of(space.values[d]) for d in term_dims(term)]
    return all(g is not None and g is not f and g.is_ancestor(f) for g in outer)


def _is_linear(e: Index, number: int) -> bool:
    """Whether an expression decreases along a dimension that occurs in no floordiv or mod."""
    return e.coefficient(number) < 0 and sum(number in term_dims(t) for t, _ in e.terms) == 1


@dataclass(frozen=True)
class LastTiles:
    """The trip count of a loop over tiles where a term has its last value: whole tiles, and perhaps a partial one."""

    tiles: loop.ForOp
    number: int
    term: Term
    span: Range
    whole: int
    """How many tiles the loop has then: in tiles 0 to `whole - 1` the predicate `e >= 0` holds for every element."""
    end: int
    """The number of the first tile in which no block runs: `whole`, or `whole + 1` behind a partial tile."""
    space: IndexSpace

    @staticmethod
    def of(tiles: loop.ForOp, number: int, term: Term, e: Index, span: Range, space: IndexSpace) -> LastTiles | None:
        """The plan by a predicate `e >= 0`; None where the other predicates in the loop do not agree with it."""
        extent, step = tiles.extent, -e.coefficient(number)
        assert extent is not None
        low, high = (replace_terms(e, {term: const(span[1])}) + dim(number) * step).bounds(space.ranges)
        whole, end = max(0, low // step + 1), max(0, high // step + 1)
        plan = LastTiles(tiles, number, term, span, whole, min(end, extent), space)
        return plan if whole < extent and end - whole <= 1 and plan.ends_all_blocks() else None

    def ends_all_blocks(self) -> bool:
        """Whether each block has a predicate that fails behind the last tile."""
        assert self.tiles.extent is not None
        behind = {self.number: (self.end, self.tiles.extent - 1)}
        blocks = [self.space.exprs(block.where_exprs, block.args) for block in blocks_of(self.tiles)]
        if self.end == self.tiles.extent:
            return all(blocks)
        return all(any(self._bounds(w, self.span[1], behind)[1] < 0 for w in where) for where in blocks)

    def apply(self) -> list[Operation]:
        """Shorten the loop, and put a copy for the partial tile behind it. -> the loops in which something changed."""
        extent, last = self.tiles.extent, self.span[1]
        assert extent is not None
        is_last = Index(1 - self.span[0], ((self.term, 1),)).floordiv(last - self.span[0] + 1)
        partial = self._partial_tile(is_last) if self.end > self.whole else []
        set_exprs(self.space, self.tiles, {"bounds": [ZERO, const(extent) - is_last * (extent - self.whole)]})
        for block in blocks_of(self.tiles):
            where = self.space.exprs(block.where_exprs, block.args)
            self._restrict(block, [w for w in where if not self._holds(w)])
        return [self.tiles, *partial]

    def _partial_tile(self, is_last: Index) -> list[Operation]:
        """A copy of the loop for the partial tile, in a loop that runs once where the term has its last value."""
        copy, guard = self.tiles.clone(), loop.ForOp.make(is_last, operands=self.space.values, name="ragged")
        guard.location = self.tiles.location
        parent = self.tiles.parent
        assert parent is not None
        parent.insert_op_after(copy, self.tiles)
        move_ops([copy], guard)
        copy.properties["bounds"] = IndexMapAttr((const(self.whole), const(self.whole + 1)))
        for block in blocks_of(copy):
            where = self.space.exprs(block.where_exprs, block.args)
            self._restrict(block, [replace_terms(w, {self.term: const(self.span[1])}) for w in where])
        return [guard]

    def _holds(self, w: Index) -> bool:
        """Whether a predicate holds in all tiles that are left."""
        before = self._bounds(w, (self.span[0], self.span[1] - 1))[0] >= 0
        return before and (not self.whole or self._bounds(w, self.span[1], {self.number: (0, self.whole - 1)})[0] >= 0)

    def _bounds(self, w: Index, value: int | Range, known: Mapping[int, Range] | None = None) -> Range:
        """The range of an expression for one value or a range of the term."""
        fresh = len(self.space.values)
        known = dict(known or {})
        if isinstance(value, tuple):
            known[fresh] = value
        to = dim(fresh) if isinstance(value, tuple) else const(value)
        return replace_terms(w, {self.term: to}).bounds(self.space.ranges_with(known))

    def _restrict(self, block: loop.BlockOp, where: Sequence[Index]) -> None:
        set_bindings(self.space, block, self.space.exprs(block.bindings.data, block.args), where)
