"""Constants of quantised models as numbers, and 8-bit factors of products, converted to unsigned or signed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.graph import (
    AddOp,
    CastOp,
    ConcatenateOp,
    ConstantOp,
    DequantizeOp,
    FullOp,
    GraphOp,
    LookupOp,
    MaxPool2dOp,
    ParamOp,
    QuantizeOp,
    ReshapeOp,
    Resize2dOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
    shape_of,
    static_shape,
    tensor,
)
from mlc.dialects.graph.ops.quantize import integer_range, is_unsigned
from mlc.dialects.graph.types import Array, axis_of, dtype_name, element_of, element_type, numpy_dtype
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter, RuleTable, Values, attributes, defining_op
from mlc.support.weights import WeightStore

UNSIGNED = element_type("uint8")
BYTES = (i8, UNSIGNED)
MOVES = (ReshapeOp, TransposeOp, SliceOp, ConcatenateOp, MaxPool2dOp)
"""Ops whose result elements are elements of their operands, so that they commute with quantising."""
HALF = 128
"""The difference of unsigned and signed bytes that stand for the same number."""


def moves(op: Operation | Block) -> TypeGuard[GraphOp]:
    """Whether the result elements of an op are elements of its operands: `MOVES`, and resizing to the nearest."""
    return isinstance(op, MOVES) or (isinstance(op, Resize2dOp) and op.mode == "nearest")


class Numbers:
    """The values of constants, from the module's weights where it has them."""

    def __init__(self, store: WeightStore | None) -> None:
        self.store = store

    def of(self, value: SSAValue, depth: int = 8) -> Array | None:
        """A constant's array; None where it is not known."""
        import numpy as np

        op = value.owner
        if isinstance(op, ConstantOp):
            return op.array()
        if isinstance(op, FullOp) and is_static(shape_of(op.type)):
            return np.full(static_shape(op.type), op.value, numpy_dtype(op.type.element_type))
        if isinstance(op, ParamOp):
            return self.store.array(op.entry) if self.store is not None and op.entry in self.store else None
        if not isinstance(op, GraphOp) or depth == 0 or len(op.results) != 1 or not op.operands:
            return None
        arrays = [array for v in op.operands if (array := self.of(v, depth - 1)) is not None]
        if len(arrays) < len(op.operands):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(np, *arrays)[0]).astype(numpy_dtype(op.type.element_type))

    def one(self, value: SSAValue) -> int | float | None:
        """The number that all elements of a constant are; None where they differ, or are not known."""
        array = self.of(value)
        if array is None or not array.size or (array != array.flat[0]).any():
            return None
        return array.flat[0].item()

    def same(self, a: SSAValue, b: SSAValue) -> bool:
        """Whether two constants of one shape have the same values."""
        if a is b:
            return True
        if a.type != b.type:
            return False
        x, y = self.of(a), self.of(b)
        return x is not None and y is not None and bool((x == y).all())


class QdqRules(RuleTable[[Rewriter, Numbers], Values]):
    """Rewrite rules that are given the values of constants."""


@dataclass
class Factor:
    """A factor of an integer product: bytes, their zero point (None: 0) and scale (None: 1)."""

    bytes: SSAValue
    zero: SSAValue | None = None
    scale: SSAValue | None = None
    axis: int | None = None
    """The axis along which zero point and scale vary."""

    @property
    def element(self) -> Attribute:
        """The type of the bytes."""
        return element_of(self.bytes)


def factor_of(value: SSAValue, rw: Rewriter, numbers: Numbers) -> Factor | None:
    """
    The bytes that a factor is computed from by `dequantize %q, %s, %z`, `(cast %q : i32) - (cast %z : i32)` or
    `cast %q : i32`, perhaps transposed; of an i32 constant whose values fit, the constant as bytes. None for others.
    """
    transposed = defining_op(value, TransposeOp)
    if transposed is not None:
        inner = factor_of(transposed.operands[0], rw, numbers)
        if inner is not None and inner.axis is not None:
            inner.axis = list(transposed.axes).index(inner.axis)
        return inner
    dequantize = defining_op(value, DequantizeOp)
    if dequantize is not None:
        q, scale, zero = dequantize.operands
        if element_of(q) not in BYTES:
            return None
        axis = axis_of(dequantize.axis, len(shape_of(q.type))) if shape_of(scale.type) else None
        return Factor(q, zero, scale, axis)
    return _constant_factor(value, rw, numbers) or _centred(value, rw, numbers)


