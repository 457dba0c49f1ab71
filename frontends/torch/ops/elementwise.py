"""Elementwise ATen ops, with torch's type promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.frontends.common.elementwise import add, binary, cast, divide, full, multiply, select, subtract
from mlc.frontends.common.movement import slice_axis
from mlc.frontends.common.ops.hyperbolic import acosh, asinh, atanh
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.torch.call import AtenCall, Convert, widened


def _unary(op: type[GraphOp], **attrs: tuple[str, Any]) -> Convert:
    """An op on one tensor; `attrs` maps its attributes to torch's names and defaults."""

    def convert(call: AtenCall) -> Value:
        values = {name: float(call.get(theirs, default)) for name, (theirs, default) in attrs.items()}
        return call.emit(op, call.tensor("self"), **values)

    return convert


def _function(compute: Callable[[AtenCall, Value], Value]) -> Convert:
    """A function of one tensor."""
    return lambda call: compute(call, call.tensor("self"))


def _binary(op: type[GraphOp], logical: type[GraphOp] | None = None) -> Convert:
    """An op on two tensors or numbers; `logical` is the one for booleans."""

    def convert(call: AtenCall) -> Value:
        a, b = call.promoted("self", "other")
        own = logical if logical is not None and a.dtype_name == "bool" else op
        return call.emit(own, a, b)

    return convert


def _arithmetic(op: type[GraphOp]) -> Convert:
    """An op whose operands have the result's type."""
    return lambda call: call.emit(op, *call.promoted("self", "other", dtype=call.dtype))


def _sum(op: type[GraphOp], backward: bool = False) -> Convert:
    """`self + alpha * other`, or the same with minus; booleans are combined by `or`."""

    def convert(call: AtenCall) -> Value:
        a, b = call.promoted("self", "other", dtype=call.dtype)
        a, b = (b, a) if backward else (a, b)
        if call.dtype == np.bool_:
            return call.emit(g.LogicalOrOp, a, b)
        alpha = call.get("alpha", 1)
        if alpha != 1 and backward:
            b = multiply(call, b, alpha)
        elif alpha != 1:
            b = multiply(call, b, alpha)
        return call.emit(op, a, b)

    return convert


def _times(call: AtenCall) -> Value:
    a, b = call.promoted("self", "other", dtype=call.dtype)
    return call.emit(g.LogicalAndOp if call.dtype == np.bool_ else g.MultiplyOp, a, b)


def _divide(call: AtenCall) -> Value:
    a, b = call.promoted("self", "other", dtype=call.dtype)
    mode = call.get("rounding_mode")
    if mode == "floor":
        return _floored(call, a, b)
    quotient = call.emit(g.DivideOp, a, b)
    return _truncated(call, quotient) if mode == "trunc" else quotient


def _floored(call: AtenCall, a: Value, b: Value) -> Value:
    """The quotient rounded down: one less than truncated where the remainder has not the divisor's sign."""
    rest = call.emit(g.ModOp, a, b, truncated=True)
    below = call.emit(g.LogicalXorOp, binary(call, g.LessOp, rest, 0), binary(call, g.LessOp, b, 0))
    uneven = call.emit(g.LogicalAndOp, below, call.emit(g.LogicalNotOp, _equals(call, rest, 0)))
    if np.dtype(dtype_like(a)).kind not in "fV":
        quotient = call.emit(g.DivideOp, a, b)
        return (
            select(call, uneven, add(call, quotient, -1), quotient) if np.dtype(dtype_like(a)).kind == "i" else quotient
        )
    whole = call.emit(g.RoundOp, divide(call, subtract(call, a, rest), b))
    quotient = select(call, uneven, add(call, whole, -1.0), whole)
    return select(call, _equals(call, b, 0), divide(call, a, b), quotient)


def _floor_divide(call: AtenCall) -> Value:
    return _floored(call, *call.promoted("self", "other", dtype=call.dtype))


def _truncated(call: AtenCall, x: Value) -> Value:
    """Rounded toward zero."""
    if np.dtype(dtype_like(x)).kind not in "fV":
        return x
    negative = binary(call, g.LessOp, x, 0)
    return call.emit(g.WhereOp, negative, call.emit(g.CeilOp, x), call.emit(g.FloorOp, x))


