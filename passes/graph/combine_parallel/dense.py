"""graph-combine-parallel-dense: dense layers of the same data become one with the units of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.graph import DenseOp, shape_of, static_shape
from mlc.passes.graph.combine_parallel.branches import CombineParallelPass, Family, concatenated
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.branches import Machine, Work


class DenseLayers(Family):
    """
    Dense layers with plain weights, of any numbers of units.

    TVM stacks equal weights for a batch_matmul; mlc multiplies packed weights, for which units side by side are
    better: the data is read once, and units of several layers fill vectors together. A row's parts lie apart from
    the next row's, so with more than one row a slice is a copy: of a transformer's queries, keys and values for 128
    tokens too (measured: one layer of all three took 2.7 ms more of 28 than three layers).
    """

    root = DenseOp

    def key(self, op: Any) -> Hashable | None:
        """The types."""
        w = op.operands[1]
        if op.kernel_layout != "OI" or op.units or not is_static(shape_of(w.type)) or not is_constant(w):
            return None
        return (op.out_dtype, w.type.element_type)

    def axis(self, op: Any) -> int:
        """The units."""
        return len(shape_of(op.type)) - 1

    def combine(self, rw: Rewriter, ops: Sequence[Any]) -> SSAValue:
        """One dense layer by the weights of all."""
        first = ops[0]
        weight = concatenated(rw, [op.operands[1] for op in ops], 0)
        return rw.make(DenseOp, first.operands[0], weight, location=first.location, out_dtype=first.out_dtype)

    def work(self, ops: Sequence[Any], machine: Machine) -> Work:
        """Rows are those of the data."""
        weights = [static_shape(op.operands[1].type) for op in ops]
        rows, outputs, depth = prod(static_shape(ops[0].type)[:-1]), sum(w[0] for w in weights), weights[0][1]
        return Work(1, rows, outputs, depth, rows * depth, outputs * depth)


@dataclass(frozen=True)
class CombineParallelDensePass(CombineParallelPass):
    """
    Make dense layers of the same data one layer, and what is pointwise behind them with it.

    `%1 = graph.dense %x, %u; %2 = graph.dense %x, %v`  ->
    `%0 = graph.dense %x, (graph.concatenate %u, %v); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where the one is expected to be faster on `target` with `threads`.
    """

    name = "graph-combine-parallel-dense"
    family = DenseLayers
