"""
graph-alter-op-layout: convolutions compute on blocks of channels, products on packed weights.

Each value is computed in one layout, and transformed once for each other layout in which it is read. Transforms of
weights are ops on constants, which graph-fold-constant computes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.graph import FusedOp
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.layout.alter_op_layout.records import blocks_on_record
from mlc.passes.graph.layout.alter_op_layout.rules import RULES
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.rewriting import functions, outer_blocks
from mlc.support.errors import fail
from mlc.targets.target import Target


def alter_block(block: Block, size: int, versions: Versions) -> None:
    """Convert the ops of a block, in order."""
    for op in list(block.ops):
        if op.results and op.results[0] in versions.of:
            continue  # converted together with the op before it
        versions.at = op
        converted = RULES.first(op, versions, size)
        if converted is None:
            _keep_plain(op, versions)
            continue
        name, new = converted
        new.name_hint = op.results[0].name_hint
        versions.set(op.results[0], name, new)


def _keep_plain(op: Operation, versions: Versions) -> None:
    """Give an op, and the ops of its regions, the plain versions of their operands."""
    inside = [inner for region in op.regions for inner in region.walk()] if op.regions else []
    for reader in (op, *inside):
        for index, operand in enumerate(reader.operands):
            if versions.native(operand) != PLAIN or operand in versions.of:
                reader.operands[index] = versions.get(operand, PLAIN)


@dataclass(frozen=True)
class AlterOpLayoutPass(ModulePass):
    """
    Give pictures the layout NCHW[x]c, kernels OIHW[x]i[y]o (depthwise OIHW[x]o) and dense weights OI[z]o.

    `graph.conv2d %x, %w`  ->  `graph.conv2d (graph.layout_transform %x), (graph.layout_transform %w)
    {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"}`

    Elementwise ops, pools, concatenations and reductions over H and W compute in the layout of their operands.
    x is `block`, or the elements of one native vector of `vector-bits`; z is twice that. Where `target` multiplies bf16
    or bytes in a matrix unit, x and y of such convolutions fill a row of its registers: 32 or 64. Between transposes,
    depthwise windows take all channels as one block (channels_last.py). Groups of channels take blocks, not planes of
    pixels, where Winograd's algorithm computes those faster (planes.py); `winograd-error` is the accuracy budget that
    graph-select-algorithm has as `error-growth`. Where the records in force know the function, on `target` with
    `threads`, x, y and z are theirs (records.py).
    """

    name = "graph-alter-op-layout"
    block: int = 0
    vector_bits: int = 512
    target: str = "native"
    threads: int = 1
    winograd_error: float = 16.0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        size = self.block or self.vector_bits // 32
        if size < 2:
            fail(op, f"expected a block of at least 2 channels, but got {size}")
        if self.winograd_error < 0:
            fail(op, f"expected a winograd-error of at least 0, but got {self.winograd_error}")
        if any(isinstance(inner, FusedOp) for inner in op.walk()):
            fail(op, "expected a module without graph.fused; run graph-defuse-ops, or alter layouts before fusing")
        target = Target.parse(self.target)
        for function in functions(op):
            recorded = blocks_on_record(function, self.target, self.threads)
            for block in list(outer_blocks(function)):
                alter_block(block, size, Versions(recorded, target, self.threads, self.winograd_error))
        eliminate_dead_code(op)
