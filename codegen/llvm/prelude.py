"""
The math prelude: exp, log, tanh, erf, sigmoid, sin, cos, pow as `alwaysinline` functions in LLVM IR text.

One Python function writes the body for any number of lanes; `print_module` appends only what a module calls. Errors
against float64, over all of float32's range (tests/unit/codegen/llvm/test_prelude.py measures them at every width):

    function   max error       method
    exp        1 ulp           exp(r) of degree 6 on |r| <= ln 2 / 2, times 2^n in two steps (denormals, inf)
    log        1 ulp           Cephes logf.c on [sqrt 1/2, sqrt 2); denormals scaled first
    tanh       3.5 ulp         e / (e + 2) for e = exp(2x) - 1, of degree 6 as exp
    sigmoid    2.5 ulp         2^-64 / (2^-64 + exp(-x) 2^-64), as exp; nothing overflows
    erf        2.5 ulp         1 - exp(-t - t h(t)) for t = |x| <= 4, h of degree 8
    sin, cos   1e-7 absolute   Cephes sinf.c, with a reduction by pi/2 in float64, for |x| <= 1e8
    pow        0.51 ulp        2^(y log2 |x|) in float64; the special cases of IEEE 754

f16 and bf16 compute in f32. f64 calls libm lane by lane: right, and slow. `exp_nonpositive` is exp for x <= 0, with one
bound and one power of two; it keeps its error up to 40.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from mlc.codegen.llvm.types import float_text
from mlc.support.errors import UserError
from mlc.targets.target import Target

COPIES = 4
"""Copies of a function that hold their addends in memory: as many as native vectors are computed beside each other."""
FEW_REGISTERS = 16
"""Vector registers that the constants of a function and the values of several vectors do not fit."""

MANY_ADDENDS = 5
"""A polynomial of so many addends, or more, reads them from memory. Source: on Zen 3 sigmoid, tanh and erf take 0.85 of
the time, sine with its 4 addends 1.07."""


class Key(NamedTuple):
    """A prelude function."""

    function: str
    element: str
    lanes: int
    """0: a scalar."""
    copy: int = 0
    """Copies differ in the addresses of their addends."""


_ELEMENTS: dict[type[Attribute], str] = {
    builtin.Float16Type: "f16",
    builtin.BFloat16Type: "bf16",
    builtin.Float32Type: "f32",
    builtin.Float64Type: "f64",
}
_LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "i1": "i1"}


def function_for(function: str, type_: Attribute, target: Target | None = None, call: int = 0) -> tuple[str, Key]:
    """Return the symbol of a math function on a type, for a call of that number; and the key of `definitions`."""
    element = type_.element_type if isinstance(type_, builtin.VectorType) else type_
    lanes = type_.get_shape()[0] if isinstance(type_, builtin.VectorType) else 0
    if function not in FUNCTIONS or type(element) not in _ELEMENTS:
        known = ", ".join(FUNCTIONS)
        raise UserError(f"expected a math function on floats, one of {known}, but got {function} on {type_}")
    key = Key(function, _ELEMENTS[type(element)], lanes)
    if _holds_addends(key, target):
        key = key._replace(copy=call % COPIES)
    return symbol_of(key), key


def _holds_addends(key: Key, target: Target | None) -> bool:
    """
    Whether the addends of polynomials are operands in memory, each read by one FMA.

    LLVM reads a constant that several FMAs share into a register, and again wherever there is none: a third of the
    instructions of a sigmoid on four vectors of AVX2. Weak globals are not folded, and those of each copy are its own.
    """
    if target is None or target.architecture != "x86_64" or not target.fma or key.element == "f64":
        return False
    return target.vector_registers <= FEW_REGISTERS and key.lanes == target.lanes("f32")


def symbol_of(key: Key) -> str:
    """Name a prelude function: `mlc.exp.v16f32`, the second copy of it `mlc.exp.v16f32.1`."""
    lanes, copy = (f"v{key.lanes}" if key.lanes else ""), (f".{key.copy}" if key.copy else "")
    return f"mlc.{key.function}.{lanes}{key.element}{copy}"


def definitions(keys: Iterable[Key], target: Target | None = None) -> tuple[list[str], dict[str, str]]:
    """Return the text of the named functions and of those that they call, and the declarations they need."""
    texts: dict[Key, str] = {}
    declarations: dict[str, str] = {}
    pending = sorted(keys)
    while pending:
        key = pending.pop()
        if key in texts:
            continue
        body = FunctionText(key, target)
        texts[key] = body.function()
        declarations.update(body.declarations)
        pending.extend(body.called)
    return [texts[key] for key in sorted(texts)], declarations


_ROUND_TO_BF16 = """\
define weak hidden bfloat @__truncsfbf2(float %x) #0 {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %near = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 %quiet, i32 %near
  %short = trunc i32 %chosen to i16
  %y = bitcast i16 %short to bfloat
  ret bfloat %y
}"""


def helpers(target: Target | None, functions: Iterable[str]) -> list[str]:
    """
    Functions that LLVM calls, and that no library is sure to have: the rounding of f32 to bf16.

    Without AVX-512 LLVM holds vectors of bf16 as f32, and rounds them again wherever they meet or are chosen.
    """
    needed = target is not None and target.architecture == "x86_64" and "dpbf16ps" not in target.instructions
    return [_ROUND_TO_BF16] if needed and any("bfloat" in text for text in functions) else []


class FunctionText:
    """Writes the text of one prelude function: values are names, constants stand in their users."""

    def __init__(self, key: Key, target: Target | None = None) -> None:
        self.key = key
        self.target = target
        self.name, self.element, self.lanes = key.function, key.element, key.lanes
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self.declarations: dict[str, str] = {}
        self.called: set[Key] = set()

    def function(self) -> str:
        """Write the whole function."""
        arity, write = FUNCTIONS[self.name]
        args = [f"%x{i}" for i in range(arity)]
        self.types.update(dict.fromkeys(args, self.element))
        if self.element == "f64":
            result = self.libm(args)
        elif self.element != "f32":
            wide = [self.convert("fpext", a, "f32") for a in args]
            result = self.convert("fptrunc", self.call(self.name, *wide), self.element)
        else:
            result = write(self, *args)
        type_ = self.type(self.element)
        given = ", ".join(f"{type_} {a}" for a in args)
        head = f"define internal {type_} @{symbol_of(self.key)}({given}) alwaysinline #0 {{"
        return "\n".join([head, *self.lines, f"  ret {type_} {result}", "}"])

    def type(self, element: str) -> str:
        """The LLVM type of as many lanes as the function has."""
        return f"<{self.lanes} x {_LLVM[element]}>" if self.lanes else _LLVM[element]

    def emit(self, text: str, element: str) -> str:
        """Add an instruction; return the name of its result."""
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        self.types[name] = element
        return name

    def const(self, value: float, element: str) -> str:
        """A constant in every lane."""
        if element in ("f32", "f64"):
            text = float_text(value, builtin.f32 if element == "f32" else builtin.f64)
        else:
            text = str(int(value))
        return f"splat ({_LLVM[element]} {text})" if self.lanes else text

    def operands(self, *values: str | float) -> tuple[str, list[str]]:
        """Return the element type that the named values share, and all operands as text."""
        element = next(self.types[v] for v in values if isinstance(v, str))
        return element, [v if isinstance(v, str) else self.const(v, element) for v in values]

    def op(self, word: str, *values: str | float) -> str:
        """An arithmetic instruction, e.g. `op("fmul", x, 2.0)`."""
        element, texts = self.operands(*values)
        return self.emit(f"{word} {self.type(element)} {', '.join(texts)}", element)

    def intrinsic(self, name: str, *values: str | float) -> str:
        """A call of an overloaded intrinsic."""
        element, texts = self.operands(*values)
        type_ = self.type(element)
        full = f"{name}.{f'v{self.lanes}' if self.lanes else ''}{element}"
        self.declarations[full] = f"declare {type_} @{full}({', '.join([type_] * len(texts))})"
        return self.emit(f"call {type_} @{full}({', '.join(f'{type_} {t}' for t in texts)})", element)

    def fma(self, a: str | float, b: str | float, c: str | float) -> str:
        """`a * b + c`, in one rounding where the target has FMA."""
        return self.intrinsic("llvm.fmuladd", a, b, c)

    def poly(self, x: str, coefficients: Iterable[float]) -> str:
        """Horner's rule, the highest power first."""
        first, *rest = coefficients
        value: str | float = first
        in_memory = len(rest) >= MANY_ADDENDS and self.types[x] == "f32"
        for coefficient in rest:
            value = self.fma(value, x, self.addend(coefficient) if in_memory else coefficient)
        assert isinstance(value, str)
        return value

    def addend(self, value: float) -> str | float:
        """A constant that FMAs add; where registers are few, one in memory that is an operand of the instruction."""
        if not _holds_addends(self.key, self.target):
            return value
        bits, type_ = float_text(value, builtin.f32).removeprefix("0x"), self.type("f32")
        name, align = f"@mlc.{bits}.v{self.lanes}f32.{self.key.copy}", 4 * self.lanes
        splat = self.const(value, "f32")
        self.declarations[name] = f"{name} = weak hidden global {type_} {splat}, align {align}"
        return self.emit(f"load {type_}, ptr {name}, align {align}", "f32")

    def compare(self, predicate: str, *values: str | float) -> str:
        """`fcmp` or `icmp`, by the operands' type."""
        element, texts = self.operands(*values)
        word = "fcmp" if element[0] == "f" else "icmp"
        return self.emit(f"{word} {predicate} {self.type(element)} {', '.join(texts)}", "i1")

    def select(self, condition: str, a: str | float, b: str | float, element: str = "f32") -> str:
        """Choose, lane by lane."""
        texts = [v if isinstance(v, str) else self.const(v, element) for v in (a, b)]
        type_ = self.type(element)
        return self.emit(f"select {self.type('i1')} {condition}, {type_} {texts[0]}, {type_} {texts[1]}", element)

    def convert(self, word: str, value: str, element: str) -> str:
        """A cast, e.g. `convert("bitcast", x, "i32")`."""
        return self.emit(f"{word} {self.type(self.types[value])} {value} to {self.type(element)}", element)

    def call(self, function: str, *values: str) -> str:
        """Call another function of the prelude on f32."""
        key = Key(function, "f32", self.lanes, self.key.copy)
        self.called.add(key)
        type_ = self.type("f32")
        return self.emit(f"call {type_} @{symbol_of(key)}({', '.join(f'{type_} {v}' for v in values)})", "f32")

    @property
    def has_fma(self) -> bool:
        """Whether `fma` rounds once."""
        return self.target is not None and self.target.fma

    @property
    def has_scalef(self) -> bool:
        """Whether one instruction multiplies the lanes by powers of two: AVX-512's vscalefps."""
        wide = self.target is not None and self.target.architecture == "x86_64" and self.target.vector_bits == 512
        return wide and self.lanes == 16

    def scalef(self, y: str, n: str) -> str:
        """`y * 2^n` for whole n, in one rounding."""
        name = "llvm.x86.avx512.mask.scalef.ps.512"
        type_ = self.type("f32")
        self.declarations[name] = f"declare {type_} @{name}({type_}, {type_}, {type_}, i16, i32 immarg)"
        return self.emit(f"call {type_} @{name}({type_} {y}, {type_} {n}, {type_} {y}, i16 -1, i32 4)", "f32")

    def clamp(self, x: str, low: float, high: float) -> str:
        """Bound x; a NaN stays one (it fails both comparisons)."""
        element = self.types[x]
        x = self.select(self.compare("ogt", x, high), high, x, element)
        return self.select(self.compare("olt", x, low), low, x, element)

    def libm(self, args: list[str]) -> str:
        """Call libm for each lane of f64."""
        if self.name == "sigmoid":
            return self._sigmoid_f64(args[0])
        name = self.name.removesuffix("_nonpositive")
        self.declarations[name] = f"declare double @{name}({', '.join(['double'] * len(args))})"
        if not self.lanes:
            return self.emit(f"call double @{name}({', '.join(f'double {a}' for a in args)})", "f64")
        type_, result = self.type("f64"), "poison"
        for lane in range(self.lanes):
            parts = [self.emit(f"extractelement {type_} {a}, i64 {lane}", "f64") for a in args]
            value = self.emit(f"call double @{name}({', '.join(f'double {p}' for p in parts)})", "f64")
            result = self.emit(f"insertelement {type_} {result}, double {value}, i64 {lane}", "f64")
        return result

    def _sigmoid_f64(self, x: str) -> str:
        key = Key("exp", "f64", self.lanes)
        self.called.add(key)
        type_ = self.type("f64")
        e = self.emit(f"call {type_} @{symbol_of(key)}({type_} {self.op('fneg', x)})", "f64")
        return self.op("fdiv", 1.0, self.op("fadd", e, 1.0))


