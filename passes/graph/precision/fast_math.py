"""
graph-fast-math: exp, tanh, erf, sigmoid, gelu and silu by rational approximations.

    op        becomes                                        error (f32)                  cost relative to exact
    tanh      x * P(x * x) / Q(x * x) on [-7, 7]             2e-6 absolute                0.3
    erf       x * P(x * x) / Q(x * x) on [-3.6, 3.6]         1e-5 absolute                0.25
    exp       2 ** n * P(f), n + f = x / log 2               4e-6 relative, [-87, 88]     0.85 (AVX2: 0.65)
    sigmoid   0.5 + 0.5 * tanh(x / 2)                        1e-6 absolute
    gelu      x / 2 * (1 + erf(x / sqrt 2))                  5e-6 * |x|
    silu      x * sigmoid(x)                                 1e-6 * |x|

P and Q are minimax fits. The argument is clipped to the range of the fit: exp is between e ** -87 and e ** 88, never 0
or infinity. The costs were measured on a Zen 5 core. Softmax is not rewritten: its exponentials would be cheaper by a
sixth, but it would no longer be one op, and its rows would go through memory twice more. Ops on types other than f32
are not rewritten either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    AddOp,
    BitcastOp,
    CastOp,
    ClipOp,
    ConstantOp,
    DivideOp,
    ErfOp,
    ExpOp,
    GeluOp,
    GraphOp,
    MultiplyOp,
    RoundOp,
    ShiftLeftOp,
    SigmoidOp,
    SiluOp,
    SubtractOp,
    TanhOp,
)
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules

FAST = Rules()

# The range, and the coefficients of P and Q, the lowest power first; Q starts with 1.
TANH = (
    7.0,
    (0.999995688, 0.123021804, 0.0022769865, 3.93000027e-06),
    (1.0, 0.456340291, 0.021072169, 0.000142350571),
)
ERF = (
    3.6,
    (1.12833608, 0.160978746, 0.0422775175, 0.000688535904),
    (1.0, 0.475783171, 0.096368937, 0.00881078801),
)
EXP2 = (0.999999261, 0.693121815, 0.240247458, 0.0559178624, 0.00957005113)
EXP_RANGE = (-87.0, 88.0)
Ratio = tuple[float, Sequence[float], Sequence[float]]


def number(rw: Rewriter, value: float, element: Attribute = f32) -> SSAValue:
    """A constant of one element."""
    return rw.insert(ConstantOp.make(value, dtype=element))


def polynomial(rw: Rewriter, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
    """Horner's rule; the lowest power comes first."""
    *rest, last = coefficients
    value = number(rw, last)
    for coefficient in reversed(rest):
        value = rw.make(AddOp, rw.make(MultiplyOp, x, value), number(rw, coefficient))
    return value


def odd_ratio(rw: Rewriter, x: SSAValue, ratio: Ratio) -> SSAValue:
    """`x * P(x * x) / Q(x * x)` with x clipped to the range of the fit."""
    limit, above, below = ratio
    x = rw.make(ClipOp, x, min=-limit, max=limit)
    square = rw.make(MultiplyOp, x, x)
    top = rw.make(MultiplyOp, x, polynomial(rw, square, above))
    return rw.make(DivideOp, top, polynomial(rw, square, below))


def logistic(rw: Rewriter, x: SSAValue) -> SSAValue:
    """`0.5 + 0.5 * tanh(x / 2)`."""
    half = number(rw, 0.5)
    turned = odd_ratio(rw, rw.make(MultiplyOp, x, half), TANH)
    return rw.make(AddOp, rw.make(MultiplyOp, turned, half), half)


def _is_f32(op: GraphOp) -> bool:
    return op.type.element_type == f32


@FAST.on(TanhOp)
def tanh(op: TanhOp, rw: Rewriter) -> Replacement:
    """`tanh(x) -> x * P(x * x) / Q(x * x)`."""
    return odd_ratio(rw, op.operands[0], TANH) if _is_f32(op) else None


@FAST.on(ErfOp)
def erf(op: ErfOp, rw: Rewriter) -> Replacement:
    """`erf(x) -> x * P(x * x) / Q(x * x)`."""
    return odd_ratio(rw, op.operands[0], ERF) if _is_f32(op) else None


@FAST.on(ExpOp)
def exp(op: ExpOp, rw: Rewriter) -> Replacement:
    """`exp(x) -> 2 ** n * P(f)` with `n = round(x / log 2)`; `2 ** n` is n in the bits of the exponent."""
    if not _is_f32(op):
        return None
    low, high = EXP_RANGE
    t = rw.make(MultiplyOp, rw.make(ClipOp, op.operands[0], min=low, max=high), number(rw, math.log2(math.e)))
    n = rw.make(RoundOp, t)
    fraction = polynomial(rw, rw.make(SubtractOp, t, n), EXP2)
    exponent = rw.make(AddOp, rw.make(CastOp, n, dtype=i32), number(rw, 127, i32))
    power = rw.make(BitcastOp, rw.make(ShiftLeftOp, exponent, number(rw, 23, i32)), dtype=f32)
    return rw.make(MultiplyOp, fraction, power)


@FAST.on(SigmoidOp)
def sigmoid(op: SigmoidOp, rw: Rewriter) -> Replacement:
    """`sigmoid(x) -> 0.5 + 0.5 * tanh(x / 2)`."""
    return logistic(rw, op.operands[0]) if _is_f32(op) else None


@FAST.on(SiluOp)
def silu(op: SiluOp, rw: Rewriter) -> Replacement:
    """`silu(x) -> x * sigmoid(x)`."""
    return rw.make(MultiplyOp, op.operands[0], logistic(rw, op.operands[0])) if _is_f32(op) else None


@FAST.on(GeluOp)
def gelu(op: GeluOp, rw: Rewriter) -> Replacement:
    """`gelu(x) -> x * (0.5 + 0.5 * erf(x / sqrt 2))`."""
    if not _is_f32(op):
        return None
    x, half = op.operands[0], number(rw, 0.5)
    turned = odd_ratio(rw, rw.make(MultiplyOp, x, number(rw, math.sqrt(0.5))), ERF)
    return rw.make(MultiplyOp, x, rw.make(AddOp, rw.make(MultiplyOp, turned, half), half))


@dataclass(frozen=True)
class FastMathPass(ModulePass):
    """
    Replace exp, tanh, erf, sigmoid, gelu and silu of f32 by cheaper approximations, in ops that fuse with the rest.

    `graph.tanh %x`  ->  `graph.divide (x * P), Q` with P and Q polynomials of x * x, x clipped

    The errors are listed at the top of passes/graph/precision/fast_math.py.
    """

    name = "graph-fast-math"

    error_budget: ClassVar[float] = 1e-4
    """The part of its largest element by which a result may move under validation."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, FAST)
