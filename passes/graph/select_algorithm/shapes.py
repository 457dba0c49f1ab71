"""The convolutions that have several algorithms, their sizes, and which algorithm the cost model finds fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from mlc.dialects.graph import Conv2dOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.winograd import ERROR_GROWTH, MATRICES
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import sizes_at
from mlc.dialects.loop import WORD_BITS
from mlc.passes.graph.shared.blocks import channel_block, divisor_block, groups_in_block, in_halves
from mlc.targets.cost.caches import FLOAT_BYTES
from mlc.targets.cost.thresholds import CLIPPED_SHARE, PRODUCT_BLOCK_VECTORS, WINOGRAD_GAIN, WINOGRAD_LEAST_CHANNELS
from mlc.targets.cost.winograd import direct_cycles, overlapped, problem
from mlc.targets.matrix import MATRIX_PRODUCT_CYCLES, MATRIX_ROWS, MATRIX_WORDS, multiplies_matrices
from mlc.targets.target import Target


@dataclass(frozen=True)
class Shape:
    """A convolution's sizes; channels as (blocks, channels of a block)."""

    batch: int
    size: tuple[int, int]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    inside: float
    """The part of the direct sum's products that are by elements of the picture, not of its padding."""
    groups: int = 1

    def direct_cycles(self, target: Target, threads: int) -> float:
        """The time of the direct sum, pixels sharing vectors that a block of channels leaves half empty."""
        lanes, block = target.lanes("f32"), self.outputs[1]
        vectors = self.outputs[0] * (block / lanes if lanes % block == 0 else ceil(block / lanes))
        points = self.batch * prod(self.size) * (self.inside if self.inside <= CLIPPED_SHARE else 1.0)
        return direct_cycles(points, prod(self.inputs) // self.groups, prod(self.outputs), vectors, target, threads)

    def winograd_cycles(self, m: int, target: Target, threads: int) -> float:
        """The time of the best schedule of F(m x m, 3 x 3)."""
        lanes = target.lanes("f32")
        wide = product_block(self.outputs, lanes, self.groups)
        work = problem(m, self.batch, self.size, self.inputs, self.outputs, wide, lanes, self.groups)
        return work.best(target, threads)[0]

    def choose(self, target: Target, threads: int, growth: float) -> int:
        """The tile size m that is fastest within the budget; 0 for the direct sum."""
        costs = {m: self.winograd_cycles(m, target, threads) for m in MATRICES if ERROR_GROWTH[m] <= growth}
        best = min(costs, key=costs.__getitem__, default=0)
        return best if best and costs[best] < WINOGRAD_GAIN * self.direct_cycles(target, threads) else 0


def is_slower_narrow(op: Conv2dOp, target: Target, threads: int, growth: float) -> bool:
    """
    Whether Winograd's product of f32 is faster than the direct sum of factors of 16 bits, for an unblocked op.

    Its weights have 8 times as many bytes, and count as read from memory: the weights of all layers exceed L3.
    """
    lanes = target.lanes("f32")
    shape = _shape_in_blocks(op, lanes, in_halves(lanes, target))
    if shape is None:
        return False
    m = shape.choose(target, threads, growth)
    if not m:
        return False
    direct = shape.direct_cycles(target, threads)
    faster = WORD_BITS // 16
    if multiplies_matrices("bf16", target):
        faster *= MATRIX_WORDS * MATRIX_ROWS / MATRIX_PRODUCT_CYCLES / target.core.fmas_per_cycle
    weights = FLOAT_BYTES * (m + 2) ** 2 * prod(shape.inputs) * prod(shape.outputs) // shape.groups
    streamed = overlapped(shape.winograd_cycles(m, target, threads), weights / target.core.memory_bytes_per_cycle)
    return streamed < WINOGRAD_GAIN * direct / faster


def _shape_in_blocks(op: Conv2dOp, lanes: int, halves: bool) -> Shape | None:
    """The sizes that a 3 x 3 convolution of stride 1 in plain layout would have in blocks; None for other ops."""
    weight = shape_of(op.operands[1].type)
    if op.data_layout != "NCHW" or op.kernel_layout != "OIHW" or not _has_algorithms(op) or weight[2:] != (3, 3):
        return None
    (batch, outputs, height, width), (_, inputs, _, _) = (
        usual_shape(op, type) for type in (op.type, op.operands[0].type)
    )
    each = inputs // op.groups, outputs // op.groups
    x, y = (channel_block(n, lanes, halves) if op.groups == 1 else divisor_block(n, lanes, halves) for n in each)
    if min(x, y) < WINOGRAD_LEAST_CHANNELS or (op.groups > 1 and groups_in_block(*each, op.groups, lanes) > 1):
        return None
    inside = part_inside(op.padding, (height, width))
    return Shape(batch, (height, width), (ceil(inputs / x), x), (ceil(outputs / y), y), inside, op.groups)


def winograd_share(op: Conv2dOp, lanes: int, target: Target, threads: int, growth: float) -> float:
    """Time of Winograd's algorithm over that of the direct sum, if `op` were in blocks; 1 if it would not be chosen."""
    shape = _shape_in_blocks(op, lanes, in_halves(lanes, target))
    m = 0 if shape is None else shape.choose(target, threads, growth)
    return shape.winograd_cycles(m, target, threads) / shape.direct_cycles(target, threads) if shape and m else 1.0


def _has_algorithms(op: Conv2dOp) -> bool:
    """Whether an op's parameters allow Winograd's transforms."""
    return tuple(op.strides) == (1, 1) == tuple(op.dilation) and not op.out_dtype and not op.pad_value


def product_block(outputs: tuple[int, int], lanes: int, groups: int = 1) -> int:
    """
    The output channels that Winograd's product takes as one block; `outputs` is (blocks, channels of a block).

    It is the multiple of the layout's block that divides the channels of a group and fills vectors of `lanes` best:
    24 channels in blocks of 8 are multiplied as one block of 24.
    """
    channels, block = prod(outputs) // groups, outputs[1]
    sizes = [b for b in range(block, min(channels, PRODUCT_BLOCK_VECTORS * lanes) + 1, block) if channels % b == 0]
    return min(sizes, key=lambda b: (ceil(b / lanes) / b, b), default=block)


def shape_if_eligible(op: Conv2dOp) -> Shape | None:
    """The sizes of a 3 x 3 convolution of stride 1 in blocks, whose groups have whole blocks; None for other ops."""
    data, kernel = layout(op.data_layout), layout(op.kernel_layout)
    if not _has_algorithms(op) or str(op.type.element_type) != "f32":
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
    if shape_of(op.operands[1].type)[1] * op.groups != x[1] or blocks % op.groups:
        return None
    inside = part_inside(op.padding, (height, width))
    return Shape(batch, (height, width), (x[1], x[4]), (blocks, block), inside, op.groups)


def part_inside(padding: Sequence[int], size: Sequence[int]) -> float:
    """The part of a 3 x 3 convolution's products whose factor lies in the picture; `size` is (rows, columns)."""
    top, left, bottom, right = padding
    outside = (range(top + 1), range(bottom + 1)), (range(left + 1), range(right + 1))
    return prod(1 - sum(map(sum, ends)) / (3 * n) for ends, n in zip(outside, size, strict=True))


def usual_shape(op: Operation, type_: Attribute) -> tuple[int, ...]:
    """The sizes of a tensor, with the typical values of symbols in place of symbolic sizes."""
    function = op
    while not isinstance(function, FuncOp):
        function = function.parent_op()
        assert function is not None
    values = {name: symbol.typical for name, symbol in symbols_of(function).items()}
    return sizes_at(shape_of(type_), values)
