"""graph-canonicalize-cast: a widening cast is repeated for each of its pointwise readers."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import AddOp, CastOp, ConstantOp, GraphOp, MultiplyOp, SubtractOp, shape_of
from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, REDUCTION
from mlc.passes.rewriting import blocks

AFFINE = (MultiplyOp, AddOp, SubtractOp)
POINTWISE = (ELEMENTWISE, BROADCAST)
MAX_STEPS = 2
"""Ops between a widening cast and its readers that are repeated for each reader."""


def widens(op: CastOp) -> bool:
    """Whether a cast makes elements of more bytes."""
    source, target = op.input_types[0].element_type, op.type.element_type
    return source.size < target.size


class CanonicalizeCastPass(ModulePass):
    """
    Give each pointwise reader of a widening cast a cast of its own, so that fusion stores the narrow value alone.

    `%1 = graph.cast %0 : (bf16) -> f32; %2 = graph.relu %1; %3 = graph.exp %1`  ->
    `%1 = graph.cast %0; %2 = graph.relu %1; %4 = graph.cast %0; %3 = graph.exp %4`

    The arithmetic of a dequantization, a product or difference of the cast and a number, is repeated with it, also for
    readers that are reductions.

    It runs right before fusion and after graph-eliminate-common-subexpr, which would undo it.
    """

    name = "graph-canonicalize-cast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for block in list(blocks(op)):
            for cast in [inner for inner in block.ops if isinstance(inner, CastOp)]:
                if widens(cast):
                    if cast.result.has_one_use():
                        self.share_scaled(cast)
                    else:
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

    def share_scaled(self, cast: CastOp) -> None:
        """Copy a cast and the arithmetic of a dequantization behind it, with constants of one element."""
        chain: list[GraphOp] = [cast]
        while chain[-1].result.has_one_use() and len(chain) <= MAX_STEPS:
            (use,) = chain[-1].result.uses
            step = use.operation
            if not isinstance(step, AFFINE):
                break
            other = step.operands[1 - use.index]
            if not isinstance(other.owner, ConstantOp) or shape_of(other.type):
                break
            chain.append(step)
        readers = list({use.operation: None for use in chain[-1].result.uses})
        if len(chain) == 1 or len(readers) < 2:
            return
        if not all(isinstance(op, GraphOp) and op.kind in (*POINTWISE, REDUCTION) for op in readers):
            return
        for reader in readers[1:]:
            self.copy(chain, reader)

    def copy(self, chain: list[GraphOp], reader: Operation) -> None:
        """Give a reader its own copies of a chain of ops, whose last result it reads."""
        clones: dict[SSAValue, SSAValue] = {}
        for op in chain:
            block = reader.parent
            assert block is not None
            block.insert_op_before(op.clone(clones), reader)
        last = chain[-1].result
        for index, operand in enumerate(reader.operands):
            if operand is last:
                reader.operands[index] = clones[last]
