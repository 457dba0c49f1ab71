"""ONNX ops that compute elementwise, reduce, or multiply matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.types import broadcast
from mlc.frontends.common.elementwise import add, binary, cast, full, reduce, select, subtract
from mlc.frontends.common.movement import reshape, transpose
from mlc.frontends.common.ops.einsum import einsum
from mlc.frontends.common.ops.hyperbolic import acosh, asinh, atanh
from mlc.frontends.common.ops.matmul import matmul
from mlc.frontends.common.values import NARROW_FLOATS, Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node, UseBody


def _unary(op: type[GraphOp], **attrs: tuple[str, Any]) -> Converter:
    """An op on one tensor; `attrs` maps its attributes to ONNX's names and defaults."""

    def convert(node: Node) -> Value:
        values = {name: float(node.attr(theirs, default)) for name, (theirs, default) in attrs.items()}
        return node.emit(op, node.input(0), **values)

    return convert


def _binary(op: type[GraphOp]) -> Converter:
    return lambda node: node.emit(op, node.input(0), node.input(1))


def _variadic(op: type[GraphOp]) -> Converter:
    def convert(node: Node) -> Value:
        value = node.input(0)
        for index in range(1, len(node.inputs)):
            value = node.emit(op, value, node.input(index))
        return value

    return convert


def _mean(node: Node) -> Value:
    count = len(node.inputs)
    total = _variadic(g.AddOp)(node)
    assert isinstance(total, Value)
    return node.emit(g.MultiplyOp, total, node.array(1 / count, like=total))


def _power(node: Node) -> Value:
    base, exponent = node.input(0), node.input(1)
    one = exponent.array.reshape(()).item() if exponent.array is not None and exponent.array.size == 1 else None
    if one == 2:
        square = node.emit(g.MultiplyOp, base, base)
        return reshape(node, square, [*[1] * (len(exponent.shape) - len(base.shape)), *base.shape])
    dtype, integral = np.dtype(dtype_like(base)), one is not None and float(one).is_integer()
    if dtype.kind in "iu" and np.dtype(dtype_like(exponent)).kind not in "iu" and not integral:
        return cast(node, node.emit(g.PowerOp, *(cast(node, x, np.float64) for x in (base, exponent))), dtype)
    return node.emit(g.PowerOp, base, cast(node, exponent, dtype))


def _mod(node: Node) -> Value:
    return node.emit(g.ModOp, node.input(0), node.input(1), truncated=bool(node.attr("fmod", 0)))


def _clip(node: Node) -> Value:
    x = node.input(0)
    if node.opset < 11:
        bounds = [node.attr("min", -math.inf), node.attr("max", math.inf)]
    else:
        given = [node.inputs[i] if node.has(i) else None for i in (1, 2)]
        if any(v is not None and v.array is None for v in given):
            for v, op in zip(given, (g.MaximumOp, g.MinimumOp), strict=True):
                x = x if v is None else node.emit(op, x, v)
            return x
        bounds = [
            default if v is None else float(v.array.reshape(()))
            for v, default in zip(given, (-math.inf, math.inf), strict=True)
        ]
    return node.emit(g.ClipOp, x, min=float(bounds[0]), max=float(bounds[1]))


def _cast(node: Node) -> Value:
    from mlc.frontends.onnx.files import dtype_of

    return cast(node, node.input(0), dtype_of(int(node.attr("to")), node.path))


def _cast_like(node: Node) -> Value:
    return cast(node, node.input(0), dtype_like(node.input(1)))


def _gelu(node: Node) -> Value:
    if node.attr("approximate", "none") != "none":
        raise UseBody
    return node.emit(g.GeluOp, node.input(0))


def _reduce(
    op: type[GraphOp], before: Callable[[Node, Value], Value] | None = None, after: type[GraphOp] | None = None
) -> Converter:
    """A reduction: axes are an attribute, or since opset 18 (ReduceSum: 13) an input."""

    def convert(node: Node) -> Value:
        x = node.input(0)
        axes = node.ints(1, "axes")
        if not axes and (node.attr("noop_with_empty_axes", 0) or not x.shape):
            return _applied(node, x, before, after)
        axes = axes or list(range(len(x.shape)))
        x = before(node, x) if before else x
        y = node.emit(op, x, axes=tuple(axes), keepdims=bool(node.attr("keepdims", 1)))
        return node.emit(after, y) if after else y

    return convert


def _applied(node: Node, x: Value, before: Callable[[Node, Value], Value] | None, after: type[GraphOp] | None) -> Value:
    x = before(node, x) if before else x
    return node.emit(after, x) if after else x


def _square(node: Node, x: Value) -> Value:
    return node.emit(g.MultiplyOp, x, x)


