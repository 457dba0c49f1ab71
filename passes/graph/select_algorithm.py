"""graph-select-algorithm: convolutions that Winograd's transforms make cheaper, within an accuracy budget."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import ConstantOp, Conv2dOp, Conv2dWinogradOp, LayoutTransformOp, WinogradWeightOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.winograd import ERROR_GROWTH, MATRICES, tiles
from mlc.passes.errors import fail
from mlc.passes.graph.constants import is_constant

BYTES_A_CYCLE = 8.0  # what one core streams from beyond its caches
NEAR_BYTES = 8 << 20  # transformed tiles up to this size come back from L2 and L3 at 14 bytes a cycle, larger ones at 4


@dataclass(frozen=True)
class Shape:
    """A convolution's sizes."""

    batch: int
    inputs: int
    outputs: int
    height: int
    width: int


def direct_cycles(s: Shape, lanes: int) -> float:
    """Multiplications at two vectors a cycle, and the weights' way from memory."""
    macs = 9 * s.batch * s.inputs * s.outputs * s.height * s.width
    return macs / lanes / 2 + 36 * s.inputs * s.outputs / BYTES_A_CYCLE


def winograd_cycles(s: Shape, m: int, lanes: int) -> float:
    """The products, the transforms of picture and result with their way through the cache, the weights' way."""
    t = m + 2
    count = s.batch * tiles(s.height, m) * tiles(s.width, m)
    product = t * t * count * s.inputs * s.outputs / lanes / 2
    weights = 4 * t * t * s.inputs * s.outputs / BYTES_A_CYCLE
    points = count * (s.inputs * (t * t * t + t * t * m) + s.outputs * (t * t * m + t * m * m)) / lanes / 2
    between = 4 * t * t * count * (s.inputs + s.outputs)  # bytes of the transformed tiles, written once and read once
    moved = 2 * between / (14.0 if between <= NEAR_BYTES else 4.0)
    return product + weights + points + moved


def choose(s: Shape, lanes: int, growth: float) -> int:
    """The tile size m that is fastest within the budget; 0 for the direct sum."""
    best, cost = 0, 0.9 * direct_cycles(s, lanes)
    for m in MATRICES:
        if ERROR_GROWTH[m] <= growth and (c := winograd_cycles(s, m, lanes)) < cost:
            best, cost = m, c
    return best


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
    sizes = [*shape_of(op.operands[0].type), *shape_of(op.operands[1].type)]
    if not all(isinstance(n, int) for n in sizes) or str(op.type.element_type) != "f32":
        return None
    picture, weight = op.logical_sizes()
    if (weight["H"], weight["W"]) != (3, 3) or op.data_layout != f"NCHW{data.factors['C']}c":
        return None
    if op.kernel_layout != f"OIHW{kernel.factors['I']}i{kernel.factors['O']}o" or data.factors["C"] < 4:
        return None
    plain = plain_weight(op.operands[1])
    if plain is None or shape_of(plain.type)[:2] != (weight["O"], weight["I"]):
        return None
    _, _, height, width, _ = shape_of(op.type)
    return Shape(picture["N"], picture["C"], weight["O"], height, width)  # pyright: ignore[reportArgumentType]


def rewrite(op: Conv2dOp, m: int) -> None:
    """`conv2d %x, (layout_transform %w)` -> `conv2d_winograd %x, (winograd_weight %w, G), B^T, A^T`."""
    import numpy as np

    block = op.parent
    plain = plain_weight(op.operands[1])
    assert block is not None
    assert plain is not None
    bt, g, at = (ConstantOp.make(np.array(matrix, np.float32)) for matrix in MATRICES[m])
    kernel = layout(op.kernel_layout).factors
    weight = WinogradWeightOp.make(plain, g.results[0], block_in=kernel["I"], block_out=kernel["O"])
    new = Conv2dWinogradOp.make(
        op.operands[0],
        weight.results[0],
        bt.results[0],
        at.results[0],
        padding=tuple(op.padding),
        location=op.location,
    )
    for made in (bt, g, at, weight, new):
        block.insert_op_before(made, op)
    new.results[0].name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()


@dataclass(frozen=True)
class SelectAlgorithmPass(ModulePass):
    """
    Blocked 3 x 3 convolutions of stride 1 become Winograd's F(4x4, 3x3) or F(2x2, 3x3) where that is faster.

    `graph.conv2d %x, %w {kernel_layout = "OIHW16i16o"}` -> `graph.conv2d_winograd %x, %u, %bt, %at`

    `error-growth` is the accuracy budget: by how much the error may exceed that of the direct sum (F(2x2) about 2,
    F(4x4) about 12; 0 keeps every convolution direct). The cost model counts multiplications and bytes.
    """

    name = "graph-select-algorithm"

    error_growth: float = 16.0
    vector_bits: int = 512

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.error_growth < 0:
            fail(op, f"expected an error-growth of at least 0, but got {self.error_growth}")
        for conv in [o for o in op.walk() if isinstance(o, Conv2dOp)]:
            shape = shape_if_eligible(conv)
            if shape is not None and (m := choose(shape, self.vector_bits // 32, self.error_growth)):
                rewrite(conv, m)
