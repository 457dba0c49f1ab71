"""
The math prelude: exp, log, tanh, erf, pow, the angle functions, ... as `alwaysinline` functions in LLVM IR text.

Each is written by one Python function, for any number of lanes, and `print_module` appends those that a module calls to
its text. Errors against float64, over all of float32's range unless the table says less
(tests/unit/codegen/llvm/test_prelude.py measures them at every width):

    function   max error       method
    exp        1 ulp           exp(r) of degree 6 on |r| <= ln 2 / 2, times 2^n in two steps (denormals, inf)
    log        1 ulp           Cephes logf.c on [sqrt 1/2, sqrt 2); denormals scaled first
    tanh       3.5 ulp         e / (e + 2) for e = exp(2x) - 1, of degree 6 as exp
    sigmoid    2.5 ulp         2^-64 / (2^-64 + exp(-x) 2^-64), as exp; nothing overflows
    erf        2.5 ulp         1 - exp(-t - t h(t)) for t = |x| <= 4, h of degree 8
    sin, cos   1e-7 absolute   Cephes sinf.c, with a reduction by pi/2 in float64, for |x| <= 1e8
    tan        3.5 ulp         sin / cos, reduced as these are; without FMA for |x| <= 1e6
    asin, acos 2.5 ulp         s + s^3 p(s^2) of s = |x|, and of sqrt((1 - |x|) / 2) from 1/2 on
    atan       3 ulp           u + u^3 p(u^2), of u = (t - 1) / (t + 1) and -1 / t for larger t = |x|
    sinh, cosh 3 ulp           e / 2 -+ 1 / 2 e for e = exp(|x|); x + x^3 p(x^2) for the sine of |x| < 1
    pow        0.51 ulp        2^(y log2 |x|) in float64; the special cases of IEEE 754

f16 and bf16 compute in f32. f64 calls libm lane by lane: right, and slow. `exp_nonpositive` is exp for x <= 0, with one
bound and one power of two; it keeps its error up to 40.
"""

from collections.abc import Callable, Iterable
from functools import partial

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from mlc.codegen.llvm.prelude import angles, exponential
from mlc.codegen.llvm.prelude.text import COPIES, FunctionText, Key, holds_addends, symbol_of
from mlc.support.errors import UserError
from mlc.targets.target import Target

_ELEMENTS: dict[type[Attribute], str] = {
    builtin.Float16Type: "f16",
    builtin.BFloat16Type: "bf16",
    builtin.Float32Type: "f32",
    builtin.Float64Type: "f64",
}


def function_for(function: str, type_: Attribute, target: Target | None = None, call: int = 0) -> tuple[str, Key]:
    """Return the symbol of a math function on a type, for a call of that number; and the key of `definitions`."""
    element = type_.element_type if isinstance(type_, builtin.VectorType) else type_
    lanes = type_.get_shape()[0] if isinstance(type_, builtin.VectorType) else 0
    if function not in FUNCTIONS or type(element) not in _ELEMENTS:
        known = ", ".join(FUNCTIONS)
        raise UserError(f"expected a math function on floats, one of {known}, but got {function} on {type_}")
    key = Key(function, _ELEMENTS[type(element)], lanes)
    if holds_addends(key, target):
        key = key._replace(copy=call % COPIES)
    return symbol_of(key), key


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
        texts[key] = body.function(*FUNCTIONS[key.function])
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


# Name -> number of operands, and the function that writes the f32 body.
FUNCTIONS: dict[str, tuple[int, Callable[..., str]]] = {
    "exp": (1, exponential.exp),
    "exp_nonpositive": (1, partial(exponential.exp, negative=True)),
    "log": (1, exponential.log),
    "tanh": (1, exponential.tanh),
    "erf": (1, exponential.erf),
    "sigmoid": (1, exponential.sigmoid),
    "sinh": (1, exponential.sinh),
    "cosh": (1, exponential.cosh),
    "pow": (2, exponential.power),
    "sin": (1, partial(angles.sine, shift=0)),
    "cos": (1, partial(angles.sine, shift=1)),
    "tan": (1, angles.tan),
    "asin": (1, angles.asin),
    "acos": (1, angles.acos),
    "atan": (1, angles.atan),
}

__all__ = ["FUNCTIONS", "Key", "definitions", "function_for", "helpers", "symbol_of"]
