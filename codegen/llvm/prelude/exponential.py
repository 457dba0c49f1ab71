"""Exponentials, logarithms and what follows from them, in f32: exp, log, tanh, sigmoid, erf, sinh, cosh, pow."""

from mlc.codegen.llvm.prelude.text import FunctionText


def nearest(b: FunctionText, t: str, scale: float, magic: float) -> tuple[str, str]:
    """
    Round t * scale to an integer: as a float, and as the sum with `magic`, whose low bits are that integer.

    No conversion instruction, so a NaN goes through as one.
    """
    biased = b.fma(t, scale, magic)
    return b.op("fsub", biased, magic), biased


MAGIC_F32 = 12582912.0  # 1.5 * 2^23
MAGIC_F64 = 6755399441055744.0  # 1.5 * 2^52
EXPONENT_BIAS = 127
EXP = (1.381454058e-3, 8.368745446e-3, 4.166838899e-2, 1.666652113e-1, 4.999999404e-1)
"""q such that 1 + r + r^2 q(r) is exp(r) with the least relative error, 3.1e-9, on |r| <= ln 2 / 2."""


def exp(b: FunctionText, x: str, negative: bool = False) -> str:
    """
    The exponential. With `negative` no x is above 40, which saves the upper bound and the choice of a factor.

    2^n, which may be denormal or infinite, is a normal power of two times 2^-64 for x below 0 and 2^64 above.
    """
    x = b.select(b.compare("olt", x, -105.0), -105.0, x) if negative else b.clamp(x, -105.0, 89.0)
    bias = EXPONENT_BIAS + 64 if negative else 2 * EXPONENT_BIAS
    n, biased = nearest(b, x, 1.44269504088896341, MAGIC_F32 + bias)
    # ln 2 in two parts; the first has so few bits that its product with n is exact.
    r = b.fma(n, 2.12194440e-4, b.fma(n, -0.693359375, x))
    if b.has_scalef:
        return b.scalef(b.poly(r, (*EXP, 1.0, 1.0)), n)
    bits, last = b.op("shl", b.convert("bitcast", biased, "i32"), 23), 2.0**-64
    if not negative:
        last = b.select(b.compare("slt", b.convert("bitcast", x, "i32"), 0), 2.0**-64, 2.0**64)
        bits = b.op("sub", bits, b.convert("bitcast", last, "i32"))
    return b.op("fmul", _scaled_exp(b, r, b.convert("bitcast", bits, "f32")), last)


def _scaled_exp(b: FunctionText, r: str, power: str) -> str:
    """`exp(r) * power` for |r| <= ln 2 / 2 and a power of two."""
    if b.has_fma:
        return b.fma(b.poly(r, (*EXP, 1.0)), b.op("fmul", r, power), power)
    # Where products are rounded, few of them may be near 1.
    return b.op("fmul", b.op("fadd", b.fma(b.poly(r, EXP), b.op("fmul", r, r), r), 1.0), power)


