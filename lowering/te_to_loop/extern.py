"""te.extern -> loop: the body stands in the kernel, over the kernel's buffers; a callee becomes a `loop.call`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, dim
from mlc.dialects.te_extern import ExternOp


def convert_extern(stage: ExternOp, place: Block, buffers: Mapping[SSAValue, SSAValue]) -> None:
    """
    Append a stage to the kernel's block.

    `%y = te.extern "f" (%x) registered "my.f" : (tensor<4xf32>) -> tensor<4xf32>`
    ->
    `loop.call registered "my.f" (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>`
    """
    symbols = [buffers[v] for v in stage.symbols]
    inputs = [buffers[v] for v in stage.inputs]
    outputs = [buffers[r] for r in stage.results]
    if (callee := stage.called) is not None:
        call = loop.ExternCallOp.make(callee, inputs, outputs, stage.sizes, symbols)
        call.location = stage.location
        place.add_op(call)
        return
    sizes = [_size(size, symbols, arg, place) for size, arg in zip(stage.sizes, stage.size_arguments, strict=True)]
    mapping: dict[SSAValue, SSAValue] = dict(zip(stage.body.block.args, [*inputs, *outputs, *sizes], strict=True))
    for op in stage.body.block.ops:
        if isinstance(op, loop.YieldOp):
            continue
        copy = op.clone(mapping)
        for inner in copy.walk():
            if isinstance(inner.location, UnknownLoc):
                inner.location = stage.location
        place.add_op(copy)


def _size(size: Index, symbols: Sequence[SSAValue], argument: SSAValue, place: Block) -> SSAValue:
    """A size as a value of the kernel: a symbol itself, else computed where the body uses it."""
    plain = next((v for k, v in enumerate(symbols) if size == dim(k)), None)
    if plain is not None or not argument.uses:
        return plain or argument
    op = loop.IndexOp.make(size, symbols)
    place.add_op(op)
    return op.result
