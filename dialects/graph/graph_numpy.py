"""The numpy semantics of graph ops: `evaluate(op, arrays)`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np
from xdsl.dialects.builtin import Float64Type, FloatAttr, TensorType
from xdsl.ir import Attribute

from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.op_attributes import Float
from mlc.dialects.graph.ops.elementwise import CastOp
from mlc.dialects.graph.ops.structure import ConstantOp
from mlc.dialects.graph.types import FLOATS, Array, numpy_dtype
from mlc.support.arithmetic import OWN, Arithmetic
from mlc.support.dtypes import is_float_dtype


def evaluate(op: GraphOp, arrays: Sequence[Array], arithmetic: Arithmetic = OWN) -> tuple[Array, ...]:
    """The results of an op on arrays, computed in an arithmetic."""
    with _rounded_attributes(op, arithmetic) as one, np.errstate(all="ignore"):
        values = one.evaluate(arithmetic.numpy, *arrays)
    return tuple(
        _typed(op, np.asarray(value), result.type, arithmetic) for value, result in zip(values, op.results, strict=True)
    )


def _typed(op: GraphOp, value: Array, type: Attribute, arithmetic: Arithmetic) -> Array:
    """A result in the dtype of its type; casts round as the arithmetic says."""
    dtype = result_dtype(type, arithmetic)
    if isinstance(op, ConstantOp):
        return arithmetic.constant(value, value.dtype)
    if arithmetic.wide and isinstance(op, CastOp):
        if value.dtype.kind == "f" and dtype.kind in "iu":
            return np.asarray(arithmetic.numpy.trunc(value)).astype(dtype)
        assert isinstance(type, TensorType)
        if is_float_dtype(dtype) and _narrows(op):
            return arithmetic.narrowed(value, numpy_dtype(type.element_type))
    if arithmetic.wide and op.rounds and is_float_dtype(dtype):
        return arithmetic.narrowed(value, result_dtype(type))
    return value.astype(dtype, copy=False)


def _narrows(op: GraphOp) -> bool:
    """Whether a cast goes from a float type to one of fewer bits, or between the two of 16 bits."""
    before, after = (numpy_dtype(t.element_type) for t in (op.input_types[0], op.type))
    if not (is_float_dtype(before) and is_float_dtype(after)):
        return False
    return before.itemsize > after.itemsize or (before != after and before.itemsize == after.itemsize)


@contextmanager
def _rounded_attributes(op: GraphOp, arithmetic: Arithmetic) -> Generator[GraphOp]:
    """In wide arithmetic, a copy of the op whose float attributes are values of its element type."""
    given = {name: op.properties.get(name) for name, d in op.declared.items() if isinstance(d, Float)}
    declared = {name: value for name, value in given.items() if isinstance(value, FloatAttr)}
    element = next((t.element_type for t in (*op.result_types, *op.operand_types) if _is_float_tensor(t)), None)
    if not arithmetic.wide or not declared or element is None:
        yield op
        return
    own = np.dtype(np.float64 if isinstance(element, Float64Type) else np.float32)
    rounded = {name: FloatAttr(float(arithmetic.constant(a.value.data, own)), a.type) for name, a in declared.items()}
    copy = type(op).create(operands=op.operands, result_types=op.result_types, properties=op.properties | rounded)
    try:
        yield copy
    finally:
        copy.erase()


def _is_float_tensor(type: Attribute) -> TypeGuard[TensorType[Any]]:
    return isinstance(type, TensorType) and isinstance(type.element_type, FLOATS)


def result_dtype(type: Attribute, arithmetic: Arithmetic = OWN) -> np.dtype[Any]:
    """The dtype that holds a tensor type's elements in an arithmetic."""
    assert isinstance(type, TensorType)
    return arithmetic.dtype(numpy_dtype(type.element_type))
