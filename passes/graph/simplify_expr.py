"""
graph-simplify-expr: TVM's algebraic rules, to a fixed point.

Those that graph-canonicalize has are not repeated here: identities (x + 0, x - 0, x * 1, x / 1), reshapes of reshapes,
transposes and layouts of each other, casts to the same type and of widening casts, clips of clips. Ops that take
their shape from another tensor (zeros_like, ..) do not exist in this dialect: shapes are types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i1
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import (
    OPS,
    AddOp,
    ArgmaxOp,
    ArgminOp,
    ArgsortOp,
    BinaryOp,
    CastOp,
    ClipOp,
    ConstantOp,
    DivideOp,
    MultiplyOp,
    RsqrtOp,
    SqrtOp,
    SubtractOp,
    shape_of,
)
from mlc.dialects.graph.types import broadcast, is_float, product
from mlc.passes.graph.constants import is_constant, is_static, scalar, splat
from mlc.passes.graph.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.rewriting import Replacement, Rewriter, apply_rules, producer, rules_table
from mlc.passes.graph.simplify_activations import product_of

EXPRESSIONS, on = rules_table()
SUMS = (AddOp, SubtractOp)
PRODUCTS = (MultiplyOp, DivideOp)
SMALLEST = 1.2e-38
"""The smallest normal f32: constants are not multiplied to less, nor to infinity."""
EXACT_BITS = 16
"""Integers of so many bits are exact floats, and stay distinct when they are shifted and scaled."""


@on(AddOp)
def doubled(op: Any, rw: Rewriter) -> Replacement:
    """`x + x == 2 * x`."""
    x, y = op.operands
    return rw.make(MultiplyOp, x, rw.insert(ConstantOp.make(2, dtype=op.type.element_type))) if x is y else None


@on(DivideOp)
def divided_by_root(op: Any, rw: Rewriter) -> Replacement:
    """`n / sqrt(x) == n * rsqrt(x)`, and `1 / sqrt(x) == rsqrt(x)`."""
    n, root = op.operands[0], producer(op.operands[1], SqrtOp)
    if root is None or not root.result.has_one_use():
        return None
    inverse = rw.make(RsqrtOp, root.operands[0])
    return inverse if scalar(n) == 1.0 and root.type == op.type else rw.make(MultiplyOp, n, inverse)


@on(MultiplyOp, DivideOp)
def product_of_product(op: Any, rw: Rewriter) -> Replacement:
    """`(x * a) * b == x * (a * b)`, and with divisions: `(x / a) / b == x / (a * b)`, `(x * a) / b == x * (a / b)`."""
    outer = _with_constant(op)
    inner = None if outer is None else _with_constant(outer[0].owner)
    if outer is None or inner is None or not outer[0].has_one_use() or not isinstance(outer[0].owner, PRODUCTS):
        return None
    (x, a), b = inner, outer[1]
    divided = isinstance(outer[0].owner, DivideOp), isinstance(op, DivideOp)
    if any(divided) and not is_float(op.type):
        return None
    if not _joins(x, a, b, op) or not _is_safe(scalar(a), scalar(b), divided):
        return None
    # x / a * b == x * (b / a)
    first, second = (b, a) if divided == (True, False) else (a, b)
    joined = _joined(rw, MultiplyOp if divided[0] == divided[1] else DivideOp, first, second)
    return rw.make(DivideOp if all(divided) else MultiplyOp, x, joined)


@on(AddOp, SubtractOp)
def sum_of_sum(op: Any, rw: Rewriter) -> Replacement:
    """`(x + a) + b == x + (a + b)`, with differences: `(x - a) - b == x - (a + b)`, `(x + a) - b == x + (a - b)`."""
    outer = _with_constant(op)
    inner = None if outer is None else _with_constant(outer[0].owner)
    if outer is None or inner is None or not outer[0].has_one_use() or not isinstance(outer[0].owner, SUMS):
        return None
    (x, a), b = inner, outer[1]
    if not _joins(x, a, b, op):
        return None
    minus = isinstance(outer[0].owner, SubtractOp), isinstance(op, SubtractOp)
    # x - a + b == x + (b - a)
    first, second = (b, a) if minus == (True, False) else (a, b)
    joined = _joined(rw, AddOp if minus[0] == minus[1] else SubtractOp, first, second)
    return rw.make(SubtractOp if all(minus) else AddOp, x, joined)


@on(MultiplyOp)
def product_of_sum(op: Any, rw: Rewriter) -> Replacement:
    """`(x + a) * b == x * b + a * b`, `(x - a) * b == x * b - a * b`: the shift comes last, where a bias is."""
    outer = _with_constant(op)
    inner = None if outer is None else _with_constant(outer[0].owner)
    if outer is None or inner is None or not outer[0].has_one_use() or not isinstance(outer[0].owner, SUMS):
        return None
    (x, a), b = inner, outer[1]
    if not _joins(x, a, b, op):
        return None
    return rw.make(type(outer[0].owner), rw.make(MultiplyOp, x, b), _joined(rw, MultiplyOp, a, b))  # pyright: ignore


def _with_constant(op: Any) -> tuple[SSAValue, SSAValue] | None:
    """(x, c) of a sum or product of a tensor and a constant; on the right where the op does not commute."""
    if not isinstance(op, (*SUMS, *PRODUCTS)):
        return None
    x, c = op.operands
    if not is_constant(c):
        return (c, x) if isinstance(op, AddOp | MultiplyOp) and is_constant(x) else None
    return None if is_constant(x) else (x, c)


def _joins(x: SSAValue, a: SSAValue, b: SSAValue, op: Any) -> bool:
    """Whether two constants make one that is no larger than they are, and x alone has the result's shape."""
    shapes = [shape_of(a.type), shape_of(b.type)]
    if x.type != op.type or not all(is_static(shape) for shape in shapes):
        return False
    sizes: Any = [product(shape) for shape in shapes]
    try:
        return product(broadcast(shapes)) <= max(sizes)  # pyright: ignore[reportOperatorIssue]
    except VerifyException:
        return False  # each broadcasts to x, but not to the other


