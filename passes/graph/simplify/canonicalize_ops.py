"""graph-canonicalize-ops: special forms of broadcasting become the general ones."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import AddOp, BiasAddOp, ReshapeOp, shape_of
from mlc.dialects.graph.types import axis_of
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules

FORMS = Rules()


@FORMS.on(BiasAddOp)
def add_of_bias(op: BiasAddOp, rw: Rewriter) -> Replacement:
    """`bias_add(x, b) {axis = 1} == add(x, reshape(b))`, the vector followed by axes of size 1."""
    rank = len(shape_of(op.type))
    behind = rank - axis_of(op.axis, rank) - 1
    x, bias = op.operands
    if behind:
        bias = rw.insert(ReshapeOp.make(bias, shape=(*shape_of(bias.type), *(1,) * behind)))
    return rw.make(AddOp, x, bias)


class CanonicalizeOpsPass(ModulePass):
    """
    Write bias_add as add, so that later passes find all sums as one op with broadcasting.

    `graph.bias_add %x, %b {axis = 1} : tensor<1x8x4x4xf32>`  ->  `graph.add %x, (graph.reshape %b)`, of 8x1x1

    mlc's other graph passes match bias_add, whose operand is a vector; so the compiler runs this pass last before
    fusion. Kernels are then equal whichever of the two forms a model uses.
    """

    name = "graph-canonicalize-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, FORMS)
