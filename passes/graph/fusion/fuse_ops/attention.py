"""
Fusion of attention: `batch_matmul(softmax(f(batch_matmul(q, k))), v)` becomes one kernel.

Scores are computed for one block of queries at a time and stay in the cache; the whole matrix of scores is never
stored. Transposes of q, k, v and of the result become part of the kernel's index expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import f32

from mlc.dialects.graph import BatchMatmulOp, SoftmaxOp, TransposeOp, shape_of
from mlc.passes.graph.shared.constants import is_static
from mlc.targets.cost.thresholds import LEAST_QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.ir import Operation, SSAValue

    from mlc.passes.graph.fusion.fuse_ops.mlc_rules import KernelGroup

    Find = Callable[[SSAValue], KernelGroup | None]


def mixes(producer: KernelGroup, into: KernelGroup, group_of: Find) -> bool:
    """Whether `into` is the second product of an attention, and `producer` the softmax in front of it."""
    product, softmax = into.anchor, producer.anchor
    if not isinstance(product, BatchMatmulOp) or not isinstance(softmax, SoftmaxOp) or into.ops != [product]:
        return False
    shape, right = shape_of(softmax.type), shape_of(product.operands[1].type)
    if producer.output is not softmax or product.operands[0] is not softmax.results[0] or product.transpose_a:
        return False
    if product.transpose_b or softmax.axis % len(shape) != len(shape) - 1:
        return False
    if is_static(shape[-2:-1]):
        many = shape[-2] >= LEAST_QUERIES
    else:  # te-pad-queries
        many = softmax.type.element_type == f32
    if not many or len(right) != len(shape):
        return False
    return len(producer.ops) == 1 and is_scores(group_of(softmax.operands[0]), softmax)


def is_scores(group: KernelGroup | None, softmax: Operation) -> bool:
    """Whether a group is the first product of an attention: read by the softmax alone, in its shape."""
    if group is None or not isinstance(group.anchor, BatchMatmulOp):
        return False
    result = group.output.results[0]
    shape = shape_of(result.type)
    if any(use.operation is not softmax for use in result.uses) or group.anchor.type != result.type:
        return False
    return all(len(shape_of(operand.type)) == len(shape) for operand in group.anchor.operands)


def joins_attention(producer: KernelGroup, into: KernelGroup) -> bool:
    """Whether a producer may join an attention: the product of the scores, or transposes before one of its products."""
    if isinstance(producer.anchor, BatchMatmulOp):
        return True  # only the scores feed the softmax of a group that `mixes` accepted
    if producer.anchor is not None or not all(isinstance(op, TransposeOp) for op in producer.ops):
        return False
    result = producer.output.results[0]
    readers = [use.operation for use in result.uses]
    if not all(isinstance(op, BatchMatmulOp) for op in readers):
        return False
    values = any(op is into.anchor for op in readers)
    return not values or all(keeps_last(op) for op in producer.ops)


def leaves_attention(into: KernelGroup) -> bool:
    """Whether the only op that reads an attention is a transpose that keeps the lanes."""
    return len(into.ops) == 1 and keeps_last(into.output)


def keeps_last(op: Operation) -> bool:
    """Whether an op is a transpose whose last axis stays the last."""
    return isinstance(op, TransposeOp) and op.axes[-1] == len(op.axes) - 1
