"""Tables of the C99 printer: the prelude of helper functions, and one C expression for each operation."""

from __future__ import annotations

PRELUDE = """\
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int64_t mlc_floordiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }
static inline int64_t mlc_mod(int64_t a, int64_t b) { return a - mlc_floordiv(a, b) * b; }
static inline int64_t mlc_divs(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? (int64_t)-(uint64_t)a : a / b; }
static inline int64_t mlc_rems(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
static inline int64_t mlc_floordiv0(int64_t a, int64_t b) {
  int64_t r = mlc_rems(a, b);
  return b ? mlc_divs(a, b) - (r && (r < 0) != (b < 0)) : 0;
}
static inline int64_t mlc_ceildiv(int64_t a, int64_t b) {
  int64_t r = mlc_rems(a, b);
  return b ? mlc_divs(a, b) + (r && (r < 0) == (b < 0)) : 0;
}
static inline uint64_t mlc_divu(uint64_t a, uint64_t b) { return b ? a / b : 0; }
static inline uint64_t mlc_ceildivu(uint64_t a, uint64_t b) { return b ? a / b + (a % b != 0) : 0; }
static inline uint64_t mlc_remu(uint64_t a, uint64_t b) { return b ? a % b : 0; }
static inline double mlc_maximum(double a, double b) { return a != a || a > b ? a : b; }
static inline double mlc_minimum(double a, double b) { return a != a || a < b ? a : b; }
static inline double mlc_roundeven(double a) {
  double r = round(a);
  return fabs(a - trunc(a)) == 0.5 ? 2.0 * round(a / 2.0) : r;
}

static inline float mlc_from_bf16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}
static inline uint16_t mlc_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline float mlc_from_f16(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                               : ldexpf((float)mantissa, -24);
  return bits >> 15 ? -value : value;
}
static inline uint16_t mlc_to_f16(float value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs((double)value);
  int exponent;
  if (value != value) return 0x7e00;
  if (size >= 65520.0) return sign | 0x7c00;
  if (size < 6.103515625e-05) return sign | (uint16_t)mlc_roundeven(size * 16777216.0);
  frexp(size, &exponent);
  return sign | (uint16_t)(mlc_roundeven(ldexp(size, 11 - exponent)) - 1024.0 + ((exponent + 14) << 10));
}
static inline float mlc_bf16(float value) { return mlc_from_bf16(mlc_to_bf16(value)); }
static inline float mlc_f16(float value) { return mlc_from_f16(mlc_to_f16(value)); }
"""

SNAPPED_PRELUDE = """\
/* The jumps of wide arithmetic: a value within a relative 1e-11 of a jump counts as lying on it. */
static inline int mlc_near(double a, double b) {
  return a == b || fabs(a - b) <= 1e-11 * (fabs(b) > 1.0 ? fabs(b) : 1.0);
}
static inline double mlc_snapped_floor(double a) { double r = rint(a); return mlc_near(a, r) ? r : floor(a); }
static inline double mlc_snapped_ceil(double a) { double r = rint(a); return mlc_near(a, r) ? r : ceil(a); }
static inline double mlc_snapped_trunc(double a) { double r = rint(a); return mlc_near(a, r) ? r : trunc(a); }
static inline double mlc_snapped_roundeven(double a) {
  double m = floor(a) + 0.5;
  return mlc_roundeven(mlc_near(a, m) ? m : a);
}
static inline double mlc_snapped_round(double a) {
  double m = floor(a) + 0.5;
  return round(mlc_near(a, m) ? m : a);
}
#define MLC_SNAPPED_CAST(name, round_to) \\
  static inline double mlc_snapped_##name(double a) { \\
    double low = round_to(a * (1 - 1e-11)), high = round_to(a * (1 + 1e-11)); \\
    return fabs(low) > fabs(high) ? low : high; \\
  }
/* A double rounded to `bits` significant bits, or to a multiple of 2^lowest below them; beyond `most` infinite. */
static inline double mlc_rounded(double a, int bits, int lowest, double most) {
  int exponent;
  if (a != a || a == 0.0 || fabs(a) > 1e300) return a;
  frexp(a, &exponent);
  int unit = exponent - bits > lowest ? exponent - bits : lowest;
  double r = ldexp(mlc_roundeven(ldexp(a, -unit)), unit);
  return fabs(r) > most ? (a > 0 ? INFINITY : -INFINITY) : r;
}
static inline double mlc_rounded_f16(double a) { return mlc_rounded(a, 11, -24, 65504.0); }
static inline double mlc_rounded_bf16(double a) { return mlc_rounded(a, 8, -133, 0x1.fep127); }
MLC_SNAPPED_CAST(f32, (double)(float))
MLC_SNAPPED_CAST(f16, mlc_rounded_f16)
MLC_SNAPPED_CAST(bf16, mlc_rounded_bf16)
"""