def _modulo(truncated: bool) -> Convert:
    def convert(call: AtenCall) -> Value:
        return call.emit(g.ModOp, *call.promoted("self", "other", dtype=call.dtype), truncated=truncated)

    return convert


def _power(call: AtenCall) -> Value:
    """Small integer exponents are products, as in torch."""
    exponent = call["exponent"]
    if exponent == 0.5:
        return call.emit(g.SqrtOp, call.typed(call["self"], call.dtype))
    if exponent in (1, 2, 3):
        x = call.typed(call["self"], call.dtype)
        y = x
        for _ in range(int(exponent) - 1):
            y = multiply(call, y, x)
        return y
    if isinstance(exponent, int | float) and exponent in (-1, -2) and call.dtype.kind == "f":
        x = call.typed(call["self"], call.dtype)
        return call.emit(g.ReciprocalOp, x if exponent == -1 else multiply(call, x, x))
    return call.emit(g.PowerOp, call.typed(call["self"], call.dtype), call.typed(exponent, call.dtype))


def _round(call: AtenCall) -> Value:
    x, decimals = call.tensor("self"), call.get("decimals", 0)
    if not decimals:
        return call.emit(g.RoundOp, x) if np.dtype(dtype_like(x)).kind in "fV" else x
    scale = 10.0**decimals
    return divide(call, call.emit(g.RoundOp, multiply(call, x, scale)), scale)


def _rounded(op: type[GraphOp]) -> Convert:
    """A rounding op; integers are returned unchanged."""
    return lambda call: call.emit(op, call["self"]) if np.dtype(dtype_like(call["self"])).kind in "fV" else call["self"]


def _clamp(call: AtenCall) -> Value:
    """The bounds are numbers or tensors."""
    x = call.typed(call["self"], call.dtype)
    low, high = call.get("min", call.get("min_val")), call.get("max", call.get("max_val"))
    numbers = all(bound is None or isinstance(bound, int | float) for bound in (low, high))
    if numbers and call.dtype.kind == "f":
        return call.emit(
            g.ClipOp, x, min=-math.inf if low is None else float(low), max=math.inf if high is None else float(high)
        )
    for bound, op in ((low, g.MaximumOp), (high, g.MinimumOp)):
        x = x if bound is None else call.emit(op, x, call.typed(bound, call.dtype))
    return x


def _logical(op: type[GraphOp]) -> Convert:
    """A logical op; numbers are true if they are not 0."""
    names = ("self", "other")
    return lambda call: call.emit(op, *(call.typed(_truth(call, call[name]), np.bool_) for name in names))


def _truth(call: AtenCall, x: Any) -> Any:
    """Whether elements are not 0; booleans unchanged."""
    return x if not isinstance(x, Value) or x.dtype_name == "bool" else call.emit(g.LogicalNotOp, _equals(call, x, 0))


def _equals(call: AtenCall, x: Value, value: float) -> Value:
    return binary(call, g.EqualOp, x, value)


def _logical_not(call: AtenCall) -> Value:
    x = call["self"]
    return call.emit(g.LogicalNotOp, x) if x.dtype_name == "bool" else _equals(call, x, 0)


def _not(call: AtenCall) -> Value:
    x = call["self"]
    return call.emit(g.LogicalNotOp if x.dtype_name == "bool" else g.BitwiseNotOp, x)


def _unequal(call: AtenCall) -> Value:
    return call.emit(g.LogicalNotOp, call.emit(g.EqualOp, *call.promoted("self", "other")))


def _is_nan(call: AtenCall) -> Value:
    return _is_nan_of(call, call.tensor("self"))


def _is_nan_of(call: AtenCall, x: Value) -> Value:
    # x is nan == not (x == x)
    return call.emit(g.LogicalNotOp, call.emit(g.EqualOp, x, x))


def _is_inf(call: AtenCall) -> Value:
    x = call.tensor("self")
    if np.dtype(dtype_like(x)).kind not in "fV":
        return full(call, x.shape, 0, np.bool_)
    return _equals(call, call.emit(g.AbsOp, x), math.inf)


def _sign(call: AtenCall) -> Value:
    # torch's sign of NaN is 0, graph.sign's is NaN, as in ONNX
    x = call["self"]
    if call.dtype == np.bool_:
        return x
    sign = call.emit(g.SignOp, x)
    return sign if np.dtype(dtype_like(x)).kind in "iu" else select(call, binary(call, g.EqualOp, x, x), sign, 0.0)


