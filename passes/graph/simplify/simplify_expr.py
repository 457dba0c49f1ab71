"""
graph-simplify-expr: TVM's algebraic rules, to a fixed point.

The rules of graph-canonicalize are not repeated here: identities (x + 0, x - 0, x * 1, x / 1), reshapes of reshapes,
transposes and layouts of each other, casts to the same type and of widening casts, clips of clips. Ops that take
their shape from another tensor (zeros_like, ..) do not exist in this dialect: shapes are types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import (
    AddOp,
    ArgmaxOp,
    ArgminOp,
    ArgsortOp,
    BinaryOp,
    CastOp,
    ClipOp,
    ConstantOp,
    DivideOp,
    GraphOp,
    MultiplyOp,
    RsqrtOp,
    SqrtOp,
    SubtractOp,
    op_classes,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.types import FLOATS, broadcast, is_float, is_integer, numpy_dtype, product
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import element_of, is_constant, is_short, is_static, scalar, splat
from mlc.passes.graph.simplify.chosen_matrices import CHOSEN_MATRICES
from mlc.passes.graph.simplify.shared_heads import SHARED_HEADS
from mlc.passes.graph.simplify.simplify_inference.activations import product_of
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op

EXPRESSIONS = Rules()
SUMS = (AddOp, SubtractOp)
PRODUCTS = (MultiplyOp, DivideOp)
Affine: TypeAlias = AddOp | SubtractOp | MultiplyOp | DivideOp
SMALLEST = 1.2e-38
"""The smallest normal f32: products of constants stay above it, and below its inverse."""
SMALLEST_SHORT = 6.2e-5
"""The smallest normal f16."""
EXACT_BITS = 16
"""Integers of this many bits are exact in f32, and few enough that a rule can test all of them."""


@EXPRESSIONS.on(AddOp)
def double_from_sum(op: AddOp, rw: Rewriter) -> Replacement:
    """`x + x == 2 * x`."""
    x, y = op.operands
    return rw.make(MultiplyOp, x, rw.insert(ConstantOp.make(2, dtype=op.type.element_type))) if x is y else None


@EXPRESSIONS.on(DivideOp)
def product_with_rsqrt(op: DivideOp, rw: Rewriter) -> Replacement:
    """`n / sqrt(x) == n * rsqrt(x)`, and `1 / sqrt(x) == rsqrt(x)`."""
    n, root = op.operands[0], defining_op(op.operands[1], SqrtOp)
    if root is None or not root.result.has_one_use():
        return None
    inverse = rw.make(RsqrtOp, root.operands[0])
    return inverse if scalar(n) == 1.0 and root.type == op.type else rw.make(MultiplyOp, n, inverse)


@EXPRESSIONS.on(AddOp, SubtractOp, MultiplyOp, DivideOp)
def associate_constants(op: Affine, rw: Rewriter) -> Replacement:
    """
    `(x + a) + b == x + (a + b)`, `(x - a) - b == x - (a + b)`, `(x + a) - b == x + (a - b)`, `(x - a) + b == ..`

    Products alike: `(x * a) * b == x * (a * b)`, `(x / a) / b == x / (a * b)`, `(x * a) / b == x * (a / b)`, ..
    """
    direct, inverse = group = SUMS if isinstance(op, SUMS) else PRODUCTS
    nested = _nested(op, group)
    if nested is None:
        return None
    x, a, b, inner = nested
    undone = isinstance(inner, inverse), isinstance(op, inverse)
    if group is PRODUCTS and any(undone) and not is_float(op.type):
        return None  # a division of integers rounds
    if group is PRODUCTS and not _is_safe(op, scalar(a), scalar(b), undone):
        return None
    first, second = (b, a) if undone == (True, False) else (a, b)
    joined = _combined(rw, direct if undone[0] == undone[1] else inverse, first, second)
    return rw.make(inverse if all(undone) else direct, x, joined)


@EXPRESSIONS.on(MultiplyOp)
def distribute_product(op: MultiplyOp, rw: Rewriter) -> Replacement:
    """`(x + a) * b == x * b + a * b`, `(x - a) * b == x * b - a * b`: so that the shift comes last, like a bias."""
    nested = None if is_short(op.type) else _nested(op, SUMS)
    if nested is None:
        return None
    x, a, b, inner = nested
    return rw.make(type(inner), rw.make(MultiplyOp, x, b), _combined(rw, MultiplyOp, a, b))


def _nested(op: Affine, classes: tuple[type[GraphOp], ...]) -> tuple[SSAValue, SSAValue, SSAValue, GraphOp] | None:
    """(x, a, b, inner) of `op(inner(x, a), b)` with inner of one of the classes and constants a, b that combine."""
    outer = _with_constant(op)
    inner = None if outer is None else _with_constant(outer[0].owner)
    if outer is None or inner is None or not outer[0].has_one_use():
        return None
    (x, a), (value, b) = inner, outer
    return (x, a, b, value.owner) if isinstance(value.owner, classes) and _combine(x, a, b, op) else None


def _with_constant(op: Operation | Block) -> tuple[SSAValue, SSAValue] | None:
    """(x, c) of a sum or product of a tensor and a constant; on the right where the op does not commute."""
    if not isinstance(op, (*SUMS, *PRODUCTS)):
        return None
    x, c = op.operands
    if not is_constant(c):
        return (c, x) if isinstance(op, AddOp | MultiplyOp) and is_constant(x) else None
    return None if is_constant(x) else (x, c)


def _combine(x: SSAValue, a: SSAValue, b: SSAValue, op: Affine) -> bool:
    """Whether two constants combine to one that is no larger than either, and x alone has the result's shape."""
    if x.type != op.type or not is_static(shape_of(a.type)) or not is_static(shape_of(b.type)):
        return False
    shapes = [static_shape(a.type), static_shape(b.type)]
    try:
        joined = broadcast(shapes)
    except VerifyException:
        return False  # each broadcasts to x, but not to the other
    return is_static(joined) and prod(joined) <= max(map(prod, shapes))


