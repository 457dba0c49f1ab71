"""
The runtime dialect: kernel calls of @main on buffers, and views of parts and rows of buffers.

    op ::= `runtime.call` @kernel `ins` `(` values `:` types `)` `outs` `(` values `:` types `)`
         | `runtime.part` value `at` bytes (`+` index)? (`bytes` index)? `:` type `to` type
         | `runtime.row` value `[` index `]` (`bytes` index)? `:` type `to` type
         | `runtime.fill` value (`bytes` index)? `:` type
         | `runtime.copy` value `to` value `bytes` index `:` type `to` type

For types with dynamic sizes (`?`), `bytes` is the size of the memory.
The kernel may be in the same module at any level (func.func on tensors, te.func, loop.func, llvm.func), which func.call
does not allow.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, MemRefType, SymbolRefAttr, TensorType, i64
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.symbol_lookup import lookup_symbol


@irdl_op_definition
class CallOp(IRDLOperation):
    """
    Run a kernel, which reads the buffers `ins` and writes all of the buffers `outs`; `sizes` are its size arguments.

    `runtime.call @relu ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)`
    """

    name = "runtime.call"

    callee = prop_def(SymbolRefAttr)
    ins = var_operand_def(MemRefType)
    outs = var_operand_def(MemRefType)
    sizes = var_operand_def(IndexType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$callee `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` $outs `:` type($outs) `)` "
        "(`sizes` `(` $sizes^ `:` type($sizes) `)`)? attr-dict"
    )

    def __init__(
        self,
        callee: str,
        ins: Sequence[SSAValue | Operation],
        outs: Sequence[SSAValue | Operation],
        sizes: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(operands=[ins, outs, sizes], properties={"callee": SymbolRefAttr(callee)})

    def verify_(self) -> None:
        """The callee, if the module has it, takes buffers or tensors of these types: first `ins`, then `outs`."""
        callee = lookup_symbol(self, self.callee) if self.parent is not None else None
        type_ = None if callee is None else callee.get_attr_or_prop("function_type")
        inputs, outputs = getattr(type_, "inputs", None), getattr(type_, "outputs", None)
        if callee is None or inputs is None or outputs is None or callee.name.startswith("llvm."):
            return
        expected = [_buffer(t) for t in (*inputs, *outputs) if not isinstance(t, IndexType)]
        actual = [v.type for v in (*self.ins, *self.outs)]
        if expected != actual:
            raise VerifyException(
                f"expected buffers of types ({_types(expected)}), as {self.callee} has, but got ({_types(actual)})"
            )


@irdl_op_definition
class PartOp(IRDLOperation):
    """
    A view of a buffer's memory from a byte offset on; the two buffers alias.

    `%1 = runtime.part %0 at 1024 : memref<1x4x8x8xf32> to memref<1x2x8x8xf32>`
    `%2 = runtime.part %0 at 0 + %offset bytes %n : memref<1x4x?xf32> to memref<1x2x?xf32>`
    """

    name = "runtime.part"

    source = operand_def(MemRefType)
    offset = prop_def(IntegerAttr[I64])
    shift = opt_operand_def(IndexType)
    bytes = opt_operand_def(IndexType)
    result = result_def(MemRefType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(NoMemoryEffect())
    assembly_format = (
        "$source `at` $offset (`+` $shift^)? (`bytes` $bytes^)? `:` type($source) `to` type($result) attr-dict"
    )

    def __init__(
        self,
        source: SSAValue | Operation,
        offset: int,
        type_: Attribute,
        shift: SSAValue | None = None,
        bytes: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[source, shift, bytes], properties={"offset": IntegerAttr(offset, i64)}, result_types=[type_]
        )

    def verify_(self) -> None:
        """The part lies in the buffer, at a multiple of its element's size."""
        _check_bytes(self.result.type, self.bytes)
        start, (size, element), (whole, _) = (
            self.offset.value.data,
            _extent(self.result.type),
            _extent(self.source.type),
        )
        known = self.shift is None and self.bytes is None and _is_static(self.source.type)
        if start < 0 or (known and start + size > whole):
            raise VerifyException(
                f"expected a part within the {whole} bytes of {self.source.type}, "
                f"but got {size} bytes at {start}; make the offset or the type smaller"
            )
        if start % element:
            raise VerifyException(f"expected an offset that is a multiple of {element} bytes, but got {start}")


