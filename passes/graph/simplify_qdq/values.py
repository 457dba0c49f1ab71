"""What is known of quantised values: scales and zero points as numbers, bytes as unsigned or signed ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

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
from mlc.dialects.graph.types import axis_of, dtype_name, element_of, element_type, numpy_dtype
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter, producer

UNSIGNED = element_type("uint8")
BYTES = (i8, UNSIGNED)
MOVES = (ReshapeOp, TransposeOp, SliceOp, ConcatenateOp, MaxPool2dOp)
"""Ops that give elements of what they read, so that they may read it quantised; resizing to the nearest is one, too."""
HALF = 128
"""What signed bytes are less than unsigned ones."""


def moves(op: Any) -> bool:
    """Whether an op gives elements of what it reads."""
    return isinstance(op, MOVES) or (isinstance(op, Resize2dOp) and op.mode == "nearest")


class Numbers:
    """The values of constants, from the module's weights where it has them."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def of(self, value: SSAValue, depth: int = 8) -> Any:
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
        arrays = [self.of(v, depth - 1) for v in op.operands]
        if any(a is None for a in arrays):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(np, *arrays)[0]).astype(numpy_dtype(op.type.element_type))

    def one(self, value: SSAValue) -> Any:
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


@dataclass
class Factor:
    """A factor of an integer product: bytes, their zero point (None: 0), what multiplies them (None: nothing)."""

    bytes: SSAValue
    zero: SSAValue | None = None
    scale: SSAValue | None = None
    axis: int | None = None
    """The axis along which zero point and scale vary."""

    @property
    def element(self) -> Any:
        """The type of the bytes."""
        return element_of(self.bytes)


def factor_of(value: SSAValue, rw: Rewriter, numbers: Numbers) -> Factor | None:
    """
    The bytes behind a factor: `dequantize %q, %s, %z`, `(cast %q : i32) - (cast %z : i32)` or `cast %q : i32`, also
    where that is transposed; constants of i32 whose values are those of bytes.
    """
    transposed = producer(value, TransposeOp)
    if transposed is not None:
        inner = factor_of(transposed.operands[0], rw, numbers)
        if inner is not None and inner.axis is not None:
            inner.axis = list(transposed.axes).index(inner.axis)
        return inner
    dequantize = producer(value, DequantizeOp)
    if dequantize is not None:
        q, scale, zero = dequantize.operands
        if q.type.element_type not in BYTES:
            return None
        axis = axis_of(dequantize.axis, len(shape_of(q.type))) if shape_of(scale.type) else None
        return Factor(q, zero, scale, axis)
    return _constant_factor(value, rw, numbers) or _centred(value, rw, numbers)


def _constant_factor(value: SSAValue, rw: Rewriter, numbers: Numbers) -> Factor | None:
    """Constants of i32 as signed bytes, where they are not, with a zero point that makes them so."""
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
    minus = producer(value, SubtractOp)
    wide = producer(value if minus is None else minus.operands[0], CastOp)
    if wide is None or wide.type.element_type != i32 or wide.operands[0].type.element_type not in BYTES:
        return None
    q = wide.operands[0]
    if minus is None:
        return Factor(q)
    zero = _zero_point(minus.operands[1], q.type.element_type, rw, numbers)
    if minus.type != wide.type or zero is None:
        return None
    sizes = [k for k, n in enumerate(reversed(shape_of(zero.type))) if n != 1]
    if len(sizes) > 1:
        return None
    return Factor(q, zero, None, len(shape_of(q.type)) - 1 - sizes[0] if sizes else None)


def _zero_point(value: SSAValue, element: Any, rw: Rewriter, numbers: Numbers) -> SSAValue | None:
    """A zero point of i32 as the byte that it was, or is by its value."""
    cast = producer(value, CastOp)
    if cast is not None and cast.operands[0].type.element_type == element:
        return cast.operands[0]
    number = numbers.one(value)
    least, most = integer_range(element)
    return integer(rw, number, dtype_name(element)) if number is not None and least <= number <= most else None


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
    Signed bytes as unsigned ones, 128 more each: made so where they are quantised, through what moves them.

    `quantize %x, %s, %z : i8` -> `quantize %x, %s, (%z + 128) : ui8`
    """
    op: Any = value.owner
    if isinstance(op, QuantizeOp):
        zero = _moved(rw, op.operands[2], HALF, "uint8")
        return rw.make(QuantizeOp, op.operands[0], op.operands[1], zero, axis=op.axis)
    if isinstance(op, LookupOp):
        return rw.make(LookupOp, op.operands[0], _moved(rw, op.operands[1], HALF, "uint8"))
    if moves(op) and depth:
        operands = [as_unsigned(rw, v, depth - 1) for v in op.operands]
        attrs = {name: getattr(op, name) for name in op.declared}
        given = {"result": tensor(shape_of(value.type), UNSIGNED)} if op.result_given else {}
        return rw.make(type(op), *operands, **attrs, **given)
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
