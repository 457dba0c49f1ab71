"""
The runtime dialect: how @main calls a kernel once tensors have become buffers.

    op ::= `runtime.call` @kernel `ins` `(` values `:` types `)` `outs` `(` values `:` types `)`

The kernel may stand in the same module at any level (func.func on tensors, te.func, loop.func, llvm.func), which is
why this is not func.call.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, SymbolTable
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    Run a kernel: it reads the buffers `ins` and writes the buffers `outs`, all of them.

    `runtime.call @relu ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)`
    """

    name = "runtime.call"

    callee = prop_def(SymbolRefAttr)
    ins = var_operand_def(MemRefType)
    outs = var_operand_def(MemRefType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$callee `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` $outs `:` type($outs) `)` attr-dict"

    def __init__(self, callee: str, ins: Sequence[SSAValue | Operation], outs: Sequence[SSAValue | Operation]) -> None:
        super().__init__(operands=[ins, outs], properties={"callee": SymbolRefAttr(callee)})

    def verify_(self) -> None:
        """A kernel of the module takes buffers, or tensors, of these types: what it reads, then what it writes."""
        callee = SymbolTable.lookup_symbol(self, self.callee) if self.parent is not None else None
        type_ = None if callee is None else callee.get_attr_or_prop("function_type")
        inputs, outputs = getattr(type_, "inputs", None), getattr(type_, "outputs", None)
        if callee is None or inputs is None or outputs is None or callee.name.startswith("llvm."):
            return
        expected = [_buffer(t) for t in (*inputs, *outputs)]
        actual = list(self.operand_types)
        if expected != actual:
            raise VerifyException(
                f"expected buffers of types ({_types(expected)}), as {self.callee} has, but got ({_types(actual)})"
            )


def _buffer(type_: Attribute) -> Attribute:
    """The buffer of a tensor; a buffer is itself."""
    return MemRefType(type_.element_type, type_.get_shape()) if isinstance(type_, TensorType) else type_


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


Runtime = Dialect("runtime", [CallOp])
