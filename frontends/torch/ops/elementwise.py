"""ATen ops that compute elementwise, with torch's promotion of types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Value, dtype_like
from mlc.frontends.onnx.tools import add, binary, cast, divide, full, multiply, part, select, subtract
from mlc.frontends.torch.step import Convert, Step, widened


def _unary(op: Any, **attrs: tuple[str, Any]) -> Convert:
    """An op on one tensor; `attrs` maps its attributes to torch's names and defaults."""

    def convert(step: Step) -> Value:
        values = {name: float(step.get(theirs, default)) for name, (theirs, default) in attrs.items()}
        return step.emit(op, step.tensor("self"), **values)

    return convert


def _onnx(op: str) -> Convert:
    """An op that ONNX has as well."""
    return lambda step: step.onnx(op, [step.tensor("self")])


def _binary(op: Any, logical: Any = None) -> Convert:
    """An op on two tensors or numbers; `logical` is the one for booleans."""

    def convert(step: Step) -> Value:
        a, b = step.promoted("self", "other")
        own = logical if logical is not None and a.dtype_name == "bool" else op
        return step.emit(own, a, b)

    return convert


def _arithmetic(op: Any) -> Convert:
    """An op whose operands have the result's type."""
    return lambda step: step.emit(op, *step.promoted("self", "other", dtype=step.dtype))


def _sum(op: Any, backward: bool = False) -> Convert:
    """`self + alpha * other`, or the same with minus; booleans are combined by `or`."""

    def convert(step: Step) -> Value:
        a, b = step.promoted("self", "other", dtype=step.dtype)
        a, b = (b, a) if backward else (a, b)
        if step.dtype == np.bool_:
            return step.emit(g.LogicalOrOp, a, b)
        alpha = step.get("alpha", 1)
        if alpha != 1 and backward:
            b = multiply(step, b, alpha)
        elif alpha != 1:
            b = multiply(step, b, alpha)
        return step.emit(op, a, b)

    return convert


def _times(step: Step) -> Value:
    a, b = step.promoted("self", "other", dtype=step.dtype)
    return step.emit(g.LogicalAndOp if step.dtype == np.bool_ else g.MultiplyOp, a, b)


def _divide(step: Step) -> Value:
    a, b = step.promoted("self", "other", dtype=step.dtype)
    mode = step.get("rounding_mode")
    if mode == "floor":
        return _floored(step, a, b)
    quotient = step.emit(g.DivideOp, a, b)
    return _truncated(step, quotient) if mode == "trunc" else quotient


def _floored(step: Step, a: Value, b: Value) -> Value:
    """The quotient rounded down: what is left of the truncated one tells, where its sign is not the divisor's."""
    rest = step.emit(g.ModOp, a, b, truncated=True)
    below = step.emit(g.LogicalXorOp, binary(step, g.LessOp, rest, 0), binary(step, g.LessOp, b, 0))
    uneven = step.emit(g.LogicalAndOp, below, step.emit(g.LogicalNotOp, _equals(step, rest, 0)))
    if np.dtype(dtype_like(a)).kind not in "fV":
        quotient = step.emit(g.DivideOp, a, b)
        return (
            select(step, uneven, add(step, quotient, -1), quotient) if np.dtype(dtype_like(a)).kind == "i" else quotient
        )
    whole = step.emit(g.RoundOp, divide(step, subtract(step, a, rest), b))
    quotient = select(step, uneven, add(step, whole, -1.0), whole)
    return select(step, _equals(step, b, 0), divide(step, a, b), quotient)


def _floor_divide(step: Step) -> Value:
    return _floored(step, *step.promoted("self", "other", dtype=step.dtype))


def _truncated(step: Step, x: Value) -> Value:
    """Rounded toward zero."""
    if np.dtype(dtype_like(x)).kind not in "fV":
        return x
    negative = binary(step, g.LessOp, x, 0)
    return step.emit(g.WhereOp, negative, step.emit(g.CeilOp, x), step.emit(g.FloorOp, x))


def _modulo(truncated: bool) -> Convert:
    def convert(step: Step) -> Value:
        return step.emit(g.ModOp, *step.promoted("self", "other", dtype=step.dtype), truncated=truncated)

    return convert


def _power(step: Step) -> Value:
    """Powers of small whole numbers are products: torch multiplies as well."""
    exponent = step["exponent"]
    if exponent == 0.5:
        return step.emit(g.SqrtOp, step.typed(step["self"], step.dtype))
    if exponent in (1, 2, 3):
        x = step.typed(step["self"], step.dtype)
        y = x
        for _ in range(int(exponent) - 1):
            y = multiply(step, y, x)
        return y
    if isinstance(exponent, int | float) and exponent in (-1, -2) and step.dtype.kind == "f":
        x = step.typed(step["self"], step.dtype)
        return step.emit(g.ReciprocalOp, x if exponent == -1 else multiply(step, x, x))
    return step.emit(g.PowerOp, step.typed(step["self"], step.dtype), step.typed(exponent, step.dtype))


