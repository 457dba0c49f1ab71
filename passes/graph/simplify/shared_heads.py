"""Products of few rows with matrices that several heads share: one product of the rows of all these heads."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import BatchMatmulOp, BroadcastToOp, ReshapeOp, shape_of
from mlc.dialects.graph.types import Shape
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op
from mlc.targets.cost.thresholds import LEAST_QUERIES

SHARED_HEADS = Rules()


@SHARED_HEADS.on(BatchMatmulOp)
def rows_of_shared_heads(op: BatchMatmulOp, rw: Rewriter) -> Replacement:
    """
    `a @ reshape(broadcast_to(b)) == reshape(reshape(a) @ b)`, b a matrix for each group of heads: it is read once.

    Only few rows: of many rows, two products with a softmax between them are one kernel, which views would take apart.
    """
    a, repeated = op.operands
    source = shared_matrices(repeated)
    if source is None or op.transpose_a or len(shape_of(a.type)) < 3:
        return None
    *outer, heads, rows, depth = shape_of(a.type)
    if not isinstance(rows, int) or rows >= LEAST_QUERIES:
        return None
    shape = shape_of(source.type)
    groups = shape[-4]
    if [*outer, heads] != [*shape_of(repeated.type)[:-2]] or not isinstance(heads, int) or not isinstance(groups, int):
        return None
    together = rw.insert(ReshapeOp.make(a, shape=(*outer, groups, heads // groups * rows, depth)))
    matrices = rw.insert(ReshapeOp.make(source, shape=(*outer, groups, *shape[-2:])))
    product = rw.make(BatchMatmulOp, together, matrices, transpose_b=op.transpose_b)
    return rw.insert(ReshapeOp.make(product, result=op.type))


def shared_matrices(value: SSAValue) -> SSAValue | None:
    """The operand [.., groups, 1, n, m] of a broadcast whose last two batch axes a reshape has joined; else None."""
    reshape = defining_op(value, ReshapeOp)
    repeat = defining_op(reshape.operands[0], BroadcastToOp) if reshape is not None else None
    if repeat is None:
        return None
    joined, wide, shape = shape_of(value.type), shape_of(repeat.type), shape_of(repeat.operands[0].type)
    if len(wide) != len(joined) + 1 or len(joined) < 3 or joined != _joined(wide):
        return None
    once = (*wide[:-3], 1, *wide[-2:])
    return repeat.operands[0] if wide[-3] != 1 and shape == once else None


def _joined(shape: Shape) -> Shape:
    return (*shape[:-4], shape[-4] * shape[-3], *shape[-2:])
