"""Memory operations: masked and indexed accesses, atomics, fences, prefetches."""

from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.llvm_ext.rules import (
    ATOMIC_KINDS,
    FENCE_ORDERINGS,
    ORDERINGS,
    Value,
    expect_alignment,
    expect_in,
    expect_type,
    expect_vector,
    mask_type,
    verify_indices,
)

POINTER = LLVMPointerType()


def _align(alignment: int | None) -> IntegerAttr | None:
    return None if alignment is None else IntegerAttr(alignment, i64)


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """
    Load the lanes whose mask bit is set; the others come from `passthru` and touch no memory.

    `%v = llvm_ext.masked_load %p, %m, %z align 4 : vector<16xi1>, vector<16xf32>`
    """

    name = "llvm_ext.masked_load"
    T: ClassVar = VarConstraint("T", AnyAttr())
    ptr = operand_def(POINTER)
    mask = operand_def()
    passthru = operand_def(T)
    res = result_def(T)
    alignment = opt_prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$ptr `,` $mask `,` $passthru (`align` $alignment^)? attr-dict `:` type($mask) `,` type($res)"

    def __init__(self, ptr: Value, mask: Value, passthru: Value, alignment: int | None = None) -> None:
        super().__init__(
            operands=[ptr, mask, passthru],
            result_types=[SSAValue.get(passthru).type],
            properties={"alignment": _align(alignment)},
        )

    def verify_(self) -> None:
        expect_vector("passthru", self.res.type)
        expect_type("mask", self.mask.type, mask_type(self.res.type))
        expect_alignment(self.alignment)


@irdl_op_definition
class MaskedStoreOp(IRDLOperation):
    """
    Store the lanes whose mask bit is set.

    `llvm_ext.masked_store %v, %p, %m align 4 : vector<16xf32>, vector<16xi1>`
    """

    name = "llvm_ext.masked_store"
    value = operand_def()
    ptr = operand_def(POINTER)
    mask = operand_def()
    alignment = opt_prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $ptr `,` $mask (`align` $alignment^)? attr-dict `:` type($value) `,` type($mask)"

    def __init__(self, value: Value, ptr: Value, mask: Value, alignment: int | None = None) -> None:
        super().__init__(operands=[value, ptr, mask], properties={"alignment": _align(alignment)})

    def verify_(self) -> None:
        expect_vector("value", self.value.type)
        expect_type("mask", self.mask.type, mask_type(self.value.type))
        expect_alignment(self.alignment)


@irdl_op_definition
class GatherOp(IRDLOperation):
    """
    Load `base[index]` in each lane whose mask bit is set; an index counts elements.

    `%v = llvm_ext.gather %p[%i], %m, %z : vector<16xi32>, vector<16xi1>, vector<16xf32>`
    """

    name = "llvm_ext.gather"
    T: ClassVar = VarConstraint("T", AnyAttr())
    base = operand_def(POINTER)
    index = operand_def()
    mask = operand_def()
    passthru = operand_def(T)
    res = result_def(T)
    alignment = opt_prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $index `]` `,` $mask `,` $passthru (`align` $alignment^)? attr-dict"
        " `:` type($index) `,` type($mask) `,` type($res)"
    )

    def __init__(self, base: Value, index: Value, mask: Value, passthru: Value, alignment: int | None = None) -> None:
        super().__init__(
            operands=[base, index, mask, passthru],
            result_types=[SSAValue.get(passthru).type],
            properties={"alignment": _align(alignment)},
        )

    def verify_(self) -> None:
        expect_vector("passthru", self.res.type)
        verify_indices(self.index.type, self.mask.type, self.res.type)
        expect_alignment(self.alignment)


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """
    Store to `base[index]` in each lane whose mask bit is set; of equal indices the last lane wins.

    `llvm_ext.scatter %v, %p[%i], %m : vector<16xf32>, vector<16xi32>, vector<16xi1>`
    """

    name = "llvm_ext.scatter"
    value = operand_def()
    base = operand_def(POINTER)
    index = operand_def()
    mask = operand_def()
    alignment = opt_prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $base `[` $index `]` `,` $mask (`align` $alignment^)? attr-dict"
        " `:` type($value) `,` type($index) `,` type($mask)"
    )

    def __init__(self, value: Value, base: Value, index: Value, mask: Value, alignment: int | None = None) -> None:
        super().__init__(operands=[value, base, index, mask], properties={"alignment": _align(alignment)})

    def verify_(self) -> None:
        expect_vector("value", self.value.type)
        verify_indices(self.index.type, self.mask.type, self.value.type)
        expect_alignment(self.alignment)


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """
    Read, modify and write one memory location atomically; the result is the old value.

    `%old = llvm_ext.atomicrmw "add" "seq_cst" %p, %v : i32`
    """

    name = "llvm_ext.atomicrmw"
    T: ClassVar = VarConstraint("T", AnyAttr())
    kind = prop_def(StringAttr)
    ordering = prop_def(StringAttr)
    ptr = operand_def(POINTER)
    value = operand_def(T)
    res = result_def(T)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$kind $ordering $ptr `,` $value attr-dict `:` type($res)"

    def __init__(self, kind: str, ptr: Value, value: Value, ordering: str = "seq_cst") -> None:
        super().__init__(
            operands=[ptr, value],
            result_types=[SSAValue.get(value).type],
            properties={"kind": StringAttr(kind), "ordering": StringAttr(ordering)},
        )

    def verify_(self) -> None:
        expect_in("the kind of atomicrmw", self.kind.data, ATOMIC_KINDS)
        expect_in("the ordering", self.ordering.data, ORDERINGS)


@irdl_op_definition
class FenceOp(IRDLOperation):
    """
    Order memory accesses between threads.

    `llvm_ext.fence "seq_cst"`
    """

    name = "llvm_ext.fence"
    ordering = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$ordering attr-dict"

    def __init__(self, ordering: str = "seq_cst") -> None:
        super().__init__(properties={"ordering": StringAttr(ordering)})

    def verify_(self) -> None:
        expect_in("the ordering of a fence", self.ordering.data, FENCE_ORDERINGS)


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """
    Fetch a cache line ahead of its use; locality 3 keeps it in L1, 0 is streaming.

    `llvm_ext.prefetch %p locality 3` / `llvm_ext.prefetch %p locality 3 write`
    """

    name = "llvm_ext.prefetch"
    ptr = operand_def(POINTER)
    locality = prop_def(IntegerAttr[I64])
    write = opt_prop_def(UnitAttr)
    # As in LLVM, a prefetch counts as a memory write; otherwise it would be dead code.
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$ptr `locality` $locality (`write` $write^)? attr-dict"

    def __init__(self, ptr: Value, locality: int = 3, write: bool = False) -> None:
        super().__init__(
            operands=[ptr],
            properties={"locality": IntegerAttr(locality, i64), "write": UnitAttr() if write else None},
        )

    def verify_(self) -> None:
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException(f"expected locality to be 0 to 3, but got {self.locality.value.data}")