def _round(step: Step) -> Value:
    x, decimals = step.tensor("self"), step.get("decimals", 0)
    if not decimals:
        return step.emit(g.RoundOp, x) if np.dtype(dtype_like(x)).kind in "fV" else x
    scale = 10.0**decimals
    return divide(step, step.emit(g.RoundOp, multiply(step, x, scale)), scale)


def _rounded(op: Any) -> Convert:
    """Rounding, which leaves integers alone."""
    return lambda step: step.emit(op, step["self"]) if np.dtype(dtype_like(step["self"])).kind in "fV" else step["self"]


def _clamp(step: Step) -> Value:
    """Bounds are numbers, or tensors."""
    x = step.typed(step["self"], step.dtype)
    low, high = step.get("min", step.get("min_val")), step.get("max", step.get("max_val"))
    numbers = all(bound is None or isinstance(bound, int | float) for bound in (low, high))
    if numbers and step.dtype.kind == "f":
        return step.emit(
            g.ClipOp, x, min=-math.inf if low is None else float(low), max=math.inf if high is None else float(high)
        )
    for bound, op in ((low, g.MaximumOp), (high, g.MinimumOp)):
        x = x if bound is None else step.emit(op, x, step.typed(bound, step.dtype))
    return x


def _logical(op: Any) -> Convert:
    """An op on what is not 0."""
    names = ("self", "other")
    return lambda step: step.emit(op, *(step.typed(_truth(step, step[name]), np.bool_) for name in names))


def _truth(step: Step, x: Any) -> Any:
    """Whether elements are not 0."""
    return x if not isinstance(x, Value) or x.dtype_name == "bool" else step.emit(g.LogicalNotOp, _equals(step, x, 0))


def _equals(step: Step, x: Value, value: float) -> Value:
    return binary(step, g.EqualOp, x, value)


def _logical_not(step: Step) -> Value:
    x = step["self"]
    return step.emit(g.LogicalNotOp, x) if x.dtype_name == "bool" else _equals(step, x, 0)


def _not(step: Step) -> Value:
    x = step["self"]
    return step.emit(g.LogicalNotOp if x.dtype_name == "bool" else g.BitwiseNotOp, x)


def _unequal(step: Step) -> Value:
    return step.emit(g.LogicalNotOp, step.emit(g.EqualOp, *step.promoted("self", "other")))


def _is_nan(step: Step) -> Value:
    return _is_nan_of(step, step.tensor("self"))


def _is_nan_of(step: Step, x: Value) -> Value:
    # x is nan == not (x == x)
    return step.emit(g.LogicalNotOp, step.emit(g.EqualOp, x, x))


def _is_inf(step: Step) -> Value:
    x = step.tensor("self")
    if np.dtype(dtype_like(x)).kind not in "fV":
        return full(step, x.shape, 0, np.bool_)
    return _equals(step, step.emit(g.AbsOp, x), math.inf)


def _sign(step: Step) -> Value:
    return step["self"] if step.dtype == np.bool_ else step.emit(g.SignOp, step["self"])


def _where(step: Step) -> Value:
    condition = cast(step, step["condition"], np.bool_)
    return step.emit(g.WhereOp, condition, *(step.typed(step[name], step.dtype) for name in ("self", "other")))


def _masked_fill(step: Step) -> Value:
    value = step.typed(step["value"], step.dtype)
    return step.emit(g.WhereOp, step["mask"], value, step.typed(step["self"], step.dtype))


def _addcmul(step: Step) -> Value:
    a, b, c = (step.typed(step[name], step.dtype) for name in ("self", "tensor1", "tensor2"))
    product, value = multiply(step, b, c), step.get("value", 1)
    return add(step, a, product if value == 1 else multiply(step, product, value))


def _gelu_tanh(step: Step, x: Value) -> Value:
    # gelu(x) ~ x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ^ 3)))
    cube = multiply(step, multiply(step, x, x), x)
    inner = multiply(step, add(step, x, multiply(step, cube, 0.044715)), math.sqrt(2 / math.pi))
    return multiply(step, multiply(step, x, 0.5), add(step, step.emit(g.TanhOp, inner), 1.0))


def _gelu(step: Step) -> Value:
    if step.get("approximate", "none") == "tanh":
        return widened(_gelu_tanh)(step)
    return step.emit(g.GeluOp, step.tensor("self"))


