"""graph-combine-parallel-batch-matmul: matrix products of the same left side become one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import BatchMatmulOp, shape_of
from mlc.passes.graph.constants import is_constant, is_static
from mlc.passes.graph.parallel_branches import Family, Machine, are_views, combine_parallel, concatenated
from mlc.passes.graph.rewriting import Rewriter


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

    def gain(self, ops: Sequence[Any], machine: Machine) -> float:
        """The time of all products less that of the one and of what must be copied."""
        shape = shape_of(ops[0].type)
        rows, data = prod(shape[:-1]), prod(shape_of(ops[0].operands[0].type))  # pyright: ignore
        depth = ops[0].reduction_length()
        outputs: list[Any] = [shape_of(op.type)[-1] for op in ops]
        weights = [prod(shape_of(op.operands[1].type)) for op in ops]  # pyright: ignore
        pairs: Any = zip(outputs, weights, strict=True)
        sizes: Any = (depth, rows, data)
        apart = sum(machine.product(o, *sizes, w) for o, w in pairs)  # pyright: ignore
        together = machine.product(sum(outputs), depth, rows, data, sum(weights))  # pyright: ignore
        copies = 0.0 if are_views(shape, len(shape) - 1) else sum(machine.copy(rows * o) for o in outputs)
        return apart - together - copies


@dataclass(frozen=True)
class CombineParallelBatchMatmulPass(ModulePass):
    """
    Make products of the same left side by constants one product, and what is pointwise behind them with it.

    `%1 = graph.batch_matmul %a, %b; %2 = graph.batch_matmul %a, %c`  ->
    `%0 = graph.batch_matmul %a, (graph.concatenate %b, %c); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where the one is expected to be faster on `target` with `threads`.
    """

    name = "graph-combine-parallel-batch-matmul"

    min_branches: int = 3
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        combine_parallel(op, Products(), self.min_branches, Machine.of(self.target, self.threads))
