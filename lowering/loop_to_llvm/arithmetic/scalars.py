"""arith and math on native values: one entry an op, scalars and vectors alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, llvm, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    StringAttr,
    VectorType,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import llvm_ext
from mlc.lowering.loop_to_llvm.arithmetic.bf16 import is_bf16, like, rounded, widened
from mlc.lowering.loop_to_llvm.builder import NO_FASTMATH, NO_FLAGS, Builder, element_of, lanes_of, vector_type

Emit = Callable[[Builder, Sequence[SSAValue], Attribute], SSAValue]


def _float(cls: type[Operation]) -> Emit:
    return lambda b, v, t: b.op(cls, v, t, {"fastmathFlags": NO_FASTMATH})


def _int(cls: type[Operation], flags: bool = False) -> Emit:
    return lambda b, v, t: b.op(cls, v, t, {"overflowFlags": NO_FLAGS} if flags else {})


def _intrinsic(name: str) -> Emit:
    return lambda b, v, t: b.intrinsic(name, v, t)


def _math(name: str) -> Emit:
    """A function of the math prelude, where it has one; else LLVM's intrinsic, which calls the C library."""

    def emit(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
        if name in llvm_ext.MATH_FUNCTIONS:
            return b.op(llvm_ext.MathOp, v, t, {"function": StringAttr(name)})
        return b.intrinsic(f"llvm.{name}", v, t)

    return emit


SIGMOID: Emit = _math("sigmoid")
"""`1 / (exp(-x) + 1)`."""
EXP_OF_NONPOSITIVE: Emit = _math("exp_nonpositive")
"""`exp(x)` of x that are not positive."""


def _extreme(predicate: str) -> Emit:
    """
    maximum and minimum that propagate NaN; of zeros with different signs, either one.

    `x > c ? x : c`, one vmaxps, gives c if either is NaN. That suffices if x is a constant; otherwise x is tested for
    NaN, too. LLVM's own maximum takes twice as many instructions, to distinguish the zeros.
    """

    def emit(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
        x, c = v
        if _is_constant(x):
            x, c = c, x
        mask = llvm_ext.mask_type(t)
        if _is_constant(c):  # the other way round: x where it is NaN
            x, c = c, x
        chosen = b.select(b.op(llvm_ext.FCmpOp, [x, c], mask, {"predicate": _STRINGS[predicate]}), x, c)
        if _is_constant(x):
            return chosen
        return b.select(b.op(llvm_ext.FCmpOp, [x, x], mask, {"predicate": _STRINGS["uno"]}), x, chosen)

    return emit


def _is_constant(v: SSAValue) -> bool:
    return isinstance(v.owner, llvm.ConstantOp) or (
        isinstance(v.owner, llvm_ext.SplatOp) and isinstance(v.owner.operands[0].owner, llvm.ConstantOp)
    )


def _negate(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
    return b.op(llvm.FNegOp, v, t, {"fastmathFlags": NO_FASTMATH})


def _rsqrt(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
    root = b.intrinsic("llvm.sqrt", v, t)
    return b.op(llvm.FDivOp, [b.number(1.0, t), root], t, {"fastmathFlags": NO_FASTMATH})


def _division(cls: type[Operation]) -> Emit:
    signed = cls in (llvm.SDivOp, llvm.SRemOp)
    return lambda b, v, t: b.op(cls, [v[0], _divisor(b, v, t, signed)], t)


def _divisor(b: Builder, v: Sequence[SSAValue], t: Attribute, signed: bool = True) -> SSAValue:
    """The divisor, replaced by 1 where a division traps: by 0 (invalid lanes hold 0), or the least integer by -1."""
    x, d = v
    if _is_constant(d):
        return d
    one = b.number(1, t)
    safe = b.select(b.icmp("eq", d, b.number(0, t)), one, d)
    element = element_of(t)
    if not signed or not isinstance(element, IntegerType):
        return safe
    least = b.icmp("eq", x, b.number(-(1 << (element.width.data - 1)), t))
    return b.select(b.and_(least, b.icmp("eq", d, b.number(-1, t))), one, safe)


def _floor_division(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
    v = [v[0], _divisor(b, v, t)]
    q, r = b.op(llvm.SDivOp, v, t), b.op(llvm.SRemOp, v, t)
    zero = b.number(0, t)
    inexact = b.icmp("ne", r, zero)
    signs = b.icmp("slt", b.op(llvm.XOrOp, [r, v[1]], t), zero)
    return b.select(b.and_(inexact, signs), b.add(q, b.number(-1, t)), q)


_STRINGS = {p: StringAttr(p) for p in ("oeq", "one", "olt", "ole", "ogt", "oge", "une", "ueq", "ult", "ugt", "uno")}

EMIT: dict[type[Operation], Emit] = {
    arith.AddfOp: _float(llvm.FAddOp),
    arith.SubfOp: _float(llvm.FSubOp),
    arith.MulfOp: _float(llvm.FMulOp),
    arith.DivfOp: _float(llvm.FDivOp),
    arith.NegfOp: _negate,
    arith.MaximumfOp: _extreme("ogt"),
    arith.MinimumfOp: _extreme("olt"),
    arith.MaxnumfOp: _intrinsic("llvm.maxnum"),
    arith.MinnumfOp: _intrinsic("llvm.minnum"),
    arith.AddiOp: _int(llvm.AddOp, True),
    arith.SubiOp: _int(llvm.SubOp, True),
    arith.MuliOp: _int(llvm.MulOp, True),
    arith.DivSIOp: _division(llvm.SDivOp),
    arith.DivUIOp: _division(llvm.UDivOp),
    arith.RemSIOp: _division(llvm.SRemOp),
    arith.RemUIOp: _division(llvm.URemOp),
    arith.FloorDivSIOp: _floor_division,
    arith.MaxSIOp: _intrinsic("llvm.smax"),
    arith.MinSIOp: _intrinsic("llvm.smin"),
    arith.MaxUIOp: _intrinsic("llvm.umax"),
    arith.MinUIOp: _intrinsic("llvm.umin"),
    arith.AndIOp: _int(llvm.AndOp),
    arith.OrIOp: _int(llvm.OrOp),
    arith.XOrIOp: _int(llvm.XOrOp),
    arith.ShLIOp: _int(llvm.ShlOp, True),
    arith.ShRSIOp: _int(llvm.AShrOp),
    arith.ShRUIOp: _int(llvm.LShrOp),
    math.SqrtOp: _intrinsic("llvm.sqrt"),
    math.RsqrtOp: _rsqrt,
    math.AbsFOp: _intrinsic("llvm.fabs"),
    math.FloorOp: _intrinsic("llvm.floor"),
    math.CeilOp: _intrinsic("llvm.ceil"),
    math.RoundEvenOp: _intrinsic("llvm.roundeven"),
    math.RoundOp: _intrinsic("llvm.round"),
    math.TruncOp: _intrinsic("llvm.trunc"),
    math.CopySignOp: _intrinsic("llvm.copysign"),
    math.ExpOp: _math("exp"),
    math.Exp2Op: _math("exp2"),
    math.LogOp: _math("log"),
    math.Log2Op: _math("log2"),
    math.Log10Op: _math("log10"),
    math.TanhOp: _math("tanh"),
    math.ErfOp: _math("erf"),
    math.PowFOp: _math("pow"),
    math.SinOp: _math("sin"),
    math.CosOp: _math("cos"),
    math.TanOp: _math("tan"),
    math.AsinOp: _math("asin"),
    math.AcosOp: _math("acos"),
    math.AtanOp: _math("atan"),
    math.SinhOp: _math("sinh"),
    math.CoshOp: _math("cosh"),
    math.FmaOp: lambda b, v, _: b.fma(*v),
}

# loop.cast kinds -> llvm_ext.cast kinds
CASTS = {
    "sitofp": "sitofp",
    "uitofp": "uitofp",
    "fptosi": "fptosi",
    "fptoui": "fptoui",
    "extf": "fpext",
    "truncf": "fptrunc",
    "extsi": "sext",
    "extui": "zext",
    "trunci": "trunc",
    "bitcast": "bitcast",
}


def emit_cast(b: Builder, kind: str, v: SSAValue, element: Attribute) -> SSAValue:
    """Convert a native value to another element type."""
    source = v.type
    lanes = source.get_shape()[0] if isinstance(source, VectorType) else 0
    to = machine_type(element)
    t = VectorType(to, [lanes]) if lanes else to
    if kind == "index_cast":
        a, z = element_of(source), to
        assert isinstance(a, IntegerType)
        assert isinstance(z, IntegerType)
        if a.width.data == z.width.data:
            return v
        kind = "trunc" if a.width.data > z.width.data else ("zext" if a == i1 else "sext")
        return b.cast(kind, v, t)
    if kind == "truncf" and isinstance(element_of(source), Float64Type) and not isinstance(to, Float32Type):
        v = _round_to_odd(b, v)
    if isinstance(to, BFloat16Type) and isinstance(element_of(v.type), Float32Type) and kind == "truncf":
        return rounded(b, v)
    return b.cast(CASTS[kind], v, t)


def _round_to_odd(b: Builder, v: SSAValue) -> SSAValue:
    """
    f64 -> f32 by round-to-odd: rounding the result to f16 then gives the correctly rounded f64 -> f16.

    For a direct f64 -> f16 LLVM would call a library function that may be missing.
    """
    lanes = lanes_of(v.type)
    bits_type = vector_type(i64, lanes) if lanes else i64
    bits = b.cast("bitcast", v, bits_type)
    cut = (1 << 29) - 1
    low = b.and_(bits, b.number(cut, bits_type))
    sticky = b.icmp("ne", low, b.number(0, bits_type))
    high = b.and_(bits, b.number(~cut, bits_type))
    odd = b.op(llvm.OrOp, [high, b.number(cut + 1, bits_type)], bits_type)
    exact = b.cast("bitcast", b.select(sticky, odd, high), v.type)
    narrow = Float32Type()
    return b.cast("fptrunc", exact, vector_type(narrow, lanes) if lanes else narrow)


def emitter_of(op: type[Operation]) -> Emit:
    """How an op of arith or math is emitted; bf16 is computed in f32 and rounded."""
    emit = EMIT[op]

    def in_f32(b: Builder, v: Sequence[SSAValue], t: Attribute) -> SSAValue:
        return rounded(b, emit(b, widened(b, v), like(t, f32))) if is_bf16(t) else emit(b, v, t)

    return in_f32


def emit_compare(b: Builder, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """Compare two native values."""
    if isinstance(element_of(x.type), AnyFloat):
        return b.op(llvm_ext.FCmpOp, [x, y], llvm_ext.mask_type(x.type), {"predicate": _STRINGS[predicate]})
    return b.icmp(predicate, x, y)


def machine_type(element: Attribute) -> Attribute:
    """The type of an element in a register: i64 for index; integers are signless."""
    if isinstance(element, IndexType):
        return i64
    if isinstance(element, IntegerType):
        return IntegerType(element.width.data)
    return element


__all__ = ["CASTS", "EMIT", "emit_cast", "emit_compare", "emitter_of", "machine_type"]