def _mish(step: Step, x: Value) -> Value:
    # mish(x) == x * tanh(softplus(x))
    return multiply(step, x, step.emit(g.TanhOp, step.emit(g.SoftplusOp, x)))


def _softplus(step: Step, x: Value) -> Value:
    # log(1 + exp(beta * x)) / beta
    beta = float(step.get("beta", 1))
    return (
        step.emit(g.SoftplusOp, x)
        if beta == 1
        else divide(step, step.emit(g.SoftplusOp, multiply(step, x, beta)), beta)
    )


def _elu(step: Step, x: Value) -> Value:
    # scale * (x if x > 0 else alpha * (exp(input_scale * x) - 1))
    alpha, scale, inner = (float(step.get(name, 1)) for name in ("alpha", "scale", "input_scale"))
    y = step.emit(g.EluOp, x, alpha=alpha)
    if inner != 1:
        negative = step.emit(g.EluOp, multiply(step, x, inner), alpha=alpha)
        y = step.emit(g.WhereOp, binary(step, g.GreaterOp, x, 0), x, negative)
    return y if scale == 1 else multiply(step, y, scale)


def _hardsigmoid(step: Step) -> Value:
    return step.emit(g.HardSigmoidOp, step.tensor("self"), alpha=1 / 6, beta=0.5)


def _hardshrink(step: Step) -> Value:
    x, bound = step["self"], float(step["lambd"])
    return select(step, binary(step, g.LessEqualOp, step.emit(g.AbsOp, x), bound), 0, x)


def _softshrink(step: Step) -> Value:
    # x - clip(x, -lambda, lambda)
    x, bound = step["self"], float(step["lambd"])
    return subtract(step, x, step.emit(g.ClipOp, x, min=-bound, max=bound))


def _prelu(step: Step) -> Value:
    x, slope = step["self"], step["weight"]
    if slope.shape and len(x.shape) > 2:
        slope = step.emit(g.ReshapeOp, slope, shape=(*slope.shape, *[1] * (len(x.shape) - 2)))
    return step.emit(g.PreluOp, x, slope)


def _glu(step: Step) -> Value:
    x, axis = step["self"], step.get("dim", -1)
    half = x.shape[axis] // 2
    gate = step.emit(g.SigmoidOp, part(step, x, axis, half, 2 * half))
    return multiply(step, part(step, x, axis, 0, half), gate)


def _log1p(step: Step, x: Value) -> Value:
    # log1p(x) == log(1 + x) * (x / ((1 + x) - 1)), and x where 1 + x == 1
    one = add(step, x, 1.0)
    rest = subtract(step, one, 1.0)
    tiny = _equals(step, rest, 0)
    product = multiply(step, step.emit(g.LogOp, one), divide(step, x, select(step, tiny, 1.0, rest)))
    infinite = _equals(step, x, math.inf)
    return step.emit(g.WhereOp, tiny, x, select(step, infinite, math.inf, product))


def _expm1(step: Step, x: Value) -> Value:
    # expm1(x) == 2 * sinh(x / 2) * exp(x / 2), and -1 from where on it is rounded so
    half = multiply(step, binary(step, g.MaximumOp, x, -80.0), 0.5)
    return multiply(step, multiply(step, step.emit(g.SinhOp, half), step.emit(g.ExpOp, half)), 2.0)


def _logarithm(base: float) -> Convert:
    return widened(lambda step, x: multiply(step, step.emit(g.LogOp, x), 1 / math.log(base)))


def _exp2(step: Step, x: Value) -> Value:
    return step.emit(g.ExpOp, multiply(step, x, math.log(2)))


def _atan2(step: Step) -> Value:
    # atan2(y, x) == atan(|y / x|), pi less it where x is negative, with the sign of y
    y, x = step.promoted("self", "other", dtype=step.dtype)
    rise, run = step.emit(g.AbsOp, y), step.emit(g.AbsOp, x)
    slope = select(step, step.emit(g.EqualOp, rise, run), 1.0, divide(step, rise, run))
    angle = step.emit(g.AtanOp, select(step, _equals(step, rise, 0), 0.0, slope))
    angle = select(step, _is_negative(step, x), subtract(step, math.pi, angle), angle)
    angle = select(step, _is_nan_of(step, x), math.nan, angle)
    return select(step, _is_negative(step, y), step.emit(g.NegOp, angle), angle)


def _is_negative(step: Step, x: Value) -> Value:
    """Whether a float has the sign of -0, which 1 / x shows where x is 0."""
    shown = step.emit(g.WhereOp, _equals(step, x, 0), step.emit(g.ReciprocalOp, x), x)
    return binary(step, g.LessOp, shown, 0)