def _joined(rw: Rewriter, cls: Any, a: SSAValue, b: SSAValue) -> SSAValue:
    """One constant of two; of two numbers at once, which other rules want to read."""
    joined = cls.make(a, b)
    numbers = [value.owner for value in (a, b) if scalar(value) is not None and isinstance(value.owner, ConstantOp)]
    if len(numbers) < 2:
        return rw.insert(joined)
    from mlc.dialects.graph.graph_numpy import evaluate

    array = evaluate(joined, [op.array() for op in numbers])[0]
    joined.erase()
    return rw.insert(ConstantOp.make(array))


def _is_safe(a: float | None, b: float | None, divided: tuple[bool, bool]) -> bool:
    """Whether numbers, where they are known, make a normal number."""
    if a is None or b is None:
        return True
    if 0.0 in (a, b):
        return not any(divided)
    made = a * b if divided[0] == divided[1] else b / a if divided[0] else a / b
    return SMALLEST <= abs(made) <= 1 / SMALLEST


def scalar_operand(op: Any, rw: Rewriter) -> Replacement:
    """`f(x, full(v)) == f(x, v)`: a tensor of one value is a number."""
    for index, value in enumerate(op.operands):
        other = op.operands[1 - index]
        number = splat(value)
        if number is None or shape_of(other.type) != shape_of(op.type) or product(shape_of(value.type)) == 1:
            continue
        if value.type.element_type == i1 or isinstance(other.owner, ConstantOp):
            continue
        constant = rw.insert(ConstantOp.make(_exact(number, value.type), dtype=value.type.element_type))
        operands = [constant if i == index else v for i, v in enumerate(op.operands)]
        return rw.make(type(op), *operands, **{name: getattr(op, name) for name in op.declared})
    return None


def _exact(number: float, type: Any) -> Any:
    return number if is_float(type) else int(number)


for _cls in OPS.values():
    if issubclass(_cls, BinaryOp):
        on(_cls)(scalar_operand)


@on(ArgmaxOp, ArgminOp, ArgsortOp)
def order_of_dequantized(op: Any, rw: Rewriter) -> Replacement:
    """`argmax((cast(q) - z) * s) == argmax(q)` for integers q of few bits, numbers z and s > 0: the order is theirs."""
    x, shift = op.operands[0], 0.0
    while (step := _keeps_order(x.owner)) is not None:
        x, added, scale = step
        shift = (shift + added) / scale
    element = x.type.element_type  # pyright: ignore[reportAttributeAccessIssue]
    if x is op.operands[0] or not isinstance(element, IntegerType) or element.width.data > EXACT_BITS:
        return None
    # In units of q, a shift of more bits than a float has would make neighbours equal.
    if shape_of(x.type) != shape_of(op.operands[0].type) or shift > 1 << EXACT_BITS:
        return None
    return rw.make(type(op), x, **{name: getattr(op, name) for name in op.declared})


def _keeps_order(op: Any) -> tuple[SSAValue, float, float] | None:
    """What a step of a dequantization reads, whose elements it puts in the same order; its shift and its scale."""
    if isinstance(op, CastOp):
        source, target = op.operands[0].type, op.type.element_type
        fits = is_float(op.type) or (isinstance(target, IntegerType) and _holds(target, source.element_type))  # pyright: ignore
        return (op.operands[0], 0.0, 1.0) if isinstance(source.element_type, IntegerType) and fits else None  # pyright: ignore
    if not isinstance(op, (*SUMS, *PRODUCTS)) or op.operands[0].type != op.type:
        return None
    number = scalar(op.operands[1])
    if number is None or str(op.type.element_type) in ("f16", "bf16"):
        return None
    if isinstance(op, SUMS):
        return op.operands[0], abs(number), 1.0
    if not is_float(op.type) or not 1e-20 < number < 1e20:
        return None
    return op.operands[0], 0.0, number if isinstance(op, MultiplyOp) else 1 / number


