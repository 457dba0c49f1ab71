"""Facts of a function that validation needs: its float constants, its narrowest float type, its size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir import Operation, SSAValue

from mlc.dialects import graph, loop
from mlc.dialects.constants import numbers
from mlc.dialects.te_extern import ExternOp
from mlc.interp import values as V
from mlc.interp.compare import epsilon
from mlc.interp.graph import parameter_key
from mlc.support.arithmetic import constant_key, is_exact
from mlc.support.dtypes import is_float_dtype


def narrowest(func: Operation) -> float:
    """Machine epsilon of the narrowest float type among the values of a function; 0 if there are no floats."""
    arguments = (a for op in func.walk() for r in op.regions for b in r.blocks for a in b.args)
    values = (*(result for op in func.walk() for result in op.results), *arguments)
    types = {v.type for v in values}
    elements = {t.element_type if isinstance(t, TensorType | MemRefType | VectorType) else t for t in types}
    return max((epsilon(V.dtype_of(e)) for e in elements if isinstance(e, AnyFloat)), default=0.0)


def constants_of(func: Operation, weights: Any = None) -> dict[object, object]:
    """
    The float constants of a function, each with what identifies its content: weights, dense and scalar constants, and
    the attributes of graph ops. Constants of few digits, which no rounding went into, are left out.
    """
    found: dict[object, object] = {}
    for op in func.walk():
        if isinstance(op, graph.ParamOp):
            hashed = getattr(weights, "hash", None)
            found[parameter_key(op.entry)] = hashed(op.entry) if hashed and op.entry in weights else op.entry
        else:
            keys = [constant_key(array) for array in _float_constants(op)]
            found |= {key: key for key in keys if not (isinstance(key, float) and is_exact(key))}
    return found


def _float_constants(op: Operation) -> list[Any]:
    """The float constants that an op holds, in its element type."""
    if isinstance(op, graph.ConstantOp):
        array = op.array()
        return [array] if is_float_dtype(array.dtype) else []
    if isinstance(op, arith.ConstantOp):
        value, dtype = op.value, V.element_dtype(op.result.type)
        if not is_float_dtype(dtype) or not isinstance(value, FloatAttr | DenseIntOrFPElementsAttr):
            return []
        return [np.asarray(_numbers(value)).astype(dtype)]
    if isinstance(op, graph.GraphOp):
        return [np.float32(value.value.data) for value in op.properties.values() if isinstance(value, FloatAttr)]
    return []


def _numbers(value: FloatAttr[Any] | DenseIntOrFPElementsAttr) -> Any:
    return value.value.data if isinstance(value, FloatAttr) else numbers(value)


def casts_bits(func: Operation) -> bool:
    """Whether a kernel casts the bits of floats, whose width then matters: it has no wide form."""
    return any(_casts_bits(op) for op in func.walk())


def has_wide_form(func: Operation) -> bool:
    """Whether a kernel has a meaning in wide arithmetic: it casts no bits, and calls no function that is not mlc's."""
    calls = any(isinstance(op, loop.ExternCallOp | ExternOp) and op.called is not None for op in func.walk())
    return not calls and not casts_bits(func)


def _casts_bits(op: Operation) -> bool:
    kind = op.kind.data if isinstance(op, loop.CastOp) else op.name.removeprefix("arith.")
    return kind == "bitcast" and any(isinstance(loop.element_of(v.type), AnyFloat) for v in (*op.operands, *op.results))


def count_operations(func: loop.FuncOp, symbols: Mapping[SSAValue, int] | None = None) -> int:
    """An estimate of the scalar operations that a kernel runs: lanes times the iterations of the enclosing loops."""

    def count(op: Operation) -> int:
        inner = sum(count(o) for region in op.regions for block in region.blocks for o in block.ops)
        if isinstance(op, loop.ForOp):
            return inner * _iterations(op, symbols or {}, 8)
        lanes = [math.prod(loop.shape_of(v.type)) for v in (*op.results, *op.operands)]
        return inner + max(lanes, default=1)

    return sum(count(op) for op in func.body.block.ops)


def _iterations(op: loop.ForOp, symbols: Mapping[SSAValue, int], unknown: int) -> int:
    """The iterations of a loop at these symbols; `unknown` if its bounds depend on other values."""
    if op.extent is not None:
        return op.extent
    if not all(v in symbols for v in op.indices):
        return unknown
    values = [symbols[v] for v in op.indices]
    return max(0, int((op.upper - op.lower).evaluate(values)))


def runs_in_parallel(func: loop.FuncOp) -> bool:
    """Whether a kernel has a parallel loop."""
    return any(isinstance(op, loop.ForOp) and op.kind.data == "parallel" for op in func.walk())