def log(b: FunctionText, x: str) -> str:
    """Write the natural logarithm; Cephes logf.c."""
    tiny = b.compare("olt", x, 1.17549435e-38)
    scaled = b.select(tiny, b.op("fmul", x, 8388608.0), x)
    bits = b.convert("bitcast", scaled, "i32")
    exponent = b.op("ashr", b.op("sub", bits, 0x3F3504F3), 23)  # of sqrt(1/2)
    m = b.convert("bitcast", b.op("sub", bits, b.op("shl", exponent, 23)), "f32")
    e = b.convert("sitofp", exponent, "f32")
    e = b.op("fsub", e, b.select(tiny, 23.0, 0.0))
    f = b.op("fsub", m, 1.0)
    coefficients = (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
    z = b.op("fmul", f, f)
    y = b.op("fmul", b.op("fmul", b.poly(f, coefficients), f), z)
    y = b.fma(z, -0.5, b.fma(e, -2.12194440e-4, y))
    y = b.fma(e, 0.693359375, b.op("fadd", f, y))
    y = b.select(b.compare("oeq", x, float("inf")), float("inf"), y)
    y = b.select(b.compare("oeq", x, 0.0), float("-inf"), y)
    return b.select(b.compare("oge", x, 0.0), y, float("nan"))  # negative or NaN


def _expm1(b: FunctionText, x: str, scale: float) -> str:
    """exp(scale * x) - 1 with all digits near 0, and the sign of a zero where there is FMA, for |scale * x| < 87."""
    n, biased = nearest(b, x, scale * 1.44269504088896341, MAGIC_F32 + EXPONENT_BIAS)
    if b.has_fma:
        r = b.fma(n, -0.69314718 / scale, x)
    else:  # in two parts, so that the first product is exact
        r = b.fma(n, 2.12194440e-4 / scale, b.fma(n, -0.693359375 / scale, x))
    power = b.convert("bitcast", b.op("shl", b.convert("bitcast", biased, "i32"), 23), "f32")
    # exp(scale * r) - 1 by the coefficients of exp, times the powers of the scale.
    q = b.poly(r, [q * scale**k for q, k in zip((*EXP, 1.0), range(6, 0, -1), strict=True)])
    return b.fma(b.op("fmul", r, power), q, b.op("fneg", b.op("fsub", 1.0, power)))


def tanh(b: FunctionText, x: str) -> str:
    """Write the hyperbolic tangent."""
    e = _expm1(b, b.clamp(x, -9.1, 9.1), 2.0)
    y = b.op("fdiv", e, b.op("fadd", e, 2.0))
    return y if b.has_fma else b.intrinsic("llvm.copysign", y, x)


def sigmoid(b: FunctionText, x: str) -> str:
    """Write 1 / (exp(-x) + 1)."""
    # 2^-64 / (2^-64 + exp(-x) 2^-64): the power of two is a normal number for all x, the quotient perhaps none.
    x = b.clamp(x, -105.0, 43.0)
    n, biased = nearest(b, x, -1.44269504088896341, MAGIC_F32 + EXPONENT_BIAS - 64)
    r = b.fma(n, -2.12194440e-4, b.fma(n, 0.693359375, x))  # exp(-x) is 2^n exp(-r)
    power = b.convert("bitcast", b.op("shl", b.convert("bitcast", biased, "i32"), 23), "f32")
    coefficients = [q * (-1) ** k for q, k in zip((*EXP, 1.0), range(6, 0, -1), strict=True)]
    if b.has_fma:
        e = b.fma(b.poly(r, coefficients), b.op("fmul", r, power), power)
    else:  # where products are rounded, few of them may be near 1
        e = b.op("fsub", b.fma(b.poly(r, coefficients[:-1]), b.op("fmul", r, r), b.op("fneg", r)), -1.0)
        e = b.op("fmul", e, power)
    return b.op("fdiv", 2.0**-64, b.op("fadd", e, 2.0**-64))


ERF = (-9.2568816e-6, 1.17647008e-4, -6.32858272e-4, 1.66706874e-3, -1.60440115e-4, -1.9153038e-2, 1.02777823e-1,
       6.36619383e-1, 1.28379172e-1)  # fmt: skip
"""h such that 1 - exp(-t - t h(t)) is erf(t) with the least relative error, 4e-9, on 0 < t <= 4."""


def erf(b: FunctionText, x: str) -> str:
    """Write the error function."""
    t = b.intrinsic("llvm.fabs", x)
    t = b.select(b.compare("ogt", t, 4.0), 4.0, t)  # a NaN stays
    y = _expm1(b, b.fma(b.poly(t, ERF), t, t), -1.0)
    if not b.has_fma:
        return b.intrinsic("llvm.copysign", y, x)
    # y has a sign, also where it is 0, and loses it where x has none.
    flip = b.op("and", b.op("xor", b.convert("bitcast", x, "i32"), -1), -(2**31))
    return b.convert("bitcast", b.op("xor", b.convert("bitcast", y, "i32"), flip), "f32")


def _half_exp(b: FunctionText, t: str) -> str:
    """
    `exp(t) / 2` for t >= 0. It is finite up to 89.4, where exp(t) is infinite from 88.8 on.

    The power of two is multiplied in two steps, so that neither overflows.
    """
    t = b.select(b.compare("ogt", t, 90.0), 90.0, t)
    n, biased = nearest(b, t, 1.44269504088896341, MAGIC_F32 + EXPONENT_BIAS - 64)
    r = b.fma(n, 2.12194440e-4, b.fma(n, -0.693359375, t))
    power = b.convert("bitcast", b.op("shl", b.convert("bitcast", biased, "i32"), 23), "f32")
    return b.op("fmul", _scaled_exp(b, r, power), 2.0**63)


def cosh(b: FunctionText, x: str) -> str:
    """Write the hyperbolic cosine, e / 2 + 1 / 2 e for e = exp(|x|)."""
    half = _half_exp(b, b.intrinsic("llvm.fabs", x))
    return b.op("fadd", half, b.op("fdiv", 0.25, half))


SINH = (2.03721938e-4, 8.33028369e-3, 1.66667163e-1)
"""p such that x + x^3 p(x^2) is sinh(x) with the least relative error, 2.4e-8, on |x| <= 1."""


def sinh(b: FunctionText, x: str) -> str:
    """Write the hyperbolic sine, e / 2 - 1 / 2 e for e = exp(|x|); a polynomial up to 1, where these are close."""
    t, z = b.intrinsic("llvm.fabs", x), b.op("fmul", x, x)
    half = _half_exp(b, t)
    far = b.intrinsic("llvm.copysign", b.op("fsub", half, b.op("fdiv", 0.25, half)), x)
    return b.select(b.compare("olt", t, 1.0), b.fma(b.op("fmul", x, z), b.poly(z, SINH), x), far)


def _log2_f64(b: FunctionText, x: str) -> str:
    """log2 of positive, finite doubles; atanh series, error 1e-12."""
    bits = b.convert("bitcast", x, "i64")
    exponent = b.op("ashr", b.op("sub", bits, 0x3FE6A09E667F3BCD), 52)
    m = b.convert("bitcast", b.op("sub", bits, b.op("shl", exponent, 52)), "f64")
    s = b.op("fdiv", b.op("fsub", m, 1.0), b.op("fadd", m, 1.0))
    series = b.poly(b.op("fmul", s, s), (1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0))
    ln = b.op("fmul", b.op("fmul", series, s), 2.8853900817779268)  # 2 / ln 2
    return b.op("fadd", ln, b.convert("sitofp", b.convert("trunc", exponent, "i32"), "f64"))


def _exp2_f64(b: FunctionText, t: str) -> str:
    """2^t for |t| <= 400; Taylor, error 1e-11."""
    n, biased = nearest(b, t, 1.0, MAGIC_F64)
    z = b.op("fmul", b.op("fsub", t, n), 0.69314718055994530942)
    terms = [1.0]
    for k in range(1, 10):
        terms.append(terms[-1] / k)
    y = b.poly(z, reversed(terms))
    power = b.op("shl", b.op("add", b.convert("bitcast", biased, "i64"), 1023), 52)
    return b.op("fmul", y, b.convert("bitcast", power, "f64"))


def power(b: FunctionText, x: str, y: str) -> str:
    """Write x ** y, in float64 up to the last rounding."""
    inf, nan = float("inf"), float("nan")
    size = b.intrinsic("llvm.fabs", x)
    t = b.op("fmul", b.convert("fpext", y, "f64"), _log2_f64(b, b.convert("fpext", size, "f64")))
    r = b.convert("fptrunc", _exp2_f64(b, b.clamp(t, -400.0, 400.0)), "f32")
    rises = b.compare("ogt", y, 0.0)
    r = b.select(b.compare("oeq", size, 1.0), 1.0, r)
    r = b.select(b.compare("oeq", size, 0.0), b.select(rises, 0.0, inf), r)
    r = b.select(b.compare("oeq", size, inf), b.select(rises, inf, 0.0), r)
    half = b.op("fmul", y, 0.5)
    whole = b.compare("oeq", b.intrinsic("llvm.rint", y), y)
    odd = b.op("and", whole, b.compare("une", b.intrinsic("llvm.rint", half), half))
    finite_negative = b.op("and", b.compare("olt", x, 0.0), b.compare("one", size, inf))
    r = b.select(b.op("and", finite_negative, b.op("xor", whole, 1)), nan, r)
    sign = b.compare("slt", b.convert("bitcast", x, "i32"), 0)
    r = b.select(b.op("and", sign, odd), b.op("fneg", r), r)
    r = b.select(b.compare("uno", x, y), nan, r)
    return b.select(b.op("or", b.compare("oeq", x, 1.0), b.compare("oeq", y, 0.0)), 1.0, r)