def _log_sum_exp(node: Node) -> Value:
    """ReduceLogSumExp of the distances from the maximum, where that is finite, so that nothing overflows."""
    x, axes = node.input(0), node.ints(1, "axes")
    if not axes and (node.attr("noop_with_empty_axes", 0) or not x.shape):
        return x
    axes = axes or list(range(len(x.shape)))
    narrow = x.dtype_name in (*NARROW_FLOATS, "float32")
    wide, kept = cast(node, x, np.float32 if narrow else np.float64), bool(node.attr("keepdims", 1))
    if any(x.shape[axis] == 0 for axis in axes):
        most = node.array(0.0, like=wide)
    else:
        most = reduce(node, g.MaxOp, wide, axes, keepdims=True)
    most = select(node, binary(node, g.LessOp, node.emit(g.AbsOp, most), math.inf), most, 0.0)
    total = reduce(node, g.SumOp, node.emit(g.ExpOp, subtract(node, wide, most)), axes, keepdims=True)
    y = add(node, node.emit(g.LogOp, total), most)
    if not kept:
        dropped = {axis % len(x.shape) for axis in axes}
        y = reshape(node, y, [size for axis, size in enumerate(x.shape) if axis not in dropped])
    return cast(node, y, dtype_like(x))


def _arg(op: type[GraphOp]) -> Converter:
    def convert(node: Node) -> Value:
        x, axis = node.input(0), node.attr("axis", 0)
        if x.shape[axis] == 0:
            raise node.fail(f"expected an element on axis {axis} to find the place of, but got {list(x.shape)}")
        node.importer.symbols.at_least(x.shape[axis], 1)
        attrs = {"axes": (axis,), "keepdims": bool(node.attr("keepdims", 1))}
        if node.attr("select_last_index", 0):
            backward = node.emit(op, node.emit(g.FlipOp, x, axes=(axis,)), **attrs)
            return subtract(node, x.shape[axis] - 1, backward)
        return node.emit(op, x, **attrs)

    return convert