def _where(call: AtenCall) -> Value:
    condition = cast(call, call["condition"], np.bool_)
    return call.emit(g.WhereOp, condition, *(call.typed(call[name], call.dtype) for name in ("self", "other")))


def _masked_fill(call: AtenCall) -> Value:
    value = call.typed(call["value"], call.dtype)
    return call.emit(g.WhereOp, call["mask"], value, call.typed(call["self"], call.dtype))


def _addcmul(call: AtenCall) -> Value:
    a, b, c = (call.typed(call[name], call.dtype) for name in ("self", "tensor1", "tensor2"))
    product, value = multiply(call, b, c), call.get("value", 1)
    return add(call, a, product if value == 1 else multiply(call, product, value))


def _gelu_tanh(call: AtenCall, x: Value) -> Value:
    # gelu(x) ~ x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ^ 3)))
    cube = multiply(call, multiply(call, x, x), x)
    inner = multiply(call, add(call, x, multiply(call, cube, 0.044715)), math.sqrt(2 / math.pi))
    return multiply(call, multiply(call, x, 0.5), add(call, call.emit(g.TanhOp, inner), 1.0))


def _gelu(call: AtenCall) -> Value:
    if call.get("approximate", "none") == "tanh":
        return widened(_gelu_tanh)(call)
    return call.emit(g.GeluOp, call.tensor("self"))


def _mish(call: AtenCall, x: Value) -> Value:
    # mish(x) == x * tanh(softplus(x))
    return multiply(call, x, call.emit(g.TanhOp, call.emit(g.SoftplusOp, x)))


def _softplus(call: AtenCall, x: Value) -> Value:
    # log(1 + exp(beta * x)) / beta, and x where beta * x is above the threshold
    beta, threshold = float(call.get("beta", 1)), float(call.get("threshold", 20))
    scaled = x if beta == 1 else multiply(call, x, beta)
    result = call.emit(g.SoftplusOp, scaled)
    result = result if beta == 1 else divide(call, result, beta)
    if threshold >= 20 and dtype_like(x) != np.float64:  # from there on the two are the same in f32
        return result
    return select(call, binary(call, g.GreaterOp, scaled, threshold), x, result)


def _elu(call: AtenCall, x: Value) -> Value:
    # scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))
    alpha, scale, inner = (float(call.get(name, 1)) for name in ("alpha", "scale", "input_scale"))
    y = call.emit(g.EluOp, x, alpha=alpha)
    if inner != 1:
        negative = call.emit(g.EluOp, multiply(call, x, inner), alpha=alpha)
        y = call.emit(g.WhereOp, binary(call, g.GreaterOp, x, 0), x, negative)
    return y if scale == 1 else multiply(call, y, scale)


def _hardsigmoid(call: AtenCall) -> Value:
    return call.emit(g.HardSigmoidOp, call.tensor("self"), alpha=1 / 6, beta=0.5)


def _hardshrink(call: AtenCall) -> Value:
    x, bound = call["self"], float(call["lambd"])
    return select(call, binary(call, g.LessEqualOp, call.emit(g.AbsOp, x), bound), 0, x)


def _softshrink(call: AtenCall) -> Value:
    # x - clip(x, -lambda, lambda)
    x, bound = call["self"], float(call["lambd"])
    return subtract(call, x, call.emit(g.ClipOp, x, min=-bound, max=bound))


def _prelu(call: AtenCall) -> Value:
    x, slope = call["self"], call["weight"]
    if slope.shape and len(x.shape) > 2:
        slope = call.emit(g.ReshapeOp, slope, shape=(*slope.shape, *[1] * (len(x.shape) - 2)))
    return call.emit(g.PreluOp, x, slope)


def _glu(call: AtenCall) -> Value:
    x, axis = call["self"], call.get("dim", -1)
    half = x.shape[axis] // 2
    gate = call.emit(g.SigmoidOp, slice_axis(call, x, axis, half, 2 * half))
    return multiply(call, slice_axis(call, x, axis, 0, half), gate)


