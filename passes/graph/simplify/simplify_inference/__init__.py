"""graph-simplify-inference: norms, activations, table look-ups, and constant scales and shifts folded into weights."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.passes.graph.cleanup.eliminate_common_subexpr import eliminate_common_subexpr
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.simplify.simplify_inference.activations import ACTIVATIONS
from mlc.passes.graph.simplify.simplify_inference.affine import AFFINE
from mlc.passes.graph.simplify.simplify_inference.lookup import LOOKUPS
from mlc.passes.graph.simplify.simplify_inference.norms import NORMS
from mlc.passes.graph.simplify.simplify_inference.windows import WINDOWS
from mlc.passes.rewriting import Rules, apply_rules

# Layer norm comes before the rules that rewrite its square or its scale.
RULES = Rules(NORMS, ACTIVATIONS, LOOKUPS, AFFINE, WINDOWS)


class SimplifyInferencePass(ModulePass):
    """
    Recognise layer norm, softmax, gelu, silu, hard_swish, table look-ups and global pools; turn batch norm into a
    scale and a shift, and move constant scales and shifts per channel into the weights and bias of the convolution
    or dense before them; the maximum over a large window becomes one along rows and one along columns.

    `graph.batch_norm (graph.conv2d %x, %w), ..`  ->  `graph.bias_add (graph.conv2d %x, (%w * %s)), %t`
    """

    name = "graph-simplify-inference"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        eliminate_common_subexpr(op)
        apply_rules(op, RULES)
        eliminate_dead_code(op)
