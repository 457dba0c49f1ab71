"""Scalars of a stage's body: Python operators and functions that append arith and math ops."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Union

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType, Signedness, UnitAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import scalar
from mlc.dialects.attributes import EXP_NONPOSITIVE
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.te_builder.indices import Condition, IndexExpr, ReduceAxis, StageBuilder, current_stage
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.dialects.graph.types import DTypeLike
    from mlc.dialects.te_builder.indices import IndexLike

Number = int | float | bool
Operand = Union["Scalar", Number]

# arith ops for floats, signed and unsigned integers.
_BINARY: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "subtract": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "multiply": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "divide": (arith.DivfOp, arith.DivSIOp, arith.DivUIOp),
    "maximum": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "minimum": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    "remainder": (arith.DivfOp, arith.RemSIOp, arith.RemUIOp),
    "and": (arith.DivfOp, arith.AndIOp, arith.AndIOp),
    "or": (arith.DivfOp, arith.OrIOp, arith.OrIOp),
    "xor": (arith.DivfOp, arith.XOrIOp, arith.XOrIOp),
}
_INT_ONLY = ("remainder", "and", "or", "xor")
# The numbers of arith's predicates for floats, signed and unsigned integers.
_COMPARE = {
    "equal": (1, 0, 0),
    "not_equal": (13, 1, 1),
    "less": (4, 2, 6),
    "less_equal": (5, 3, 7),
    "greater": (2, 4, 8),
    "greater_equal": (3, 5, 9),
}
_PREDICATES = [IntegerAttr(n, i64) for n in range(16)]


class Scalar:
    """One value of a stage's body; `unsigned` is the sign of an integer, whose type is signless."""

    __slots__ = ("stage", "unsigned", "value")

    def __init__(self, stage: StageBuilder, value: SSAValue, unsigned: bool = False) -> None:
        self.stage, self.value, self.unsigned = stage, value, unsigned

    @property
    def type(self) -> Attribute:
        """The (signless) element type."""
        return self.value.type

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point number."""
        return isinstance(self.value.type, AnyFloat)

    @property
    def kind(self) -> int:
        """0 for floats, 1 for signed integers, 2 for unsigned ones and booleans."""
        if isinstance(self.value.type, AnyFloat):
            return 0
        return 2 if self.unsigned or self.value.type == i1 else 1

    def __add__(self, other: Operand) -> Scalar:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Scalar:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Scalar:
        return binary("subtract", self, other)

    def __rsub__(self, other: Operand) -> Scalar:
        return binary("subtract", other, self)

    def __mul__(self, other: Operand) -> Scalar:
        return binary("multiply", self, other)

    def __rmul__(self, other: Operand) -> Scalar:
        return binary("multiply", other, self)

    def __truediv__(self, other: Operand) -> Scalar:
        return binary("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Scalar:
        return binary("divide", other, self)

    def __neg__(self) -> Scalar:
        return apply(arith.NegfOp, self) if self.is_float else 0 - self

    def __and__(self, other: Operand) -> Scalar:
        return binary("and", self, other)

    def __or__(self, other: Operand) -> Scalar:
        return binary("or", self, other)

    def __xor__(self, other: Operand) -> Scalar:
        return binary("xor", self, other)

    def __invert__(self) -> Scalar:
        return binary("xor", self, True if self.type == i1 else -1)

    def __lt__(self, other: Operand) -> Scalar:
        return compare("less", self, other)

    def __le__(self, other: Operand) -> Scalar:
        return compare("less_equal", self, other)

    def __gt__(self, other: Operand) -> Scalar:
        return compare("greater", self, other)

    def __ge__(self, other: Operand) -> Scalar:
        return compare("greater_equal", self, other)

    def __bool__(self) -> bool:
        raise UserError("expected a Python value, but got an element of a tensor; use te.where instead of if")


def constant(stage: StageBuilder, value: Number, type: Attribute) -> SSAValue:
    """A constant of the stage; equal ones share an op."""
    key = (repr(value), type)
    found = stage.constants.get(key)
    if found is None:
        found = stage.constants[key] = stage.add(scalar.constant(value, type))
    return found


def lift(a: Operand, b: Operand) -> tuple[Scalar, Scalar]:
    """Both as scalars; a number takes the type of the other operand."""
    if isinstance(a, Scalar):
        if isinstance(b, Scalar):
            if a.stage is not b.stage:
                raise UserError("expected elements of one stage, but got one of another te.compute")
            if a.type != b.type:
                raise UserError(f"expected operands of one type, but got {a.type} and {b.type}; use te.cast")
            return a, b
        return a, _number_like(b, a)
    if isinstance(b, Scalar):
        return _number_like(a, b), b
    raise UserError(f"expected an element of a tensor, but got {a!r} and {b!r}")


def _number_like(value: Operand | IndexLike, like: Scalar) -> Scalar:
    """A number or a size as a scalar of the type of an element."""
    if isinstance(value, DimExpr):
        size = cast(IndexExpr(like.stage, like.stage.index(value)), like.type)
        return Scalar(size.stage, size.value, like.unsigned)
    number = _number(value)
    if like.kind and isinstance(number, float) and isfinite(number) and not number.is_integer():
        raise UserError(
            f"expected a whole number next to elements of {like.type}, but got {number}; use te.cast on the element"
        )
    return Scalar(like.stage, constant(like.stage, number, like.type), like.unsigned)


def _number(value: Operand | IndexLike) -> Number:
    if isinstance(value, IndexExpr | ReduceAxis):
        raise UserError("expected an element of a tensor or a number, but got an index; use te.cast(index, dtype)")
    if not isinstance(value, int | float):
        raise UserError(f"expected an element of a tensor or a number, but got {value!r}")
    return value


def binary(name: str, a: Operand, b: Operand) -> Scalar:
    """One of the arithmetic operations by name, on elements and numbers."""
    floats = isinstance(a, float) or isinstance(b, float)
    a, b = lift(a, b)
    kind = a.kind
    if kind and floats and name == "divide":
        raise UserError(f"expected integers in a division of {a.type}, but got a float; use te.cast on the element")
    if kind == 0 and name in _INT_ONLY:
        raise UserError(f"expected integers for '{name}', but got {a.type}")
    return Scalar(a.stage, a.stage.add(scalar.make(_BINARY[name][kind], a.value, b.value)), a.unsigned)


def compare(name: str, a: Operand, b: Operand) -> Scalar:
    """One of equal, not_equal, less, less_equal, greater, greater_equal; an i1."""
    a, b = lift(a, b)
    kind = a.kind
    op = arith.CmpiOp if kind else arith.CmpfOp
    properties = scalar.default_properties(op) | {"predicate": _PREDICATES[_COMPARE[name][kind]]}
    return Scalar(
        a.stage,
        a.stage.add(op.create(operands=[a.value, b.value], properties=properties, result_types=[i1])),
    )


def equal(a: Operand, b: Operand) -> Scalar:
    """Whether two elements are equal."""
    return compare("equal", a, b)


def apply(op: type[Operation], *operands: Scalar) -> Scalar:
    """An op whose result has its operands' type."""
    stage = operands[0].stage
    return Scalar(stage, stage.add(scalar.make(op, *(x.value for x in operands))), operands[0].unsigned)