# Operands are {a}, {b}; {t} is the type of the result, {u} the operands' unsigned type.
BINARY: dict[str, str] = {
    "arith.addf": "{a} + {b}",
    "arith.subf": "{a} - {b}",
    "arith.mulf": "{a} * {b}",
    "arith.divf": "{a} / {b}",
    "arith.maximumf": "({t})mlc_maximum({a}, {b})",
    "arith.minimumf": "({t})mlc_minimum({a}, {b})",
    "arith.maxnumf": "({t})fmax({a}, {b})",
    "arith.minnumf": "({t})fmin({a}, {b})",
    "arith.addi": "({t})((uint64_t){a} + (uint64_t){b})",
    "arith.subi": "({t})((uint64_t){a} - (uint64_t){b})",
    "arith.muli": "({t})((uint64_t){a} * (uint64_t){b})",
    "arith.divsi": "({t})mlc_divs({a}, {b})",
    "arith.remsi": "({t})mlc_rems({a}, {b})",
    "arith.floordivsi": "({t})mlc_floordiv0({a}, {b})",
    "arith.ceildivsi": "({t})mlc_ceildiv({a}, {b})",
    "arith.divui": "({t})mlc_divu(({u}){a}, ({u}){b})",
    "arith.ceildivui": "({t})mlc_ceildivu(({u}){a}, ({u}){b})",
    "arith.remui": "({t})mlc_remu(({u}){a}, ({u}){b})",
    "arith.andi": "({t})({a} & {b})",
    "arith.ori": "({t})({a} | {b})",
    "arith.xori": "({t})({a} ^ {b})",
    "arith.shli": "({t})((uint64_t){a} << {b})",
    "arith.shrsi": "({t})({a} >> {b})",
    "arith.shrui": "({t})(({u}){a} >> {b})",
    "arith.maxsi": "{a} > {b} ? {a} : {b}",
    "arith.minsi": "{a} < {b} ? {a} : {b}",
    "arith.maxui": "({u}){a} > ({u}){b} ? {a} : {b}",
    "arith.minui": "({u}){a} < ({u}){b} ? {a} : {b}",
    "math.powf": "({t})pow({a}, {b})",
    "math.atan2": "({t})atan2({a}, {b})",
    "math.copysign": "({t})copysign({a}, {b})",
}

_LIBM = (
    *("floor", "ceil", "trunc", "round", "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf"),
)
UNARY: dict[str, str] = {
    **{f"math.{name}": f"({{t}}){name}({{a}})" for name in _LIBM},
    "arith.negf": "-{a}",
    "math.absf": "({t})fabs({a})",
    "math.absi": "({t})({a} < 0 ? -(uint64_t){a} : (uint64_t){a})",
    "math.roundeven": "({t})mlc_roundeven({a})",
    "math.rsqrt": "({t})(1.0 / sqrt({a}))",
}

SNAPPED: dict[str, str] = {
    f"math.{name}": f"({{t}})mlc_snapped_{name}({{a}})" for name in ("floor", "ceil", "trunc", "round", "roundeven")
}
"""Templates of wide arithmetic, in place of those in UNARY."""
SNAPPED_CAST: dict[str, str] = {
    "fptosi": "({t})mlc_snapped_trunc({a})",
    "fptoui": "({t})({v})mlc_snapped_trunc({a})",
}
SNAPPED_COMPARE: dict[str, str] = {
    "oeq": "mlc_near({a}, {b})",
    "one": "(!mlc_near({a}, {b}) && {a} == {a} && {b} == {b})",
    "olt": "(!mlc_near({a}, {b}) && {a} < {b})",
    "ole": "(mlc_near({a}, {b}) || {a} < {b})",
    "ogt": "(!mlc_near({a}, {b}) && {a} > {b})",
    "oge": "(mlc_near({a}, {b}) || {a} > {b})",
    "une": "!mlc_near({a}, {b})",
}

COMPARE: dict[str, str] = {
    "oeq": "{a} == {b}",
    "one": "({a} < {b} || {a} > {b})",
    "olt": "{a} < {b}",
    "ole": "{a} <= {b}",
    "ogt": "{a} > {b}",
    "oge": "{a} >= {b}",
    "une": "{a} != {b}",
    "eq": "{a} == {b}",
    "ne": "{a} != {b}",
    "slt": "{a} < {b}",
    "sle": "{a} <= {b}",
    "sgt": "{a} > {b}",
    "sge": "{a} >= {b}",
    "ult": "({u}){a} < ({u}){b}",
    "ule": "({u}){a} <= ({u}){b}",
    "ugt": "({u}){a} > ({u}){b}",
    "uge": "({u}){a} >= ({u}){b}",
}

# A set bit is -1 where it is read as a signed number: {s} is "-" for i1 operands.
CAST: dict[str, str] = {
    "sitofp": "({t}){s}{a}",
    "uitofp": "({t})({u}){a}",
    "fptosi": "({t}){a}",
    "fptoui": "({t})({v}){a}",
    "extf": "({t}){a}",
    "truncf": "({t}){a}",
    "extsi": "({t}){s}{a}",
    "extui": "({t})({u}){a}",
    "trunci": "({t}){a}",
    "index_cast": "({t}){a}",
}

COMBINE: dict[str, tuple[str, str]] = {
    "sum": ("arith.addf", "arith.addi"),
    "prod": ("arith.mulf", "arith.muli"),
    "max": ("arith.maximumf", "arith.maxsi"),
    "min": ("arith.minimumf", "arith.minsi"),
}
