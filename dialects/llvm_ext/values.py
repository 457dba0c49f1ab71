"""Operations on scalars and native vectors."""

from typing import ClassVar

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntegerType,
    StringAttr,
    VectorType,
    i1,
)
from xdsl.dialects.llvm import FastMathAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.llvm_ext.rules import (
    CASTS,
    FCMP_PREDICATES,
    MATH_FUNCTIONS,
    Value,
    element_of,
    expect_in,
    expect_lanes,
    expect_type,
    expect_vector,
    mask_type,
    type_class,
    verify_bitcast,
)


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
    LLVM's poison value, e.g. the vector into which the first `insertelement` writes.

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
