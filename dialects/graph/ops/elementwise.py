"""Elementwise and broadcasting ops: two families declared in tables, and a few ops with classes of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, Self, TypeAlias

from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, AttrValue, GraphOp, Location, Sample, given_type
from mlc.dialects.graph.op_attributes import Bool, Float, Int
from mlc.dialects.graph.types import (
    Array,
    DTypeLike,
    Tensor,
    axis_of,
    broadcast,
    element_type,
    is_float,
    shape_of,
    shape_text,
    tensor,
)
from mlc.support.dtypes import is_float_dtype


class UnaryOp(GraphOp):
    """The base of unary elementwise ops."""

    kind = ELEMENTWISE
    layout_rule = "elementwise"
    meaning: ClassVar[Callable[..., Any]]
    elements: ClassVar[str] = "float"
    domain: ClassVar[tuple[float, float]] = (-4.0, 4.0)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        _check_elements(self.elements, x, "operand")
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (type(self).meaning(np, arrays[0], self),)

    @classmethod
    def samples(cls) -> list[Sample]:
        low, high = cls.domain
        element = i1 if cls.elements == "bool" else element_type("float32")
        return [Sample((tensor(shape, element),), low=low, high=high) for shape in ((7,), (2, 3, 5))]


UnaryMeaning: TypeAlias = Callable[[ModuleType, Array, UnaryOp], Array]


def _check_elements(wanted: str, type: Tensor, what: str) -> None:
    if wanted == "float" and not is_float(type):
        raise VerifyException(f"expected {what} to have floating-point elements, but got {type}")
    if wanted == "bool" and type.element_type != i1:
        raise VerifyException(f"expected {what} to have i1 elements, but got {type}; insert a graph.cast")
    if wanted == "number" and type.element_type == i1:
        raise VerifyException(f"expected {what} to have numbers for elements, but got {type}; insert a graph.cast")


def _unary(
    name: str,
    formula: str,
    meaning: UnaryMeaning,
    *,
    c: float = 0.0,
    elements: str = "float",
    domain: tuple[float, float] = (-4.0, 4.0),
) -> dict[str, Any]:
    """The body of an op class, for `type(name, bases, body)`, a call that type checkers treat as a class statement."""
    return {
        "__doc__": f"`{formula}`, each element: `%1 = graph.{name} %0 : tensor<2x3xf32>`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(meaning),
        "tolerance": c,
        "elements": elements,
        "domain": domain,
    }


def _erf(np: ModuleType, x: Array) -> Array:
    from mlc.dialects.graph.numerics import erf

    return erf(x)


def _sigmoid(np: ModuleType, x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


# Formula, numpy semantics and error constant (0: exact) of each op.
ReluOp = type(
    "ReluOp",
    (UnaryOp,),
    _unary("relu", "max(x, 0)", lambda np, x, op: np.maximum(x, x.dtype.type(0)), elements="number"),
)
ExpOp = type("ExpOp", (UnaryOp,), _unary("exp", "e ** x", lambda np, x, op: np.exp(x), c=4))
LogOp = type("LogOp", (UnaryOp,), _unary("log", "log x", lambda np, x, op: np.log(x), c=4, domain=(0.1, 8.0)))
TanhOp = type("TanhOp", (UnaryOp,), _unary("tanh", "tanh x", lambda np, x, op: np.tanh(x), c=4))
SigmoidOp = type(
    "SigmoidOp", (UnaryOp,), _unary("sigmoid", "1 / (1 + e ** -x)", lambda np, x, op: _sigmoid(np, x), c=4)
)
ErfOp = type("ErfOp", (UnaryOp,), _unary("erf", "erf x", lambda np, x, op: _erf(np, x), c=4))
SqrtOp = type("SqrtOp", (UnaryOp,), _unary("sqrt", "sqrt x", lambda np, x, op: np.sqrt(x), c=1, domain=(0.0, 8.0)))
RsqrtOp = type(
    "RsqrtOp", (UnaryOp,), _unary("rsqrt", "1 / sqrt x", lambda np, x, op: 1 / np.sqrt(x), c=4, domain=(0.1, 8.0))
)
ReciprocalOp = type(
    "ReciprocalOp", (UnaryOp,), _unary("reciprocal", "1 / x", lambda np, x, op: 1 / x, c=2, domain=(0.1, 8.0))
)
NegOp = type("NegOp", (UnaryOp,), _unary("neg", "-x", lambda np, x, op: -x, elements="number"))
AbsOp = type("AbsOp", (UnaryOp,), _unary("abs", "|x|", lambda np, x, op: np.abs(x), elements="number"))
FloorOp = type("FloorOp", (UnaryOp,), _unary("floor", "the largest integer <= x", lambda np, x, op: np.floor(x)))
CeilOp = type("CeilOp", (UnaryOp,), _unary("ceil", "the smallest integer >= x", lambda np, x, op: np.ceil(x)))
RoundOp = type(
    "RoundOp", (UnaryOp,), _unary("round", "the nearest integer, halves to even", lambda np, x, op: np.rint(x))
)


class HardSigmoidOp(UnaryOp):
    """`min(max(alpha * x + beta, 0), 1)`, each element: `%1 = graph.hard_sigmoid %0 : tensor<2x3xf32>`."""

    name = "graph.hard_sigmoid"
    tolerance = 2
    alpha = Float(0.2)
    beta = Float(0.5)

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: HardSigmoidOp) -> Array:
        """Each element's value."""
        return np.clip(op.alpha * x + op.beta, 0, 1)


