"""loop-partition: ragged loops are split where their predicate turns, so that the main part has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import Index, Range, Term, const, dim
from mlc.passes.loop import ragged
from mlc.passes.loop.cuts import blocks_in, cut, erase_nest, set_exprs, two_bodies
from mlc.passes.loop.nest import Numbering, Ranges, at_worst, is_symbol, loops_around

LARGE = 1 << 40
Changed = list[Operation] | None


class Partition:
    """The rewrites of one kernel."""

    def __init__(self, func: loop.FuncOp) -> None:
        self.func = func
        # Bodies of the last iterations of a parallel loop, and where its predicate turned: not to be chosen in again.
        self.ragged: dict[Operation, tuple[SSAValue, int, int]] = {}
        self.known = Numbering()
        self.chosen: set[tuple[SSAValue, Index]] = set()

    def run(self) -> None:
        """Split, and simplify predicates, until nothing changes: first where that is known now, then at run time."""
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

    def split(self, block: loop.BlockOp, e: Index, symbolic: bool) -> list[Operation] | None:
        """One step on a predicate, at the outermost loop that takes one; None where there is nothing to do."""
        numbering = Numbering()
        expr = numbering.expr(e, block.args)
        around = loops_around(block)
        if (over_symbols := any(is_symbol(v) for v in numbering.values)) and not symbolic:
            return None
        for f in [f for f in around if f.iv in numbering.numbers]:
            if over_symbols and (changed := ragged.split(self, f, expr, numbering)) is not None:
                return changed
            if f.extent is None or not f.lower.is_const or f.results:
                continue
            turn = Turn.of(expr, numbering.numbers[f.iv], numbering)
            if turn is None:
                continue
            lower, upper = f.lower.const, f.upper.const
            if not turn.dead_from > lower:
                return erase_nest(block)
            if turn.dead_from < upper:
                return cut(f, turn.dead_from)
            if lower < turn.bad_from < upper and f.kind.data == "serial":
                return cut(f, turn.bad_from)
            if lower < turn.bad_from < upper and f.kind.data == "parallel":
                key = f.iv, turn.bad_from, turn.dead_from
                if all(self.ragged.get(g) != key for g in around):
                    chosen = version(f, numbering.numbers[f.iv], turn, numbering)
                    self.ragged[chosen[1]] = key
                    return chosen
        for term, _ in expr.terms:
            if not isinstance(term, int) and (turn := Turn.of(expr, term, numbering)) is not None:
                dims = term.expr.dims()
                inner = [f for f in around if numbering.numbers.get(f.iv) in dims][-1:]
                if inner and inner[0].kind.data != "vectorized" and not inner[0].results and turn.is_inside:
                    return version(inner[0], term, turn, numbering)
        return None


@dataclass(frozen=True)
class Turn:
    """Where a predicate turns along one term with a negative coefficient: it may fail from, it fails from."""

    bad_from: int
    dead_from: int
    span: Range

    @staticmethod
    def of(e: Index, term: Term, numbering: Numbering) -> Turn | None:
        """How `e >= 0` turns along a term on which the rest of the expression does not depend."""
        step = next((c for t, c in e.terms if t == term), 0)
        rest = e - Index(0, ((term, step),))
        dims = {term} if isinstance(term, int) else term.expr.dims()
        if step >= 0 or dims & rest.dims():
            return None
        ranges = numbering.ranges()
        lo, hi = rest.bounds(ranges)
        return Turn(lo // -step + 1, hi // -step + 1, Index(0, ((term, 1),)).bounds(ranges))

    @property
    def is_inside(self) -> bool:
        """Whether it holds for some values of the term and fails for others."""
        return -LARGE < self.span[0] < self.bad_from <= self.span[1] < LARGE


def version(f: loop.ForOp, term: Term, turn: Turn, numbering: Numbering) -> list[Operation]:
    """
    Choose inside of a loop: iterations of a parallel loop stay together, and quotients cannot be cut at all.

    `for %p parallel { S }` -> `for %p parallel { for 0 to 1 - ragged { S } for 0 to ragged { S } }`, where `ragged`,
    an index expression of %p that is 0 or 1, says that the predicate may fail.
    """
    size = turn.span[1] - turn.span[0] + 1
    ragged = Index(size - turn.bad_from, ((term, 1),)).floordiv(size)
    first, second = two_bodies(f, const(1) - ragged, ragged, numbering)
    for block in blocks_in(first):
        _know(block, term, (turn.span[0], turn.bad_from - 1), numbering)
    for block in blocks_in(second):
        _know(block, term, (turn.bad_from, turn.span[1]), numbering)
    return [first, second]


def _know(block: loop.BlockOp, term: Term, span: Range, numbering: Numbering) -> None:
    """In one version of a body the term lies in `span`: that proves predicates, or makes the term a constant."""
    exprs = numbering.exprs(block.where_exprs, block.args)
    bindings = numbering.exprs(block.bindings.data, block.args)
    ranges = numbering.ranges()
    unknown = len(numbering.values)
    ranges[unknown] = span
    known = const(span[0]) if span[0] == span[1] else dim(unknown)
    inside = [(w, _replace(w, {term: known})) for w in exprs]
    keep = [k if known.is_const else w for w, k in inside if k.bounds(ranges)[0] < 0]
    set_exprs(block, bindings, keep, numbering)


def _replace(w: Index, to: Mapping[Term, Index]) -> Index:
    total = const(w.const)
    for t, c in w.terms:
        total = total + (to[t] if t in to else Index(0, ((t, 1),))) * c
    return total


def drop_proved(block: loop.BlockOp) -> None:
    """Forget predicates that the loops' bounds prove."""
    numbering = Numbering()
    exprs = numbering.exprs(block.where_exprs, block.args)
    ranges = numbering.ranges()
    keep = [e for e in exprs if e.bounds(ranges)[0] < 0]
    keep = [e for e in keep if at_worst(e, numbering.values, numbering.number).bounds(numbering.ranges())[0] < 0]
    if len(keep) < len(exprs):
        set_exprs(block, numbering.exprs(block.bindings.data, block.args), keep, numbering)


