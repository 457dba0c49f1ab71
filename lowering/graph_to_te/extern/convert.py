"""A kernel of one op that is written by hand, as a loop.func."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import loop
from mlc.dialects.graph import ConstantOp, FullOp, GraphOp
from mlc.dialects.graph.types import static_shape
from mlc.lowering.graph_to_te.builder import signless
from mlc.lowering.graph_to_te.extern.body import Body, Fill
from mlc.lowering.graph_to_te.extern.kernels import EXTERN, Buffer, is_extern
from mlc.passes.errors import fail


def _buffer_type(t: Attribute) -> MemRefType[Any]:
    assert isinstance(t, TensorType)
    return MemRefType(signless(t.element_type)[0], static_shape(t))


def extern_kernel(kernel: func.FuncOp) -> loop.FuncOp | None:
    """The loop.func of a kernel whose op is written by hand; None of any other kernel."""
    source = kernel.body.block
    ops = [op for op in source.ops if is_extern(op)]
    if not ops:
        return None
    (op,), ret = ops, source.last_op
    if not all(v.type.has_static_shape() for v in (*source.args, *op.results)):  # pyright: ignore
        fail(op, f"expected static sizes of {op.name}; fix them with shapes=")
    assert isinstance(ret, func.ReturnOp)
    types = [_buffer_type(t) for t in (*source.arg_types, *ret.operand_types)]
    block = Block(arg_types=types)
    given: dict[SSAValue, Buffer] = dict(zip(source.args, block.args, strict=False))
    for other in source.ops:
        if isinstance(other, ConstantOp | FullOp):
            value = other.array().reshape(-1)[0] if isinstance(other, ConstantOp) else other.value
            given[other.results[0]] = Fill(value, signless(other.type.element_type)[0])
        elif other is not op and other is not ret:
            fail(other, f"expected {op.name} to be alone in its kernel, but got {other.name}")
    outputs: dict[SSAValue, SSAValue] = dict(zip(ret.operands, block.args[len(source.args) :], strict=True))
    assert isinstance(op, GraphOp)
    EXTERN[type(op)](Body(block), op, [given[v] for v in op.operands], [outputs.get(r) for r in op.results])
    made = loop.FuncOp.make(kernel.sym_name.data, types, len(ret.operands), Region(block))
    made.location = kernel.location
    return made
