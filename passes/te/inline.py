"""te-inline: injective stages are computed where they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import te
from mlc.passes.te.substitute import ranges_of, substitute
from mlc.passes.te.tidy import tidy_body
from mlc.targets.cost.thresholds import INLINED_OPS, INLINED_READS

# Ops that cost as much as many loads, and are computed once for each element.
EXPENSIVE = frozenset(
    {op for op in math_dialect.Math.operations if op not in (math_dialect.AbsFOp, math_dialect.FloorOp)}
    | {arith.DivfOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp}
) - {math_dialect.CeilOp, math_dialect.TruncOp, math_dialect.RoundEvenOp, math_dialect.CopySignOp}


class InlineStagesPass(ModulePass):
    """
    An elementwise chain becomes one stage; stages with the attribute `no_inline`, reductions and outputs stay.

    `%a = te.compute "a" (%i : 4) { %0 = te.read %x[%i]  %1 = arith.negf %0  te.yield %1 }`
    `%b = te.compute "b" (%i : 4) { %2 = te.read %a[3 - %i]  %3 = math.exp %2  te.yield %3 }`
    ->
    `%b = te.compute "b" (%i : 4) { %0 = te.read %x[3 - %i]  %1 = arith.negf %0  %3 = math.exp %1  te.yield %3 }`
    """

    name = "te-inline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, te.FuncOp):
                inline_func(func)


def inline_func(func: te.FuncOp) -> None:
    """Inline the stages that are cheaper without a buffer, last stage first, so that each body is copied once."""
    touched: dict[te.ComputeOp, None] = {}
    for stage in reversed(func.stages):
        users = [use.operation for r in stage.results for use in r.uses]
        reads = [op for op in users if isinstance(op, te.ReadOp)]
        if len(reads) != len(users):
            continue
        if not users:
            touched.pop(stage, None)
        elif _worth_it(stage, reads):
            for consumer in {_consumer(read): None for read in reads}:
                inline_into(stage, consumer)
                touched[consumer] = None
        else:
            continue
        stage.detach()
        stage.erase()
    for stage in touched:
        tidy_body(stage)


def inline_into(stage: te.ComputeOp, consumer: te.ComputeOp) -> None:
    """Each read of `stage` in `consumer` replaced by the stage's body at the read's indices."""
    reads = [use.operation for use in stage.results[0].uses if use.operation.parent_op() is consumer]
    if len(reads) > 1:
        tidy_body(consumer)
        reads = [use.operation for use in stage.results[0].uses if use.operation.parent_op() is consumer]
    for read in reads:
        assert isinstance(read, te.ReadOp)
        substitute(stage, read)


def _consumer(read: Operation) -> te.ComputeOp:
    parent = read.parent_op()
    assert isinstance(parent, te.ComputeOp)
    return parent


def _worth_it(stage: te.ComputeOp, reads: Sequence[te.ReadOp]) -> bool:
    """Whether recomputing the stage at each read costs no more than a buffer."""
    if stage.combiner is not None or "no_inline" in stage.attributes:
        return False
    if not all(_looks_up_once(stage, read) for read in reads):
        return False
    size = math.prod(stage.static_extents)
    accesses = {(_consumer(r), r.map, r.mask, tuple(r.indices)): r for r in reads}
    points = sum(_points(r, size) for r in accesses.values())
    if points <= size:
        return True
    if _is_epilogue(stage):
        return False
    body = list(stage.body.block.ops)
    if any(type(op) in EXPENSIVE for op in body):
        return False
    if len(body) <= INLINED_OPS and points <= INLINED_READS * size:
        return True
    if all(_consumer(r).combiner is None for r in accesses.values()):
        return len(body) <= INLINED_OPS
    return _moves(body) and all(_stays_affine(body[0], r) for r in accesses.values())


def _is_epilogue(stage: te.ComputeOp) -> bool:
    """
    Whether a stage is pointwise on a reduction that nothing else reads, through other such stages perhaps.

    It is computed while the sums are in registers, once, and its buffer takes the place of theirs.
    """
    for op in stage.body.block.ops:
        made = op.tensor.owner if isinstance(op, te.ReadOp) else None
        if isinstance(made, te.ComputeOp) and isinstance(op, te.ReadOp) and list(op.indices) == list(stage.axes):
            users = {use.operation.parent_op() for result in made.results for use in result.uses}
            same = made.extents.data[: made.num_spatial] == stage.extents.data
            if users == {stage} and same and (made.combiner is not None or _is_epilogue(made)):
                return True
    return False


def _looks_up_once(stage: te.ComputeOp, read: te.ReadOp) -> bool:
    """Whether a read at a data-dependent index stays, composed with the stage's own reads, a look-up by that index."""
    found = {
        stage.axes[k]
        for k, e in enumerate(read.map.data)
        if any(not isinstance(read.indices[d].owner, Block) for d in e.dims())
    }
    if not found:
        return True
    for inner in stage.body.block.ops:
        if isinstance(inner, te.ReadOp):
            exprs = (*inner.map.data, *(inner.mask.data if inner.mask is not None else ()))
            at = [k for k, e in enumerate(exprs) if any(inner.indices[d] in found for d in e.dims())]
            own = any(not isinstance(v.owner, Block) for v in inner.indices)
            if own or len(at) > 1 or any(k >= len(inner.map.data) or not exprs[k].is_affine for k in at):
                return False
    return True


def _points(read: te.ReadOp, size: int) -> int:
    """How many elements a read computes; a masked copy with other borders computes each at most once."""
    points = math.prod(_consumer(read).static_extents)
    return min(points, size) if read.mask is not None and _shifts(read) else points


def _shifts(read: te.ReadOp) -> bool:
    """Whether each index is another axis plus a constant, and all axes of the consumer occur."""
    dims = [e.terms[0][0] for e in read.map.data if len(e.terms) == 1 and abs(e.terms[0][1]) == 1]
    longs = [e for e in _consumer(read).static_extents if e != 1]
    return len(set(dims)) == len(dims) and len(dims) >= len(longs) and all(isinstance(d, int) for d in dims)


def _moves(body: Sequence[Operation]) -> bool:
    """Whether the body is one read without a mask."""
    return len(body) == 2 and isinstance(body[0], te.ReadOp) and body[0].mask is None


def _stays_affine(inner: Operation, read: te.ReadOp) -> bool:
    """Whether the composed indices have no division, which would keep a contraction from vectorizing its reads."""
    assert isinstance(inner, te.ReadOp)
    stage = inner.parent_op()
    assert isinstance(stage, te.ComputeOp)
    at: dict[SSAValue, int] = {axis: k for k, axis in enumerate(stage.axes)}
    if any(v not in at for v in inner.indices):
        return False
    to = {n: read.map.data[at[v]] for n, v in enumerate(inner.indices)}
    ranges = ranges_of(_consumer(read), read.indices)
    return all(e.substitute(to, ranges).is_affine for e in inner.map.data)
