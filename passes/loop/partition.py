"""loop-partition: ragged loops are split where their predicate turns, so that the main part has none."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, compact, const
from mlc.passes.loop.nest import Numbering, loops_around


class Partition:
    """The rewrites of one kernel."""

    def __init__(self, func: loop.FuncOp) -> None:
        self.func = func

    def run(self) -> None:
        """Split, and simplify predicates, until nothing changes."""
        work = [op for op in self.func.walk() if isinstance(op, loop.BlockOp) and op.where is not None]
        while work:
            block = work.pop()
            if block.parent is None or block.where is None:
                continue
            drop_proved(block)
            for e in block.where_exprs:
                split = self.split(block, e)
                if split is not None:
                    work = [op for op in self.func.walk() if isinstance(op, loop.BlockOp) and op.where is not None]
                    break

    def split(self, block: loop.BlockOp, e: Index) -> loop.ForOp | None:
        """Cut the outermost loop on which the predicate depends; else tighten the only loop that is left."""
        numbering = Numbering()
        expr = numbering.expr(e, block.args)
        involved = [f for f in loops_around(block) if f.iv in numbering.numbers]
        static = [f for f in involved if f.extent is not None and f.lower.is_const]
        if len(static) != len(involved) or not involved:
            return None
        for f in involved:
            at = cut(f, expr, numbering)
            if at is not None:
                return split_loop(f, at)
        return tighten(involved[-1], expr, numbering) if all((f.extent or 0) == 1 for f in involved[:-1]) else None


def cut(f: loop.ForOp, e: Index, numbering: Numbering) -> int | None:
    """Where to cut a loop so that `e >= 0` holds before, whatever the other loops do; None if nowhere inside."""
    number = numbering.numbers[f.iv]
    step = e.coefficient(number)
    if step >= 0:
        return None
    rest = e - Index(0, ((number, step),))
    if rest.uses(number):
        return None
    low = rest.bounds(numbering.ranges())[0]
    first_bad = low // -step + 1
    lower, upper = f.lower.const, f.upper.const
    return first_bad if lower < first_bad < upper else None


def split_loop(f: loop.ForOp, at: int) -> loop.ForOp:
    """`for lo to hi` -> `for lo to at` and, behind it, `for at to hi`; returns the second."""
    tail = f.clone()
    parent = f.parent
    assert parent is not None
    parent.insert_op_after(tail, f)
    f.properties["bounds"] = IndexMapAttr((f.lower, const(at)))
    tail.properties["bounds"] = IndexMapAttr((const(at), tail.upper))
    return tail


def tighten(f: loop.ForOp, e: Index, numbering: Numbering) -> loop.ForOp | None:
    """With every other loop fixed, the predicate is a bound of this one: where all blocks inside share it."""
    number = numbering.numbers[f.iv]
    step = e.coefficient(number)
    rest = e - Index(0, ((number, step),))
    if step >= 0 or rest.uses(number):
        return None
    lo, hi = rest.bounds(numbering.ranges())
    if lo != hi:
        return None
    for op in f.walk():
        if isinstance(op, loop.BlockOp):
            mine = Numbering()
            if not any(_same(mine.expr(w, op.args), mine, e, numbering) for w in op.where_exprs):
                return None
    last = lo // -step + 1
    if not f.lower.const < last < f.upper.const:
        return None
    f.properties["bounds"] = IndexMapAttr((f.lower, const(last)))
    return f


def _same(a: Index, mine: Numbering, b: Index, other: Numbering) -> bool:
    """Whether two predicates over differently numbered values are equal."""
    names = {n: v for v, n in other.numbers.items()}
    if set(mine.numbers) - set(other.numbers):
        return False
    to = {n: Index(0, ((other.numbers[v], 1),)) for v, n in mine.numbers.items()}
    return bool(names) and a.substitute(to) == b


def drop_proved(block: loop.BlockOp) -> None:
    """Forget predicates that the loops' bounds prove."""
    numbering = Numbering()
    exprs = numbering.exprs(block.where_exprs, block.args)
    keep = [w for w, e in zip(block.where_exprs, exprs, strict=True) if e.bounds(numbering.ranges())[0] < 0]
    if len(keep) == len(exprs):
        return
    n = len(block.bindings.data)
    all_exprs, dims = compact([*block.bindings.data, *keep], block.args)
    block.properties["bindings"] = IndexMapAttr(all_exprs[:n])
    if keep:
        block.properties["where"] = IndexMapAttr(all_exprs[n:])
    else:
        del block.properties["where"]
    block.operands = dims


def partition(func: loop.FuncOp) -> None:
    """All predicates of a kernel."""
    Partition(func).run()
    for op in list(func.walk()):
        if isinstance(op, loop.BlockOp) and op.where is not None:
            drop_proved(op)


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """
    A loop whose last iterations fall off a block's domain becomes two, the first without a predicate.

    `loop.for %o = 0 to 5 { loop.for %i = 0 to 12 { block where (56 - %o * 12 - %i) } }`
    -> `loop.for %o = 0 to 4 { ... block }` and `loop.for %o = 4 to 5 { loop.for %i = 0 to 9 { block } }`.
    """

    name = "loop-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                partition(func)