def _combined(rw: Rewriter, cls: type[GraphOp], a: SSAValue, b: SSAValue) -> SSAValue:
    """An op on two constants; of two numbers, the folded result, which other rules match."""
    joined = cls.make(a, b)
    numbers = [value.owner for value in (a, b) if scalar(value) is not None and isinstance(value.owner, ConstantOp)]
    if len(numbers) < 2:
        return rw.insert(joined)
    from mlc.dialects.graph.graph_numpy import evaluate

    array = evaluate(joined, [op.array() for op in numbers])[0]
    joined.erase()
    return rw.insert(ConstantOp.make(array))


def _is_safe(op: Affine, a: float | None, b: float | None, divided: tuple[bool, bool]) -> bool:
    """Whether the product or quotient of two numbers is a normal number; for unknown ones, unless the type is f16."""
    if a is None or b is None:
        return not is_short(op.type)
    if 0.0 in (a, b):
        return not any(divided)
    made = a * b if divided[0] == divided[1] else b / a if divided[0] else a / b
    least = SMALLEST_SHORT if is_short(op.type) else SMALLEST
    return least <= abs(made) <= 1 / least


@EXPRESSIONS.on(*op_classes(BinaryOp))
def scalar_operand(op: BinaryOp, rw: Rewriter) -> Replacement:
    """`f(x, full(v)) == f(x, v)`: a tensor of one value is a number."""
    for index, value in enumerate(op.operands):
        other = op.operands[1 - index]
        number = splat(value)
        if number is None or shape_of(other.type) != shape_of(op.type) or product(shape_of(value.type)) == 1:
            continue
        if element_of(value) == i1 or isinstance(other.owner, ConstantOp):
            continue
        constant = rw.insert(ConstantOp.make(_exact(number, element_of(value)), dtype=element_of(value)))
        operands = [constant if i == index else v for i, v in enumerate(op.operands)]
        return rw.clone(op, *operands)
    return None


def _exact(number: float, element: Attribute) -> float | int:
    return number if isinstance(element, FLOATS) else int(number)


@EXPRESSIONS.on(ArgmaxOp, ArgminOp, ArgsortOp)
def order_of_dequantized(op: ArgmaxOp | ArgminOp | ArgsortOp, rw: Rewriter) -> Replacement:
    """`argmax((cast(q) - z) * s) == argmax(q)` for integers q of few bits, if it is strictly increasing in q."""
    x: SSAValue = op.operands[0]
    steps: list[GraphOp] = []
    while isinstance(step := x.owner, GraphOp) and (inner := _dequantizes(step)) is not None:
        steps.append(step)
        x = inner
    element = element_of(x)
    if not steps or not is_integer(element) or element == i1 or element.width.data > EXACT_BITS:
        return None
    if shape_of(x.type) != shape_of(op.operands[0].type) or not _increases(element, steps[::-1]):
        return None
    return rw.clone(op, x)


def _dequantizes(op: GraphOp) -> SSAValue | None:
    """The operand of one step of a dequantization: of a cast, or of a sum or product with a number."""
    if isinstance(op, CastOp):
        return op.operands[0]
    parts = _with_constant(op)
    return None if parts is None or scalar(parts[1]) is None else parts[0]


