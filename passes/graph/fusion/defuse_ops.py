"""graph-defuse-ops: the inverse of graph-fuse-ops."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import FusedOp
from mlc.passes.rewriting import blocks


def defuse(fused: FusedOp) -> None:
    """Move the ops of a region to its place in the block, and erase it."""
    body, block = fused.body.block, fused.parent
    assert block is not None
    for argument, operand in zip(body.args, fused.operands, strict=True):
        argument.replace_all_uses_with(operand)
    last = body.last_op
    assert last is not None
    outputs = list(last.operands)
    last.detach()
    last.erase()
    for op in list(body.ops):
        op.detach()
        block.insert_op_before(op, fused)
    for result, output in zip(fused.results, outputs, strict=True):
        result.replace_all_uses_with(output)
    fused.detach()
    fused.erase()


class DefuseOpsPass(ModulePass):
    """
    Move the ops of fused regions back into the function.

    `%2 = graph.fused "dense_relu" (%a = %x, %b = %w) { .. }`  ->  `%1 = graph.dense %x, %w; %2 = graph.relu %1`
    """

    name = "graph-defuse-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for block in list(blocks(op)):
            for fused in [inner for inner in block.ops if isinstance(inner, FusedOp)]:
                defuse(fused)
