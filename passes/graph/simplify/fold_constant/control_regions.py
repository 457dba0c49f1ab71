"""Values read by control flow: weights and constants are cloned into its regions, unused values are removed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Block, SSAValue

from mlc.dialects.constants import integers
from mlc.dialects.graph import ControlOp, IfOp, LoopOp, ScanOp
from mlc.passes.graph.shared.constants import SOURCES


def first_read(op: ControlOp) -> int:
    """The number of a region's first argument that is a value read from outside."""
    if isinstance(op, LoopOp):
        return 1 + len(op.carried)
    return len(op.carried) + len(op.rows) if isinstance(op, ScanOp) else 0


def tidy_reads(block: Block) -> int:
    """
    Clone weights and constants that the control flow of a block reads into its regions, where passes can use them.

    `graph.scan .. reads(%w : T) .. { ^bb0(.., %a: T): ..` -> `graph.scan .. { ^bb0(..): %a = graph.param "w" ..`
    """
    return sum(_tidy(op) for op in block.ops if isinstance(op, IfOp | LoopOp | ScanOp))


def _tidy(op: IfOp | LoopOp | ScanOp) -> int:
    first, kept = first_read(op), list[SSAValue]()
    for index, value in reversed(list(enumerate(op.reads))):
        arguments = [region.block.args[first + index] for region in op.regions]
        owner = value.owner
        if isinstance(owner, SOURCES):
            for region, argument in zip(op.regions, arguments, strict=True):
                if not argument.uses:
                    continue
                clone = owner.clone()
                clone.location = owner.location
                assert region.block.first_op is not None
                region.block.insert_op_before(clone, region.block.first_op)
                clone.results[0].name_hint = value.name_hint
                argument.replace_all_uses_with(clone.results[0])
        if any(argument.uses for argument in arguments):
            kept.append(value)
            continue
        for region, argument in zip(op.regions, arguments, strict=True):
            region.block.erase_arg(argument)
    count = len(op.reads) - len(kept)
    if count:
        _set_reads(op, kept[::-1])
    return count


def _set_reads(op: ControlOp, reads: Sequence[SSAValue]) -> None:
    """Have an op read these values; they are its last operands."""
    assert isinstance(op, IfOp | LoopOp | ScanOp)
    op.operands = [*op.operands[: len(op.operands) - len(op.reads)], *reads]
    sizes = integers(op.properties.get("operandSegmentSizes"))
    if sizes is not None:
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [*sizes[:-1], len(reads)])
