"""How much a kernel computes: the floating-point operations of graph ops, from their shapes alone."""

from collections.abc import Callable
from math import prod
from typing import Any

from xdsl.ir import Operation

from mlc.dialects import graph
from mlc.dialects.graph.base import ELEMENTWISE


def _size(value: Any) -> int:
    return prod(value.type.get_shape())


def _conv(op: Any) -> int:
    # A kernel's elements but its output channels are the terms of one output element, in every layout.
    weight, logical = _size(op.operands[1]), _size(op.results[0])
    channels = getattr(op, "channels", 0) or op.results[0].type.get_shape()[1]
    shape = op.results[0].type.get_shape()
    if len(shape) == 5:
        channels = shape[1] * shape[4]
    return 2 * logical * weight // max(1, channels)


def _conv_transpose(op: Any) -> int:
    # Every element of the picture meets the whole kernel of its channel.
    x, w = (operand.type.get_shape() for operand in op.operands)
    return 2 * prod(x) * prod(w[1:])


def _winograd(op: Any) -> int:
    # Counted as the direct sum, so that algorithms compare.
    u = op.operands[1].type.get_shape()
    return 2 * _size(op.results[0]) * u[3] * u[4] * 9


def _dense(op: Any) -> int:
    result = op.results[0].type.get_shape()
    return 2 * _size(op.operands[1]) * prod(result[:-1])


def _batch_matmul(op: Any) -> int:
    inner = op.operands[0].type.get_shape()[-2 if op.transpose_a else -1]
    return 2 * _size(op.results[0]) * inner


def _pool(op: Any) -> int:
    return _size(op.results[0]) * prod(op.pool_size)


def _rows(op: Any) -> int:
    return 5 * _size(op.operands[0])


_FLOPS: dict[type[Operation], Callable[[Any], int]] = {
    graph.Conv2dOp: _conv,
    graph.Conv2dTransposeOp: _conv_transpose,
    graph.Conv2dWinogradOp: _winograd,
    graph.DenseOp: _dense,
    graph.BatchMatmulOp: _batch_matmul,
    graph.MaxPool2dOp: _pool,
    graph.AvgPool2dOp: _pool,
    **dict.fromkeys((graph.SoftmaxOp, graph.LogSoftmaxOp, graph.LayerNormOp, graph.InstanceNormOp), _rows),
}


def flops_of(kernel: Operation) -> int:
    """The floating-point operations of all graph ops inside; an elementwise op counts one for each element."""
    total = 0
    for op in kernel.walk():
        if (count := _FLOPS.get(type(op))) is not None:
            total += count(op)
        elif isinstance(op, graph.ReduceOp):
            total += _size(op.operands[0])
        elif isinstance(op, graph.GraphOp) and op.operands and op.kind <= ELEMENTWISE + 1:
            total += _size(op.results[0])
    return total
