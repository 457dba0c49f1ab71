"""graph-combine-parallel-conv2d: convolutions of one picture become one with the channels of all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import Conv2dOp, shape_of
from mlc.passes.graph.constants import is_constant, is_static
from mlc.passes.graph.parallel_branches import Family, Machine, are_views, combine_parallel, concatenated
from mlc.passes.graph.rewriting import Rewriter


class Convolutions(Family):
    """
    Plain convolutions in one group, equal but for their output channels.

    One convolution reads the picture once instead of once a branch and starts one kernel; narrow branches fill vectors
    together. Against that stand the slices of its result: they are parts of the memory where the batch is 1 and
    every branch has whole vectors of channels, and copies elsewhere. Wide branches alone gain nothing but a launch,
    so the sum decides.
    """

    root = Conv2dOp

    def key(self, op: Any) -> Hashable | None:
        """Window, layout and type; the kernel's height and width."""
        w = shape_of(op.operands[1].type)
        plain = op.data_layout == "NCHW" and op.kernel_layout == "OIHW" and not op.channels
        if op.groups != 1 or not plain or not is_static(w) or not is_constant(op.operands[1]):
            return None
        return (op.strides, op.padding, op.dilation, op.out_dtype, w[1:], op.operands[1].type.element_type)

    def axis(self, op: Any) -> int:
        """The channels."""
        return 1

    def combine(self, rw: Rewriter, ops: Sequence[Any]) -> SSAValue:
        """One convolution by the kernels of all."""
        first = ops[0]
        weight = concatenated(rw, [op.operands[1] for op in ops], 0)
        attrs = {name: getattr(first, name) for name in first.declared}
        return rw.make(Conv2dOp, first.operands[0], weight, location=first.location, **attrs)

    def gain(self, ops: Sequence[Any], machine: Machine) -> float:
        """The time of all convolutions less that of the one and of what must be copied."""
        batch, _, *size = shape_of(ops[0].type)
        data, depth = prod(shape_of(ops[0].operands[0].type)), prod(shape_of(ops[0].operands[1].type)[1:])
        outputs: list[Any] = [shape_of(op.type)[1] for op in ops]
        pixels: Any = batch * prod(size)
        apart = sum(machine.product(o, depth, pixels, data, o * depth) for o in outputs)  # pyright: ignore
        total = sum(outputs)
        together = machine.product(total, depth, pixels, data, total * depth)  # pyright: ignore
        whole = are_views(shape_of(ops[0].type), 1) and all(o % machine.lanes == 0 for o in outputs)
        copies = 0.0 if whole else sum(machine.copy(pixels * o) for o in outputs)
        return apart - together - copies


@dataclass(frozen=True)
class CombineParallelConv2dPass(ModulePass):
    """
    Make convolutions of one picture with equal windows one convolution, and what is pointwise behind them with it.

    `%1 = graph.conv2d %x, %u; %2 = graph.conv2d %x, %v`  ->
    `%0 = graph.conv2d %x, (graph.concatenate %u, %v); %1 = graph.slice %0; %2 = graph.slice %0`

    At least `min-branches` of them, and only where the one is expected to be faster on `target` with `threads`:
    passes/graph/parallel_branches.py counts arithmetic on whole vectors, bytes, kernels started, slices that copy.
    """

    name = "graph-combine-parallel-conv2d"

    min_branches: int = 3
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        combine_parallel(op, Convolutions(), self.min_branches, Machine.of(self.target, self.threads))
