"""
Functions of quantised values: activations, sigmoids, hard swishes, and the pairs between their steps, as tables.

What is computed of one byte, and quantised again, has 256 values. A table of them is exact, and one look-up.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    BinaryOp,
    CastOp,
    ClipOp,
    DequantizeOp,
    LookupOp,
    ParamOp,
    QuantizeOp,
    ReshapeOp,
    UnaryOp,
    WhereOp,
    shape_of,
    tensor,
)
from mlc.dialects.graph.ops.quantize import integer_range, is_unsigned
from mlc.dialects.graph.types import element_of, numpy_dtype, product
from mlc.passes.graph.fuse_ops.mlc_rules import EXPENSIVE
from mlc.passes.graph.simplify_qdq.values import BYTES, HALF, Numbers, as_unsigned
from mlc.passes.rewriting import Replacement, Rewriter

POINTWISE = (UnaryOp, BinaryOp, ClipOp, CastOp, WhereOp, QuantizeOp, DequantizeOp, LookupOp)
MIN_STEPS = 2
"""Ops between the first dequantizing and the last quantizing, below which they are computed, if all are cheap."""
MAX_STEPS = 64


def function_of_bytes(op: Any, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (f (dequantize %q)), %s, %z` -> `lookup %q, table of f`."""
    if op.type.element_type not in BYTES or numbers.store is None:
        return None
    source = _source(op.result, numbers, {})
    if source is None or source is op.result:
        return None
    steps: dict[SSAValue, Any] = {source: _all_bytes(source)}
    table = _evaluate(op.result, steps, numbers)
    few = len(steps) - 3 < MIN_STEPS  # without the bytes, the first and the last step
    if few and not any(type(value.owner) in EXPENSIVE for value in steps):
        return None
    if not is_unsigned(element_of(source)):
        source = as_unsigned(rw, source)
    view: Any = source.owner
    if not isinstance(view, ReshapeOp) or not source.has_one_use():
        return rw.make(LookupOp, source, _entry(rw, numbers, table, op))
    looked_up = rw.make(LookupOp, view.operands[0], _entry(rw, numbers, table, op))  # where the bytes are made
    return rw.make(ReshapeOp, looked_up, result=op.type)


def _source(value: SSAValue, numbers: Numbers, known: dict[SSAValue, SSAValue | None]) -> SSAValue | None:
    """The bytes of which a value is a function, element by element; itself where it is bytes of another kind."""
    if value not in known:
        known[value] = None  # while it is being found
        if len(known) <= MAX_STEPS:
            known[value] = _found(value, numbers, known)
    return known[value]


def _found(value: SSAValue, numbers: Numbers, known: dict[SSAValue, SSAValue | None]) -> SSAValue | None:
    op: Any = value.owner
    own = value if element_of(value) in BYTES else None
    if not isinstance(op, POINTWISE):
        return own
    found: SSAValue | None = None
    for operand in op.operands:
        if product(shape_of(operand.type)) == 1 and numbers.one(operand) is not None:
            continue
        if isinstance(op, LookupOp) and operand is op.operands[1] and numbers.of(operand) is not None:
            continue
        source = _source(operand, numbers, known)
        if source is None or (found is not None and source is not found):
            return own
        found = source
    return found if found is not None and shape_of(found.type) == shape_of(value.type) else own


def _all_bytes(source: SSAValue) -> Any:
    """Every value of a type of bytes, in the order of unsigned ones that are as far from the least."""
    import numpy as np

    element = element_of(source)
    return np.arange(integer_range(element)[0], 2 * HALF + integer_range(element)[0]).astype(numpy_dtype(element))


def _evaluate(value: SSAValue, steps: dict[SSAValue, Any], numbers: Numbers) -> Any:
    """What a value is for every byte; `steps` are those that are known."""
    import numpy as np

    if value not in steps:
        op: Any = value.owner
        arrays = []
        for operand in op.operands:
            number = numbers.of(operand) if product(shape_of(operand.type)) == 1 else None
            if number is not None:
                arrays.append(number.reshape(()))
            elif isinstance(op, LookupOp) and operand is op.operands[1]:
                arrays.append(numbers.of(operand))
            else:
                arrays.append(_evaluate(operand, steps, numbers))
        with np.errstate(all="ignore"):
            steps[value] = np.asarray(op.evaluate(np, *arrays)[0]).astype(numpy_dtype(op.type.element_type))
    return steps[value]


def _entry(rw: Rewriter, numbers: Numbers, table: Any, op: Any) -> SSAValue:
    """The table as a weight, which all that look up the same share."""
    name = f"lookup.{sha256(table.tobytes()).hexdigest()[:16]}.{table.dtype}"
    if name not in numbers.store:
        numbers.store.add(name, table)
    return rw.insert(ParamOp.make(result=tensor((2 * HALF,), op.type.element_type), entry=name))
