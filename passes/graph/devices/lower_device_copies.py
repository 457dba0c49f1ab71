"""graph-lower-device-copies: copies between devices become kernels, or nothing where the memory is the same."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.dialects.graph import DeviceCopyOp, TransposeOp, shape_of
from mlc.passes.graph.devices.annotate_memory_scope import GLOBAL, parse_scopes
from mlc.passes.graph.fusion.fuse_ops import fuse
from mlc.passes.rewriting import functions, outer_blocks


def lower(copy: DeviceCopyOp, within: bool) -> None:
    """Replace a copy by its operand, where both are `within` one memory, or by a kernel that copies."""
    value, kernel = copy.operands[0], None
    if not within:
        kernel = TransposeOp.make(value, axes=tuple(range(len(shape_of(value.type)))), location=copy.location)
        kernel.attributes |= copy.attributes
        assert copy.parent is not None
        copy.parent.insert_op_before(kernel, copy)
        value = kernel.result
        value.name_hint = copy.result.name_hint
    copy.result.replace_all_uses_with(value)
    copy.detach()
    copy.erase()
    if kernel is not None:
        fuse([kernel]).label = StringAttr("device_copy")


@dataclass(frozen=True)
class LowerDeviceCopiesPass(ModulePass):
    """
    Remove copies between devices of the same memory scope, and make kernels of the others.

    `%1 = graph.device_copy %0 {src = "cpu", dst = "npu"}`  ->  `%0`, or `%1 = graph.fused "device_copy" (%a = %0) {..}`

    It runs after graph-fuse-ops, since copies keep fusion from making one kernel of ops on two devices. `scopes` is the
    option of the same name of graph-annotate-memory-scope.
    """

    name = "graph-lower-device-copies"
    scopes: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scopes = parse_scopes(self.scopes)
        for function in functions(op):
            for block in list(outer_blocks(function)):
                for copy in [inner for inner in block.ops if isinstance(inner, DeviceCopyOp)]:
                    lower(copy, scopes.get(copy.src, GLOBAL) == scopes.get(copy.dst, GLOBAL))
