"""graph-fuse-ops: groups of ops that become one kernel each, as `graph.fused` regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.attributes import GRAPH_DEVICE
from mlc.dialects.graph import FusedOp, YieldOp
from mlc.dialects.syntax.source_nodes import location_names
from mlc.passes.graph.fusion.fuse_ops.dataflow import dataflow
from mlc.passes.graph.fusion.fuse_ops.mlc_rules import Fuser, is_inlined
from mlc.passes.graph.fusion.fuse_ops.tvm_rules import Partitioner
from mlc.passes.rewriting import erase_dead, functions, outer_blocks

MAX_LABEL = 60


def tvm_groups(block: Block, max_depth: int) -> list[list[Operation]]:
    """The groups of a block's ops by TVM's rules, each in order."""
    nodes = dataflow(block)
    groups: dict[int, list[Operation]] = {}
    for node, root in zip(nodes, Partitioner(nodes, max_depth).run(), strict=True):
        if node.op is not None and node.result is None:
            groups.setdefault(root, []).append(node.op)
    return list(groups.values())


def mlc_groups(block: Block, max_depth: int) -> list[list[Operation]]:
    """The groups of a block's ops by mlc's rules, each in order."""
    return Fuser(block, max_depth).run()


def label_of(ops: Iterable[Operation]) -> str:
    """The op chain as a name: `conv2d_bias_add_relu`."""
    names = [op.name.removeprefix("graph.") for op in ops if op.operands]
    chain = [name for i, name in enumerate(names) if i == 0 or names[i - 1] != name]
    label = "_".join(chain)
    return label if len(label) <= MAX_LABEL else label[:MAX_LABEL].rpartition("_")[0]


def origins_of(ops: Iterable[Operation]) -> list[str]:
    """The source names of ops, each once, in order."""
    return list(dict.fromkeys(name for op in ops for name in location_names(op.location)))


def fuse(ops: Sequence[Operation], inline_constants: bool = True) -> FusedOp:
    """Move ops, in order, into a `graph.fused` at the place of the last one."""
    members = set(ops)
    outputs = [r for op in ops for r in op.results if any(use.operation not in members for use in r.uses)]
    body = Block()
    arguments: dict[SSAValue, SSAValue] = {}
    copies: list[Operation] = []

    def inside(value: SSAValue) -> SSAValue:
        owner = value.owner
        if owner in members:
            return value
        if value not in arguments:
            if inline_constants and isinstance(owner, Operation) and is_inlined(owner):
                copies.append(copy := owner.clone())
                copy.location = owner.location
                arguments[value] = copy.results[0]
            else:
                argument = body.insert_arg(value.type, len(body.args))
                argument.name_hint = value.name_hint
                arguments[value] = argument
        return arguments[value]

    for op in ops:
        for index, operand in enumerate(op.operands):
            new = inside(operand)
            if new is not operand:
                op.operands[index] = new
    inputs = [value for value, new in arguments.items() if isinstance(new, BlockArgument)]
    fused = FusedOp(inputs, [r.type for r in outputs], Region(body), label_of(ops), origins_of(ops) or None)
    if (
        device := ops[0].attributes.get(GRAPH_DEVICE)
    ) is not None:  # that of all: copies between devices fuse with none
        fused.attributes[GRAPH_DEVICE] = device
    _replace(ops, outputs, fused)
    body.add_ops([*copies, *ops, YieldOp(*outputs)])
    return fused


def _replace(ops: Sequence[Operation], outputs: Sequence[SSAValue], fused: FusedOp) -> None:
    """Insert a region at the place of the last op, redirect readers outside to it, and detach the ops."""
    last, members = ops[-1], set(ops)
    fused.location = last.location
    assert last.parent is not None
    last.parent.insert_op_before(fused, last)
    for result, new in zip(outputs, fused.results, strict=True):
        new.name_hint = result.name_hint
        for use in [use for use in result.uses if use.operation not in members]:
            use.operation.operands[use.index] = new
    for op in ops:
        op.detach()


def drop_unused_constants(constants: Iterable[Operation]) -> None:
    """Erase constants that have no readers, because all of them have copies."""
    for op in constants:
        erase_dead(op)


@dataclass(frozen=True)
class FuseOpsPass(ModulePass):
    """
    Put ops that become one kernel into one region; `graph-defuse-ops` undoes it.

    `%1 = graph.dense %x, %w; %2 = graph.relu %1`  ->  `%2 = graph.fused "dense_relu" (%a = %x, %b = %w) { .. }`

    mode=tvm follows TVM's rules exactly; mode=mlc also fuses softmax and layer norm with the pointwise ops around
    them, fuses movements into reductions and elementwise chains, and leaves reshapes as views. An op that fuses with
    no other stays as it is.
    """

    name = "graph-fuse-ops"
    mode: Literal["tvm", "mlc"] = "mlc"
    max_depth: int = 256

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; ops that are in a region already stay there."""
        partition = tvm_groups if self.mode == "tvm" else mlc_groups
        for function in functions(op):
            for block in list(outer_blocks(function)):
                constants = [inner for inner in block.ops if not inner.operands]
                for ops in partition(block, self.max_depth):
                    if len(ops) > 1:
                        fuse(ops, inline_constants=self.mode == "mlc")
                drop_unused_constants(constants)