def _softmax(op: type[GraphOp]) -> Converter:
    """Since opset 13 along one axis; before, over all axes from `axis` (1) on."""

    def convert(node: Node) -> Value:
        x = node.input(0)
        rank = len(x.shape)
        axis = node.attr("axis", -1 if node.opset >= 13 else 1)
        if node.opset >= 13 or axis % max(rank, 1) == rank - 1:
            return node.emit(op, x, axis=axis)
        axis %= rank
        flat = reshape(node, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return reshape(node, node.emit(op, flat, axis=1), x.shape)

    return convert


def _matmul(node: Node) -> Value:
    return matmul(node, node.input(0), node.input(1))


def _einsum(node: Node) -> Value:
    return einsum(node, node.attr("equation"), [node.input(i) for i in range(len(node.inputs))])


def _gemm(node: Node) -> Value:
    """alpha * A' @ B' + beta * C."""
    a, b = node.input(0), node.input(1)
    if node.attr("transA", 0):
        a = transpose(node, a, (1, 0))
    weight = b if node.attr("transB", 0) else transpose(node, b, (1, 0))
    y = node.emit(g.DenseOp, a, weight)
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    if alpha != 1.0:
        y = node.emit(g.MultiplyOp, y, node.array(alpha, like=y))
    if not node.has(2) or beta == 0.0:
        return y
    c = node.input(2)
    if beta != 1.0:
        c = node.emit(g.MultiplyOp, c, node.array(beta, like=c))
    if c.shape == (y.shape[1],):
        return node.emit(g.BiasAddOp, y, c, axis=1)
    return node.emit(g.AddOp, y, c)


def _where(node: Node) -> Value:
    condition, *ways = (node.input(i) for i in range(3))
    if condition.array is not None and condition.array.dtype == bool and not condition.bound:
        chosen = ways[0] if condition.array.all() else ways[1]
        uniform = condition.array.all() or not condition.array.any()
        if uniform and chosen.shape == broadcast([condition.shape, *(way.shape for way in ways)]):
            return chosen
    return node.emit(g.WhereOp, condition, *ways)


def _prelu(node: Node) -> Value:
    x, slope = node.input(0), node.input(1)
    if node.opset < 7 and len(slope.shape) == 1 and slope.shape[0] > 1:  # one for each channel
        slope = reshape(node, slope, (slope.shape[0], *[1] * (len(x.shape) - 2)))
    return node.emit(g.PreluOp, x, slope)


def _is_nan(node: Node) -> Value:
    # x is nan == not (x == x)
    x = node.input(0)
    return node.emit(g.LogicalNotOp, node.emit(g.EqualOp, x, x))


def _mish(node: Node) -> Value:
    # mish(x) == x * tanh(softplus(x))
    x = node.input(0)
    return node.emit(g.MultiplyOp, x, node.emit(g.TanhOp, node.emit(g.SoftplusOp, x)))


def _is_inf(node: Node) -> Value:
    x = node.input(0)
    negative, positive = node.attr("detect_negative", 1), node.attr("detect_positive", 1)
    if negative and positive:
        return binary(node, g.EqualOp, node.emit(g.AbsOp, x), math.inf)
    if not negative and not positive:
        return full(node, x.shape, 0, np.bool_)
    return binary(node, g.EqualOp, x, math.inf if positive else -math.inf)


def _bit_shift(node: Node) -> Value:
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.fail(f"expected direction LEFT or RIGHT, but got {direction}")
    op = g.ShiftLeftOp if direction == "LEFT" else g.ShiftRightOp
    return node.emit(op, node.input(0), node.input(1))


def _bit_cast(node: Node) -> Value:
    from mlc.frontends.onnx.files import dtype_of

    x, dtype = node.input(0), dtype_of(int(node.attr("to")), node.path)
    if dtype == np.bool_:
        return cast(node, x, np.bool_)
    return node.emit(g.BitcastOp, cast(node, x, np.uint8) if dtype_like(x) == np.bool_ else x, dtype=dtype)


def _softsign(node: Node) -> Value:
    # softsign(x) == x / (1 + |x|)
    x = node.input(0)
    return node.emit(g.DivideOp, x, node.emit(g.AddOp, node.emit(g.AbsOp, x), node.array(np.float32(1), like=x)))


CONVERTERS: dict[str, Converter] = {
    # elementwise
    "Relu": _unary(g.ReluOp),
    "Exp": _unary(g.ExpOp),
    "Log": _unary(g.LogOp),
    "Tanh": _unary(g.TanhOp),
    "Sigmoid": _unary(g.SigmoidOp),
    "Erf": _unary(g.ErfOp),
    "Sqrt": _unary(g.SqrtOp),
    "Reciprocal": _unary(g.ReciprocalOp),
    "Neg": _unary(g.NegOp),
    "Abs": _unary(g.AbsOp),
    "Floor": _unary(g.FloorOp),
    "Ceil": _unary(g.CeilOp),
    "Round": _unary(g.RoundOp),
    "Sin": _unary(g.SinOp),
    "Cos": _unary(g.CosOp),
    "Tan": _unary(g.TanOp),
    "Asin": _unary(g.AsinOp),
    "Acos": _unary(g.AcosOp),
    "Atan": _unary(g.AtanOp),
    "Sinh": _unary(g.SinhOp),
    "Cosh": _unary(g.CoshOp),
    "Asinh": lambda node: asinh(node, node.input(0)),
    "Acosh": lambda node: acosh(node, node.input(0)),
    "Atanh": lambda node: atanh(node, node.input(0)),
    "Sign": _unary(g.SignOp),
    "Not": _unary(g.LogicalNotOp),
    "Softplus": _unary(g.SoftplusOp),
    "Softsign": _softsign,
    "Mish": _mish,
    "HardSwish": _unary(g.HardSwishOp),
    "HardSigmoid": _unary(g.HardSigmoidOp, alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "LeakyRelu": _unary(g.LeakyReluOp, alpha=("alpha", 0.01)),
    "Elu": _unary(g.EluOp, alpha=("alpha", 1.0)),
    "Gelu": _gelu,
    "Clip": _clip,
    "Cast": _cast,
    "CastLike": _cast_like,
    "IsNaN": _is_nan,
    "IsInf": _is_inf,
    "BitwiseNot": _unary(g.BitwiseNotOp),
    "BitCast": _bit_cast,
    # with broadcasting
    "Add": _binary(g.AddOp),
    "Sub": _binary(g.SubtractOp),
    "Mul": _binary(g.MultiplyOp),
    "Div": _binary(g.DivideOp),
    "Pow": _power,
    "Mod": _mod,
    "Equal": _binary(g.EqualOp),
    "Less": _binary(g.LessOp),
    "Greater": _binary(g.GreaterOp),
    "LessOrEqual": _binary(g.LessEqualOp),
    "GreaterOrEqual": _binary(g.GreaterEqualOp),
    "And": _binary(g.LogicalAndOp),
    "Or": _binary(g.LogicalOrOp),
    "Xor": _binary(g.LogicalXorOp),
    "BitwiseAnd": _binary(g.BitwiseAndOp),
    "BitwiseOr": _binary(g.BitwiseOrOp),
    "BitwiseXor": _binary(g.BitwiseXorOp),
    "BitShift": _bit_shift,
    "Sum": _variadic(g.AddOp),
    "Mean": _mean,
    "Max": _variadic(g.MaximumOp),
    "Min": _variadic(g.MinimumOp),
    "Where": _where,
    "PRelu": _prelu,
    # reductions
    "ReduceSum": _reduce(g.SumOp),
    "ReduceMean": _reduce(g.MeanOp),
    "ReduceMax": _reduce(g.MaxOp),
    "ReduceMin": _reduce(g.MinOp),
    "ReduceProd": _reduce(g.ProdOp),
    "ReduceSumSquare": _reduce(g.SumOp, before=_square),
    "ReduceL2": _reduce(g.SumOp, before=_square, after=g.SqrtOp),
    "ReduceL1": _reduce(g.SumOp, before=lambda node, x: node.emit(g.AbsOp, x)),
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": _arg(g.ArgmaxOp),
    "ArgMin": _arg(g.ArgminOp),
    "Softmax": _softmax(g.SoftmaxOp),
    "LogSoftmax": _softmax(g.LogSoftmaxOp),
    # matrix products
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
}
