"""
graph-legalize: what a target cannot do well as it is written becomes what it can.

A rule belongs to an op class and is asked with the target; `@legalizes(DenseOp)` adds one. It returns the values that
stand for the op's results, or None to leave the op as it is:

    @legalizes(DenseOp)
    def rule(op: DenseOp, rw: Rewriter, target: Target) -> Replacement: ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects.graph import CastOp, Conv2dOp, DenseOp, shape_of, static_shape
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rule, Rules, apply_rules
from mlc.targets.cost.thresholds import FEW_USES
from mlc.targets.target import Target

LegalizeRule = Callable[[Any, Rewriter, Target], Replacement]
LEGALIZE: dict[type[Operation], list[LegalizeRule]] = {}
"""Op class -> its rules, the first that answers being taken."""

DOT_PRODUCTS = {"bf16": "dpbf16ps"}
"""A narrow float -> the instruction that multiplies pairs of it; Target.instructions names those of a machine."""


def legalizes(*classes: type[Operation]) -> Callable[[LegalizeRule], LegalizeRule]:
    """The decorator that enters a rule for op classes."""

    def enter(rule: LegalizeRule) -> LegalizeRule:
        for cls in classes:
            LEGALIZE.setdefault(cls, []).append(rule)
        return rule

    return enter


@legalizes(Conv2dOp, DenseOp)
def widened_operands(op: Any, rw: Rewriter, target: Target) -> Replacement:
    """
    `dense %x, %w {out_dtype = "float32"}` of bf16 -> `dense (cast %x), (cast %w)` where no instruction multiplies bf16.

    Such a machine widens each operand as it multiplies, once for each use; a cast before widens it once.
    """
    narrow = {str(operand.type.element_type) for operand in op.operands}
    wide = str(op.type.element_type)
    if not op.out_dtype or narrow == {wide} or len(narrow) > 1 or not is_static(shape_of(op.type)):
        return None
    if DOT_PRODUCTS.get(narrow.pop()) in target.instructions:
        return None
    channels = 1 if isinstance(op, Conv2dOp) else len(shape_of(op.type)) - 1
    uses = prod(size for axis, size in enumerate(static_shape(op.type)) if axis != channels)
    if uses <= FEW_USES:
        return None
    operands = [rw.make(CastOp, operand, dtype=op.type.element_type) for operand in op.operands]
    return rw.again(op, *operands, out_dtype="")


def rules_for(target: Target) -> Rules:
    """The rules of all op classes, asked about one target."""

    def asked(rule: LegalizeRule) -> Rule:
        return lambda op, rw: rule(op, rw, target)

    return {cls: [asked(rule) for rule in rules] for cls, rules in LEGALIZE.items()}


@dataclass(frozen=True)
class LegalizePass(ModulePass):
    """
    Ask each op's rules how `target` wants it.

    `graph.dense %x, %w {out_dtype = "float32"}` of bf16 -> `graph.dense (graph.cast %x), (graph.cast %w)` of f32, on a
    target that cannot multiply bf16

    graph-to-mixed-precision comes after it: what the user asks to be narrow stays so.
    """

    name = "graph-legalize"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, rules_for(Target.parse(self.target)))
