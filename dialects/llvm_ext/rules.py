"""Tables and checks of the llvm_ext dialect, apart from its operations."""

from collections.abc import Mapping
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    FixedBitwidthType,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

Value: TypeAlias = Operation | SSAValue

# Kind -> class of the source type, class of the result type, the result's width relative to the source's.
CASTS: Mapping[str, tuple[str, str, str]] = {
    "trunc": ("integer", "integer", "<"),
    "zext": ("integer", "integer", ">"),
    "sext": ("integer", "integer", ">"),
    "fptrunc": ("float", "float", "<"),
    "fpext": ("float", "float", ">"),
    "fptosi": ("float", "integer", ""),
    "fptoui": ("float", "integer", ""),
    "sitofp": ("integer", "float", ""),
    "uitofp": ("integer", "float", ""),
    "bitcast": ("", "", "="),
    "ptrtoint": ("pointer", "integer", ""),
    "inttoptr": ("integer", "pointer", ""),
}
FCMP_PREDICATES = tuple("false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split())
ATOMIC_KINDS = tuple("xchg add sub and or xor max min umax umin fadd fmax fmin".split())
ORDERINGS = ("monotonic", "acquire", "release", "acq_rel", "seq_cst")
FENCE_ORDERINGS = ORDERINGS[1:]

# Prelude function -> number of operands; `codegen/llvm/prelude` has the definitions and error bounds.
MATH_FUNCTIONS: Mapping[str, int] = {
    "exp": 1,
    "exp_nonpositive": 1,
    "log": 1,
    "tanh": 1,
    "erf": 1,
    "sigmoid": 1,
    "sinh": 1,
    "cosh": 1,
    "pow": 2,
    "sin": 1,
    "cos": 1,
    "tan": 1,
    "asin": 1,
    "acos": 1,
    "atan": 1,
}


@irdl_attr_definition
class X86AMXType(ParametrizedAttribute, TypeAttribute):
    """A register of the matrix unit: LLVM's `x86_amx`."""

    name = "llvm_ext.x86_amx"


def lanes_of(type_: Attribute) -> int:
    """Return the number of lanes of a vector type, 0 for a scalar."""
    return type_.get_shape()[0] if isinstance(type_, VectorType) else 0


def element_of(type_: Attribute) -> Attribute:
    """Return the element type of a vector, or the scalar type itself."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def mask_type(type_: Attribute) -> Attribute:
    """Return the type of a condition on `type_`: i1, or a vector of i1 with as many lanes."""
    lanes = lanes_of(type_)
    return VectorType(i1, [lanes]) if lanes else i1


def argument_attributes(*, noalias: bool = False, nonnull: bool = False) -> DictionaryAttr:
    """Return one entry of an llvm.func's `arg_attrs`, e.g. `{llvm.noalias, llvm.nonnull}`."""
    flags = {"llvm.noalias": noalias, "llvm.nonnull": nonnull}
    return DictionaryAttr({name: UnitAttr() for name, is_set in flags.items() if is_set})


def type_class(type_: Attribute) -> str:
    """Name the class of a scalar type: integer, float, pointer or other."""
    if isinstance(type_, IntegerType):
        return "integer"
    if isinstance(type_, AnyFloat):
        return "float"
    return "pointer" if isinstance(type_, LLVMPointerType) else "other"


def expect_in(what: str, word: str, known: tuple[str, ...]) -> None:
    """Raise unless `word` is one of the known ones."""
    if word not in known:
        raise VerifyException(f"expected {what} to be one of {', '.join(known)}, but got '{word}'")


def expect_type(operand: str, got: Attribute, expected: Attribute) -> None:
    """Raise unless an operand has the expected type."""
    if got != expected:
        raise VerifyException(f"expected {operand} to have type {expected}, but got {got}")


def expect_vector(operand: str, got: Attribute) -> None:
    """Raise unless `got` is a one-dimensional vector."""
    if not isinstance(got, VectorType) or got.get_num_dims() != 1:
        raise VerifyException(f"expected {operand} to be a one-dimensional vector, but got {got}")


def expect_lanes(operand: str, got: Attribute, like: Attribute) -> None:
    """Raise unless `got` has as many lanes as `like`."""
    if lanes_of(got) != lanes_of(like):
        raise VerifyException(f"expected {operand} to have as many lanes as {like}, but got {got}")


def expect_alignment(alignment: IntegerAttr | None) -> None:
    """Raise unless the alignment is absent or a power of two."""
    if alignment is not None and (n := alignment.value.data) & (n - 1) | (n <= 0):
        raise VerifyException(f"expected align to be a power of two, but got {n}")


def verify_indices(index: Attribute, mask: Attribute, value: Attribute) -> None:
    """Check a gather's or scatter's index and mask against its value."""
    expect_lanes("index", index, value)
    if type_class(element_of(index)) != "integer":
        raise VerifyException(f"expected index to be a vector of integers, but got {index}")
    expect_type("mask", mask, mask_type(value))


def verify_bitcast(source: Attribute, result: Attribute) -> None:
    """Check that source and result have the same number of bits."""
    bits: list[int] = []
    for type_ in (source, result):
        element = element_of(type_)
        if not isinstance(element, FixedBitwidthType):
            raise VerifyException(f"expected bitcast to have integers or floats, but got {type_}")
        bits.append(element.bitwidth * (lanes_of(type_) or 1))
    if bits[0] != bits[1]:
        raise VerifyException(
            f"expected the result of bitcast to have {bits[0]} bits like {source}, but got {bits[1]} in {result}"
        )
