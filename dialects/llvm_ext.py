"""
The llvm_ext dialect: the few operations that xDSL's `llvm` dialect lacks.

    op        ::= memory | vector | arithmetic | sync
    memory    ::= masked_load | masked_store | gather | scatter | prefetch
    vector    ::= splat | extractelement | poison
    arithmetic::= cast kind | fcmp predicate | select | intrinsic name | math name
    sync      ::= atomicrmw kind ordering | fence ordering

Everything here is one LLVM instruction or intrinsic, save `splat` and `gather` (two) and `math` (a call of a
prelude function, `codegen/prelude.py`). Scalars and one-dimensional vectors are treated alike.

Facts that have no place in an upstream op travel as discardable attributes, which `codegen/llvm_ir.py` reads:
`nontemporal` and `invariant` on `llvm.load`, `no_unroll` on a branch that closes a loop.
"""

from typing import ClassVar, TypeAlias

from xdsl.dialects.builtin import (
    I64,
    FixedBitwidthType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.llvm import FastMathAttr, LLVMPointerType
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoMemoryEffect, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.llvm_ext_rules import (
    ATOMIC_KINDS,
    CASTS,
    FCMP_PREDICATES,
    FENCE_ORDERINGS,
    MATH_FUNCTIONS,
    ORDERINGS,
    argument_attributes,
    element_of,
    expect_alignment,
    expect_in,
    expect_lanes,
    expect_type,
    expect_vector,
    mask_type,
    type_class,
    verify_bitcast,
    verify_indices,
)

__all__ = ["LLVMExt", "argument_attributes", "element_of", "mask_type"]

Value: TypeAlias = Operation | SSAValue
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
class CastOp(IRDLOperation):
    """
    Convert a scalar, or each lane of a vector: trunc, zext, sext, fptrunc, fpext, fptosi, ... (CASTS).

    `%r = llvm_ext.cast "fptosi" %x : vector<16xf32> to vector<16xi32>`
    """

    name = "llvm_ext.cast"
    kind = prop_def(StringAttr)
    arg = operand_def()
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$kind $arg attr-dict `:` type($arg) `to` type($res)"

    def __init__(self, kind: str, arg: Value, result_type: Attribute) -> None:
        super().__init__(operands=[arg], result_types=[result_type], properties={"kind": StringAttr(kind)})

    def verify_(self) -> None:
        kind = self.kind.data
        expect_in("the kind of cast", kind, tuple(CASTS))
        source_class, result_class, order = CASTS[kind]
        if kind == "bitcast":
            verify_bitcast(self.arg.type, self.res.type)
            return
        expect_lanes("the result", self.res.type, self.arg.type)
        source, result = element_of(self.arg.type), element_of(self.res.type)
        for what, type_, wanted in (("operand", source, source_class), ("result", result, result_class)):
            if type_class(type_) != wanted:
                raise VerifyException(f"expected the {what} of {kind} to be {wanted}, but got {type_}")
        if order and isinstance(source, FixedBitwidthType) and isinstance(result, FixedBitwidthType):
            is_ordered = result.bitwidth < source.bitwidth if order == "<" else result.bitwidth > source.bitwidth
            if not is_ordered:
                word = "narrower" if order == "<" else "wider"
                raise VerifyException(f"expected the result of {kind} to be {word} than {source}, but got {result}")


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """
    Take one lane of a vector.

    `%s = llvm_ext.extractelement %v[%i] : vector<16xf32>, i64`
    """

    name = "llvm_ext.extractelement"
    T: ClassVar = VarConstraint("T", AnyAttr())
    vector = operand_def(VectorType.constr(T))
    index = operand_def(IntegerType)
    res = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$vector `[` $index `]` attr-dict `:` type($vector) `,` type($index)"

    def __init__(self, vector: Value, index: Value) -> None:
        super().__init__(operands=[vector, index], result_types=[element_of(SSAValue.get(vector).type)])


@irdl_op_definition
class SplatOp(IRDLOperation):
    """
    Copy a scalar to every lane of a vector.

    `%v = llvm_ext.splat %s : vector<16xf32>`
    """

    name = "llvm_ext.splat"
    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    res = result_def(VectorType.constr(T))
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($res)"

    def __init__(self, value: Value, result_type: Attribute) -> None:
        super().__init__(operands=[value], result_types=[result_type])

    def verify_(self) -> None:
        expect_vector("the result", self.res.type)


@irdl_op_definition
class PoisonOp(IRDLOperation):
    """
    A value that nothing may depend on, e.g. the vector that the first `insertelement` writes into.

    `%v = llvm_ext.poison : vector<16xf32>`
    """

    name = "llvm_ext.poison"
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, result_type: Attribute) -> None:
        super().__init__(result_types=[result_type])