def _constant_factor(value: SSAValue, rw: Rewriter, numbers: Numbers) -> Factor | None:
    """An i32 constant as signed bytes, and the zero point that moves its values into their range; None if too wide."""
    array = numbers.of(value) if element_of(value) == i32 and is_constant(value) else None
    if array is None or not array.size:
        return None
    low, high = int(array.min()), int(array.max())
    zero = max(-HALF - low, 0) or min(HALF - 1 - high, 0)
    if low + zero < -HALF or high + zero >= HALF or not -HALF <= zero < HALF:
        return None
    if not zero:
        return Factor(rw.make(CastOp, value, dtype="int8"))
    return Factor(_moved(rw, value, zero, "int8"), integer(rw, zero, "int8"))


def _centred(value: SSAValue, rw: Rewriter, numbers: Numbers) -> Factor | None:
    """The bytes of `cast %q : i32`, and of it minus a zero point."""
    minus = defining_op(value, SubtractOp)
    wide = defining_op(value if minus is None else minus.operands[0], CastOp)
    if wide is None or wide.type.element_type != i32 or element_of(wide.operands[0]) not in BYTES:
        return None
    q = wide.operands[0]
    if minus is None:
        return Factor(q)
    zero = _zero_point(minus.operands[1], element_of(q), rw, numbers)
    if minus.type != wide.type or zero is None:
        return None
    sizes = [k for k, n in enumerate(reversed(shape_of(zero.type))) if n != 1]
    if len(sizes) > 1:
        return None
    return Factor(q, zero, None, len(shape_of(q.type)) - 1 - sizes[0] if sizes else None)


def _zero_point(value: SSAValue, element: Attribute, rw: Rewriter, numbers: Numbers) -> SSAValue | None:
    """An i32 zero point as a byte: the operand of the cast that widened it, or a constant of its value."""
    cast = defining_op(value, CastOp)
    if cast is not None and element_of(cast.operands[0]) == element:
        return cast.operands[0]
    number = numbers.one(value)
    least, most = integer_range(element)
    return integer(rw, int(number), dtype_name(element)) if number is not None and least <= number <= most else None


def wide(rw: Rewriter, value: SSAValue) -> SSAValue:
    """The value in i32."""
    return value if element_of(value) == i32 else rw.make(CastOp, value, dtype="int32")


def integer(rw: Rewriter, number: int, dtype: str = "int32") -> SSAValue:
    """A constant of one element."""
    return rw.insert(ConstantOp.make(number, dtype=dtype))


def _moved(rw: Rewriter, value: SSAValue, by: int, dtype: str) -> SSAValue:
    """Bytes plus a number, in the other type."""
    return rw.make(CastOp, rw.make(AddOp, wide(rw, value), integer(rw, by)), dtype=dtype)


def as_unsigned(rw: Rewriter, value: SSAValue, depth: int = 8) -> SSAValue:
    """
    Signed bytes as unsigned ones, 128 more each: changed where they are quantised, through ops that move them.

    `quantize %x, %s, %z : i8` -> `quantize %x, %s, (%z + 128) : ui8`
    """
    op = value.owner
    if isinstance(op, QuantizeOp):
        zero = _moved(rw, op.operands[2], HALF, "uint8")
        return rw.make(QuantizeOp, op.operands[0], op.operands[1], zero, axis=op.axis)
    if isinstance(op, LookupOp):
        return rw.make(LookupOp, op.operands[0], _moved(rw, op.operands[1], HALF, "uint8"))
    if moves(op) and depth:
        operands = [as_unsigned(rw, v, depth - 1) for v in op.operands]
        given = tensor(shape_of(value.type), UNSIGNED) if op.result_given else None
        return rw.make(type(op), *operands, result=given, location=None, **attributes(op))
    return _moved(rw, value, HALF, "uint8")


def unsigned(rw: Rewriter, factor: Factor) -> Factor:
    """The factor in unsigned bytes."""
    if is_unsigned(factor.element):
        return factor
    zero = integer(rw, HALF, "uint8") if factor.zero is None else _moved(rw, factor.zero, HALF, "uint8")
    return Factor(as_unsigned(rw, factor.bytes), zero, factor.scale, factor.axis)


def signed(rw: Rewriter, factor: Factor) -> Factor:
    """The factor in signed bytes."""
    if not is_unsigned(factor.element):
        return factor
    zero = integer(rw, 0, "uint8") if factor.zero is None else factor.zero
    return Factor(_moved(rw, factor.bytes, -HALF, "int8"), _moved(rw, zero, -HALF, "int8"), factor.scale, factor.axis)
