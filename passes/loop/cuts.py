"""Cutting loops, and giving blocks other bindings and predicates: what partitioning is made of."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, compact, const
from mlc.passes.loop.nest import Numbering


def blocks_in(op: Operation) -> list[loop.BlockOp]:
    """The blocks with predicates in an op."""
    return [b for b in op.walk() if isinstance(b, loop.BlockOp) and b.where is not None]


def cut(f: loop.ForOp, at: int | Index) -> list[Operation]:
    """`for lo to hi` -> `for lo to at` and, behind it, `for at to hi`, less what never runs there."""
    tail = f.clone()
    parent = f.parent
    assert parent is not None
    parent.insert_op_after(tail, f)
    at = const(at) if isinstance(at, int) else at
    f.properties["bounds"] = IndexMapAttr((f.lower, at))
    tail.properties["bounds"] = IndexMapAttr((at, tail.upper))
    for block in blocks_in(tail):
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


def two_bodies(f: loop.ForOp, main: Index, ragged: Index, numbering: Numbering) -> tuple[loop.ForOp, loop.ForOp]:
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


def set_exprs(block: loop.BlockOp, bindings: Iterable[Index], where: Iterable[Index], numbering: Numbering) -> None:
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
