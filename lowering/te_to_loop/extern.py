"""te.extern -> loop: the body stands in the kernel, over the kernel's buffers; a callee becomes a `loop.call`."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, SSAValue

from mlc.dialects import loop
from mlc.dialects.te_extern import ExternOp


def convert_extern(stage: ExternOp, place: Block, buffers: Mapping[SSAValue, SSAValue]) -> None:
    """
    Append a stage to the kernel's block.

    `%y = te.extern "f" (%x) registered "my.f" : (tensor<4xf32>) -> tensor<4xf32>`
    ->
    `loop.call registered "my.f" (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>`
    """
    inputs = [buffers[v] for v in stage.inputs]
    outputs = [buffers[r] for r in stage.results]
    if (callee := stage.called) is not None:
        call = loop.ExternCallOp.make(callee, inputs, outputs)
        call.location = stage.location
        place.add_op(call)
        return
    mapping: dict[SSAValue, SSAValue] = dict(zip(stage.body.block.args, [*inputs, *outputs], strict=True))
    for op in stage.body.block.ops:
        if isinstance(op, loop.YieldOp):
            continue
        copy = op.clone(mapping)
        for inner in copy.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = stage.location
        place.add_op(copy)