def _range(type: IntegerType) -> tuple[int, int]:
    bits = type.width.data
    if type == i1 or type.signedness.data == Signedness.UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _holds(target: Any, source: Any) -> bool:
    """Whether an integer type has all values of another."""
    if not isinstance(target, IntegerType) or not isinstance(source, IntegerType):
        return False
    (low, high), (a, b) = _range(target), _range(source)
    return low <= a and b <= high


@on(CastOp)
def cast_of_exact_cast(op: Any, rw: Rewriter) -> Replacement:
    """`cast(cast(q) : f32) : i32 == cast(q) : i32` for integers q of few bits, which floats hold and i32 has."""
    inner = producer(op.operands[0], CastOp)
    if inner is None or not is_float(inner.type) or str(inner.type.element_type) == "bf16":
        return None
    source, target = inner.operands[0].type.element_type, op.type.element_type
    bits = 8 if str(inner.type.element_type) == "f16" else EXACT_BITS
    if not _holds(target, source) or source.width.data > bits or i1 in (source, target):
        return None
    return rw.insert(CastOp.make(inner.operands[0], result=op.type))


@on(CastOp)
def saturating_casts(op: Any, rw: Rewriter) -> Replacement:
    """`cast(cast(clip(x : t)) : u) : t == clip(x)` where u has all values of the clip."""
    inner = producer(op.operands[0], CastOp)
    clip = None if inner is None else producer(inner.operands[0], ClipOp)
    if clip is None or clip.type != op.type or not isinstance(inner.type.element_type, IntegerType):  # pyright: ignore
        return None
    if not isinstance(op.type.element_type, IntegerType) or inner.type.element_type == i1:  # pyright: ignore
        return None
    low, high = _range(inner.type.element_type)  # pyright: ignore
    return clip.result if low <= clip.min and clip.max <= high else None


@on(ClipOp)
def clip_to_everything(op: Any, rw: Rewriter) -> Replacement:
    """`clip(x : u8, 0, 255) == x`: the range of the type."""
    element = op.type.element_type
    if not isinstance(element, IntegerType):
        return None
    low, high = _range(element)
    return op.operands[0] if op.min <= low and op.max >= high else None


@on(AddOp, SubtractOp)
def binomial(op: Any, rw: Rewriter) -> Replacement:
    """`x * x + 2 * x * y + y * y == (x + y) * (x + y)`, and `x * x - 2 * x * y + y * y == (x - y) * (x - y)`."""
    terms = _terms(op) if is_float(op.type) else []
    squares = [root for sign, value in terms if sign > 0 and (root := _root(value)) is not None]
    mixed = [(sign, value) for sign, value in terms if _root(value) is None]
    if len(terms) != 3 or len(squares) != 2 or len(mixed) != 1:
        return None
    number, factors = product_of(mixed[0][1])
    x, y = squares
    if len(factors) != 2 or set(factors) != {x, y} or not math.isclose(number, 2.0, rel_tol=1e-6):
        return None
    if x.type != op.type or y.type != op.type or not all(value.has_one_use() for _, value in terms):
        return None
    total = rw.make(AddOp if mixed[0][0] > 0 else SubtractOp, x, y)
    return rw.make(MultiplyOp, total, total)


def _terms(op: Any) -> list[tuple[int, SSAValue]]:
    """The signed terms of a sum of three."""
    second = -1 if isinstance(op, SubtractOp) else 1
    for k, sign in ((0, 1), (1, second)):
        inner: Any = op.operands[k].owner
        if isinstance(inner, SUMS) and op.operands[k].has_one_use():
            other = (second if k == 0 else 1, op.operands[1 - k])
            return [
                (sign, inner.operands[0]),
                (-sign if isinstance(inner, SubtractOp) else sign, inner.operands[1]),
                other,
            ]
    return []


def _root(value: SSAValue) -> SSAValue | None:
    """x of x * x."""
    op = producer(value, MultiplyOp)
    return op.operands[0] if op is not None and op.operands[0] is op.operands[1] else None


@dataclass(frozen=True)
class SimplifyExprPass(ModulePass):
    """
    Fewer and cheaper ops by algebra: constants of sums and products join, shifts come last, squares are completed.

    `graph.multiply (graph.add %x, %a), %b`  ->  `graph.add (graph.multiply %x, %b), (graph.multiply %a, %b)`

    The constants are ops on constants, which graph-fold-constant computes. Each rule's law is its docstring.
    """

    name = "graph-simplify-expr"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if apply_rules(op, EXPRESSIONS):
            eliminate_dead_code(op)
