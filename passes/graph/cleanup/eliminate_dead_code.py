"""graph-eliminate-dead-code: erase ops whose results are not used."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mlc.passes.rewriting import functions, removable


def eliminate_dead_code(module: Operation) -> int:
    """Erase the dead ops of every function; the number erased."""
    return sum(_clean(block) for function in functions(module) for block in function.body.blocks)


def _clean(block: Block) -> int:
    count = 0
    for op in reversed(list(block.ops)):
        if op.results and all(result.first_use is None for result in op.results) and removable(op):
            op.detach()
            op.erase()
            count += 1
            continue
        count += sum(_clean(inner) for region in op.regions for inner in region.blocks)
    return count


class EliminateDeadCodePass(ModulePass):
    """
    Erase ops without effect whose results are not used.

    `%1 = graph.relu %0 : tensor<4xf32>` (no use of %1)  ->  nothing
    """

    name = "graph-eliminate-dead-code"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        eliminate_dead_code(op)