HardSwishOp = type(
    "HardSwishOp",
    (UnaryOp,),
    _unary("hard_swish", "x * min(max(x / 6 + 0.5, 0), 1)", lambda np, x, op: x * np.clip(x / 6 + 0.5, 0, 1), c=4),
)


class LeakyReluOp(UnaryOp):
    """`x if x >= 0 else alpha * x`, each element: `%1 = graph.leaky_relu %0 : tensor<2x3xf32>`."""

    name = "graph.leaky_relu"
    tolerance = 1
    alpha = Float(0.01)

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: LeakyReluOp) -> Array:
        """Each element's value."""
        return np.where(x >= 0, x, op.alpha * x)


class EluOp(UnaryOp):
    """`x if x > 0 else alpha * (e ** x - 1)`, each element: `%1 = graph.elu %0 : tensor<2x3xf32>`."""

    name = "graph.elu"
    tolerance = 4
    alpha = Float(1.0)

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: EluOp) -> Array:
        """Each element's value."""
        return np.where(x > 0, x, op.alpha * np.expm1(np.minimum(x, 0)))


SoftplusOp = type(
    "SoftplusOp",
    (UnaryOp,),
    _unary("softplus", "log(1 + e ** x)", lambda np, x, op: np.logaddexp(x, x.dtype.type(0)), c=8),
)
GeluOp = type(
    "GeluOp",
    (UnaryOp,),
    _unary(
        "gelu", "x / 2 * (1 + erf(x / sqrt 2))", lambda np, x, op: 0.5 * x * (1 + _erf(np, x * math.sqrt(0.5))), c=8
    ),
)
SiluOp = type("SiluOp", (UnaryOp,), _unary("silu", "x / (1 + e ** -x)", lambda np, x, op: x * _sigmoid(np, x), c=8))
LogicalNotOp = type("LogicalNotOp", (UnaryOp,), _unary("logical_not", "not x", lambda np, x, op: ~x, elements="bool"))
SinOp = type("SinOp", (UnaryOp,), _unary("sin", "sin x", lambda np, x, op: np.sin(x), c=4))
CosOp = type("CosOp", (UnaryOp,), _unary("cos", "cos x", lambda np, x, op: np.cos(x), c=4))
SignOp = type("SignOp", (UnaryOp,), _unary("sign", "-1, 0 or 1", lambda np, x, op: np.sign(x), elements="number"))


class ClipOp(UnaryOp):
    """`max if x > max else min if x < min else x`, each element: `%1 = graph.clip %0 : tensor<2x3xf32>`."""

    name = "graph.clip"
    elements = "number"
    min = Float(-math.inf)
    max = Float(math.inf)

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: ClipOp) -> Array:
        """Each element's value."""
        return np.clip(x, *_bounds(np, x, op))


def _bounds(np: ModuleType, x: Array, op: ClipOp) -> tuple[float, float]:
    if is_float_dtype(x.dtype):
        return op.min, op.max
    info = np.iinfo(x.dtype)
    return max(op.min, info.min), min(op.max, info.max)


class IdentityOp(UnaryOp):
    """`x`: `%1 = graph.identity %0 : tensor<2x3xf32>`."""

    name = "graph.identity"
    elements = "any"

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: IdentityOp) -> Array:
        """The element itself."""
        return x

    def fold(self) -> Sequence[SSAValue] | None:
        # identity(x) == x
        return (self.operands[0],)