@irdl_op_definition
class IntrinsicOp(IRDLOperation):
    """
    Call an LLVM intrinsic; `codegen` adds the type suffix of an overloaded one.

    `%r = llvm_ext.intrinsic "llvm.maxnum"(%a, %b) {fastmathFlags = #llvm.fastmath<nsz>} : (f32, f32) -> f32`
    """

    name = "llvm_ext.intrinsic"
    intrin = prop_def(StringAttr)
    args = var_operand_def()
    res = opt_result_def()
    fastmathFlags = prop_def(FastMathAttr, default_value=FastMathAttr(None))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$intrin `(` $args `)` attr-dict `:` functional-type($args, results)"

    def __init__(
        self,
        intrin: str,
        args: list[Value],
        result_type: Attribute | None,
        fastmath: FastMathAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[args],
            result_types=[[] if result_type is None else [result_type]],
            properties={"intrin": StringAttr(intrin), "fastmathFlags": fastmath or FastMathAttr(None)},
        )

    def verify_(self) -> None:
        if not self.intrin.data.startswith("llvm."):
            raise VerifyException(
                f"expected the name of an intrinsic to start with 'llvm.', but got '{self.intrin.data}'"
            )


@irdl_op_definition
class MathOp(IRDLOperation):
    """
    Call a function of the math prelude on a scalar, or on each lane of a native vector.

    `%r = llvm_ext.math "exp"(%x) : vector<16xf32>`
    """

    name = "llvm_ext.math"
    T: ClassVar = VarConstraint("T", AnyAttr())
    function = prop_def(StringAttr)
    args = var_operand_def(T)
    res = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$function `(` $args `)` attr-dict `:` type($res)"

    def __init__(self, function: str, *args: Value) -> None:
        super().__init__(
            operands=[args],
            result_types=[SSAValue.get(args[0]).type],
            properties={"function": StringAttr(function)},
        )

    def verify_(self) -> None:
        function = self.function.data
        expect_in("the math function", function, tuple(MATH_FUNCTIONS))
        if len(self.args) != MATH_FUNCTIONS[function]:
            raise VerifyException(
                f"expected {function} to have {MATH_FUNCTIONS[function]} operands, but got {len(self.args)}"
            )
        if type_class(element_of(self.res.type)) != "float":
            raise VerifyException(f"expected {function} to have floats, but got {self.res.type}")


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """
    Compare floats, lane by lane; predicates as in LLVM (`olt`, `une`, ...).

    `%m = llvm_ext.fcmp "olt" %a, %b : vector<16xf32>`
    """

    name = "llvm_ext.fcmp"
    T: ClassVar = VarConstraint("T", AnyAttr())
    predicate = prop_def(StringAttr)
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def()
    traits = traits_def(Pure())
    assembly_format = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($res)"

    def __init__(self, predicate: str, lhs: Value, rhs: Value) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[mask_type(SSAValue.get(lhs).type)],
            properties={"predicate": StringAttr(predicate)},
        )

    def verify_(self) -> None:
        expect_in("the predicate", self.predicate.data, FCMP_PREDICATES)
        if type_class(element_of(self.lhs.type)) != "float":
            raise VerifyException(
                f"expected fcmp to compare floats, but got {self.lhs.type}; use llvm.icmp for integers"
            )
        expect_type("the result", self.res.type, mask_type(self.lhs.type))


@irdl_op_definition
class SelectOp(IRDLOperation):
    """
    Choose between two values, by one bit or lane by lane.

    `%r = llvm_ext.select %m, %a, %b : vector<16xi1>, vector<16xf32>`
    """

    name = "llvm_ext.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    cond = operand_def()
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$cond `,` $lhs `,` $rhs attr-dict `:` type($cond) `,` type($res)"

    def __init__(self, cond: Value, lhs: Value, rhs: Value) -> None:
        super().__init__(operands=[cond, lhs, rhs], result_types=[SSAValue.get(lhs).type])

    def verify_(self) -> None:
        if self.cond.type != i1:
            expect_type("the condition", self.cond.type, mask_type(self.res.type))


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
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$ptr `locality` $locality (`write` $write^)? attr-dict"

    def __init__(self, ptr: Value, locality: int = 3, write: bool = False) -> None:
        super().__init__(
            operands=[ptr],
            properties={"locality": IntegerAttr(locality, i64), "write": UnitAttr() if write else None},
        )

    def verify_(self) -> None:
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException(f"expected locality to be 0 to 3, but got {self.locality.value.data}")


LLVMExt = Dialect(
    "llvm_ext",
    [
        AtomicRMWOp,
        CastOp,
        ExtractElementOp,
        FCmpOp,
        FenceOp,
        GatherOp,
        IntrinsicOp,
        MaskedLoadOp,
        MaskedStoreOp,
        MathOp,
        PoisonOp,
        PrefetchOp,
        ScatterOp,
        SelectOp,
        SplatOp,
    ],
)
