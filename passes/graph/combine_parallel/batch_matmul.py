"""graph-combine-parallel-batch-matmul: matrix products of the same left side become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.graph import BatchMatmulOp, shape_of, static_shape
from mlc.passes.graph.combine_parallel.branches import CombineParallelPass, Family, concatenated
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.branches import Machine, Work


class Products(Family):
    """
    Products of one left side by constant right sides of the same batch, of any numbers of columns.

    The left side is read once, and the columns fill vectors together. A right side that is computed at run time would
    have to be copied beside the others, which costs as much as it saves: those stay.
    """

    root = BatchMatmulOp

    def key(self, op: Any) -> Hashable | None:
        """Flags, types and the right side's batch."""
        w = op.operands[1]
        if not is_static(shape_of(w.type)) or not is_constant(w):
            return None
        return (op.transpose_a, op.transpose_b, w.type.element_type, shape_of(w.type)[:-2])

    def axis(self, op: Any) -> int:
        """The columns."""
        return len(shape_of(op.type)) - 1

    def combine(self, rw: Rewriter, ops: Sequence[Any]) -> SSAValue:
        """One product by the columns of all."""
        first = ops[0]
        rank = len(shape_of(first.operands[1].type))
        right = concatenated(rw, [op.operands[1] for op in ops], rank - 2 if first.transpose_b else rank - 1)
        flags = {"transpose_a": first.transpose_a, "transpose_b": first.transpose_b}
        return rw.make(BatchMatmulOp, first.operands[0], right, location=first.location, **flags)

    def work(self, ops: Sequence[Any], machine: Machine) -> Work:
        """Rows are those of one matrix of the left side."""
        first = ops[0]
        *batch, rows, _ = static_shape(first.type)
        columns, depth = sum(static_shape(op.type)[-1] for op in ops), first.reduction_length()
        data = prod(static_shape(first.operands[0].type))
        weights = sum(prod(static_shape(op.operands[1].type)) for op in ops)
        return Work(prod(batch), rows, columns, depth, data, weights)


@dataclass(frozen=True)
class CombineParallelBatchMatmulPass(CombineParallelPass):
    """
    Make products of the same left side by constants one product, and what is pointwise behind them with it.

    `%1 = graph.batch_matmul %a, %b; %2 = graph.batch_matmul %a, %c`  ->
    `%0 = graph.batch_matmul %a, (graph.concatenate %b, %c); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where the one is expected to be faster on `target` with `threads`.
    """

    name = "graph-combine-parallel-batch-matmul"
    family = Products
