"""Elementwise and broadcasting ops: one expression an op, in tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerType, f32, i1
from xdsl.ir import Attribute, Operation

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.ops import elementwise as graph
from mlc.dialects.graph.ops import structure
from mlc.dialects.graph.ops.device import DeviceCopyOp, OnDeviceOp
from mlc.dialects.graph.types import static_shape
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name

Unary = Callable[..., Scalar]
"""The result's element of an element and the op: `f(x, op)`, where `op` is of the class that the table maps to f."""
Binary = Callable[..., Scalar]
"""The result's element of two elements and the op: `f(x, y, op)`."""


def _clamp(x: Scalar, low: float, high: float) -> Scalar:
    return te.minimum(te.maximum(x, low), high)


def _sigmoid(x: Scalar) -> Scalar:
    # exp overflows to infinity, whose reciprocal is the right 0
    return 1.0 / (te.exp(-x) + 1.0)


def _elu(x: Scalar, op: graph.EluOp) -> Scalar:
    return te.where(x > 0.0, x, (te.exp(te.minimum(x, 0.0)) - 1.0) * op.alpha)


def _softplus(x: Scalar) -> Scalar:
    # log(1 + e^x) == max(x, 0) + log(1 + e^-|x|), which does not overflow
    return te.maximum(x, 0.0) + te.log(te.exp(-te.abs(x)) + 1.0)


def _sign(x: Scalar) -> Scalar:
    # 0, -0 and NaN stay
    return te.where(x > 0, 1, x if x.kind == 2 else te.where(x < 0, -1, x))


def _clip(x: Scalar, op: graph.ClipOp) -> Scalar:
    low, high = op.min, op.max
    if not x.is_float:
        assert isinstance(x.type, IntegerType)
        bits = x.type.width.data
        least, most = (0, (1 << bits) - 1) if x.kind == 2 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        low, high = (int(max(low, least)), int(min(high, most)))
        low, high = (-math.inf if low == least else low), (math.inf if high == most else high)
    x = x if low == -math.inf else te.maximum(x, low)
    return x if high == math.inf else te.minimum(x, high)


def _hard_sigmoid(x: Scalar, op: graph.HardSigmoidOp) -> Scalar:
    return _clamp(x * op.alpha + op.beta, 0.0, 1.0)


def _leaky_relu(x: Scalar, op: graph.LeakyReluOp) -> Scalar:
    return te.where(x >= 0.0, x, x * op.alpha)


def _cast(x: Scalar, op: graph.CastOp) -> Scalar:
    return te.cast(x, op.type.element_type)


def of_value(fn: Callable[[Scalar], Scalar]) -> Unary:
    """A table entry for an op without attributes: `fn` of the operand's element."""

    def element(x: Scalar, op: Operation) -> Scalar:
        return fn(x)

    return element


def of_values(fn: Callable[[Scalar, Scalar], Scalar]) -> Binary:
    """A table entry for an op without attributes: `fn` of the two operands' elements."""

    def element(x: Scalar, y: Scalar, op: Operation) -> Scalar:
        return fn(x, y)

    return element


UNARY: dict[type[Operation], Unary] = {
    graph.ReluOp: of_value(lambda x: te.maximum(x, 0)),
    graph.ExpOp: of_value(te.exp),
    graph.LogOp: of_value(te.log),
    graph.TanhOp: of_value(te.tanh),
    graph.SigmoidOp: of_value(_sigmoid),
    graph.ErfOp: of_value(te.erf),
    graph.SqrtOp: of_value(te.sqrt),
    graph.RsqrtOp: of_value(te.rsqrt),
    graph.ReciprocalOp: of_value(lambda x: 1.0 / x),
    graph.NegOp: of_value(lambda x: -x),
    graph.AbsOp: of_value(te.abs),
    graph.FloorOp: of_value(te.floor),
    graph.CeilOp: of_value(te.ceil),
    graph.RoundOp: of_value(te.round),
    graph.HardSigmoidOp: _hard_sigmoid,
    graph.HardSwishOp: of_value(lambda x: x * _clamp(x * (1 / 6) + 0.5, 0.0, 1.0)),
    graph.LeakyReluOp: _leaky_relu,
    graph.EluOp: _elu,
    graph.SoftplusOp: of_value(_softplus),
    graph.GeluOp: of_value(lambda x: (te.erf(x * math.sqrt(0.5)) + 1.0) * (x * 0.5)),
    graph.SiluOp: of_value(lambda x: x / (te.exp(-x) + 1.0)),
    graph.LogicalNotOp: of_value(lambda x: ~x),
    graph.SinOp: of_value(te.sin),
    graph.CosOp: of_value(te.cos),
    graph.SignOp: of_value(_sign),
    graph.ClipOp: _clip,
    graph.CastOp: _cast,
}


