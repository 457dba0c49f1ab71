"""graph-combine-parallel-conv2d: convolutions of one picture become one, their output channels concatenated."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.graph import Conv2dOp, shape_of, static_shape
from mlc.passes.graph.fusion.combine_parallel.branches import CombineParallelPass, Family, concatenated
from mlc.passes.graph.shared.blocks import channel_block, in_halves
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.branches import BranchCosts, Contraction


class Convolutions(Family[Conv2dOp]):
    """
    Ungrouped convolutions in plain layouts that differ only in their output channels.

    Merged narrow branches fill vectors and register tiles, and pad the picture once. The price is the slices of the
    result: views where the batch is 1 and every branch has whole vectors of channels, else copies. Wide branches gain
    little: reading the picture again from a cache overlaps with the arithmetic.
    """

    root = Conv2dOp

    def key(self, op: Conv2dOp) -> Hashable | None:
        """Window, layout and type; the kernel's height and width."""
        w = shape_of(op.operands[1].type)
        plain = op.data_layout == "NCHW" and op.kernel_layout == "OIHW" and not op.channels
        if op.groups != 1 or not plain or not is_static(w) or not is_constant(op.operands[1]):
            return None
        return (op.strides, op.padding, op.dilation, op.out_dtype, w[1:], element_of(op.operands[1]))

    def axis(self, op: Conv2dOp) -> int:
        """The channels."""
        return 1

    def combine(self, rw: Rewriter, ops: Sequence[Conv2dOp]) -> SSAValue:
        """One convolution with the concatenated kernels."""
        first = ops[0]
        weight = concatenated(rw, [op.operands[1] for op in ops], 0)
        return rw.clone(first, first.operands[0], weight)

    def work(self, ops: Sequence[Conv2dOp], machine: BranchCosts) -> Contraction:
        """The work of the convolutions as one; channels are in the blocks that graph-alter-op-layout will choose."""
        first = ops[0]
        batch, _, height, width = static_shape(first.type)
        weights = [static_shape(op.operands[1].type) for op in ops]
        outputs, depth = sum(w[0] for w in weights), prod(weights[0][1:])
        block = channel_block(outputs, machine.lanes, in_halves(machine.lanes, machine.target))
        data, padded = prod(static_shape(first.operands[0].type)), any(first.padding)
        return Contraction(batch * height, width, outputs, depth, data, outputs * depth, block, padded)

    def copies(self, op: Conv2dOp, machine: BranchCosts, block: int) -> float:
        """No copy where the batch is 1 and the part has whole blocks of channels."""
        shape = static_shape(op.type)
        return machine.copy(prod(shape), False) if shape[1] % block else super().copies(op, machine, block)


class CombineParallelConv2dPass(CombineParallelPass):
    """
    Make convolutions of one picture with equal windows one convolution, with the pointwise ops behind them.

    `%1 = graph.conv2d %x, %u; %2 = graph.conv2d %x, %v`  ->
    `%0 = graph.conv2d %x, (graph.concatenate %u, %v); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where that is expected to be faster on `target` with `threads`:
    costs.py counts register tiles, bytes from beyond L2, kernels started, slices that copy.
    """

    name = "graph-combine-parallel-conv2d"
    family = Convolutions
