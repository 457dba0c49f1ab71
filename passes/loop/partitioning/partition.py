"""
loop-partition: index set splitting and loop versioning, so that the main part of a ragged loop has no predicate.

A predicate `e >= 0` whose expression decreases along a loop holds up to an iteration and fails from a later one on:
the loop is split there (TVM's LoopPartition). Where a loop must stay whole, its body is versioned instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, Range, Term, const, dim, term_dims
from mlc.passes.loop.index_space.domain import body_ops, is_symbol, loops_and_blocks, loops_around
from mlc.passes.loop.index_space.expressions import replace_terms, set_bindings
from mlc.passes.loop.index_space.predicates import always_holds
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning import ragged
from mlc.passes.loop.partitioning.clip import clip_loops
from mlc.passes.loop.partitioning.clip_bands import clip_bands
from mlc.passes.loop.partitioning.cuts import blocks_in, cut, erase_nest, two_bodies
from mlc.passes.loop.partitioning.edges import version_edges
from mlc.passes.loop.partitioning.mask_cuts import cut_at_masks
from mlc.passes.loop.partitioning.predicate_tails import predicate_tails
from mlc.passes.loop.partitioning.shorten import shorten
from mlc.passes.loop.partitioning.skip_taps import skip_taps

Changed = list[Operation] | None


class Partition:
    """Partitions the loops of one kernel."""

    def __init__(self, func: loop.FuncOp) -> None:
        self.func = func
        # The ragged version of a loop's body -> the loop and the turning point of its predicate, for which it is not
        # versioned again: there the predicate may hold or fail, as before.
        self.ragged: dict[Operation, tuple[SSAValue, int, int]] = {}
        self.known = IndexSpace()
        self.chosen: set[tuple[SSAValue, Index]] = set()
        """The loops, and the predicates over `known`, for which `ragged.split` has made versions."""

    def run(self) -> None:
        """Split, and simplify predicates, until nothing changes: first at static places, then at symbolic ones."""
        for symbolic in (False, True):
            self.rounds(symbolic)

    def rounds(self, symbolic: bool) -> None:
        """Split at predicates until nothing changes; those over symbols come last, as each makes several bodies."""
        work = blocks_in(self.func)
        while work:
            block = work.pop()
            if block.where is None or not self.func.is_ancestor(block):
                continue
            drop_proved(block)
            for e in block.where_exprs:
                if (changed := self.split(block, e, symbolic)) is not None:
                    work += [b for op in changed for b in blocks_in(op)]
                    break

    def split(self, block: loop.BlockOp, e: Index, symbolic: bool) -> Sequence[Operation] | None:
        """Split or version the outermost loop that a predicate allows; None where there is nothing to do."""
        space = IndexSpace()
        expr = space.expr(e, block.args)
        around = loops_around(block)
        if (over_symbols := any(map(is_symbol, space.values))) and not symbolic:
            return None
        parallel = space.numbers_of([f for f in around if f.kind.data == "parallel"])
        for term in [t for t, _ in expr.terms if term_dims(t) <= parallel]:
            turn = Turn.of(expr, term, space)
            if turn is not None and turn.is_inside and turn.may_fail_from == turn.span[1] < turn.fails_from:
                if (changed := shorten(term, expr, turn.span, space, around)) is not None:
                    return changed
        for f in [f for f in around if f.iv in space.numbers]:
            if over_symbols and (changed := ragged.split(self, f, expr, space)) is not None:
                return changed
            if f.extent is None or not f.lower.is_const or f.results:
                continue
            turn = Turn.of(expr, space.numbers[f.iv], space)
            if turn is None:
                continue
            lower, upper = f.lower.const, f.upper.const
            if not turn.fails_from > lower:
                return erase_nest(block)
            if turn.fails_from < upper:
                return cut(f, turn.fails_from)
            if lower < turn.may_fail_from < upper and f.kind.data == "serial":
                return cut(f, turn.may_fail_from)
            if lower < turn.may_fail_from < upper and f.kind.data == "parallel":
                if (chosen := self.version(f, space.numbers[f.iv], turn, space, around)) is not None:
                    return chosen
        for term, _ in expr.terms:
            if not isinstance(term, int) and (turn := Turn.of(expr, term, space)) is not None:
                inner = [f for f in around if space.numbers.get(f.iv) in term_dims(term)][-1:]
                if inner and inner[0].kind.data != "vectorized" and not inner[0].results and turn.is_inside:
                    if (chosen := self.version(inner[0], term, turn, space, around)) is not None:
                        return chosen
        return None

    def version(
        self, f: loop.ForOp, term: Term, turn: Turn, space: IndexSpace, around: Sequence[loop.ForOp]
    ) -> list[Operation] | None:
        """Version a loop's body; None in the ragged version of the same turning point."""
        key = f.iv, turn.may_fail_from, turn.fails_from
        if any(self.ragged.get(g) == key for g in around):
            return None
        first, second = version(f, term, turn, space)
        for op, copy in zip(loops_and_blocks(first), loops_and_blocks(second), strict=True):
            if op in self.ragged:
                self.ragged[copy] = self.ragged[op]
        self.ragged[second] = key
        return [first, second]