def _mod(x: Scalar, y: Scalar, op: graph.ModOp) -> Scalar:
    """The remainder: of floats through the quotient, with the sign that the op asks for."""
    narrow = x.type
    if not x.is_float:
        r = te.scalars.binary("remainder", x, y)
        if op.truncated or x.kind == 2:
            return r
    else:
        # the quotient of two f32 that is not whole is not rounded to a whole f64
        x, y = te.cast(x, "float64"), te.cast(y, "float64")
        q = x / y
        # of a finite x by an infinite y the quotient's integer part is 0: 0 * y would be NaN
        unbounded = te.equal(te.abs(y), math.inf) & (te.abs(x) < math.inf)
        r = te.where(unbounded, x, x - te.trunc(q) * y)
    sign = x if op.truncated else y
    wrong = (r < 0) ^ (sign < 0)
    step = te.where(sign < 0, -te.abs(y), te.abs(y))
    r = te.where(wrong & ~te.equal(r, 0), r + step, r)
    return te.cast(r, narrow) if x.is_float else r


def _compare(name: str) -> Binary:
    return of_values(lambda x, y: te.scalars.compare(name, x, y))


def _binary(name: str) -> Binary:
    return of_values(lambda x, y: te.scalars.binary(name, x, y))


def _divide(x: Scalar, y: Scalar, op: graph.BinaryOp) -> Scalar:
    """x / c == x * (1 / c) for a constant c of f32, up to one more rounding, in a tenth of the time."""
    constant = y.value.owner
    if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, FloatAttr) and y.type == f32:
        c = constant.value.value.data
        if abs(c) >= 1e-30 and abs(c) <= 1e30:
            return x * (1.0 / c)
    return te.scalars.binary("divide", x, y)


BINARY: dict[type[Operation], Binary] = {
    graph.AddOp: _binary("add"),
    graph.SubtractOp: _binary("subtract"),
    graph.MultiplyOp: _binary("multiply"),
    graph.DivideOp: _divide,
    graph.PowerOp: of_values(te.power),
    graph.MaximumOp: _binary("maximum"),
    graph.MinimumOp: _binary("minimum"),
    graph.ModOp: _mod,
    graph.EqualOp: _compare("equal"),
    graph.LessOp: _compare("less"),
    graph.GreaterOp: _compare("greater"),
    graph.LessEqualOp: _compare("less_equal"),
    graph.GreaterEqualOp: _compare("greater_equal"),
    graph.LogicalAndOp: _binary("and"),
    graph.LogicalOrOp: _binary("or"),
    graph.LogicalXorOp: _binary("xor"),
    graph.PreluOp: of_values(lambda x, y: te.where(x >= 0, x, x * y)),
}


def broadcast_read(x: Tensor, indices: Sequence[te.IndexExpr]) -> Scalar:
    """The element that numpy's broadcasting puts at these indices of a result."""
    skip = len(indices) - x.ndim
    return x.read([0 if size == 1 and i.extent > 1 else i for i, size in zip(indices[skip:], x.shape, strict=True)])


def _unary(op: Operation, x: Tensor) -> Tensor:
    fn = UNARY[type(op)]
    return te.compute(x.shape, lambda *i: fn(x[i], op), stage_name(op))


