"""graph-split-args: split concatenations with more operands than a kernel may have arguments."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import ConcatenateOp
from mlc.passes.graph.fusion.fuse_ops import fuse
from mlc.passes.rewriting import blocks
from mlc.support.errors import fail


def split(op: ConcatenateOp, most: int) -> None:
    """`concatenate %a, %b, %c, %d` -> `concatenate (fused { concatenate %a, %b }), (fused { concatenate %c, %d })`."""
    block = op.parent
    assert block is not None
    values: list[SSAValue] = list(op.operands)
    made: list[ConcatenateOp] = []
    while len(values) > most:
        groups = [values[start : start + most] for start in range(0, len(values), most)]
        values = [group[0] if len(group) == 1 else _join(op, group, made) for group in groups]
    op.operands = values
    # A fused region keeps other passes from merging the parts again.
    for part in made:
        fuse([part])


def _join(op: ConcatenateOp, values: list[SSAValue], made: list[ConcatenateOp]) -> SSAValue:
    part = ConcatenateOp.make(*values, axis=op.axis, location=op.location)
    assert op.parent is not None
    op.parent.insert_op_before(part, op)
    made.append(part)
    return part.results[0]


@dataclass(frozen=True)
class SplitArgsPass(ModulePass):
    """
    Split concatenations that would need a kernel of more than `max-args` arguments, including the result; 0: no limit.

    `graph.concatenate %a, %b, %c` -> `graph.concatenate (graph.fused { graph.concatenate %a, %b }), %c`, max-args = 3

    Kernels of CPU targets take any number of arguments, so the compiler runs this pass without a limit.
    """

    name = "graph-split-args"

    max_args: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.max_args < 0 or 0 < self.max_args < 3:
            fail(op, f"expected max-args of at least 3 (two tensors and the result), or 0, but got {self.max_args}")
        if not self.max_args:
            return
        for block in list(blocks(op)):
            for inner in [o for o in block.ops if isinstance(o, ConcatenateOp)]:
                if len(inner.operands) + 1 > self.max_args:
                    split(inner, self.max_args - 1)