@irdl_op_definition
class RowOp(IRDLOperation):
    """
    A view of one row of a buffer: the slice at an index of its first axis.

    `%1 = runtime.row %0[%i] : memref<5x1x8xf32> to memref<1x8xf32>`
    """

    name = "runtime.row"

    source = operand_def(MemRefType)
    index = operand_def(IndexType)
    bytes = opt_operand_def(IndexType)
    result = result_def(MemRefType)

    traits = traits_def(NoMemoryEffect())
    assembly_format = "$source `[` $index `]` (`bytes` $bytes^)? `:` type($source) `to` type($result) attr-dict"

    def __init__(
        self, source: SSAValue | Operation, index: SSAValue, type_: Attribute, bytes: SSAValue | None = None
    ) -> None:
        super().__init__(operands=[source, index, bytes], result_types=[type_])

    def verify_(self) -> None:
        """The row's type is the buffer's without its first axis."""
        whole, row = self.source.type, self.result.type
        assert isinstance(whole, MemRefType)
        assert isinstance(row, MemRefType)
        if whole.element_type != row.element_type or whole.get_shape()[1:] != row.get_shape():
            raise VerifyException(f"expected a row of {whole}, its type without the first axis, but got {row}")
        _check_bytes(row, self.bytes)


@irdl_op_definition
class FillOp(IRDLOperation):
    """
    Make all elements of a buffer zero.

    `runtime.fill %0 : memref<5x8xf32>`
    """

    name = "runtime.fill"

    target = operand_def(MemRefType)
    bytes = opt_operand_def(IndexType)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$target (`bytes` $bytes^)? `:` type($target) attr-dict"

    def __init__(self, target: SSAValue | Operation, bytes: SSAValue | None = None) -> None:
        super().__init__(operands=[target, bytes])

    def verify_(self) -> None:
        """The size of the buffer is static or given."""
        _check_bytes(self.target.type, self.bytes)


@irdl_op_definition
class CopyOp(IRDLOperation):
    """
    Copy a buffer of dynamic size, given its bytes; `memref.copy` copies buffers of static size.

    `runtime.copy %0 to %1 bytes %n : memref<?x8xf32> to memref<?x8xf32>`
    """

    name = "runtime.copy"

    source = operand_def(MemRefType)
    destination = operand_def(MemRefType)
    bytes = operand_def(IndexType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$source `to` $destination `bytes` $bytes `:` type($source) `to` type($destination) attr-dict"

    def __init__(self, source: SSAValue, destination: SSAValue, bytes: SSAValue) -> None:
        super().__init__(operands=[source, destination, bytes])


def _is_static(type_: Attribute) -> bool:
    return isinstance(type_, MemRefType) and all(size >= 0 for size in type_.get_shape())


def _check_bytes(type_: Attribute, count: SSAValue | None) -> None:
    """Buffers of dynamic sizes come with their size in bytes."""
    if count is None and not _is_static(type_):
        raise VerifyException(f"expected the size of {type_} in bytes, which its type leaves open; add `bytes %n`")


def _extent(type_: Attribute) -> tuple[int, int]:
    """The bytes of a buffer of static sizes, and those of one element."""
    assert isinstance(type_, MemRefType)
    element = max(1, getattr(type_.element_type, "bitwidth", 64) // 8)
    size = element
    for extent in type_.get_shape():
        size *= extent
    return size, element


def _buffer(type_: Attribute) -> Attribute:
    """The memref type of a tensor type; other types are returned unchanged."""
    return MemRefType(type_.element_type, type_.get_shape()) if isinstance(type_, TensorType) else type_


def _types(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types))


Runtime = Dialect("runtime", [CallOp, PartOp, RowOp, FillOp, CopyOp])
