"""
Floating-point operations of kernels, from the shapes of their graph ops alone.

For symbolic sizes the count is an expression of the symbols.
"""

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from mlc.dialects import graph
from mlc.dialects.graph.base import ELEMENTWISE
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.types import Dim, product, shape_of


def _size(value: SSAValue) -> Dim:
    return product(shape_of(value.type))


def _conv(op: graph.Conv2dOp) -> Dim:
    # A kernel's elements but its output channels are the terms of one output element, in every layout.
    weight, logical = _size(op.operands[1]), _size(op.results[0])
    channels = layout(op.out_layout).sizes(shape_of(op.results[0].type))["C"]
    return 2 * logical * weight // (channels or 1)


def _conv_transpose(op: graph.Conv2dTransposeOp) -> Dim:
    # Every input element is multiplied by the whole kernel of its channel.
    x, w = (shape_of(operand.type) for operand in op.operands)
    return 2 * product(x) * product(w[1:])


def _winograd(op: graph.Conv2dWinogradOp) -> Dim:
    # Counted as a direct convolution, so that rates of algorithms compare.
    u = shape_of(op.operands[1].type)
    return 2 * _size(op.results[0]) * u[3] * u[4] * 9


def _dense(op: graph.DenseOp) -> Dim:
    result = shape_of(op.results[0].type)
    return 2 * _size(op.operands[1]) * product(result[:-1])


def _batch_matmul(op: graph.BatchMatmulOp) -> Dim:
    inner = shape_of(op.operands[0].type)[-2 if op.transpose_a else -1]
    return 2 * _size(op.results[0]) * inner


def _pool(op: graph.MaxPool2dOp | graph.AvgPool2dOp) -> Dim:
    return _size(op.results[0]) * product(op.pool_size)


def _rows(op: Operation) -> Dim:
    return 5 * _size(op.operands[0])


_FLOPS: dict[type[Operation], Callable[[Any], Dim]] = {
    graph.Conv2dOp: _conv,
    graph.Conv2dTransposeOp: _conv_transpose,
    graph.Conv2dWinogradOp: _winograd,
    graph.DenseOp: _dense,
    graph.BatchMatmulOp: _batch_matmul,
    graph.MaxPool2dOp: _pool,
    graph.AvgPool2dOp: _pool,
    **dict.fromkeys((graph.SoftmaxOp, graph.LogSoftmaxOp, graph.LayerNormOp, graph.InstanceNormOp), _rows),
}


def flops_of(kernel: Operation) -> Dim:
    """The floating-point operations of all graph ops inside; an elementwise op counts one for each element."""
    total: Dim = 0
    for op in kernel.walk():
        if (count := _FLOPS.get(type(op))) is not None:
            total = total + count(op)
        elif isinstance(op, graph.ReduceOp):
            total = total + _size(op.operands[0])
        elif isinstance(op, graph.GraphOp) and op.operands and op.kind <= ELEMENTWISE + 1:
            total = total + _size(op.results[0])
    return total


_LONG: dict[type[Operation], int] = {
    graph.Conv2dWinogradOp: 20,
    graph.Conv2dOp: 4,
    graph.BatchMatmulOp: 4,
    graph.DenseOp: 4,
}
"""How much longer than other ops some take to be compiled, by seconds of kernels with them; 1 for all others."""

VALIDATED_EFFORT = 20
"""How much longer a kernel takes that is run in the interpreters before and after each pass. Not measured apart."""


def effort_of(kernel: Operation) -> int:
    """An estimate of how long a kernel takes to be compiled, beside others."""
    return sum(_LONG.get(type(op), 1) for op in kernel.walk())
