"""graph-combine-parallel-dense: dense layers of the same data become one, their units concatenated."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.graph import DenseOp, shape_of, static_shape
from mlc.passes.graph.fusion.combine_parallel.branches import CombineParallelPass, Family, concatenated
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.branches import BranchCosts, Contraction


class DenseLayers(Family[DenseOp]):
    """
    Dense layers with plain weights, of any numbers of units.

    TVM stacks weights of equal shape for a batch_matmul; with mlc's packed weights, concatenated units are faster: the
    data is read once, and units of several layers fill vectors. With more than one row a slice of the result is not
    contiguous, hence a copy: merging a transformer's queries, keys and values for 128 tokens was measured to cost
    2.7 ms of 28.
    """

    root = DenseOp

    def key(self, op: DenseOp) -> Hashable | None:
        """The types."""
        w = op.operands[1]
        if op.kernel_layout != "OI" or op.units or not is_static(shape_of(w.type)) or not is_constant(w):
            return None
        return (op.out_dtype, element_of(w))

    def axis(self, op: DenseOp) -> int:
        """The units."""
        return len(shape_of(op.type)) - 1

    def combine(self, rw: Rewriter, ops: Sequence[DenseOp]) -> SSAValue:
        """One dense layer with the concatenated weights."""
        first = ops[0]
        weight = concatenated(rw, [op.operands[1] for op in ops], 0)
        return rw.make(DenseOp, first.operands[0], weight, location=first.location, out_dtype=first.out_dtype)

    def work(self, ops: Sequence[DenseOp], machine: BranchCosts) -> Contraction:
        """Rows are those of the data."""
        weights = [static_shape(op.operands[1].type) for op in ops]
        rows, outputs, depth = prod(static_shape(ops[0].type)[:-1]), sum(w[0] for w in weights), weights[0][1]
        return Contraction(1, rows, outputs, depth, rows * depth, outputs * depth)


class CombineParallelDensePass(CombineParallelPass):
    """
    Make dense layers of the same data one layer, with the pointwise ops behind them.

    `%1 = graph.dense %x, %u; %2 = graph.dense %x, %v`  ->
    `%0 = graph.dense %x, (graph.concatenate %u, %v); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where that is expected to be faster on `target` with `threads`.
    """

    name = "graph-combine-parallel-dense"
    family = DenseLayers