def _log1p(call: AtenCall, x: Value) -> Value:
    # log1p(x) == log(1 + x) * (x / ((1 + x) - 1)), and x where 1 + x == 1
    one = add(call, x, 1.0)
    rest = subtract(call, one, 1.0)
    tiny = _equals(call, rest, 0)
    product = multiply(call, call.emit(g.LogOp, one), divide(call, x, select(call, tiny, 1.0, rest)))
    infinite = _equals(call, x, math.inf)
    return call.emit(g.WhereOp, tiny, x, select(call, infinite, math.inf, product))


def _expm1(call: AtenCall, x: Value) -> Value:
    # expm1(x) == 2 * sinh(x / 2) * exp(x / 2); below -160 it rounds to -1
    half = multiply(call, binary(call, g.MaximumOp, x, -80.0), 0.5)
    return multiply(call, multiply(call, call.emit(g.SinhOp, half), call.emit(g.ExpOp, half)), 2.0)


def _logarithm(base: float) -> Convert:
    return widened(lambda call, x: multiply(call, call.emit(g.LogOp, x), 1 / math.log(base)))


def _exp2(call: AtenCall, x: Value) -> Value:
    return call.emit(g.ExpOp, multiply(call, x, math.log(2)))


def _atan2(call: AtenCall) -> Value:
    # atan2(y, x) == atan(|y / x|), pi minus that where x is negative, with the sign of y
    y, x = call.promoted("self", "other", dtype=call.dtype)
    rise, run = call.emit(g.AbsOp, y), call.emit(g.AbsOp, x)
    slope = select(call, call.emit(g.EqualOp, rise, run), 1.0, divide(call, rise, run))
    angle = call.emit(g.AtanOp, select(call, _equals(call, rise, 0), 0.0, slope))
    angle = select(call, _is_negative(call, x), subtract(call, math.pi, angle), angle)
    angle = select(call, _is_nan_of(call, x), math.nan, angle)
    return select(call, _is_negative(call, y), call.emit(g.NegOp, angle), angle)


def _is_negative(call: AtenCall, x: Value) -> Value:
    """Whether a float has its sign bit set; that of 0 is the sign of 1 / x."""
    shown = call.emit(g.WhereOp, _equals(call, x, 0), call.emit(g.ReciprocalOp, x), x)
    return binary(call, g.LessOp, shown, 0)


def _sign_bit(call: AtenCall) -> Value:
    x = call["self"]
    return _is_negative(call, x) if np.dtype(dtype_like(x)).kind in "fV" else binary(call, g.LessOp, x, 0)


def _hypot(call: AtenCall) -> Value:
    # hypot(a, b) == a * sqrt(1 + (b / a) ^ 2), where |a| >= |b|
    a, b = (call.emit(g.AbsOp, x) for x in call.promoted("self", "other", dtype=call.dtype))
    long, short = call.emit(g.MaximumOp, a, b), call.emit(g.MinimumOp, a, b)
    edge = call.emit(g.LogicalOrOp, _equals(call, long, 0), _equals(call, long, math.inf))
    ratio = divide(call, short, select(call, edge, 1.0, long))
    length = multiply(call, long, call.emit(g.SqrtOp, add(call, multiply(call, ratio, ratio), 1.0)))
    return call.emit(g.WhereOp, edge, long, length)


def _copysign(call: AtenCall) -> Value:
    """The magnitude of one with the sign of the other."""
    a, b = call.promoted("self", "other", dtype=call.dtype)
    size = call.emit(g.AbsOp, a)
    return call.emit(g.WhereOp, _is_negative(call, b), call.emit(g.NegOp, size), size)


def _random_slope(call: AtenCall) -> list[Value | None]:
    """RReLU at inference: the slope is the mean of its bounds."""
    if call.get("training", False):
        raise call.fail("expected a module that is not in training; call eval() on it")
    slope = (float(call.get("lower", 1 / 8)) + float(call.get("upper", 1 / 3))) / 2
    return [call.emit(g.LeakyReluOp, call["self"], alpha=slope), None]


def _erfc(call: AtenCall, x: Value) -> Value:
    return subtract(call, 1.0, call.emit(g.ErfOp, x))


