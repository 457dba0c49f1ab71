"""graph-eliminate-common-subexpr: equal ops on equal operands are computed once."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Hashable, MutableMapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove

from mlc.dialects.graph import OPS, GraphOp
from mlc.passes.rewriting import functions, replace_op
from mlc.support.errors import did_you_mean, fail

Known: TypeAlias = MutableMapping[tuple[Hashable, ...], Operation]
"""What makes ops equal -> the first op of this key."""


def eliminate_common_subexpr(module: Operation, skip: Collection[type[Operation]] = ()) -> int:
    """Merge equal ops of every function, except ops of the classes to skip; the number erased."""
    return sum(_merge(block, {}, skip) for function in functions(module) for block in function.body.blocks)


def _merge(block: Block, known: Known, skip: Collection[type[Operation]]) -> int:
    count = 0
    for op in block.ops:
        if type(op) in skip:
            continue
        if isinstance(op, GraphOp) and not op.regions:
            # Equal op, properties and operands give an equal value; discardable attributes and locations do not matter.
            key = (type(op), *op.operands, *op.properties.items(), *op.result_types)
            first = known.setdefault(key, op)
            if first is not op:
                replace_op(op, first.results)
                count += 1
            continue
        for region in op.regions:
            alone = op.has_trait(IsolatedFromAbove)
            count += sum(_merge(inner, {} if alone else ChainMap({}, known), skip) for inner in region.blocks)
    return count


@dataclass(frozen=True)
class EliminateCommonSubexprPass(ModulePass):
    """
    Merge ops of the same class, attributes and operands.

    `%1 = graph.relu %0; %2 = graph.relu %0`  ->  `%1 = graph.relu %0`, used for both

    `skip=cast,full`: ops that are cheaper to recompute for each reader than to store.
    """

    name = "graph-eliminate-common-subexpr"

    skip: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; a name that is no op's is a user error."""
        known = {name.removeprefix("graph."): cls for name, cls in OPS.items()}
        for name in self.skip:
            if name not in known:
                fail(op, f"expected skip to name graph ops, but got '{name}'{did_you_mean(name, known)}")
        eliminate_common_subexpr(op, {known[name] for name in self.skip})