def _math(op: type[Operation], doc: str) -> Any:
    def function(x: Scalar) -> Scalar:
        got = x.type if isinstance(x, Scalar) else repr(x)  # pyright: ignore[reportUnnecessaryIsInstance] - from users
        if not isinstance(got, AnyFloat):
            raise UserError(f"expected a floating-point element for {op.name}, but got {got}; use te.cast")
        return apply(op, x)

    function.__doc__ = doc
    return function


exp = _math(math.ExpOp, "e ** x.")


def exp_nonpositive(x: Scalar) -> Scalar:
    """e ** x for x that are not positive."""
    result = exp(x)
    result.value.owner.attributes[EXP_NONPOSITIVE] = UnitAttr()
    return result


log = _math(math.LogOp, "The natural logarithm.")
tanh = _math(math.TanhOp, "The hyperbolic tangent.")
erf = _math(math.ErfOp, "The error function.")
sqrt = _math(math.SqrtOp, "The square root.")
rsqrt = _math(math.RsqrtOp, "1 / sqrt x.")
sin = _math(math.SinOp, "The sine.")
cos = _math(math.CosOp, "The cosine.")
floor = _math(math.FloorOp, "The largest integer <= x.")
ceil = _math(math.CeilOp, "The smallest integer >= x.")
trunc = _math(math.TruncOp, "The integer part.")
round = _math(math.RoundEvenOp, "The nearest integer, halves to even.")


def maximum(a: Operand, b: Operand) -> Scalar:
    """The larger one; NaN if one is NaN."""
    return binary("maximum", a, b)


def minimum(a: Operand, b: Operand) -> Scalar:
    """The smaller one; NaN if one is NaN."""
    return binary("minimum", a, b)


def abs(x: Scalar) -> Scalar:
    """|x|."""
    if x.is_float:
        return apply(math.AbsFOp, x)
    return x if x.kind == 2 else maximum(x, -x)


