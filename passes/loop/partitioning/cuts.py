"""Splitting a loop's range in two, and versioning its body: the rewrites that loop partitioning is made of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, const
from mlc.passes.loop.index_space.domain import blocks_of, body_ops
from mlc.passes.loop.index_space.space import IndexSpace


def blocks_in(op: Operation) -> list[loop.BlockOp]:
    """The blocks with predicates in an op."""
    return [b for b in blocks_of(op) if b.where is not None]


def cut(f: loop.ForOp, at: int | Index) -> list[loop.ForOp]:
    """
    Split a loop's range: `for lo to hi` -> `for lo to at` and, behind it, `for at to hi`.

    Blocks whose predicates never hold in the second part are erased there. -> the loops that are left.
    """
    tail = f.clone()
    parent = f.parent
    assert parent is not None
    parent.insert_op_after(tail, f)
    at = const(at) if isinstance(at, int) else at
    f.properties["bounds"] = IndexMapAttr((f.lower, at))
    tail.properties["bounds"] = IndexMapAttr((at, tail.upper))
    for block in blocks_in(tail):
        space = IndexSpace()
        where = space.exprs(block.where_exprs, block.args)
        if any(e.bounds(space.ranges)[1] < 0 for e in where):
            erase_nest(block)
    return [f] if tail.parent is None else [f, tail]


def erase_nest(op: Operation) -> list[Operation]:
    """Erase a block that never runs, and the loops that hold nothing else. -> no loops."""
    while isinstance(parent := op.parent_op(), loop.ForOp) and not parent.results and len(parent.body.block.ops) == 2:
        op = parent
    op.detach()
    op.erase()
    return []


def move_ops(ops: Sequence[Operation], to: loop.ForOp) -> None:
    """Move adjacent ops into `to`, a new detached loop, which takes their place."""
    block = ops[0].parent
    assert block is not None
    block.insert_op_before(to, ops[0])
    for op in ops:
        op.detach()
        to.body.block.add_op(op)
    to.body.block.add_op(loop.YieldOp.create())


def two_bodies(
    f: loop.ForOp, main: Index, ragged: Index, space: IndexSpace, ops: Sequence[Operation] = ()
) -> tuple[loop.ForOp, loop.ForOp]:
    """
    Loop versioning: two copies of a loop's body, in loops inside of it with the trip counts `main` and `ragged`.

    With `ops`, adjacent ones of the body, copies of these alone.
    """
    first = loop.ForOp.make(main, operands=space.values, name="main")
    second = loop.ForOp.make(ragged, operands=space.values, name="ragged")
    first.location = second.location = f.location
    move_ops(ops or body_ops(f.body.block), first)
    copies: dict[SSAValue, SSAValue] = {}
    for op in body_ops(first.body.block):
        second.body.block.add_op(op.clone(copies))
    second.body.block.add_op(loop.YieldOp.create())
    f.body.block.insert_op_after(second, first)
    return first, second
