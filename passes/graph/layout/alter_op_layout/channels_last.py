"""
Depthwise convolutions between transposes compute where channels come last, and no element moves.

    %t = transpose %x {axes = [0, 3, 1, 2]}
    %y = conv2d %t, %w {groups = 96}
    transpose %y {axes = [0, 2, 3, 1]}

Networks of tokens have such windows between their products. With one block of all channels, `NCHW96c`, the
convolution reads and writes NHWC: graph-canonicalize makes reshapes of both transposes.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import BiasAddOp, BinaryOp, Conv2dOp, TransposeOp, UnaryOp, shape_of
from mlc.passes.graph.layout.alter_op_layout.planes import FEW_READERS
from mlc.passes.graph.shared.blocks import static_size
from mlc.passes.graph.shared.constants import element_of, is_constant
from mlc.passes.rewriting import defining_op
from mlc.targets.cost.windows import Row, window_tile
from mlc.targets.target import Target

_TO_LAST = (0, 2, 3, 1)
"""NCHW -> NHWC."""
_FROM_LAST = (0, 3, 1, 2)
"""NHWC -> NCHW."""


def computes_channels_last(op: Conv2dOp, block: int, target: Target) -> bool:
    """Whether a depthwise convolution reads NHWC, is read as that, and L1 holds its pixels side by side."""
    x = op.operands[0]
    transpose, channels = defining_op(x, TransposeOp), static_size(shape_of(x.type)[1])
    if (
        not op.is_depthwise
        or transpose is None
        or tuple(transpose.axes) != _FROM_LAST
        or channels is None
        or channels <= block
    ):
        return False
    if not all(isinstance(element_of(value), Float32Type) for value in (*op.operands, op.result)):
        return False
    width, span = static_size(shape_of(op.type)[3]), static_size(shape_of(op.operands[1].type)[3])
    if width is None or span is None:
        return False
    row = Row(width, op.strides[1], (span - 1) * op.dilation[1] + 1)
    if window_tile(row, channels, target) is None:
        return False
    ends = [end for end in _readers(op.result) if not _is_pointwise(end)]
    return bool(ends) and all(isinstance(end, TransposeOp) and tuple(end.axes) == _TO_LAST for end in ends)


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, perhaps through pointwise ops, and those; a few at most."""
    work = [value]
    for _ in range(FEW_READERS):
        if not work:
            return
        for use in work.pop().uses:
            yield use.operation
            work += use.operation.results if _is_pointwise(use.operation) else []


def _is_pointwise(op: Operation) -> bool:
    """Whether an op keeps the layout of one operand; another is constant."""
    if isinstance(op, BinaryOp):
        return any(is_constant(operand) for operand in op.operands)
    return isinstance(op, UnaryOp | BiasAddOp)
