"""loop-partition: ragged loops are split where their predicate turns, so that the main part has none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, Range, Term, at_least, compact, const, dim
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
        """Split, and simplify predicates, until nothing changes."""
        work = self.blocks(self.func)
        while work:
            block = work.pop()
            if block.where is None or not self.func.is_ancestor(block):
                continue
            drop_proved(block)
            for e in block.where_exprs:
                if (changed := self.split(block, e)) is not None:
                    work += [b for op in changed for b in self.blocks(op)]
                    break

    @staticmethod
    def blocks(op: Operation) -> list[loop.BlockOp]:
        """The blocks with predicates."""
        return [b for b in op.walk() if isinstance(b, loop.BlockOp) and b.where is not None]

    def split_symbolic(self, f: loop.ForOp, e: Index, numbering: Numbering) -> Changed:
        """
        A predicate `N - 1 - %o * T - inner` over a symbol N, at a loop that it uses; inner are the loops further in.

        -> where %o runs to `N ceildiv T`, it can fail in the last iteration only, so that a serial loop is cut at
        `N floordiv T`. In any other loop that reduces nothing, round the lanes, one of two loops is chosen.
        """
        inner, lanes = _inside(f, e, numbering)
        low, high = inner.bounds(numbering.ranges())
        if (
            f.results
            or f.lower.terms
            or f.kind.data not in ("serial", "parallel")
            or high > 0
            or low == 0
            or low < -UNBOUNDED // 2
        ):
            return None
        if (changed := cut_symbolic(f, e, inner, low, numbering)) is not None:
            return changed
        whole = e - inner + low
        key = f.iv, whole.substitute(lambda d: dim(self.known.number(numbering.values[d])))
        if not lanes or key in self.chosen or _reduces(f):
            return None
        self.chosen.add(key)
        first, second = _two_bodies(f, at_least(whole), const(1) - at_least(whole), numbering)
        _drop(first, whole, numbering)
        return [first, second]

    def split(self, block: loop.BlockOp, e: Index) -> list[Operation] | None:
        """One step on a predicate, at the outermost loop that takes one; None where there is nothing to do."""
        numbering = Numbering()
        expr = numbering.expr(e, block.args)
        around = loops_around(block)
        symbolic = any(is_symbol(v) for v in numbering.values)
        for f in [f for f in around if f.iv in numbering.numbers]:
            if symbolic and (changed := self.split_symbolic(f, expr, numbering)) is not None:
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


def _inside(f: loop.ForOp, e: Index, numbering: Numbering) -> tuple[Index, bool]:
    """The terms of a predicate that loops inside of a loop change, and whether these are all vectorized."""
    loops = [g for g in f.body.walk() if isinstance(g, loop.ForOp) and g.iv in numbering.numbers]
    loops = [g for g in loops if e.uses(numbering.numbers[g.iv])]
    numbers = {numbering.numbers[g.iv] for g in loops}
    inner = Index(0, tuple((t, c) for t, c in e.terms if _dims(t) & numbers))
    return inner, all(g.kind.data == "vectorized" for g in loops)


def cut_symbolic(f: loop.ForOp, e: Index, inner: Index, low: int, numbering: Numbering) -> Changed:
    """`for %o = 0 to N ceildiv T { .. where N - 1 - %o * T - inner }` -> cut at `N floordiv T`."""
    number = numbering.numbers[f.iv]
    step = -e.coefficient(number)
    size = e + dim(number) * step - inner + 1
    over = {numbering.number(v): dim(k) for k, v in enumerate(f.indices)}
    ranges = numbering.ranges()
    if f.extent is not None or f.kind.data != "serial" or step <= -low or not size.dims() <= over.keys():
        return None
    if f.lower.terms or f.lower.const or f.upper != (size + (step - 1)).floordiv(step, ranges).substitute(over):
        return None
    main, tail = cut(f, size.floordiv(step, ranges).substitute(over))
    _drop(main, e - inner - (step - 1), numbering)
    return [main, tail]


def _dims(term: Term) -> set[int]:
    return {term} if isinstance(term, int) else term.expr.dims()


def _reduces(f: loop.ForOp) -> bool:
    """Whether a loop runs along a reduction axis of a block."""
    blocks = [b for b in f.walk() if isinstance(b, loop.BlockOp)]
    pairs = [(b, e) for b in blocks if f.iv in b.args for e in b.bindings.data[b.num_spatial :]]
    return any(e.uses(b.args.index(f.iv)) for b, e in pairs)


def _drop(op: Operation, known: Index, numbering: Numbering) -> None:
    """Forget, in all of an op, predicates that follow from `known >= 0`."""
    for block in Partition.blocks(op):
        own = Numbering()
        own.numbers, own.values = dict(numbering.numbers), list(numbering.values)
        exprs = own.exprs(block.where_exprs, block.args)
        keep = [x for x in exprs if (x - known).bounds(own.ranges())[0] < 0]
        if len(keep) < len(exprs):
            _set(block, own.exprs(block.bindings.data, block.args), keep, own)


def cut(f: loop.ForOp, at: int | Index) -> list[Operation]:
    """`for lo to hi` -> `for lo to at` and, behind it, `for at to hi`, less what never runs there."""
    tail = f.clone()
    parent = f.parent
    assert parent is not None
    parent.insert_op_after(tail, f)
    at = const(at) if isinstance(at, int) else at
    f.properties["bounds"] = IndexMapAttr((f.lower, at))
    tail.properties["bounds"] = IndexMapAttr((at, tail.upper))
    for block in Partition.blocks(tail):
        numbering = Numbering()
        exprs = numbering.exprs(block.where_exprs, block.args)
        if any(e.bounds(numbering.ranges())[1] < 0 for e in exprs):
            erase_nest(block)
    return [f] if tail.parent is None else [f, tail]


def erase_nest(op: Operation) -> list[Operation]:
    """Erase a block that never runs, and the loops that are empty without it."""
    while isinstance(parent := op.parent_op(), loop.ForOp) and not parent.results and len(parent.body.block.ops) == 2:
        op = parent
    op.detach()
    op.erase()
    return []


def version(f: loop.ForOp, term: Term, turn: Turn, numbering: Numbering) -> list[Operation]:
    """
    Choose inside of a loop: iterations of a parallel loop stay together, and quotients cannot be cut at all.

    `for %p parallel { S }` -> `for %p parallel { for 0 to 1 - ragged { S } for 0 to ragged { S } }`, where `ragged`,
    an index expression of %p that is 0 or 1, says that the predicate may fail.
    """
    size = turn.span[1] - turn.span[0] + 1
    ragged = Index(size - turn.bad_from, ((term, 1),)).floordiv(size)
    first, second = _two_bodies(f, const(1) - ragged, ragged, numbering)
    for block in Partition.blocks(first):
        _know(block, term, (turn.span[0], turn.bad_from - 1), numbering)
    for block in Partition.blocks(second):
        _know(block, term, (turn.bad_from, turn.span[1]), numbering)
    return [first, second]


def _two_bodies(f: loop.ForOp, main: Index, ragged: Index, numbering: Numbering) -> tuple[loop.ForOp, loop.ForOp]:
    """The body of a loop twice, in loops that run as often as two expressions say."""
    body = f.body.block
    ops = [op for op in body.ops if not isinstance(op, loop.YieldOp)]
    first = loop.ForOp.make(main, operands=numbering.values, name="main")
    second = loop.ForOp.make(ragged, operands=numbering.values, name="ragged")
    for op in ops:
        op.detach()
        first.body.block.add_op(op)
    copies: dict[SSAValue, SSAValue] = {}
    for op in ops:
        second.body.block.add_op(op.clone(copies))
    for choice in (first, second):
        choice.body.block.add_op(loop.YieldOp.create())
        body.insert_op_before(choice, f.yield_op)
    return first, second


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
    _set(block, bindings, keep, numbering)


def _replace(w: Index, to: Mapping[Term, Index]) -> Index:
    total = const(w.const)
    for t, c in w.terms:
        total = total + (to[t] if t in to else Index(0, ((t, 1),))) * c
    return total


def _set(block: loop.BlockOp, bindings: Iterable[Index], where: Iterable[Index], numbering: Numbering) -> None:
    """Give a block new bindings and predicates over numbered values."""
    bindings, where = list(bindings), list(where)
    n = len(bindings)
    extents = numbering.exprs(block.extents.data, block.args)
    exprs, dims = compact([*extents, *bindings, *where], numbering.values)
    block.properties["extents"] = IndexMapAttr(exprs[:n])
    block.properties["bindings"] = IndexMapAttr(exprs[n : 2 * n])
    if where:
        block.properties["where"] = IndexMapAttr(exprs[2 * n :])
    else:
        block.properties.pop("where", None)
    block.operands = dims


def drop_proved(block: loop.BlockOp) -> None:
    """Forget predicates that the loops' bounds prove."""
    numbering = Numbering()
    exprs = numbering.exprs(block.where_exprs, block.args)
    ranges = numbering.ranges()
    keep = [e for e in exprs if e.bounds(ranges)[0] < 0]
    keep = [e for e in keep if at_worst(e, numbering.values, numbering.number).bounds(numbering.ranges())[0] < 0]
    if len(keep) < len(exprs):
        _set(block, numbering.exprs(block.bindings.data, block.args), keep, numbering)


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
    """

    name = "loop-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                partition(func)
