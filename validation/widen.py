"""A loop kernel in wide arithmetic: the same kernel with f64 for every float type, to be printed as C99."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    MemRefType,
    StringAttr,
    VectorType,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.codegen.c.values import ROUNDS_TO
from mlc.dialects import loop
from mlc.dialects.constants import numbers
from mlc.interp.values import element_dtype
from mlc.support.arithmetic import Arithmetic
from mlc.validation.facts import casts_bits


def widened(func: loop.FuncOp, arithmetic: Arithmetic) -> loop.FuncOp | None:
    """A copy of a kernel with f64 for every float; None where a bitcast depends on the width of its floats."""
    if casts_bits(func):
        return None
    copy = func.clone()
    for op in copy.walk():
        if isinstance(op, arith.ConstantOp):
            _constant(op, arithmetic)
        elif cast_kind(op) == "truncf" and arithmetic.rounds:
            op.attributes[ROUNDS_TO] = StringAttr(str(loop.element_of(op.results[0].type)))
        for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args)):
            _widen(value)
    return copy


def cast_kind(op: Operation) -> str:
    """The kind of a cast (`truncf`); empty for other operations."""
    return op.kind.data if isinstance(op, loop.CastOp) else op.name.removeprefix("arith.")


def _constant(op: arith.ConstantOp, arithmetic: Arithmetic) -> None:
    value, own = op.value, element_dtype(op.result.type)
    if isinstance(value, FloatAttr):
        op.properties["value"] = FloatAttr(float(arithmetic.constant(value.value.data, own)), f64)
    elif isinstance(value, DenseIntOrFPElementsAttr) and isinstance(value.get_element_type(), AnyFloat):
        held = arithmetic.constant(np.array(numbers(value)), own)
        t = VectorType(f64, list(value.type.get_shape()))
        op.properties["value"] = DenseIntOrFPElementsAttr.from_list(t, [float(x) for x in np.atleast_1d(held)])


def _widen(value: SSAValue) -> None:
    value._type = wide_type(value.type)  # pyright: ignore[reportPrivateUsage] - xDSL replaces the value instead


def wide_type(t: Attribute) -> Attribute:
    """The type with f64 for a float, or for the elements of a buffer or vector that are floats."""
    element = t.element_type if isinstance(t, MemRefType | VectorType) else t
    if not isinstance(element, AnyFloat) or isinstance(element, Float64Type):
        return t
    if isinstance(t, MemRefType):
        return MemRefType(f64, t.shape, t.layout, t.memory_space)
    if isinstance(t, VectorType):
        return VectorType(f64, t.shape, t.scalable_dims)
    return f64
