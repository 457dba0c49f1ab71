"""
The numpy semantics of the scalar and tile operations: one table entry per operation, for numpy scalars and arrays.

Transcendental functions of f32 and narrower types are computed in f64 and rounded once, as the C99 printer does it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    Signedness,
    VectorType,
)
from xdsl.ir import Attribute

from mlc.dialects.constants import numbers
from mlc.support import arithmetic as A
from mlc.support import dtypes
from mlc.support.arithmetic import OWN, Arithmetic

Values = Any
Unary = Callable[[Values], Values]
Binary = Callable[[Values, Values], Values]
Ternary = Callable[[Values, Values, Values], Values]


WIDTHS = (1, 8, 16, 32, 64)
"""The bits of integers that numpy has; one bit is a bool."""


@cache
def dtype_of(element: Attribute) -> np.dtype[Any]:
    """The numpy dtype of an element type."""
    if isinstance(element, IntegerType) and element.width.data in WIDTHS:
        if element.width.data == 1:
            return np.dtype(np.bool_)
        sign = "u" if element.signedness.data is Signedness.UNSIGNED else ""
        return np.dtype(f"{sign}int{element.width.data}")
    if isinstance(element, IndexType):
        return np.dtype(np.int64)
    if isinstance(element, BFloat16Type):
        return dtypes.dtype_of("bfloat16")
    for t, name in ((Float32Type, "float32"), (Float64Type, "float64"), (Float16Type, "float16")):
        if isinstance(element, t):
            return np.dtype(name)
    raise TypeError(f"expected a float, an integer or index, but got {element}")


def dtype_for(t: Attribute, arithmetic: Arithmetic = OWN) -> np.dtype[Any]:
    """The dtype that holds a value, or a buffer's elements, in an arithmetic."""
    return arithmetic.dtype(element_dtype(t))


def element_dtype(t: Attribute) -> np.dtype[Any]:
    """The numpy dtype of a scalar type, or of the elements of a buffer or vector."""
    return dtype_of(t.element_type if isinstance(t, MemRefType | VectorType) else t)


def dense(value: DenseIntOrFPElementsAttr, arithmetic: Arithmetic = OWN) -> Values:
    """The array of a dense attribute, in an arithmetic."""
    dtype = dtype_of(value.get_element_type())
    array = np.array(numbers(value)).reshape(value.get_shape())
    return arithmetic.constant(array & 1 if dtype == np.bool_ else array, dtype)


def poison(dtype: np.dtype[Any]) -> Any:
    """The content of uninitialized memory: NaN, or an integer that is unlikely to be computed."""
    if dtype == np.bool_:
        return True
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        return info.min // 3 * 2 + 5 if info.min else info.max // 3 * 2
    return math.nan


def poisoned(shape: Sequence[int], dtype: np.dtype[Any]) -> Values:
    """Uninitialized memory: an array filled with poison."""
    memory: Values = np.empty(shape, dtype)
    memory.fill(poison(dtype))
    return memory


def is_float(values: Values) -> bool:
    """Whether these are floats (bf16 is no numpy float, and its kind is V)."""
    return values.dtype.kind in "fV"


def unsigned(x: Values) -> Values:
    """The same bits as unsigned integers; Python ints and bools are returned unchanged."""
    return x.view(f"u{x.dtype.itemsize}") if getattr(x, "dtype", None) is not None and x.dtype.kind == "i" else x


def _as(x: Values, like: Values) -> Values:
    """The same bits with the dtype of an operand."""
    return x.view(like.dtype) if hasattr(like, "dtype") else int(x)


def _unsigned(f: Binary) -> Binary:
    return lambda a, b: _as(f(unsigned(a), unsigned(b)), a)


def _wide(f: Callable[..., Values]) -> Callable[..., Values]:
    """The function computed in f64 and rounded to the operand's type."""

    def apply(*args: Values) -> Values:
        dtype = args[0].dtype
        return np.asarray(f(*(a.astype(np.float64) for a in args))).astype(dtype)[()]

    return apply


def _each(f: Callable[[float], float]) -> Unary:
    return np.vectorize(f, otypes=[np.float64])


def div_trunc(a: Values, b: Values) -> Values:
    """Integer division that rounds toward zero."""
    q = a // b
    return q + ((a % b != 0) & ((a < 0) != (b < 0)))


def _keep(f: Binary) -> Binary:
    """The function, its result cast to the first operand's dtype (for a Python int, to int)."""

    def apply(a: Values, b: Values) -> Values:
        r = f(a, b)
        return r.astype(a.dtype) if hasattr(a, "dtype") else int(r)

    return apply


def _shift_right(a: Values, b: Values) -> Values:
    return a >> b


where: Ternary = np.where
"""`np.where` of three arguments."""


def _rsqrt(a: Values) -> Values:
    return 1.0 / np.sqrt(a)


def _multiply_add(a: Values, b: Values, c: Values) -> Values:
    return a * b + c


