"""
graph-block-biases: constants that are added to the scores of an attention are stored in vectors of queries.

Its schedule computes scores with queries as lanes, key by key (schedules/strategies/attention.py). A relative position
bias or a mask `[.., queries, keys]` would be read across its rows, a line of the cache for each lane; in blocks
`[.., queries / lanes, keys, lanes]` it is a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import BatchMatmulOp, FusedOp, GraphOp, LayoutTransformOp, SoftmaxOp, shape_of, static_shape
from mlc.dialects.graph.base import BROADCAST
from mlc.dialects.graph.types import tensor_type
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.graph.simplify.fold_constant import Folder
from mlc.passes.rewriting import functions, outer_blocks
from mlc.targets.target import Target

AXES = "MNHQK"
"""The axes of a bias: queries and keys, behind axes of the batch and heads."""
MOST_PADDED = 1.25
"""Elements with the padding of the last vector, over those without: 49 queries as 64 take 5 % longer than unblocked."""


def biases_of(fused: FusedOp) -> list[BlockArgument]:
    """The arguments of a region that pointwise ops combine with the scores of an attention, of their rows and keys."""
    for op in fused.body.block.ops:
        if isinstance(op, SoftmaxOp) and any(isinstance(use.operation, BatchMatmulOp) for use in op.result.uses):
            scores = shape_of(op.type)[-2:]
            found = [arg for arg in _pointwise_arguments(op) if shape_of(arg.type)[-2:] == scores]
            return found if is_static(scores) and 1 not in scores else []
    return []


def _pointwise_arguments(softmax: SoftmaxOp) -> Iterator[BlockArgument]:
    """The arguments that pointwise ops read on the way from the first product to the softmax, each once."""
    pending, seen, pointwise = [softmax.operands[0]], set[SSAValue](), False
    arguments: list[BlockArgument] = []
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(value, BlockArgument):
            arguments.append(value)
        elif isinstance(owner, BatchMatmulOp):
            pointwise = True
        elif isinstance(owner, GraphOp) and owner.kind <= BROADCAST:
            pending += owner.operands
    yield from arguments if pointwise else ()


@dataclass
class Blocker:
    """One run over a module; regions that share a constant share its blocked form."""

    lanes: int
    made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self, module: ModuleOp) -> None:
        """Change the layout in all regions, then fold the layouts of constants."""
        for block in [block for function in functions(module) for block in outer_blocks(function)]:
            for op in [op for op in block.ops if isinstance(op, FusedOp)]:
                for bias in biases_of(op):
                    if len(shape_of(bias.type)) <= len(AXES) and is_constant(op.operands[bias.index]):
                        self.block(op, bias)
        if self.made:
            Folder(module).run()

    def block(self, fused: FusedOp, bias: BlockArgument) -> None:
        """Pass the blocked constant to a region, and transform it back to the plain layout inside."""
        given, body = fused.operands[bias.index], fused.body.block
        plain, blocked = self.layouts(bias)
        if given not in self.made:
            outside = LayoutTransformOp.make(given, src=plain, dst=blocked, location=fused.location)
            assert fused.parent is not None
            fused.parent.insert_op_before(outside, fused)
            self.made[given] = outside.result
        stored = self.made[given]
        argument = body.insert_arg(stored.type, bias.index + 1)
        argument.name_hint = bias.name_hint
        inside = LayoutTransformOp.make(
            argument, result=tensor_type(bias.type), src=blocked, dst=plain, location=fused.location
        )
        assert body.first_op is not None
        body.insert_op_before(inside, body.first_op)
        fused.operands[bias.index] = stored
        bias.replace_all_uses_with(inside.result)
        body.erase_arg(bias)

    def layouts(self, bias: BlockArgument) -> tuple[str, str]:
        """The plain layout of a bias, and the layout in which it is stored."""
        shape = static_shape(bias.type)
        plain = AXES[-len(shape) :]
        padded = ceil(shape[-2] / self.lanes) * self.lanes
        return plain, f"{plain}{self.lanes}q" if padded <= MOST_PADDED * shape[-2] else f"{plain[:-2]}KQ"


@dataclass(frozen=True)
class BlockBiasesPass(ModulePass):
    """
    Store constants that pointwise ops combine with the scores of a fused attention in vectors of queries.

    `graph.fused (%b = %bias : tensor<12x64x49xf32>) { .. graph.add %scores, %b .. }` -> the same op with a constant
    operand `tensor<12x4x49x16xf32>` and a `graph.layout_transform` of it in the region, which becomes part of index
    expressions. If the last vector of `target` would mostly be padding, keys and queries are transposed instead.
    """

    name = "graph-block-biases"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        Blocker(Target.parse(self.target).lanes("f32")).run(op)


__all__ = ["BlockBiasesPass"]
