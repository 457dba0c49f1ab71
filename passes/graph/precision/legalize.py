"""
graph-legalize: ops that a target has no instructions for, as it would compute them, become ops that it has.

A rule gets an op and the target. It returns the values that replace the op's results, or None to keep the op:

    @LEGALIZE.on(DenseOp)
    def rule(op: DenseOp, rw: Rewriter, target: Target) -> Replacement: ...
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import CastOp, Conv2dOp, DenseOp, shape_of, static_shape
from mlc.passes.graph.precision.narrow_products import is_faster_narrow
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, RuleTable, Values, apply_rules
from mlc.targets.cost.thresholds import FEW_USES
from mlc.targets.target import Target

LEGALIZE = RuleTable[[Rewriter, Target], Values]()


@LEGALIZE.on(Conv2dOp, DenseOp)
def widen_operands(op: Conv2dOp | DenseOp, rw: Rewriter, target: Target) -> Replacement:
    """
    `dense %x, %w {out_dtype = "float32"}` of bf16 -> `dense (cast %x), (cast %w)` where f32 is multiplied faster.

    Without a fast instruction each operand is widened at each multiplication; a cast before the op widens it once.
    """
    narrow = {str(type.element_type) for type in op.input_types}
    wide = str(op.type.element_type)
    if not op.out_dtype or narrow == {wide} or len(narrow) > 1 or not is_static(shape_of(op.type)):
        return None
    if is_faster_narrow(op, narrow.pop(), target):
        return None
    channels = 1 if isinstance(op, Conv2dOp) else len(shape_of(op.type)) - 1
    uses = prod(size for axis, size in enumerate(static_shape(op.type)) if axis != channels)
    if uses <= FEW_USES:
        return None
    operands = [rw.make(CastOp, operand, dtype=op.type.element_type) for operand in op.operands]
    return rw.clone(op, *operands, out_dtype="")


@dataclass(frozen=True)
class LegalizePass(ModulePass):
    """
    Rewrite ops that `target` has no fast instructions for.

    `graph.dense %x, %w {out_dtype = "float32"}` of bf16 -> `graph.dense (graph.cast %x), (graph.cast %w)` of f32, on a
    target that cannot multiply bf16

    graph-to-mixed-precision runs after it, so that a precision that the user asks for is kept.
    """

    name = "graph-legalize"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, Rules.bound(LEGALIZE, Target.parse(self.target)))