def _nearest(b: FunctionText, t: str, scale: float, magic: float) -> tuple[str, str]:
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


def _exp(b: FunctionText, x: str, negative: bool = False) -> str:
    """
    The exponential. With `negative` no x is above 40, which saves the upper bound and the choice of a factor.

    2^n, which may be denormal or infinite, is a normal power of two times 2^-64 for x below 0 and 2^64 above.
    """
    x = b.select(b.compare("olt", x, -105.0), -105.0, x) if negative else b.clamp(x, -105.0, 89.0)
    bias = EXPONENT_BIAS + 64 if negative else 2 * EXPONENT_BIAS
    n, biased = _nearest(b, x, 1.44269504088896341, MAGIC_F32 + bias)
    # ln 2 in two parts; the first has so few bits that its product with n is exact.
    r = b.fma(n, 2.12194440e-4, b.fma(n, -0.693359375, x))
    if b.has_scalef:
        return b.scalef(b.poly(r, (*EXP, 1.0, 1.0)), n)
    bits, last = b.op("shl", b.convert("bitcast", biased, "i32"), 23), 2.0**-64
    if not negative:
        last = b.select(b.compare("slt", b.convert("bitcast", x, "i32"), 0), 2.0**-64, 2.0**64)
        bits = b.op("sub", bits, b.convert("bitcast", last, "i32"))
    power = b.convert("bitcast", bits, "f32")
    if b.has_fma:
        y = b.fma(b.poly(r, (*EXP, 1.0)), b.op("fmul", r, power), power)
    else:  # where products are rounded, few of them may be near 1
        y = b.op("fmul", b.op("fadd", b.fma(b.poly(r, EXP), b.op("fmul", r, r), r), 1.0), power)
    return b.op("fmul", y, last)


