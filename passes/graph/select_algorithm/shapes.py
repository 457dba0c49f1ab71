"""The convolutions that have several algorithms, their sizes, and which algorithm the cost model finds fastest."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.graph import Conv2dOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.winograd import ERROR_GROWTH, MATRICES
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import sizes_at
from mlc.targets.cost.thresholds import PRODUCT_BLOCK_VECTORS, WINOGRAD_GAIN, WINOGRAD_LEAST_CHANNELS
from mlc.targets.cost.winograd import direct_cycles, problem
from mlc.targets.target import Target


@dataclass(frozen=True)
class Shape:
    """A convolution's sizes; channels as (blocks, channels of a block)."""

    batch: int
    size: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]

    def direct_cycles(self, target: Target, threads: int) -> float:
        """The time of the direct sum, pixels sharing vectors that a block of channels leaves half empty."""
        lanes, block = target.lanes("f32"), self.outputs[1]
        vectors = self.outputs[0] * (block / lanes if lanes % block == 0 else ceil(block / lanes))
        points = self.batch * prod(self.size)
        return direct_cycles(points, prod(self.inputs), prod(self.outputs), vectors, target, threads)

    def winograd_cycles(self, m: int, target: Target, threads: int) -> float:
        """The time of the best schedule of F(m x m, 3 x 3)."""
        lanes = target.lanes("f32")
        wide = product_block(self.outputs, lanes)
        return problem(m, self.batch, self.size, self.inputs, self.outputs, wide, lanes).best(target, threads)[0]

    def choose(self, target: Target, threads: int, growth: float) -> int:
        """The tile size m that is fastest within the budget; 0 for the direct sum."""
        costs = {m: self.winograd_cycles(m, target, threads) for m in MATRICES if ERROR_GROWTH[m] <= growth}
        best = min(costs, key=costs.__getitem__, default=0)
        return best if best and costs[best] < WINOGRAD_GAIN * self.direct_cycles(target, threads) else 0


def product_block(outputs: tuple[int, int], lanes: int) -> int:
    """The block of output channels that fills vectors best: 24 channels in blocks of 8 are multiplied as 24."""
    channels, block = prod(outputs), outputs[1]
    sizes = [b for b in range(block, min(channels, PRODUCT_BLOCK_VECTORS * lanes) + 1, block) if channels % b == 0]
    return min(sizes, key=lambda b: (ceil(b / lanes) / b, b), default=block)


def shape_if_eligible(op: Conv2dOp) -> Shape | None:
    """The sizes of a blocked 3 x 3 convolution of stride 1, whatever its weight is; None of any other."""
    data, kernel = layout(op.data_layout), layout(op.kernel_layout)
    if op.groups != 1 or tuple(op.strides) != (1, 1) or tuple(op.dilation) != (1, 1) or op.channels or op.out_dtype:
        return None
    if str(op.type.element_type) != "f32" or op.pad_value:
        return None
    _, weight = op.logical_sizes()
    if (weight["H"], weight["W"]) != (3, 3) or op.data_layout != f"NCHW{data.factors['C']}c":
        return None
    if op.kernel_layout != f"OIHW{kernel.factors['I']}i{kernel.factors['O']}o":
        return None
    if data.factors["C"] < WINOGRAD_LEAST_CHANNELS:
        return None
    batch, blocks, height, width, block = usual_shape(op, op.type)
    x = usual_shape(op, op.operands[0].type)
    return Shape(batch, (height, width), (x[1], x[4]), (blocks, block))


def usual_shape(op: Operation, type_: Attribute) -> tuple[int, ...]:
    """The sizes of a tensor, those that are symbolic at the usual values of their symbols."""
    function = op
    while not isinstance(function, FuncOp):
        function = function.parent_op()
        assert function is not None
    values = {name: symbol.typical for name, symbol in symbols_of(function).items()}
    return sizes_at(shape_of(type_), values)
