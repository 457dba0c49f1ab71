"""
Recognise activations that a model writes as several ops: hard_sigmoid, hard_swish, silu, gelu, sigmoid, powers.

A product is matched as a number times a set of factors, so the order in which a model multiplies does not matter.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    ClipOp,
    DivideOp,
    ErfOp,
    ExpOp,
    GeluOp,
    GraphOp,
    HardSigmoidOp,
    HardSwishOp,
    MultiplyOp,
    NegOp,
    PowerOp,
    ReciprocalOp,
    RsqrtOp,
    SigmoidOp,
    SiluOp,
    SqrtOp,
    SubtractOp,
)
from mlc.dialects.graph.types import is_float
from mlc.passes.graph.shared.constants import scalar
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

ACTIVATIONS = Rules()


@ACTIVATIONS.on(MultiplyOp, DivideOp)
def activation_product(op: MultiplyOp | DivideOp, rw: Rewriter) -> Replacement:
    """`x * sigmoid(x) -> silu(x)`, `x * hard_sigmoid(x) -> hard_swish(x)`, `x / 2 * (1 + erf(x / sqrt 2)) -> gelu`."""
    if not is_float(op.type):
        return None
    number, factors = product_of(op.results[0])
    if len(factors) == 1 and factors[0].type == op.type:
        return _scaled_clip(rw, number, factors[0])
    if len(factors) != 2:
        return None
    for x, gate in (factors, factors[::-1]):
        cls = _gate_class(number, x, gate)
        if cls is not None and x.type == op.type:
            return rw.make(cls, x)
    return None


def product_of(value: SSAValue) -> tuple[float, list[SSAValue]]:
    """A product as a number and its other factors: `0.5 * x * (y / 4) -> (0.125, [x, y])`."""
    number, factors = 1.0, list[SSAValue]()
    pending = [value]
    while pending:
        current = pending.pop()
        constant = scalar(current)
        owner = current.owner
        if constant is not None:
            number *= constant
        elif (current is value or current.has_one_use()) and isinstance(owner, MultiplyOp):
            pending += owner.operands
        elif (
            (current is value or current.has_one_use())
            and isinstance(owner, DivideOp)
            and (divisor := scalar(owner.operands[1]))
        ):
            number /= divisor
            pending.append(owner.operands[0])
        else:
            factors.append(current)
    return number, factors


def _near(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-5)


def _gate_class(number: float, x: SSAValue, gate: SSAValue) -> type[GraphOp] | None:
    """The activation that `number * x * gate` computes, if it is one."""
    sigmoid, hard, clip = defining_op(gate, SigmoidOp), defining_op(gate, HardSigmoidOp), defining_op(gate, ClipOp)
    if sigmoid is not None and sigmoid.operands[0] is x and number == 1.0:
        return SiluOp
    if hard is not None and hard.operands[0] is x and number == 1.0:
        return HardSwishOp if _near(hard.alpha, 1 / 6) and _near(hard.beta, 0.5) else None
    if clip is not None and _near(number, 1 / 6) and (clip.min, clip.max) == (0.0, 6.0):
        shifted = _plus(clip.operands[0])
        return HardSwishOp if shifted is not None and shifted[0] is x and _near(shifted[1], 3.0) else None
    total = _plus(gate)
    erf = None if total is None or total[1] != 1.0 else defining_op(total[0], ErfOp)
    if erf is not None and _near(number, 0.5):
        inner, factors = product_of(erf.operands[0])
        return GeluOp if factors == [x] and _near(inner, math.sqrt(0.5)) else None
    return None


def _plus(value: SSAValue) -> tuple[SSAValue, float] | None:
    """(x, c) of `x + c`."""
    owner = value.owner
    if not isinstance(owner, AddOp):
        return None
    for x, c in (owner.operands, owner.operands[::-1]):
        number = scalar(c)
        if number is not None:
            return x, number
    return None


def _scaled_clip(rw: Rewriter, number: float, value: SSAValue) -> SSAValue | None:
    """`clip(x + b, 0, m) / m -> hard_sigmoid(x) {alpha = 1 / m, beta = b / m}`."""
    clip = defining_op(value, ClipOp)
    if clip is None or clip.min != 0.0 or not math.isfinite(clip.max) or not _near(number * clip.max, 1.0):
        return None
    shifted = _plus(clip.operands[0])
    if shifted is None or shifted[0].type != value.type:
        return None
    return rw.make(HardSigmoidOp, shifted[0], alpha=1 / clip.max, beta=shifted[1] / clip.max)


@ACTIVATIONS.on(DivideOp, ReciprocalOp)
def sigmoid(op: DivideOp | ReciprocalOp, rw: Rewriter) -> Replacement:
    """`1 / (1 + exp(-x)) -> sigmoid(x)`."""
    if isinstance(op, DivideOp) and scalar(op.operands[0]) != 1.0:
        return None
    total = _plus(op.operands[-1])
    exp = None if total is None or total[1] != 1.0 else defining_op(total[0], ExpOp)
    negated = None if exp is None else defining_op(exp.operands[0], NegOp)
    if negated is None or negated.operands[0].type != op.type:
        return None
    return rw.make(SigmoidOp, negated.operands[0])


@ACTIVATIONS.on(PowerOp)
def small_power(op: PowerOp, rw: Rewriter) -> Replacement:
    """
    `x ** 2 -> x * x`, `x ** 3 -> x * x * x`, `x ** 0.5 -> sqrt(x)`, `x ** -0.5 -> rsqrt(x)`, `x ** -1 -> 1 / x`,
    `x ** 0.25 -> sqrt(sqrt(x))`, `x ** 0.75 -> sqrt(x) * sqrt(sqrt(x))`, `x ** 1.5 -> x * sqrt(x)`.
    """
    x, exponent = op.operands[0], scalar(op.operands[1])
    if exponent is None or x.type != op.type:
        return None
    if exponent == 2.0:
        return rw.make(MultiplyOp, x, x)
    if exponent == 3.0:
        return rw.make(MultiplyOp, rw.make(MultiplyOp, x, x), x)
    if exponent in (0.25, 0.75, 1.5) and is_float(op.type):
        root = rw.make(SqrtOp, x)
        if exponent == 1.5:
            return rw.make(MultiplyOp, x, root)
        fourth = rw.make(SqrtOp, root)
        return fourth if exponent == 0.25 else rw.make(MultiplyOp, root, fourth)
    unary = {0.5: SqrtOp, -0.5: RsqrtOp, -1.0: ReciprocalOp}.get(exponent)
    return rw.make(unary, x) if unary is not None and is_float(op.type) else None


@ACTIVATIONS.on(SubtractOp)
def add_of_negative(op: SubtractOp, rw: Rewriter) -> Replacement:
    """`x - (-y) -> x + y`."""
    negated = defining_op(op.operands[1], NegOp)
    return None if negated is None else rw.make(AddOp, op.operands[0], negated.operands[0])