def _log(b: FunctionText, x: str) -> str:
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
    n, biased = _nearest(b, x, scale * 1.44269504088896341, MAGIC_F32 + EXPONENT_BIAS)
    if b.has_fma:
        r = b.fma(n, -0.69314718 / scale, x)
    else:  # in two parts, so that the first product is exact
        r = b.fma(n, 2.12194440e-4 / scale, b.fma(n, -0.693359375 / scale, x))
    power = b.convert("bitcast", b.op("shl", b.convert("bitcast", biased, "i32"), 23), "f32")
    # exp(scale * r) - 1 by the coefficients of exp, times the powers of the scale.
    q = b.poly(r, [q * scale**k for q, k in zip((*EXP, 1.0), range(6, 0, -1), strict=True)])
    return b.fma(b.op("fmul", r, power), q, b.op("fneg", b.op("fsub", 1.0, power)))


def _tanh(b: FunctionText, x: str) -> str:
    e = _expm1(b, b.clamp(x, -9.1, 9.1), 2.0)
    y = b.op("fdiv", e, b.op("fadd", e, 2.0))
    return y if b.has_fma else b.intrinsic("llvm.copysign", y, x)


def _sigmoid(b: FunctionText, x: str) -> str:
    # 2^-64 / (2^-64 + exp(-x) 2^-64): the power of two is a normal number for all x, the quotient perhaps none.
    x = b.clamp(x, -105.0, 43.0)
    n, biased = _nearest(b, x, -1.44269504088896341, MAGIC_F32 + EXPONENT_BIAS - 64)
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