def _sign_bit(step: Step) -> Value:
    x = step["self"]
    return _is_negative(step, x) if np.dtype(dtype_like(x)).kind in "fV" else binary(step, g.LessOp, x, 0)


def _hypot(step: Step) -> Value:
    # hypot(a, b) == a * sqrt(1 + (b / a) ^ 2), where |a| >= |b|
    a, b = (step.emit(g.AbsOp, x) for x in step.promoted("self", "other", dtype=step.dtype))
    long, short = step.emit(g.MaximumOp, a, b), step.emit(g.MinimumOp, a, b)
    edge = step.emit(g.LogicalOrOp, _equals(step, long, 0), _equals(step, long, math.inf))
    ratio = divide(step, short, select(step, edge, 1.0, long))
    length = multiply(step, long, step.emit(g.SqrtOp, add(step, multiply(step, ratio, ratio), 1.0)))
    return step.emit(g.WhereOp, edge, long, length)


def _copysign(step: Step) -> Value:
    """The size of one with the sign of the other."""
    a, b = step.promoted("self", "other", dtype=step.dtype)
    size = step.emit(g.AbsOp, a)
    return step.emit(g.WhereOp, _is_negative(step, b), step.emit(g.NegOp, size), size)


def _random_slope(step: Step) -> list[Value | None]:
    """Outside of training the slope is the mean of its bounds."""
    if step.get("training", False):
        raise step.fail("expected a module that is not in training; call eval() on it")
    slope = (float(step.get("lower", 1 / 8)) + float(step.get("upper", 1 / 3))) / 2
    return [step.emit(g.LeakyReluOp, step["self"], alpha=slope), None]


def _erfc(step: Step, x: Value) -> Value:
    return subtract(step, 1.0, step.emit(g.ErfOp, x))


def _of_numbers(op: Any) -> Convert:
    """A maximum or a minimum of what is a number: of NaN and another, the other."""

    def convert(step: Step) -> Value:
        a, b = step.promoted("self", "other", dtype=step.dtype)
        if np.dtype(dtype_like(a)).kind not in "fV":
            return step.emit(op, a, b)
        best = step.emit(g.WhereOp, _is_nan_of(step, b), a, step.emit(op, a, b))
        return step.emit(g.WhereOp, _is_nan_of(step, a), b, best)

    return convert


def _ldexp(step: Step) -> Value:
    a, b = step.promoted("self", "other", dtype=step.dtype)
    return multiply(step, a, _exp2(step, b))


CONVERTERS: dict[str, Convert] = {
    "relu": _unary(g.ReluOp), "exp": _unary(g.ExpOp), "log": _unary(g.LogOp), "tanh": _unary(g.TanhOp),
    "sigmoid": _unary(g.SigmoidOp), "erf": _unary(g.ErfOp), "sqrt": _unary(g.SqrtOp), "rsqrt": _unary(g.RsqrtOp),
    "reciprocal": _unary(g.ReciprocalOp), "neg": _unary(g.NegOp), "abs": _unary(g.AbsOp), "sin": _unary(g.SinOp),
    "cos": _unary(g.CosOp), "tan": _unary(g.TanOp), "asin": _unary(g.AsinOp), "acos": _unary(g.AcosOp),
    "atan": _unary(g.AtanOp), "sinh": _unary(g.SinhOp), "cosh": _unary(g.CoshOp),
    "asinh": _onnx("Asinh"), "acosh": _onnx("Acosh"), "atanh": _onnx("Atanh"),
    "silu": _unary(g.SiluOp), "hardswish": _unary(g.HardSwishOp), "hardsigmoid": _hardsigmoid,
    "rrelu_with_noise_functional": _random_slope,
    "leaky_relu": _unary(g.LeakyReluOp, alpha=("negative_slope", 0.01)),
    "elu": widened(_elu), "gelu": _gelu, "mish": widened(_mish), "softplus": widened(_softplus),
    "hardshrink": _hardshrink, "softshrink": _softshrink, "prelu": _prelu, "glu": _glu,
    "log1p": widened(_log1p), "log2": _logarithm(2), "log10": _logarithm(10), "expm1": widened(_expm1),
    "exp2": widened(_exp2), "atan2": _atan2, "hypot": _hypot, "copysign": _copysign, "signbit": _sign_bit,
    "erfc": widened(_erfc), "fmax": _of_numbers(g.MaximumOp), "fmin": _of_numbers(g.MinimumOp), "ldexp": _ldexp,
    "floor": _rounded(g.FloorOp), "ceil": _rounded(g.CeilOp), "round": _round,
    "trunc": lambda step: _truncated(step, step["self"]), "sign": _sign,
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