def fma(a: Operand, b: Operand, c: Operand) -> Scalar:
    """`a * b + c` of floats, with one rounding."""
    a, b = lift(a, b)
    b, c = lift(b, c)
    return apply(math.FmaOp, a, b, c)


def power(a: Operand, b: Operand) -> Scalar:
    """`a ** b`; integers are computed in f64 and wrap."""
    a, b = lift(a, b)
    if a.is_float:
        return apply(math.PowFOp, a, b)
    result = apply(math.PowFOp, cast(a, "float64"), cast(b, "float64"))
    if a.kind != 2:
        return cast(result, a.type)
    result = cast(result, "uint64" if _width(a.type) == 64 else "int64")
    return Scalar(a.stage, cast(result, a.type).value, a.unsigned)


def where(condition: Scalar | Condition, a: Operand, b: Operand) -> Scalar:
    """`a` where the condition holds, else `b`."""
    a, b = lift(a, b)
    test = holds(condition) if isinstance(condition, Condition) else condition
    select = arith.SelectOp.create(operands=[test.value, a.value, b.value], result_types=[a.type])
    return Scalar(a.stage, a.stage.add(select), a.unsigned)


def holds(condition: Condition) -> Scalar:
    """A condition on indices as an i1."""
    stage = condition.stage
    result: Scalar | None = None
    for expr in condition.exprs:
        one = compare("greater_equal", Scalar(stage, stage.index_value(expr)), 0)
        result = one if result is None else result & one
    return Scalar(stage, constant(stage, True, i1)) if result is None else result


def _width(t: Attribute) -> int:
    return t.bitwidth if isinstance(t, AnyFloat) else t.width.data if isinstance(t, IntegerType) else 64


def _cast_op(a: Attribute, b: Attribute, unsigned: bool, to_unsigned: bool) -> type[Operation] | None:
    """The arith op that converts one element type to another; None if the bits are the same."""
    from_float, to_float = isinstance(a, AnyFloat), isinstance(b, AnyFloat)
    if a == b:
        return None
    if from_float and to_float:
        return arith.ExtFOp if _width(a) < _width(b) else arith.TruncFOp
    if from_float:
        return arith.FPToUIOp if to_unsigned else arith.FPToSIOp
    if to_float:
        return arith.UIToFPOp if unsigned else arith.SIToFPOp
    if isinstance(a, IndexType) or isinstance(b, IndexType):
        return arith.IndexCastOp
    if _width(a) == _width(b):
        return None
    return arith.TruncIOp if _width(a) > _width(b) else arith.ExtUIOp if unsigned else arith.ExtSIOp


def cast(x: Scalar | IndexExpr | ReduceAxis | Number, dtype: DTypeLike) -> Scalar:
    """The value or number with another element type: floats to integers truncate; to bool is `x != 0`."""
    from mlc.dialects.graph.types import element_type

    target, to_unsigned = signless(element_type(dtype))
    if isinstance(x, int | float):
        stage = current_stage()
        number = bool(x) if target == i1 else x if isinstance(target, AnyFloat) else int(x)
        return Scalar(stage, constant(stage, number, target), to_unsigned)
    if isinstance(x, ReduceAxis):
        x = x.expr
    if isinstance(x, IndexExpr):
        x = Scalar(x.stage, x.stage.index_value(x.index))
        if isinstance(target, AnyFloat):
            x = cast(x, i64)
    if target == i1 and x.type != i1:
        return compare("not_equal", x, 0)
    if isinstance(x.type, AnyFloat) and isinstance(target, AnyFloat) and x.type != target:
        if _width(x.type) == _width(target):
            x = cast(x, "float32")
    op = _cast_op(x.type, target, x.kind == 2, to_unsigned)
    if op is None:
        return Scalar(x.stage, x.value, to_unsigned)
    if op is arith.FPToSIOp and isinstance(target, IntegerType) and target.width.data < 32:
        # Wraps as numpy does: through i64.
        wide = Scalar(x.stage, x.stage.add(scalar.make(op, x.value, type=i64)))
        return Scalar(x.stage, x.stage.add(scalar.make(arith.TruncIOp, wide.value, type=target)), to_unsigned)
    return Scalar(x.stage, x.stage.add(scalar.make(op, x.value, type=target)), to_unsigned)


def signless(element: Attribute) -> tuple[Attribute, bool]:
    """(the element type without a sign, whether it was unsigned)."""
    if isinstance(element, IntegerType) and element.signedness.data is not Signedness.SIGNLESS:
        return IntegerType(element.width.data), element.signedness.data is Signedness.UNSIGNED
    return element, False