BINARY: dict[str, Binary] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.divf": lambda a, b: a / b,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": _keep(div_trunc),
    "arith.remsi": _keep(lambda a, b: a - div_trunc(a, b) * b),
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivsi": _keep(lambda a, b: a // b + (a % b != 0)),
    "arith.divui": _unsigned(lambda a, b: a // b),
    "arith.ceildivui": _unsigned(lambda a, b: a // b + (a % b != 0).astype(a.dtype)),
    "arith.remui": _unsigned(lambda a, b: a % b),
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.shli": lambda a, b: a << b,
    "arith.shrsi": _shift_right,
    "arith.shrui": _unsigned(_shift_right),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": _unsigned(np.maximum),
    "arith.minui": _unsigned(np.minimum),
    "math.powf": _wide(np.power),
    "math.atan2": _wide(np.arctan2),
    "math.copysign": _wide(np.copysign),
}

# Operations that Python has an operator for are inlined in the generated program.
INFIX = {
    "arith.addf": "+",
    "arith.subf": "-",
    "arith.mulf": "*",
    "arith.divf": "/",
    "arith.addi": "+",
    "arith.subi": "-",
    "arith.muli": "*",
    "arith.andi": "&",
    "arith.ori": "|",
    "arith.xori": "^",
}
# One bit wraps at once: 1 + 1 == 0.
INFIX_BIT = INFIX | {"arith.addi": "^", "arith.subi": "^", "arith.muli": "&"}

UNARY: dict[str, Unary] = {
    "arith.negf": lambda a: -a,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "math.round": _wide(A.plain_round_away),
    "math.sqrt": _wide(np.sqrt),
    "math.rsqrt": _wide(_rsqrt),
    "math.cbrt": _wide(np.cbrt),
    "math.exp": _wide(np.exp),
    "math.exp2": _wide(np.exp2),
    "math.expm1": _wide(np.expm1),
    "math.log": _wide(np.log),
    "math.log2": _wide(np.log2),
    "math.log10": _wide(np.log10),
    "math.log1p": _wide(np.log1p),
    "math.sin": _wide(np.sin),
    "math.cos": _wide(np.cos),
    "math.tan": _wide(np.tan),
    "math.asin": _wide(np.arcsin),
    "math.acos": _wide(np.arccos),
    "math.atan": _wide(np.arctan),
    "math.sinh": _wide(np.sinh),
    "math.cosh": _wide(np.cosh),
    "math.tanh": _wide(np.tanh),
    "math.asinh": _wide(np.arcsinh),
    "math.acosh": _wide(np.arccosh),
    "math.atanh": _wide(np.arctanh),
    "math.erf": _wide(_each(math.erf)),
}

TERNARY: dict[str, Ternary] = {"math.fma": _wide(_multiply_add)}

COMPARE: dict[str, Binary] = {
    "oeq": lambda a, b: a == b,
    "one": lambda a, b: (a < b) | (a > b),
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "une": lambda a, b: a != b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b,
    "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b,
    "sge": lambda a, b: a >= b,
    "ult": lambda a, b: unsigned(a) < unsigned(b),
    "ule": lambda a, b: unsigned(a) <= unsigned(b),
    "ugt": lambda a, b: unsigned(a) > unsigned(b),
    "uge": lambda a, b: unsigned(a) >= unsigned(b),
}

COMBINE: dict[str, tuple[Binary, Binary]] = {
    "sum": (BINARY["arith.addf"], BINARY["arith.addi"]),
    "prod": (BINARY["arith.mulf"], BINARY["arith.muli"]),
    "max": (np.maximum, np.maximum),
    "min": (np.minimum, np.minimum),
}


def reduce(combiner: str, value: Values, axes: tuple[int, ...]) -> Values:
    """Fold the axes in row-major order, lane after lane, keeping them with size 1."""
    combine = COMBINE[combiner][0 if is_float(value) else 1]
    kept = [1 if k in axes else n for k, n in enumerate(value.shape)]
    lanes = np.moveaxis(value, axes, range(len(axes))).reshape(-1, math.prod(kept))
    total = lanes[0]
    for lane in lanes[1:]:
        total = combine(total, lane)
    return total.reshape(kept)


# --- casts -------------------------------------------------------------------------------------------------------


def _negative_bit(x: Values) -> Values:
    """Booleans as signed integers: a set bit of i1 is -1."""
    return -x.astype(np.int8) if x.dtype == np.bool_ else x


def _to_int(x: Values, dtype: np.dtype[Any]) -> Values:
    return (x & 1).astype(dtype) if dtype == np.bool_ else x.astype(dtype)


CAST: dict[str, Callable[[Values, np.dtype[Any]], Values]] = {
    "sitofp": lambda x, t: _negative_bit(x).astype(t),
    "uitofp": lambda x, t: unsigned(x).astype(t),
    "fptosi": lambda x, t: np.trunc(x).astype(t),
    "fptoui": lambda x, t: np.trunc(x).astype(f"u{t.itemsize}").astype(t),
    "extf": lambda x, t: x.astype(t),
    "truncf": lambda x, t: x.astype(t),
    "extsi": lambda x, t: _negative_bit(x).astype(t),
    "extui": lambda x, t: unsigned(x).astype(t),
    "trunci": _to_int,
    "index_cast": lambda x, t: _to_int(np.asarray(x)[()], t),
    "bitcast": lambda x, t: x.view(t),
}


# --- jumps in wide arithmetic ------------------------------------------------------------------------------------

SNAPPED: dict[str, Unary] = {
    "math.floor": A.floor,
    "math.ceil": A.ceil,
    "math.trunc": A.trunc,
    "math.roundeven": A.rint,
    "math.round": A.round_away,
}
SNAPPED_COMPARE: dict[str, Binary] = {
    "oeq": A.COMPARISONS["equal"],
    "one": lambda a, b: A.COMPARISONS["not_equal"](a, b) & (a == a) & (b == b),
    "olt": A.COMPARISONS["less"],
    "ole": A.COMPARISONS["less_equal"],
    "ogt": A.COMPARISONS["greater"],
    "oge": A.COMPARISONS["greater_equal"],
    "une": A.COMPARISONS["not_equal"],
}


def function(name: str, arithmetic: Arithmetic) -> Callable[..., Values] | None:
    """The meaning of an operation of the tables in an arithmetic; None for other operations."""
    if arithmetic.wide and name in SNAPPED:
        return SNAPPED[name]
    return BINARY.get(name) or UNARY.get(name) or TERNARY.get(name)


def comparison(predicate: str, arithmetic: Arithmetic) -> Binary | None:
    """The meaning of a comparison's predicate in an arithmetic; None for unknown predicates."""
    if arithmetic.wide and predicate in SNAPPED_COMPARE:
        return SNAPPED_COMPARE[predicate]
    return COMPARE.get(predicate)


def cast(kind: str, t: Attribute, arithmetic: Arithmetic) -> Unary:
    """A cast to a type in an arithmetic."""
    own = element_dtype(t)
    if not arithmetic.wide:
        return lambda x: CAST[kind](x, own)
    if kind == "truncf":
        return lambda x: arithmetic.narrowed(x, own)
    if kind in ("fptosi", "fptoui"):
        return lambda x: CAST[kind](A.trunc(np.asarray(x)), own)
    return lambda x: CAST[kind](x, arithmetic.dtype(own))


# --- fused multiply-add ------------------------------------------------------------------------------------------


@cache
def _libm_fma() -> Ternary:
    fma = ctypes.CDLL(ctypes.util.find_library("m")).fma
    fma.restype, fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    return fma


def fma(a: Values, b: Values, c: Values) -> Values:
    """a * b + c rounded once (through f32 for narrower types)."""
    dtype = c.dtype
    if dtype == np.float64:
        return np.vectorize(_libm_fma(), otypes=[dtype])(a, b, c)[()]
    if dtype.kind not in "fV":
        return a * b + c
    if dtype == np.float32:
        return fma32(a, b, c) if isinstance(c, np.ndarray) else fma32_scalar(a, b, c)
    wide = fma32(*(np.asarray(x).astype(np.float32) for x in (a, b, c)))
    return np.asarray(wide).astype(dtype)[()]


def contract(a: Values, b: Values, c: Values, unsigned: tuple[bool, bool] = (False, False)) -> Values:
    """c + sum(a * b) over the axes of a and b that c lacks, each product added with one rounding."""
    a, b = (v.view(f"u{v.dtype.itemsize}") if u else v for v, u in zip((a, b), unsigned, strict=True))
    for k in np.ndindex(a.shape[c.ndim :]):
        x, y = (np.broadcast_to(v[(..., *k)].astype(c.dtype), c.shape) for v in (a, b))
        c = fma(x, y, c)
    return c


def fma32_scalar(a: Values, b: Values, c: Values, f32: Unary = np.float32) -> Values:
    """
    One f32 fma in f64 arithmetic: the product is exact; the sum is rounded to f64, then to f32. If the first rounding
    produced a tie for the second, the error of the first rounding decides the direction.
    """
    p, d = float(a) * float(b), float(c)
    s = p + d
    r = f32(s)
    rest = s - float(r)
    if rest:
        other = float(r) + 2 * rest
        if float(f32(other)) == other:
            t = s - p
            if ((p - (s - t)) + (d - t)) * rest > 0:
                return f32(other)
    return r


def fma32(a: Values, b: Values, c: Values) -> Values:
    """`fma32_scalar` on arrays."""
    d = c.astype(np.float64)
    p = a.astype(np.float64) * b.astype(np.float64)
    s = p + d
    r = s.astype(np.float32)
    rest = s - r
    other = r + 2 * rest
    t = s - p
    away = ((p - (s - t)) + (d - t)) * rest > 0
    return where(away & (other.astype(np.float32) == other), other.astype(np.float32), r)
