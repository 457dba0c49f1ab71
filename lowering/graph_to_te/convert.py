"""
graph -> te: each kernel function of graph ops becomes a te.func of the same name.

In: `func.func`s with the attribute `graph.kernel`, whose ops are all in the table of lowerings; one with the attribute
`compiler` stays. Out: a `te.func` each.
The symbols of its sizes become index arguments, and its attribute `sizes` gives the shapes in terms of them. Integers
become signless (the ops know the sign); stages have the locations of their graph ops.
"""

from __future__ import annotations

import re
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
    UnknownLoc,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import te
from mlc.dialects.attributes import (
    EXTERNAL_COMPILER,
    GRAPH_HASH,
    GRAPH_KERNEL,
    GRAPH_LAYOUTS,
    GRAPH_SYMBOLS,
)
from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, INJECTIVE, GraphOp
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.graph.types import shape_of
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder import builder
from mlc.dialects.te_builder.builder import KernelBuilder, Tensor
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.value_names import value_name
from mlc.lowering.complete import expect_converted
from mlc.lowering.graph_to_te import (
    bits,
    conv,
    conv_transpose,
    elementwise,
    indexing,
    matmul,
    movement,
    quantize,
    reduce,
    resize,
    winograd,
)
from mlc.lowering.graph_to_te.agreement import checked_results
from mlc.lowering.graph_to_te.extern.convert import extern_kernel
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols, size_attributes
from mlc.lowering.graph_to_te.pointwise import check_pointwise
from mlc.lowering.graph_to_te.table import LOWERINGS
from mlc.support.errors import UserError, fail

# Attributes of the graph level that the te.func does not keep.
_DROPPED = (GRAPH_KERNEL, "sym_visibility", GRAPH_SYMBOLS, GRAPH_HASH, GRAPH_LAYOUTS)
FAMILIES = (bits, indexing, conv, conv_transpose, elementwise, matmul, movement, quantize, reduce, resize, winograd)


class ConvertGraphToTe(ModulePass):
    """
    Kernels of graph ops as index expressions.

    `func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {graph.kernel} { graph.exp %x ... }`
    ->
    `te.func @k(%x: tensor<4xf32>) -> tensor<4xf32> { te.compute "exp" (%i0 : 4) { te.read %x[%i0] ... } ... }`
    """

    name = "convert-graph-to-te"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in list(op.body.block.ops):
            if not isinstance(kernel, func.FuncOp) or EXTERNAL_COMPILER in kernel.attributes:
                continue
            if GRAPH_KERNEL in kernel.attributes:
                converted = extern_kernel(kernel) or convert_kernel(kernel)
                expect_converted(converted, self.name, "graph")
                op.body.block.insert_op_before(converted, kernel)
                kernel.detach()
                kernel.erase()


def tensor_type(kernel: func.FuncOp, t: Attribute) -> TensorType[Any]:
    """The te type of a graph tensor: symbolic sizes become `?`, integers signless."""
    if not isinstance(t, TensorType):
        fail(kernel, f"expected operands that are tensors, but got {t}")
    return builder.te_type(builder.signless(t.element_type)[0], shape_of(t))


def convert_kernel(kernel: func.FuncOp, checked: bool = True) -> te.FuncOp:
    """The te.func of a kernel function of graph ops; `checked`: that ops of other dialects are what they declare."""
    source = kernel.body.block
    symbols = kernel_symbols(kernel)
    block = Block(arg_types=[*(tensor_type(kernel, a.type) for a in source.args), *(INDEX for _ in symbols)])
    tensors: dict[SSAValue, Tensor] = {}
    given: dict[DimExpr, SSAValue] = dict(zip(symbols, block.args[len(source.args) :], strict=True))
    for symbol, value in given.items():
        value.name_hint = value_name(re.sub(r"\W+", "_", str(symbol)))
    for k, (old, new) in enumerate(zip(source.args, block.args, strict=False)):
        new.name_hint = old.name_hint or f"arg{k}"
        tensors[old] = builder.tensor_of(new, old.type)
    results: list[SSAValue] = []
    with builder.building(KernelBuilder(block, symbols=given)) as target:
        for op in source.ops:
            if isinstance(op, func.ReturnOp):
                target.location = None
                results = [_materialized(tensors[v]) for v in op.operands]
            else:
                _convert_op(op, target, tensors, checked)
    block.add_op(te.ReturnOp.create(operands=results))
    new = te.FuncOp.make(kernel.sym_name.data, block.arg_types, [r.type for r in results], Region(block))
    new.attributes |= {name: a for name, a in kernel.attributes.items() if name not in _DROPPED}
    new.attributes |= size_attributes(kernel, symbols)
    new.location = kernel.location
    return new


def _convert_op(op: Operation, target: KernelBuilder, tensors: dict[SSAValue, Tensor], checked: bool) -> None:
    lower = LOWERINGS.get(type(op))
    if lower is None:
        fail(op, f"expected an op that lowers to te, but got {op.name}")
    target.location = None if isinstance(op.location, UnknownLoc) else op.location
    last = target.block.last_op
    try:
        made = checked_results(op, lower(op, *(tensors[v] for v in op.operands)))
        if checked:
            _check_extern(op, last, target.block)
            check_pointwise(op, _stages_behind(last, target.block))
    except UserError as error:
        fail(op, str(error))
    for result, tensor in zip(op.results, made, strict=True):
        tensors[result] = tensor
        if result.name_hint and tensor.value is not None:
            tensor.value.name_hint = tensor.value.name_hint or result.name_hint


def _check_extern(op: Operation, last: Operation | None, block: Block) -> None:
    """UserError where the te of an op that says it is pointwise has a te.extern behind the op `last`."""
    first = block.first_op if last is None else last.next_op
    if isinstance(op, GraphOp) and op.kind in (ELEMENTWISE, BROADCAST, INJECTIVE):
        while first is not None:
            if isinstance(first, ExternOp):
                fail(op, f"expected kind = OPAQUE of {op.name}, whose te has a te.extern")
            first = first.next_op


def _stages_behind(last: Operation | None, block: Block) -> list[te.ComputeOp]:
    """The stages of a block behind an op."""
    found: list[te.ComputeOp] = []
    op = block.first_op if last is None else last.next_op
    while op is not None:
        if isinstance(op, te.ComputeOp):
            found.append(op)
        op = op.next_op
    return found


def _materialized(tensor: Tensor) -> SSAValue:
    """The tensor's SSA value; a fill, which has none, becomes a stage."""
    if tensor.value is None:
        tensor = builder.compute(tensor.shape, lambda *i: tensor[i], "full")
    assert tensor.value is not None
    return tensor.value