def _erf(b: FunctionText, x: str) -> str:
    t = b.intrinsic("llvm.fabs", x)
    t = b.select(b.compare("ogt", t, 4.0), 4.0, t)  # a NaN stays
    y = _expm1(b, b.fma(b.poly(t, ERF), t, t), -1.0)
    if not b.has_fma:
        return b.intrinsic("llvm.copysign", y, x)
    # y has a sign, also where it is 0, and loses it where x has none.
    flip = b.op("and", b.op("xor", b.convert("bitcast", x, "i32"), -1), -(2**31))
    return b.convert("bitcast", b.op("xor", b.convert("bitcast", y, "i32"), flip), "f32")


def _sine(b: FunctionText, x: str, shift: int) -> str:
    """Compute sin(x + shift * pi/2)."""
    wide = b.convert("fpext", x, "f64")
    n, biased = _nearest(b, wide, 0.63661977236758134308, MAGIC_F64)
    r = b.fma(n, -6.123233995736766e-17, b.fma(n, -1.5707963267948966, wide))
    r = b.convert("fptrunc", b.clamp(r, -0.8, 0.8), "f32")
    quadrant = b.op("add", b.convert("trunc", b.convert("bitcast", biased, "i64"), "i32"), shift)
    z = b.op("fmul", r, r)
    sine = b.fma(b.op("fmul", b.poly(z, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)), z), r, r)
    cosine = b.poly(z, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0))
    y = b.select(b.compare("eq", b.op("and", quadrant, 1), 0), sine, cosine)
    flipped = b.op("xor", b.convert("bitcast", y, "i32"), b.op("shl", b.op("and", quadrant, 2), 30))
    return b.convert("bitcast", flipped, "f32")


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
    n, biased = _nearest(b, t, 1.0, MAGIC_F64)
    z = b.op("fmul", b.op("fsub", t, n), 0.69314718055994530942)
    terms = [1.0]
    for k in range(1, 10):
        terms.append(terms[-1] / k)
    y = b.poly(z, reversed(terms))
    power = b.op("shl", b.op("add", b.convert("bitcast", biased, "i64"), 1023), 52)
    return b.op("fmul", y, b.convert("bitcast", power, "f64"))


def _pow(b: FunctionText, x: str, y: str) -> str:
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


# Name -> number of operands, and the function that writes the f32 body.
FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "exp": (1, _exp),
    "exp_nonpositive": (1, partial(_exp, negative=True)),
    "log": (1, _log),
    "tanh": (1, _tanh),
    "erf": (1, _erf),
    "sigmoid": (1, _sigmoid),
    "sin": (1, partial(_sine, shift=0)),
    "cos": (1, partial(_sine, shift=1)),
    "pow": (2, _pow),
}
