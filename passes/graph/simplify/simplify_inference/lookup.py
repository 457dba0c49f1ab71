"""Table look-ups written as matrix products: one-hot rows times a weight."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.graph import (
    CastOp,
    ConcatenateOp,
    ConstantOp,
    DenseOp,
    EqualOp,
    FullOp,
    GreaterEqualOp,
    IotaOp,
    LessOp,
    LogicalAndOp,
    ReshapeOp,
    TakeOp,
    TransposeOp,
    WhereOp,
    shape_of,
)
from mlc.dialects.graph.types import is_integer
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

LOOKUPS = Rules()


@LOOKUPS.on(DenseOp)
def one_hot(op: DenseOp, rw: Rewriter) -> Replacement:
    """`dense(cast(i == iota), w) -> take(w transposed, i)`, with a row of zeros for indices out of range."""
    cast = defining_op(op.operands[0], CastOp)
    equal = None if cast is None else defining_op(cast.operands[0], EqualOp)
    weight = op.operands[1]
    if equal is None or op.kernel_layout != "OI" or not is_constant(weight) or not is_static(shape_of(weight.type)):
        return None
    for indices, numbers in (equal.operands, equal.operands[::-1]):
        if _counts(numbers, equal) and shape_of(indices.type) == (*shape_of(equal.type)[:-1], 1):
            return _lookup(rw, indices, weight)
    return None


def _counts(numbers: SSAValue, equal: EqualOp) -> bool:
    """Whether a value is 0, 1, .. along the last axis of the comparison, and constant along the others."""
    iota = defining_op(numbers, IotaOp)
    shape = shape_of(numbers.type)
    if iota is None or not shape or iota.axis % len(shape) != len(shape) - 1:
        return False
    return all(size == 1 for size in shape[:-1]) and shape[-1] == shape_of(equal.type)[-1]


def _lookup(rw: Rewriter, indices: SSAValue, weight: SSAValue) -> Replacement:
    element: Attribute = element_of(indices)
    if not is_integer(element) or element == i1:
        return None
    units, count = shape_of(weight.type)
    flat = rw.make(ReshapeOp, indices, shape=shape_of(indices.type)[:-1])
    low = rw.insert(ConstantOp.make(0, dtype=element))
    high = rw.insert(ConstantOp.make(count, dtype=element))
    inside = rw.make(LogicalAndOp, rw.make(GreaterEqualOp, flat, low), rw.make(LessOp, flat, high))
    safe = rw.make(WhereOp, inside, flat, high)
    zeros = rw.insert(FullOp.make((1, units), 0.0, element_of(weight)))
    table = rw.make(ConcatenateOp, rw.make(TransposeOp, weight, axes=(1, 0)), zeros, axis=0)
    return rw.make(TakeOp, table, safe, axis=0)
