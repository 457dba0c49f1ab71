"""The angle functions in f32: sin, cos, tan, asin, acos, atan."""

from math import pi

from mlc.codegen.llvm.prelude.exponential import MAGIC_F64, nearest
from mlc.codegen.llvm.prelude.text import FunctionText


def _reduced(b: FunctionText, x: str, shift: int = 0) -> tuple[str, str]:
    """r and q for x = r + q pi/2 with |r| <= pi/4; the second result is q + `shift`."""
    wide = b.convert("fpext", x, "f64")
    n, biased = nearest(b, wide, 0.63661977236758134308, MAGIC_F64)
    # pi/2 in two parts; the first has so few bits that its product with n up to 2^20 is exact.
    r = b.fma(n, -6.077100506506192e-11, b.fma(n, -1.5707963267341256, wide))
    r = b.convert("fptrunc", b.clamp(r, -0.8, 0.8), "f32")
    return r, b.op("add", b.convert("trunc", b.convert("bitcast", biased, "i64"), "i32"), shift)


def _near(b: FunctionText, r: str) -> tuple[str, str]:
    """The sine and the cosine of |r| <= pi/4; the polynomials of Cephes sinf.c."""
    z = b.op("fmul", r, r)
    sine = b.fma(b.op("fmul", b.poly(z, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)), z), r, r)
    cosine = b.poly(z, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0))
    return sine, cosine


def sine(b: FunctionText, x: str, shift: int) -> str:
    """Write sin(x + shift * pi/2)."""
    r, quadrant = _reduced(b, x, shift)
    near_sine, near_cosine = _near(b, r)
    y = b.select(b.compare("eq", b.op("and", quadrant, 1), 0), near_sine, near_cosine)
    flipped = b.op("xor", b.convert("bitcast", y, "i32"), b.op("shl", b.op("and", quadrant, 2), 30))
    return b.convert("bitcast", flipped, "f32")


def tan(b: FunctionText, x: str) -> str:
    """Write the tangent: sin r / cos r, and -cos r / sin r in odd quadrants."""
    r, quadrant = _reduced(b, x)
    near_sine, near_cosine = _near(b, r)
    even = b.compare("eq", b.op("and", quadrant, 1), 0)
    above = b.select(even, near_sine, b.op("fneg", near_cosine))
    y = b.op("fdiv", above, b.select(even, near_cosine, near_sine))
    return b.select(b.compare("oeq", x, 0.0), x, y)  # with its sign


ATAN = (8.05372298e-2, -1.38776794e-1, 1.99777097e-1, -3.33329499e-1)
"""p such that u + u^3 p(u^2) is atan(u) with the least relative error, 2.1e-8, on |u| <= tan(pi/8)."""


def atan(b: FunctionText, x: str) -> str:
    """Write the arc tangent: of (t - 1) / (t + 1) from tan(pi/8) on, and of -1 / t from tan(3 pi/8) on."""
    t = b.intrinsic("llvm.fabs", x)
    far, middle = b.compare("ogt", t, 2.414213562), b.compare("ogt", t, 0.4142135624)
    above = b.select(far, -1.0, b.select(middle, b.op("fsub", t, 1.0), t))
    below = b.select(far, t, b.select(middle, b.op("fadd", t, 1.0), 1.0))
    u = b.op("fdiv", above, below)
    z = b.op("fmul", u, u)
    y = b.fma(b.op("fmul", u, z), b.poly(z, ATAN), u)
    y = b.op("fadd", y, b.select(far, pi / 2, b.select(middle, pi / 4, 0.0)))
    return b.intrinsic("llvm.copysign", y, x)


ASIN = (4.21663076e-2, 2.41795145e-2, 4.54703756e-2, 7.49529749e-2, 1.66667521e-1)
"""p such that s + s^3 p(s^2) is asin(s) with the least relative error, 4.8e-9, on |s| <= 1/2."""


def _arc(b: FunctionText, x: str) -> tuple[str, str]:
    """Whether |x| > 1/2, and asin s: of s = sqrt((1 - |x|) / 2) there, of s = |x| elsewhere."""
    t = b.intrinsic("llvm.fabs", x)
    far = b.compare("ogt", t, 0.5)
    z = b.select(far, b.fma(t, -0.5, 0.5), b.op("fmul", t, t))
    s = b.select(far, b.intrinsic("llvm.sqrt", z), t)
    return far, b.fma(b.op("fmul", s, z), b.poly(z, ASIN), s)


def asin(b: FunctionText, x: str) -> str:
    """Write the arc sine: pi/2 - 2 asin s, or asin |x|, with the sign of x; NaN beyond 1."""
    far, y = _arc(b, x)
    return b.intrinsic("llvm.copysign", b.select(far, b.fma(y, -2.0, pi / 2), y), x)


def acos(b: FunctionText, x: str) -> str:
    """Write the arc cosine: 2 asin s or pi - 2 asin s, or pi/2 - asin x; NaN beyond 1."""
    far, y = _arc(b, x)
    twice = b.op("fadd", y, y)
    ends = b.select(b.compare("ogt", x, 0.0), twice, b.op("fsub", pi, twice))
    return b.select(far, ends, b.op("fsub", pi / 2, b.intrinsic("llvm.copysign", y, x)))
