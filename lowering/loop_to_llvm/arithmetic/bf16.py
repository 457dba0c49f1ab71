"""bf16 in registers: arithmetic in f32, and rounding where the machine has no instruction for it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import BFloat16Type, StringAttr, VectorType, f32, i16, i32
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import llvm_ext
from mlc.lowering.loop_to_llvm.builder import Builder, element_of, lanes_of, vector_type


def is_bf16(t: Attribute) -> bool:
    """Whether a native type holds bf16."""
    return isinstance(element_of(t), BFloat16Type)


def like(t: Attribute, element: Attribute) -> Attribute:
    """The native type with another element."""
    return vector_type(element, lanes_of(t)) if isinstance(t, VectorType) else element


def widened(b: Builder, values: Sequence[SSAValue]) -> list[SSAValue]:
    """The values; bf16 is extended to f32."""
    return [b.cast("fpext", v, like(v.type, f32)) if is_bf16(v.type) else v for v in values]


def rounded(b: Builder, v: SSAValue) -> SSAValue:
    """
    f32 -> bf16, to nearest even.

    Without an instruction LLVM would call a library function that may be missing; instead, half a unit in the last
    place is added to the bits, and the upper half is taken.
    """
    if b.rounds_bf16:
        return b.cast("fptrunc", v, like(v.type, BFloat16Type()))
    t = like(v.type, i32)
    bits = b.cast("bitcast", v, t)
    high = b.op(llvm.LShrOp, [bits, b.number(16, t)], t)
    half = b.add(b.and_(high, b.number(1, t)), b.number(0x7FFF, t))
    near = b.op(llvm.LShrOp, [b.add(bits, half), b.number(16, t)], t)
    quiet = b.op(llvm.OrOp, [high, b.number(0x40, t)], t)
    is_nan = b.op(llvm_ext.FCmpOp, [v, v], llvm_ext.mask_type(v.type), {"predicate": StringAttr("une")})
    short = b.cast("trunc", b.select(is_nan, quiet, near), like(t, i16))
    return b.cast("bitcast", short, like(t, BFloat16Type()))