def turning_points(f: loop.ForOp) -> set[int]:
    """Where the masks of loads inside a loop turn, of those masks that depend on this loop alone."""
    points: set[int] = set()
    for block in (op for op in f.walk() if isinstance(op, loop.BlockOp)):
        ranges = Ranges(block.args)
        bindings: dict[SSAValue, Index] = dict(zip(block.body.block.args, block.bindings.data, strict=True))
        for load in (op for op in block.body.block.ops if isinstance(op, loop.LoadOp) and op.mask is not None):
            if not all(v in bindings for v in load.indices):
                continue
            for e in load.mask_exprs:
                around = e.substitute(lambda d, load=load, bindings=bindings: bindings[load.indices[d]], ranges)
                (term, step), *more = around.terms or [(0, 0)]
                if more or not step or not isinstance(term, int) or block.args[term] is not f.iv:
                    continue
                points.add(-(around.const // step) if step > 0 else around.const // -step + 1)
    return {at for at in points if f.lower.const < at < f.upper.const}


def cut_at_masks(func: loop.FuncOp) -> None:
    """A copying loop is cut where a mask turns, so that each part reads with no mask, or not at all."""
    for f in [op for op in func.walk() if isinstance(op, loop.ForOp)]:
        blocks = sum(isinstance(op, loop.BlockOp) for op in f.walk())
        if blocks != 1 or f.kind.data != "serial" or f.results or f.extent is None or not f.lower.is_const:
            continue
        for at in sorted(turning_points(f), reverse=True):
            cut(f, at)


def partition(func: loop.FuncOp) -> None:
    """All predicates of a kernel, then the masks of its copies."""
    Partition(func).run()
    cut_at_masks(func)


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """
    A loop whose last iterations fall off a block's domain becomes two, the first without a predicate.

    `loop.for %o = 0 to 5 { loop.for %i = 0 to 12 { block where (56 - %o * 12 - %i) } }`
    -> `loop.for %o = 0 to 4 { ... block }` and `loop.for %o = 4 to 5 { loop.for %i = 0 to 9 { block } }`.
    A loop round one block is also cut where the mask of a load turns: the edges of a padded row, the parts of a
    concatenation. A parallel loop stays whole; its body chooses by `loop.for %ragged = 0 to <0 or 1>`.

    Where the extent is a symbol N, the ragged tile moves back to end where the axis does, and what is below a tile's
    size is covered by smaller tiles in a loop marked `cold`; `loop.for %o = 0 to N ceildiv 4 { .. }` ->
    `loop.for %o = 0 to N floordiv 4 { .. }`, and a tile at `N - 4` where `N mod 4` is not 0.
    """

    name = "loop-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                partition(func)