class RetypeOp(GraphOp):
    """The base of ops whose result's element type is given."""

    kind = ELEMENTWISE
    layout_rule = "elementwise"
    result_given = True

    @classmethod
    def make(  # pyright: ignore[reportIncompatibleMethodOverride] - it also takes what the result type needs
        cls,
        *operands: SSAValue | Operation,
        dtype: DTypeLike | None = None,
        result: Tensor | None = None,
        location: Location = None,
        **attrs: AttrValue,
    ) -> Self:
        """The operand with elements of `dtype` (a numpy dtype, its name, or an element type)."""
        if result is None:
            if dtype is None:
                raise TypeError(f"expected the dtype of {cls.name}, or its result type, but got neither")
            result = tensor(shape_of(SSAValue.get(operands[0]).type), element_type(dtype))
        return super().make(*operands, result=result, location=location, **attrs)


class CastOp(RetypeOp):
    """
    The elements converted to the result's type; floats to integers truncate.

    `graph.cast %0 : (tensor<4xi32>) -> tensor<4xf32>`
    """

    name = "graph.cast"

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        return [tensor(shape_of(x), given_type(self).element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (arrays[0],)

    def fold(self) -> Sequence[SSAValue] | None:
        # cast(x : t) : t == x
        return (self.operands[0],) if self.type == self.operands[0].type else None

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((5,), "int32"),), result=tensor((5,), "float32")),
            Sample((tensor((2, 3), "float32"),), result=tensor((2, 3), "int64")),
        ]


