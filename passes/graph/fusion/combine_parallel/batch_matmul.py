"""graph-combine-parallel-batch-matmul: matrix products of the same left operand become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.graph import BatchMatmulOp, shape_of, static_shape
from mlc.passes.graph.fusion.combine_parallel.branches import CombineParallelPass, Family, concatenated
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.branches import BranchCosts, Contraction


class Products(Family[BatchMatmulOp]):
    """
    Products of one left operand and constant right operands of the same batch, with any numbers of columns.

    The left operand is read once, and the concatenated columns fill vectors. A right operand that is computed at run
    time would have to be copied, which costs as much as merging saves: such products are not merged.
    """

    root = BatchMatmulOp

    def key(self, op: BatchMatmulOp) -> Hashable | None:
        """Flags, types and the right operand's batch."""
        w = op.operands[1]
        if not is_static(shape_of(w.type)) or not is_constant(w):
            return None
        return (op.transpose_a, op.transpose_b, element_of(w), shape_of(w.type)[:-2])

    def axis(self, op: BatchMatmulOp) -> int:
        """The columns."""
        return len(shape_of(op.type)) - 1

    def combine(self, rw: Rewriter, ops: Sequence[BatchMatmulOp]) -> SSAValue:
        """One product with the concatenated columns."""
        first = ops[0]
        rank = len(shape_of(first.operands[1].type))
        right = concatenated(rw, [op.operands[1] for op in ops], rank - 2 if first.transpose_b else rank - 1)
        return rw.clone(first, first.operands[0], right)

    def work(self, ops: Sequence[BatchMatmulOp], machine: BranchCosts) -> Contraction:
        """Rows are those of one matrix of the left operand."""
        first = ops[0]
        *batch, rows, _ = static_shape(first.type)
        columns, depth = sum(static_shape(op.type)[-1] for op in ops), first.reduction_length()
        data = prod(static_shape(first.operands[0].type))
        weights = sum(prod(static_shape(op.operands[1].type)) for op in ops)
        return Contraction(prod(batch), rows, columns, depth, data, weights)


class CombineParallelBatchMatmulPass(CombineParallelPass):
    """
    Make products of the same left operand and constants one product, with the pointwise ops behind them.

    `%1 = graph.batch_matmul %a, %b; %2 = graph.batch_matmul %a, %c`  ->
    `%0 = graph.batch_matmul %a, (graph.concatenate %b, %c); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where that is expected to be faster on `target` with `threads`.
    """

    name = "graph-combine-parallel-batch-matmul"
    family = Products
