"""
Pointwise functions of quantised values as table look-ups: sigmoids, hard swishes, chains of activations.

A function of one byte that is quantised again has 256 values. A table of them is exact, and costs one look-up.
"""

from __future__ import annotations

from hashlib import sha256

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    BinaryOp,
    CastOp,
    ClipOp,
    DequantizeOp,
    GraphOp,
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
from mlc.dialects.graph.types import Array, element_of, numpy_dtype, product
from mlc.passes.graph.fusion.fuse_ops.mlc_rules import EXPENSIVE
from mlc.passes.graph.simplify.simplify_qdq.values import BYTES, HALF, Numbers, QdqRules, as_unsigned
from mlc.passes.rewriting import Replacement, Rewriter
from mlc.support.weights import WeightStore

POINTWISE = (UnaryOp, BinaryOp, ClipOp, CastOp, WhereOp, QuantizeOp, DequantizeOp, LookupOp)
MIN_STEPS = 2
"""Ops between dequantize and quantize below which they are computed, if all are cheap."""
MAX_STEPS = 64
"""Values that are looked at to find the bytes that a value is a function of."""
TABLES = QdqRules()


@TABLES.on(QuantizeOp)
def function_of_bytes(op: QuantizeOp, rw: Rewriter, numbers: Numbers) -> Replacement:
    """`quantize (f (dequantize %q)), %s, %z` -> `lookup %q, table of f`."""
    if op.type.element_type not in BYTES or numbers.store is None:
        return None
    source = _source(op.result, numbers, {})
    if source is None or source is op.result:
        return None
    steps: dict[SSAValue, Array] = {source: _all_bytes(source)}
    table = _evaluate(op.result, steps, numbers)
    few = len(steps) - 3 < MIN_STEPS  # without the bytes, the first and the last step
    if few and not any(type(value.owner) in EXPENSIVE for value in steps):
        return None
    if not is_unsigned(element_of(source)):
        source = as_unsigned(rw, source)
    view = source.owner
    if not isinstance(view, ReshapeOp) or not source.has_one_use():
        return rw.make(LookupOp, source, _entry(rw, numbers.store, table, op))
    looked_up = rw.make(
        LookupOp, view.operands[0], _entry(rw, numbers.store, table, op)
    )  # before the reshape: fuses with the producer
    return rw.make(ReshapeOp, looked_up, result=op.type)


def _source(value: SSAValue, numbers: Numbers, known: dict[SSAValue, SSAValue | None]) -> SSAValue | None:
    """The bytes that a value is a pointwise function of; the value itself if it is bytes computed in another way."""
    if value not in known:
        known[value] = None  # while it is being found
        if len(known) <= MAX_STEPS:
            known[value] = _found(value, numbers, known)
    return known[value]


def _found(value: SSAValue, numbers: Numbers, known: dict[SSAValue, SSAValue | None]) -> SSAValue | None:
    op = value.owner
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


def _all_bytes(source: SSAValue) -> Array:
    """All 256 values of a type of bytes, from the least to the largest."""
    import numpy as np

    element = element_of(source)
    return np.arange(integer_range(element)[0], 2 * HALF + integer_range(element)[0]).astype(numpy_dtype(element))


def _evaluate(value: SSAValue, steps: dict[SSAValue, Array], numbers: Numbers) -> Array:
    """The value for each of the 256 bytes; `steps` holds those that are computed already."""
    import numpy as np

    if value not in steps:
        op = value.owner
        assert isinstance(op, GraphOp)
        arrays: list[Array] = []
        for operand in op.operands:
            number = numbers.of(operand) if product(shape_of(operand.type)) == 1 else None
            if number is not None:
                arrays.append(number.reshape(()))
            elif isinstance(op, LookupOp) and operand is op.operands[1] and (table := numbers.of(operand)) is not None:
                arrays.append(table)
            else:
                arrays.append(_evaluate(operand, steps, numbers))
        with np.errstate(all="ignore"):
            steps[value] = np.asarray(op.evaluate(np, *arrays)[0]).astype(numpy_dtype(op.type.element_type))
    return steps[value]


def _entry(rw: Rewriter, store: WeightStore, table: Array, op: QuantizeOp) -> SSAValue:
    """The table as a weight; equal tables are one weight."""
    name = f"lookup.{sha256(table.tobytes()).hexdigest()[:16]}.{table.dtype}"
    if name not in store:
        store.add(name, table)
    return rw.insert(ParamOp.make(result=tensor((2 * HALF,), op.type.element_type), entry=name))