class BinaryOp(GraphOp):
    """The base of binary elementwise ops, whose operands broadcast as in numpy."""

    kind = BROADCAST
    layout_rule = "broadcast"
    arity = (2, 2)
    meaning: ClassVar[Callable[..., Any]]
    elements: ClassVar[str] = "number"
    compares: ClassVar[bool] = False
    domain: ClassVar[tuple[float, float]] = (-4.0, 4.0)

    def infer_types(self) -> list[Tensor]:
        a, b = self.input_types
        if a.element_type != b.element_type:
            raise VerifyException(
                f"expected operands with the same element type, but got {a} and {b}; insert a graph.cast"
            )
        _check_elements(self.elements, a, "operands")
        return [tensor(broadcast([shape_of(a), shape_of(b)]), i1 if self.compares else a.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (type(self).meaning(np, arrays[0], arrays[1], self),)

    @classmethod
    def samples(cls) -> list[Sample]:
        element = i1 if cls.elements == "bool" else element_type("float32")
        low, high = cls.domain
        pairs = (((4,), (4,)), ((2, 3, 4), (3, 1)), ((2, 1), (2, 5)))
        return [Sample((tensor(a, element), tensor(b, element)), low=low, high=high) for a, b in pairs]


BinaryMeaning: TypeAlias = Callable[[ModuleType, Array, Array, BinaryOp], Array]


def _binary(
    name: str,
    formula: str,
    meaning: BinaryMeaning,
    *,
    c: float = 0.0,
    elements: str = "number",
    compares: bool = False,
    domain: tuple[float, float] = (-4.0, 4.0),
) -> dict[str, Any]:
    types = "(tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi1>" if compares else "tensor<2x3xf32>"
    return {
        "__doc__": f"`{formula}` with numpy broadcasting: `%2 = graph.{name} %0, %1 : {types}`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(meaning),
        "tolerance": c,
        "elements": elements,
        "compares": compares,
        "domain": domain,
    }


def _divide(x: Array, y: Array) -> Array:
    from mlc.dialects.graph.numerics import divide

    return divide(x, y)


AddOp = type("AddOp", (BinaryOp,), _binary("add", "x + y", lambda np, x, y, op: x + y))
SubtractOp = type("SubtractOp", (BinaryOp,), _binary("subtract", "x - y", lambda np, x, y, op: x - y))
MultiplyOp = type("MultiplyOp", (BinaryOp,), _binary("multiply", "x * y", lambda np, x, y, op: x * y))
DivideOp = type(
    "DivideOp",
    (BinaryOp,),
    _binary("divide", "x / y; integers truncate", lambda np, x, y, op: _divide(x, y), c=1, domain=(0.5, 4.0)),
)
PowerOp = type(
    "PowerOp", (BinaryOp,), _binary("power", "x ** y", lambda np, x, y, op: np.power(x, y), c=16, domain=(0.2, 3.0))
)
MaximumOp = type("MaximumOp", (BinaryOp,), _binary("maximum", "max(x, y)", lambda np, x, y, op: np.maximum(x, y)))
MinimumOp = type("MinimumOp", (BinaryOp,), _binary("minimum", "min(x, y)", lambda np, x, y, op: np.minimum(x, y)))


class ModOp(BinaryOp):
    """
    `x mod y` with numpy broadcasting, with the sign of y, or of x where `truncated`.

    `%2 = graph.mod %0, %1 : tensor<2x3xf32>`
    """

    name = "graph.mod"
    tolerance = 1
    domain = (0.5, 4.0)
    rounds = True
    truncated = Bool(False)

    @staticmethod
    def meaning(np: ModuleType, x: Array, y: Array, op: ModOp) -> Array:
        """Each element's value."""
        return np.fmod(x, y) if op.truncated else np.mod(x, y)


def _compare(name: str, formula: str, function: str, elements: str = "number") -> dict[str, Any]:
    """The body of a comparison's class; `function` is its name in numpy."""
    return _binary(name, formula, lambda np, x, y, op: getattr(np, function)(x, y), elements=elements, compares=True)


EqualOp = type("EqualOp", (BinaryOp,), _compare("equal", "x == y", "equal", "any"))
LessOp = type("LessOp", (BinaryOp,), _compare("less", "x < y", "less"))
GreaterOp = type("GreaterOp", (BinaryOp,), _compare("greater", "x > y", "greater"))
LessEqualOp = type("LessEqualOp", (BinaryOp,), _compare("less_equal", "x <= y", "less_equal"))
GreaterEqualOp = type("GreaterEqualOp", (BinaryOp,), _compare("greater_equal", "x >= y", "greater_equal"))
LogicalAndOp = type(
    "LogicalAndOp", (BinaryOp,), _binary("logical_and", "x and y", lambda np, x, y, op: x & y, elements="bool")
)
LogicalOrOp = type(
    "LogicalOrOp", (BinaryOp,), _binary("logical_or", "x or y", lambda np, x, y, op: x | y, elements="bool")
)
LogicalXorOp = type(
    "LogicalXorOp", (BinaryOp,), _binary("logical_xor", "x != y", lambda np, x, y, op: x ^ y, elements="bool")
)


class WhereOp(GraphOp):
    """
    `x if condition else y`, broadcast.

    `graph.where %c, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>`
    """

    name = "graph.where"
    kind = BROADCAST
    layout_rule = "broadcast"
    arity = (3, 3)

    def infer_types(self) -> list[Tensor]:
        condition, x, y = self.input_types
        _check_elements("bool", condition, "the condition")
        if x.element_type != y.element_type:
            raise VerifyException(
                f"expected values with the same element type, but got {x} and {y}; insert a graph.cast"
            )
        return [tensor(broadcast(self.shapes), x.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (np.where(*arrays),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((3, 1), i1), tensor((2, 3, 4)), tensor(())))]


class BiasAddOp(GraphOp):
    """A vector added along one axis: `graph.bias_add %x, %b {axis = 1} : tensor<1x256xf32>`."""

    name = "graph.bias_add"
    kind = BROADCAST
    layout_rule = "axis"
    arity = (2, 2)
    axis = Int(1)

    def infer_types(self) -> list[Tensor]:
        x, bias = self.input_types
        shape = shape_of(x)
        size = shape[axis_of(self.axis, len(shape))]
        if shape_of(bias) != (size,) or bias.element_type != x.element_type:
            raise VerifyException(
                f"expected a bias of type {tensor((size,), x.element_type)} for axis {self.axis} of "
                f"{shape_text(shape)}, but got {bias}"
            )
        return [x]

    def operand_types_from(self, result: Tensor, count: int) -> Sequence[Any] | None:
        shape = shape_of(result)
        return (result, tensor((shape[axis_of(self.axis, len(shape))],), result.element_type))

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, bias = arrays
        shape = [1] * x.ndim
        shape[self.axis] = -1
        return (x + bias.reshape(shape),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 3, 4)), tensor((3,))), {"axis": 1}),
            Sample((tensor((2, 5)), tensor((5,))), {"axis": -1}),
        ]


class PreluOp(GraphOp):
    """
    `x if x >= 0 else slope * x`, the slope broadcast to x.

    `graph.prelu %x, %s : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>`
    """

    name = "graph.prelu"
    kind = BROADCAST
    layout_rule = "broadcast"
    arity = (2, 2)
    tolerance = 1.0

    def infer_types(self) -> list[Tensor]:
        x, slope = self.input_types
        if broadcast(self.shapes) != shape_of(x):
            raise VerifyException(f"expected a slope that broadcasts to {x}, but got {slope}")
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, slope = arrays
        return (np.where(x >= 0, x, slope * x),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 3, 4)), tensor((3, 1))))]


OPS: list[type[GraphOp]] = [
    value
    for value in list(globals().values())
    if isinstance(value, type) and issubclass(value, GraphOp) and "name" in vars(value)
]
