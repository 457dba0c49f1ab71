"""graph-select-algorithm: convolutions that Winograd's transforms make cheaper, within an accuracy budget."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    ConstantOp,
    Conv2dOp,
    Conv2dWinogradOp,
    LayoutTransformOp,
    WinogradWeightOp,
    shape_of,
)
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.winograd import ERROR_GROWTH, MATRICES
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import sizes_at
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.rewriting import functions
from mlc.support.errors import fail
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


def plain_weight(w: SSAValue) -> SSAValue | None:
    """The OIHW weight of which a blocked one is the transform."""
    owner = w.owner
    if isinstance(owner, LayoutTransformOp) and owner.src == "OIHW" and is_constant(owner.operands[0]):
        return owner.operands[0]
    return None


def shape_if_eligible(op: Conv2dOp) -> Shape | None:
    """The sizes of a blocked 3 x 3 convolution of stride 1 with constant weights; None of any other."""
    data, kernel = layout(op.data_layout), layout(op.kernel_layout)
    if op.groups != 1 or tuple(op.strides) != (1, 1) or tuple(op.dilation) != (1, 1) or op.channels or op.out_dtype:
        return None
    if str(op.type.element_type) != "f32":
        return None
    _, weight = op.logical_sizes()
    if (weight["H"], weight["W"]) != (3, 3) or op.data_layout != f"NCHW{data.factors['C']}c":
        return None
    if op.kernel_layout != f"OIHW{kernel.factors['I']}i{kernel.factors['O']}o":
        return None
    if data.factors["C"] < WINOGRAD_LEAST_CHANNELS:
        return None
    plain = plain_weight(op.operands[1])
    if plain is None or shape_of(plain.type)[:2] != (weight["O"], weight["I"]):
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


def rewrite(op: Conv2dOp, m: int, wide: int) -> None:
    """`conv2d %x, (layout_transform %w)` -> `conv2d_winograd %x, (winograd_weight %w, G)`."""
    import numpy as np

    block = op.parent
    plain = plain_weight(op.operands[1])
    assert block is not None
    assert plain is not None
    g = ConstantOp.make(np.array(MATRICES[m][1], np.float32))
    kernel = layout(op.kernel_layout).factors
    weight = WinogradWeightOp.make(plain, g.results[0], block_in=kernel["I"], block_out=wide)
    new = Conv2dWinogradOp.make(
        op.operands[0],
        weight.results[0],
        tile=m,
        block=kernel["O"] if wide != kernel["O"] else 0,
        padding=tuple(op.padding),
        location=op.location,
    )
    for made in (g, weight, new):
        block.insert_op_before(made, op)
    new.results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()


@dataclass(frozen=True)
class SelectAlgorithmPass(ModulePass):
    """
    Blocked 3 x 3 convolutions of stride 1 become Winograd's F(4x4, 3x3) or F(2x2, 3x3) where that is faster.

    `graph.conv2d %x, %w {kernel_layout = "OIHW16i16o"}` -> `graph.conv2d_winograd %x, %u`

    `error-growth` is the accuracy budget: by how much the error may exceed that of the direct sum (F(2x2) about 2,
    F(4x4) about 12; 0 keeps every convolution direct). The cost model (targets/cost/winograd.py) reads the caches
    and vectors of `target`, and counts multiplications, transforms and bytes for `threads`.
    """

    name = "graph-select-algorithm"

    error_growth: float = 16.0
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.error_growth < 0:
            fail(op, f"expected an error-growth of at least 0, but got {self.error_growth}")
        target = Target.parse(self.target)
        for conv in [o for f in functions(op) for o in f.walk() if isinstance(o, Conv2dOp)]:
            shape = shape_if_eligible(conv)
            if shape is not None and (m := shape.choose(target, self.threads, self.error_growth)):
                rewrite(conv, m, product_block(shape.outputs, target.lanes("f32")))
