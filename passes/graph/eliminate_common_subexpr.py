"""graph-eliminate-common-subexpr: equal ops on equal operands are computed once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from mlc.dialects.graph import GraphOp
from mlc.passes.graph.rewriting import functions, replace


def eliminate_common_subexpr(module: Operation) -> int:
    """Merge equal ops of every function; how many went."""
    return sum(_merge(block, {}) for function in functions(module) for block in function.body.blocks)


def _merge(block: Block, known: MutableMapping[Any, Operation]) -> int:
    count = 0
    for op in block.ops:
        if isinstance(op, GraphOp) and not op.regions:
            # Same op, attributes and operands == same value; discardable attributes and locations are names only.
            key = (type(op), *op._operands, *op.properties.items(), *op.result_types)
            first = known.setdefault(key, op)
            if first is not op:
                replace(op, first.results)
                count += 1
            continue
        for region in op.regions:
            alone = op.has_trait(IsolatedFromAbove)
            count += sum(_merge(inner, {} if alone else ChainMap({}, known)) for inner in region.blocks)
    return count


@dataclass(frozen=True)
class EliminateCommonSubexprPass(ModulePass):
    """
    Merge ops of the same class, attributes and operands.

    `%1 = graph.relu %0; %2 = graph.relu %0`  ->  `%1 = graph.relu %0`, used for both
    """

    name = "graph-eliminate-common-subexpr"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        eliminate_common_subexpr(op)
