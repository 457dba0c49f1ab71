"""graph-canonicalize-ops: special forms of broadcasting become the general ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import AddOp, BiasAddOp, ReshapeOp, shape_of
from mlc.dialects.graph.types import axis_of
from mlc.passes.rewriting import Replacement, Rewriter, apply_rules, rules_table

FORMS, on = rules_table()


@on(BiasAddOp)
def add_of_bias(op: Any, rw: Rewriter) -> Replacement:
    """`bias_add(x, b) {axis = 1} == add(x, reshape(b))`, the vector with an axis of size 1 for each behind it."""
    rank = len(shape_of(op.type))
    behind = rank - axis_of(op.axis, rank) - 1
    x, bias = op.operands
    if behind:
        bias = rw.insert(ReshapeOp.make(bias, shape=(*shape_of(bias.type), *(1,) * behind)))
    return rw.make(AddOp, x, bias)


@dataclass(frozen=True)
class CanonicalizeOpsPass(ModulePass):
    """
    Write bias_add as add: after it a pass that knows broadcasting knows every sum.

    `graph.bias_add %x, %b {axis = 1} : tensor<1x8x4x4xf32>`  ->  `graph.add %x, (graph.reshape %b)`, of 8x1x1

    mlc's own passes read bias_add as it is, and its weights stay vectors; so the compiler runs this last before fusion,
    where equal kernels meet whichever of the two a model wrote.
    """

    name = "graph-canonicalize-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, FORMS)
