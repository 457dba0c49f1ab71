"""graph-canonicalize-cast: each pointwise reader of a value that is widened widens it itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import CastOp, GraphOp
from mlc.dialects.graph.base import BROADCAST
from mlc.passes.graph.rewriting import blocks


def widens(op: CastOp) -> bool:
    """Whether a cast makes elements of more bytes."""
    source: Any = op.input_types[0].element_type
    target: Any = op.type.element_type
    return source.size < target.size


@dataclass(frozen=True)
class CanonicalizeCastPass(ModulePass):
    """
    Give each pointwise reader of a widening cast a cast of its own, so that fusion stores the narrow value alone.

    `%1 = graph.cast %0 : (bf16) -> f32; %2 = graph.relu %1; %3 = graph.exp %1`  ->
    `%1 = graph.cast %0; %2 = graph.relu %1; %4 = graph.cast %0; %3 = graph.exp %4`

    graph-eliminate-common-subexpr would undo it: it runs after, right before fusion.
    """

    name = "graph-canonicalize-cast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for block in list(blocks(op)):
            for cast in [inner for inner in block.ops if isinstance(inner, CastOp)]:
                if not cast.result.has_one_use() and widens(cast):
                    self.share(cast)

    def share(self, cast: CastOp) -> None:
        """Copy a cast for each pointwise reader but the first."""
        block = cast.parent
        assert block is not None
        readers = {use.operation for use in cast.result.uses}
        pointwise = [op for op in block.ops if op in readers and isinstance(op, GraphOp) and op.kind <= BROADCAST]
        for reader in pointwise[len(pointwise) == len(readers) :]:
            copy = CastOp.make(cast.operands[0], result=cast.type, location=cast.location)
            block.insert_op_before(copy, reader)
            for index, operand in enumerate(reader.operands):
                if operand is cast.result:
                    reader.operands[index] = copy.results[0]