def _increases(element: IntegerType, steps: Sequence[GraphOp]) -> bool:
    """Whether the steps are strictly increasing on an integer type: all its values are tried, as sums may wrap."""
    import numpy as np

    from mlc.dialects.graph.graph_numpy import evaluate

    low, high = _range(element)
    array = np.arange(low, high + 1).astype(numpy_dtype(element))
    for step in steps:
        numbers = [scalar(operand) for operand in step.operands]
        kind = numpy_dtype(element_of(step.operands[0]))
        array = evaluate(step, [array if n is None else np.asarray(n).astype(kind) for n in numbers])[0]
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        return False
    # Adjacent results must differ by more than the rounding errors of any order of evaluation.
    apart = 16 * np.finfo(array.dtype).eps * np.abs(wide).max() if array.dtype.kind == "f" else 0
    return bool((np.diff(wide) > apart).all())


def _range(type: IntegerType) -> tuple[int, int]:
    bits = type.width.data
    if type == i1 or type.signedness.data == Signedness.UNSIGNED:
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _holds(target: Attribute, source: Attribute) -> bool:
    """Whether an integer type has all values of another."""
    if not is_integer(target) or not is_integer(source):
        return False
    (low, high), (a, b) = _range(target), _range(source)
    return low <= a and b <= high


@EXPRESSIONS.on(CastOp)
def cast_of_exact_cast(op: CastOp, rw: Rewriter) -> Replacement:
    """`cast(cast(q) : f32) : i32 == cast(q) : i32` for integers q of few bits, which f32 and i32 represent."""
    inner = defining_op(op.operands[0], CastOp)
    if inner is None or not is_float(inner.type) or str(inner.type.element_type) == "bf16":
        return None
    source, target = inner.input_types[0].element_type, op.type.element_type
    bits = 8 if str(inner.type.element_type) == "f16" else EXACT_BITS
    if not _holds(target, source) or source.width.data > bits or i1 in (source, target):
        return None
    return rw.insert(CastOp.make(inner.operands[0], result=op.type))


@EXPRESSIONS.on(CastOp)
def casts_of_clip(op: CastOp, rw: Rewriter) -> Replacement:
    """`cast(cast(clip(x : t)) : u) : t == clip(x)` where u has all values of the clip."""
    inner = defining_op(op.operands[0], CastOp)
    clip = None if inner is None else defining_op(inner.operands[0], ClipOp)
    if inner is None or clip is None or clip.type != op.type or not is_integer(op.type.element_type):
        return None
    between = inner.type.element_type
    if not is_integer(between) or between == i1:
        return None
    low, high = _range(between)
    return clip.result if low <= clip.min and clip.max <= high else None


@EXPRESSIONS.on(ClipOp)
def clip_to_type_range(op: ClipOp, rw: Rewriter) -> Replacement:
    """`clip(x : u8, 0, 255) == x`: the bounds are those of the type."""
    element = op.type.element_type
    if not is_integer(element):
        return None
    low, high = _range(element)
    return op.operands[0] if op.min <= low and op.max >= high else None


@EXPRESSIONS.on(AddOp, SubtractOp)
def complete_square(op: AddOp | SubtractOp, rw: Rewriter) -> Replacement:
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


def _terms(op: AddOp | SubtractOp) -> list[tuple[int, SSAValue]]:
    """The signed terms of a sum of three terms; [] for other sums."""
    second = -1 if isinstance(op, SubtractOp) else 1
    for k, sign in ((0, 1), (1, second)):
        inner = op.operands[k].owner
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
    op = defining_op(value, MultiplyOp)
    return op.operands[0] if op is not None and op.operands[0] is op.operands[1] else None


class SimplifyExprPass(ModulePass):
    """
    Fewer and cheaper ops by algebra: constants of sums and products join, shifts come last, squares are completed.

    Products of few rows with matrices that heads share become products of the rows of all heads (shared_heads.py),
    products with matrices that an index chooses one product with all of them (chosen_matrices.py).

    `graph.multiply (graph.add %x, %a), %b`  ->  `graph.add (graph.multiply %x, %b), (graph.multiply %a, %b)`

    The constants are ops on constants, which graph-fold-constant computes. Each rule's law is its docstring.
    """

    name = "graph-simplify-expr"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if apply_rules(op, Rules(EXPRESSIONS, SHARED_HEADS, CHOSEN_MATRICES)):
            eliminate_dead_code(op)