def lower_binary(table: Mapping[type[Operation], Binary]) -> None:
    """Register the ops of a table: one expression of two elements, which are broadcast as numpy does."""

    def binary(op: Operation, x: Tensor, y: Tensor) -> Tensor:
        fn = table[type(op)]
        return te.compute(
            shape_of_result(op), lambda *i: fn(broadcast_read(x, i), broadcast_read(y, i), op), stage_name(op)
        )

    lowering(*table)(binary)


lowering(*UNARY)(_unary)
lower_binary(BINARY)


@lowering(OnDeviceOp)
@lowering(DeviceCopyOp)
@lowering(graph.IdentityOp)
def identity(op: GraphOp, x: Tensor) -> Tensor:
    """identity(x) == x."""
    return x


@lowering(graph.WhereOp)
def where(op: graph.WhereOp, c: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """A selection of broadcast values."""

    def body(*i: te.IndexExpr) -> Scalar:
        return te.where(broadcast_read(c, i), broadcast_read(x, i), broadcast_read(y, i))

    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.BiasAddOp)
def bias_add(op: graph.BiasAddOp, x: Tensor, bias: Tensor) -> Tensor:
    """A vector added along one axis."""
    axis = op.axis % x.ndim
    return te.compute(x.shape, lambda *i: x[i] + bias[i[axis]], stage_name(op))


@lowering(structure.FullOp)
def full(op: structure.FullOp) -> Tensor:
    """A fill has no stage: readers use the number itself."""
    element = op.type.element_type
    return te.full(shape_of_result(op), _number(op.value, element), element)


def _number(value: float, element: Attribute) -> te.Number:
    if isinstance(element, AnyFloat):
        return float(value)
    return bool(value) if element == i1 else int(value)


@lowering(structure.IotaOp)
def iota(op: structure.IotaOp) -> Tensor:
    """Each element is its index along the axis."""
    shape = shape_of_result(op)
    return te.compute(shape, lambda *i: te.cast(i[op.axis % len(shape)], op.type.element_type), stage_name(op))


@lowering(structure.BandOp)
def band(op: structure.BandOp) -> Tensor:
    """
    One of two numbers, by the distance from the diagonal of the last two axes.

    A comparison that always holds is left out.
    """
    shape, element = static_shape(op.type), op.type.element_type
    rows, columns = shape[-2:]
    plain, unsigned = te.signless(element)

    def body(*i: te.IndexExpr) -> Scalar:
        stage = te.current_stage()
        diagonal = te.cast(i[-1] - i[-2], "int32")
        inside, outside = (
            Scalar(stage, te.scalars.constant(stage, _number(v, element), plain), unsigned)
            for v in (op.inside, op.outside)
        )
        value = inside
        if op.upper < columns - 1:
            value = te.where(diagonal <= op.upper, value, outside)
        if op.lower > 1 - rows:
            value = te.where(diagonal < op.lower, outside, value)
        return value

    return te.compute(shape, body, stage_name(op))


@lowering(structure.ConstantOp)
def constant(op: structure.ConstantOp) -> Tensor:
    """A splat is a fill; other constants are a stage of selects on the linear index."""
    array = op.array()
    shape, element = shape_of_result(op), op.type.element_type
    numbers = [_number(v, element) for v in array.ravel().tolist()]
    if len({repr(n) for n in numbers}) == 1:
        return te.full(shape, numbers[0], element)

    def body(*i: te.IndexExpr) -> Scalar:
        stage = te.current_stage()
        linear = te.IndexExpr(stage, stage.index(0))
        for index, size in zip(i, shape, strict=True):
            linear = linear * size + index
        at = te.cast(linear, "int64")
        plain, unsigned = te.signless(element)
        value = Scalar(stage, te.scalars.constant(stage, numbers[0], plain), unsigned)
        for k, number in enumerate(numbers[1:], 1):
            if repr(number) != repr(numbers[0]):
                value = te.where(te.equal(at, k), number, value)
        return value

    return te.compute(shape, body, stage_name(op), attrs=te.NO_INLINE)
