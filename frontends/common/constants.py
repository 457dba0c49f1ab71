"""
Evaluation of values that are computed from constants alone.

Ops on small constants fold while they are emitted. Larger ones become ops, which graph-fold-constant computes later;
where the import needs their elements before that, or an op makes few elements of them, they are computed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from mlc.dialects.graph import ConstantOp, GraphOp, ParamOp, static_shape
from mlc.dialects.graph.base import OPAQUE, OUT_FUSABLE
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.dialects.graph.types import element_of, is_static, numpy_dtype, shape_of
from mlc.frontends.common.values import Array, Value, ancestors
from mlc.support.limits import limits
from mlc.support.weights import WeightStore


class TooLarge(ValueError):
    """Constant evaluation would exceed the memory limit (limits.folded_bytes)."""


def is_constant(value: Value) -> bool:
    """Whether a value is a constant or computed from constants alone, independent of the inputs."""
    if value.array is None:
        return value.made
    return not value.bound and value.array.dtype != object


def is_cheap(op: GraphOp) -> bool:
    """Whether an op takes about as long as reading its operands: no matrix product, sort or search."""
    return op.kind not in (OUT_FUSABLE, OPAQUE)


def computed(value: SSAValue, weights: WeightStore) -> Array | None:
    """
    The array of a value that is computed from constants alone; None of any other.

    TooLarge where more than `limits.folded_bytes` would be made: 4 times the bytes that an op reads are free.
    """
    if not all(_is_computable(one, weights) for one in ancestors(value, {})):
        return None
    arrays: dict[SSAValue, Array] = {}
    sources: dict[SSAValue, int] = {}
    room, left = limits.folded_bytes, [value]
    while left:
        op = left[-1].owner
        assert isinstance(op, GraphOp)
        if left[-1] in arrays:
            left.pop()
        elif wanted := [operand for operand in op.operands if operand not in arrays]:
            left += wanted
        else:
            source = sum(sources[operand] for operand in op.operands) if op.operands else _stored_bytes(op, weights)
            room -= max(0, sum(_bytes(result) for result in op.results) - 4 * source)
            if room < 0:
                made = f"at most {limits.folded_bytes} bytes computed from constants"
                raise TooLarge(f"expected {made}, but '{op.name}' needs more; raise the limit with --max-folded-bytes")
            arrays.update(zip(op.results, _evaluate(op, [arrays[o] for o in op.operands], weights), strict=True))
            sources.update(dict.fromkeys(op.results, source))
    return arrays[value]


def _is_computable(value: SSAValue, weights: WeightStore) -> bool:
    op = value.owner
    if isinstance(op, Block) or not isinstance(op, GraphOp) or op.regions:
        return False
    if isinstance(op, ParamOp) and op.entry not in weights:
        return False
    return all(is_static(shape_of(result.type)) for result in op.results)


def _evaluate(op: GraphOp, operands: Sequence[Array], weights: WeightStore) -> Sequence[Array]:
    if isinstance(op, ParamOp):
        return [weights.array(op.entry)]
    return [op.array()] if isinstance(op, ConstantOp) else evaluate(op, operands)


def _stored_bytes(op: GraphOp, weights: WeightStore) -> int:
    """The bytes that a constant takes in storage; a fill takes none."""
    if isinstance(op, ParamOp):
        return 0 if weights.entry(op.entry).is_fill else weights.entry(op.entry).nbytes
    return op.array().nbytes if isinstance(op, ConstantOp) else 0


def _bytes(value: SSAValue) -> int:
    return math.prod(static_shape(value.type)) * numpy_dtype(element_of(value)).itemsize