@dataclass(frozen=True)
class Turn:
    """The turning point of a predicate along one term with a negative coefficient."""

    may_fail_from: int
    """The first value of the term for which the predicate may fail."""
    fails_from: int
    """The first value of the term from which on the predicate always fails."""
    span: Range
    """The range of the term."""

    @staticmethod
    def of(e: Index, term: Term, space: IndexSpace) -> Turn | None:
        """How `e >= 0` turns along a term on which the rest of the expression does not depend."""
        step = next((c for t, c in e.terms if t == term), 0)
        rest = e - Index(0, ((term, step),))
        dims = term_dims(term)
        if step >= 0 or dims & rest.dims():
            return None
        ranges = space.ranges
        lo, hi = rest.bounds(ranges)
        return Turn(lo // -step + 1, hi // -step + 1, Index(0, ((term, 1),)).bounds(ranges))

    @property
    def is_inside(self) -> bool:
        """Whether it holds for some values of the term and fails for others."""
        return -UNBOUNDED < self.span[0] < self.may_fail_from <= self.span[1] < UNBOUNDED


def version(f: loop.ForOp, term: Term, turn: Turn, space: IndexSpace) -> list[Operation]:
    """
    Version a loop's body instead of splitting its range: a parallel loop stays whole, a quotient is no loop index.

    `for %p parallel { S }` -> `for %p parallel { for 0 to 1 - ragged { S } for 0 to ragged { S } }`, where `ragged`,
    an index expression of %p that is 0 or 1, says that the predicate may fail. What stands in front of all blocks with
    predicates over the loop, and behind them, is not copied.
    """
    size = turn.span[1] - turn.span[0] + 1
    ragged = Index(size - turn.may_fail_from, ((term, 1),)).floordiv(size)
    first, second = two_bodies(f, const(1) - ragged, ragged, space, _restricted(f))
    for block in blocks_in(first):
        _assume(block, term, (turn.span[0], turn.may_fail_from - 1), space)
    for block in blocks_in(second):
        _assume(block, term, (turn.may_fail_from, turn.span[1]), space)
    return [first, second]


def _restricted(f: loop.ForOp) -> list[Operation]:
    """The ops of a loop's body from the first to the last that holds blocks with predicates over the loop's index."""
    ops = body_ops(f.body.block)
    over = [k for k, op in enumerate(ops) if any(_restricts(block, f) for block in blocks_in(op))]
    found = ops[over[0] : over[-1] + 1]
    used = {use.operation for op in found for v in op.results for use in v.uses}
    return found if all(any(op.is_ancestor(user) for op in found) for user in used) else ops


def _restricts(block: loop.BlockOp, f: loop.ForOp) -> bool:
    """Whether a predicate of a block uses the index of a loop."""
    return any(v is f.iv and any(e.uses(k) for e in block.where_exprs) for k, v in enumerate(block.args))


def _assume(block: loop.BlockOp, term: Term, span: Range, space: IndexSpace) -> None:
    """Simplify the predicates of one version of a body, in which the term lies in `span`."""
    where = space.exprs(block.where_exprs, block.args)
    bindings = space.exprs(block.bindings.data, block.args)
    fresh = len(space.values)
    ranges = space.ranges_with({fresh: span})
    known = const(span[0]) if span[0] == span[1] else dim(fresh)
    inside = [(w, replace_terms(w, {term: known})) for w in where]
    keep = [k if known.is_const else w for w, k in inside if k.bounds(ranges)[0] < 0]
    set_bindings(space, block, bindings, keep)


def drop_proved(block: loop.BlockOp) -> None:
    """Drop the predicates that always hold."""
    space = IndexSpace()
    where = space.exprs(block.where_exprs, block.args)
    keep = [e for e in where if not always_holds(space, e)]
    if len(keep) < len(where):
        set_bindings(space, block, space.exprs(block.bindings.data, block.args), keep)


def partition(func: loop.FuncOp) -> None:
    """Loops over padding, whole tiles, all other predicates, then blocks that are masked, and the masks of copies."""
    clip_loops(func)
    predicate_tails(func)
    Partition(func).run()
    clip_bands(func)
    skip_taps(func)
    cut_at_masks(func)
    version_edges(func)


class PartitionPass(ModulePass):
    """
    A loop whose last iterations are outside of a block's domain becomes two, the first without a predicate.

    `loop.for %o = 0 to 5 { loop.for %i = 0 to 12 { block where (56 - %o * 12 - %i) } }`
    -> `loop.for %o = 0 to 4 { ... block }` and `loop.for %o = 4 to 5 { loop.for %i = 0 to 9 { block } }`.
    A loop around one or two blocks is also split where the mask of a load turns, in some lanes or in all: the edges of
    a padded row, the parts of a concatenation. A parallel loop stays whole: a loop over tiles in it has fewer
    iterations in the parallel loop's last one, with a partial tile behind it, or its body is versioned by `loop.for
    %ragged = 0 to <0 or 1>`. Tiles in loops marked `tail` are computed whole, and the accesses of their blocks
    predicated (`predicate_tails.py`).

    Where the extent is a symbol N, the partial tile is shifted inwards to end where the axis does, and an axis shorter
    than a tile is covered by smaller tiles in a loop marked `cold`; `loop.for %o = 0 to N ceildiv 4 { .. }` ->
    `loop.for %o = 0 to N floordiv 4 { .. }`, and a tile at `N - 4` where `N mod 4` is not 0.
    """

    name = "loop-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                partition(func)
