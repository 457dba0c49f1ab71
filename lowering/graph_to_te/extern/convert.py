"""Converts a kernel of one extern op to a loop.func."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import loop
from mlc.dialects.graph import ConstantOp, FullOp, GraphOp
from mlc.dialects.graph.types import shape_of
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder.builder import signless
from mlc.dialects.te_builder.loop_body import Fill, LoopBodyBuilder
from mlc.lowering.graph_to_te.extern.kernels import EXTERN, Buffer, is_extern
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols, size_attributes
from mlc.support.errors import fail


def _buffer_type(t: Attribute) -> MemRefType[Any]:
    assert isinstance(t, TensorType)
    return MemRefType(signless(t.element_type)[0], [n if isinstance(n, int) else DYNAMIC_INDEX for n in shape_of(t)])


def extern_kernel(kernel: func.FuncOp) -> loop.FuncOp | None:
    """The loop.func of a kernel of an extern op; None for any other kernel."""
    source = kernel.body.block
    ops = [op for op in source.ops if is_extern(op)]
    if not ops:
        return None
    (op,), ret = ops, source.last_op
    assert isinstance(ret, func.ReturnOp)
    symbols = kernel_symbols(kernel)
    types = [*map(_buffer_type, (*source.arg_types, *ret.operand_types)), *(INDEX for _ in symbols)]
    block = Block(arg_types=types)
    values = block.args[len(types) - len(symbols) :]
    given: dict[SSAValue, Buffer] = dict(zip(source.args, block.args, strict=False))
    for other in source.ops:
        if isinstance(other, ConstantOp | FullOp):
            value = other.array().reshape(-1)[0] if isinstance(other, ConstantOp) else other.value
            given[other.results[0]] = Fill(value, signless(other.type.element_type)[0])
        elif other is not op and other is not ret:
            fail(other, f"expected {op.name} to be alone in its kernel, but got {other.name}")
    outputs: dict[SSAValue, SSAValue] = dict(zip(ret.operands, block.args[len(source.args) :], strict=False))
    assert isinstance(op, GraphOp)
    body = LoopBodyBuilder(block, dict(zip(symbols, values, strict=True)))
    EXTERN[type(op)](body, op, [given[v] for v in op.operands], [outputs.get(r) for r in op.results])
    made = loop.FuncOp.make(kernel.sym_name.data, types, len(ret.operands), Region(block))
    made.attributes |= size_attributes(kernel, symbols)
    made.location = kernel.location
    return made