def _of_numbers(op: type[GraphOp]) -> Convert:
    """fmax and fmin: of NaN and a number, the number."""

    def convert(call: AtenCall) -> Value:
        a, b = call.promoted("self", "other", dtype=call.dtype)
        if np.dtype(dtype_like(a)).kind not in "fV":
            return call.emit(op, a, b)
        best = call.emit(g.WhereOp, _is_nan_of(call, b), a, call.emit(op, a, b))
        return call.emit(g.WhereOp, _is_nan_of(call, a), b, best)

    return convert


def _ldexp(call: AtenCall) -> Value:
    a, b = call.promoted("self", "other", dtype=call.dtype)
    return multiply(call, a, _exp2(call, b))


CONVERTERS: dict[str, Convert] = {
    "relu": _unary(g.ReluOp), "exp": _unary(g.ExpOp), "log": _unary(g.LogOp), "tanh": _unary(g.TanhOp),
    "sigmoid": _unary(g.SigmoidOp), "erf": _unary(g.ErfOp), "sqrt": _unary(g.SqrtOp), "rsqrt": _unary(g.RsqrtOp),
    "reciprocal": _unary(g.ReciprocalOp), "neg": _unary(g.NegOp), "abs": _unary(g.AbsOp), "sin": _unary(g.SinOp),
    "cos": _unary(g.CosOp), "tan": _unary(g.TanOp), "asin": _unary(g.AsinOp), "acos": _unary(g.AcosOp),
    "atan": _unary(g.AtanOp), "sinh": _unary(g.SinhOp), "cosh": _unary(g.CoshOp),
    "asinh": _function(asinh), "acosh": _function(acosh), "atanh": _function(atanh),
    "silu": _unary(g.SiluOp), "hardswish": _unary(g.HardSwishOp), "hardsigmoid": _hardsigmoid,
    "rrelu_with_noise_functional": _random_slope,
    "leaky_relu": _unary(g.LeakyReluOp, alpha=("negative_slope", 0.01)),
    "elu": widened(_elu), "gelu": _gelu, "mish": widened(_mish), "softplus": widened(_softplus),
    "hardshrink": _hardshrink, "softshrink": _softshrink, "prelu": _prelu, "glu": _glu,
    "log1p": widened(_log1p), "log2": _logarithm(2), "log10": _logarithm(10), "expm1": widened(_expm1),
    "exp2": widened(_exp2), "atan2": _atan2, "hypot": _hypot, "copysign": _copysign, "signbit": _sign_bit,
    "erfc": widened(_erfc), "fmax": _of_numbers(g.MaximumOp), "fmin": _of_numbers(g.MinimumOp), "ldexp": _ldexp,
    "floor": _rounded(g.FloorOp), "ceil": _rounded(g.CeilOp), "round": _round,
    "trunc": lambda call: _truncated(call, call["self"]), "sign": _sign,
    "add": _sum(g.AddOp), "sub": _sum(g.SubtractOp), "rsub": _sum(g.SubtractOp, backward=True), "mul": _times,
    "div": _divide, "true_divide": _divide,
    "floor_divide": _floor_divide, "remainder": _modulo(False), "fmod": _modulo(True), "pow": _power,
    "maximum": _arithmetic(g.MaximumOp), "minimum": _arithmetic(g.MinimumOp),
    "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "hardtanh": _clamp,
    "eq": _binary(g.EqualOp), "ne": _unequal, "lt": _binary(g.LessOp), "gt": _binary(g.GreaterOp),
    "le": _binary(g.LessEqualOp), "ge": _binary(g.GreaterEqualOp),
    "logical_and": _logical(g.LogicalAndOp), "logical_or": _logical(g.LogicalOrOp),
    "logical_xor": _logical(g.LogicalXorOp), "logical_not": _logical_not,
    "bitwise_and": _binary(g.BitwiseAndOp, g.LogicalAndOp), "bitwise_or": _binary(g.BitwiseOrOp, g.LogicalOrOp),
    "bitwise_xor": _binary(g.BitwiseXorOp, g.LogicalXorOp), "bitwise_not": _not,
    "bitwise_left_shift": _binary(g.ShiftLeftOp),
    "__lshift__": _binary(g.ShiftLeftOp), "bitwise_right_shift": _binary(g.ShiftRightOp),
    "__rshift__": _binary(g.ShiftRightOp),
    "isnan": _is_nan, "isinf": _is_inf, "where": _where, "masked_fill": _masked_fill, "addcmul": _addcmul,
}  # fmt: skip
