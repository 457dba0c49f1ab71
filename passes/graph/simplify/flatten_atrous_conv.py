"""
graph-flatten-atrous-conv: a convolution between space-to-batch and batch-to-space is one with dilation.

TensorFlow spells a dilated convolution as three ops; in this dialect the outer two are movements:

    space to batch   (pad)  reshape N x H/b x b x W/b x b x C   transpose [b, b, N, ..]   reshape b*b*N x H/b x W/b x C
    batch to space   reshape b x b x N x H x W x C   transpose [N, H, b, W, b, C]   reshape N x H*b x W*b x C  (slice)

in NCHW or NHWC. Pixel i of phase k is pixel i * b + k of the picture, and likewise of the result; so a step of the
window from one pixel of a phase to the next is a step of b in the picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    BiasAddOp,
    Conv2dOp,
    GraphOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.pointwise import is_own_unary
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.shared.constants import is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op

ATROUS = Rules()
Movement: TypeAlias = tuple[ReshapeOp, TransposeOp, ReshapeOp]
SPATIAL = {"NCHW": (2, 3), "NHWC": (1, 2)}


@dataclass(frozen=True)
class Phases:
    """The operand of a space-to-batch, its block sizes, and its padding: top, left, bottom, right."""

    picture: SSAValue
    block: tuple[int, int]
    padding: tuple[int, int, int, int]


def split_axes(shape: tuple[int, ...], axes: tuple[int, int], block: tuple[int, int]) -> tuple[int, ...]:
    """The shape with the axes split into (size / block, block)."""
    result: list[int] = []
    for axis, size in enumerate(shape):
        result += [size // block[axes.index(axis)], block[axes.index(axis)]] if axis in axes else [size]
    return tuple(result)


def batch_order(axes: tuple[int, int]) -> tuple[int, ...]:
    """The transpose of a space-to-batch: both blocks, the batch, the rest."""
    blocks = axes[0] + 1, axes[1] + 2
    return (*blocks, *(axis for axis in range(6) if axis not in blocks))


def space_to_batch(value: SSAValue, axes: tuple[int, int], pad_value: int) -> Phases | None:
    """The picture, block and padding (by `pad_value`) of a space-to-batch whose result a value is."""
    chain = _movement(value)
    if chain is None:
        return None
    split, order, merged = chain
    shape, mid = shape_of(split.operands[0].type), shape_of(split.type)
    if (
        not is_static(shape)
        or not is_static(mid)
        or len(shape) != 4
        or len(mid) != 6
        or order.axes != batch_order(axes)
    ):
        return None
    block = mid[axes[0] + 1], mid[axes[1] + 2]
    if mid != split_axes(shape, axes, block) or any(shape[a] % b for a, b in zip(axes, block, strict=True)):
        return None
    phases = [size // block[axes.index(a)] if a in axes else size for a, size in enumerate(shape)]
    phases[0] *= block[0] * block[1]
    if tuple(phases) != shape_of(merged.type):
        return None
    picture: SSAValue = split.operands[0]
    padding = (0, 0, 0, 0)
    pad = defining_op(picture, PadOp)
    if pad is not None and pad.mode == "constant" and pad.value == pad_value:
        width = pad.pad_width
        others = [w for axis in range(4) if axis not in axes for w in width[2 * axis : 2 * axis + 2]]
        if not any(others):
            (top, bottom), (left, right) = (width[2 * a : 2 * a + 2] for a in axes)
            picture, padding = pad.operands[0], (top, left, bottom, right)
    return Phases(picture, block, padding)


def _movement(value: SSAValue) -> Movement | None:
    """The reshape, transpose and reshape of static sizes that define a value."""
    last = defining_op(value, ReshapeOp)
    order = None if last is None else defining_op(last.operands[0], TransposeOp)
    first = None if order is None else defining_op(order.operands[0], ReshapeOp)
    if first is None or order is None or last is None or not is_static(shape_of(first.operands[0].type)):
        return None
    return first, order, last


def convolution_before(value: SSAValue) -> tuple[Conv2dOp, list[GraphOp]] | None:
    """The convolution that a value is computed from by pointwise ops, and these in order; each with one reader."""
    chain: list[GraphOp] = []
    while value.has_one_use():
        op = value.owner
        if isinstance(op, Conv2dOp):
            return op, chain[::-1]
        if not isinstance(op, GraphOp) or not (isinstance(op, UnaryOp | BiasAddOp) or is_own_unary(op)):
            return None
        if isinstance(op, BiasAddOp) and axis_of(op.axis, 4) == 0:
            return None
        chain.append(op)
        value = op.operands[0]
    return None


@ATROUS.on(SliceOp, ReshapeOp)
def dilated_convolution(op: SliceOp | ReshapeOp, rw: Rewriter) -> Replacement:
    """`batch_to_space(conv2d(space_to_batch(x, b), w)) -> conv2d(x, w) {dilation = b}`."""
    if isinstance(op, ReshapeOp) and any(isinstance(use.operation, SliceOp) for use in op.result.uses):
        return None  # the rule for the slice applies, which crops the padding
    chain = _movement(op.operands[0] if isinstance(op, SliceOp) else op.results[0])
    found = None if chain is None else convolution_before(chain[0].operands[0])
    if chain is None or found is None:
        return None
    conv, between = found
    axes = SPATIAL.get(conv.data_layout)
    phases = None if axes is None else space_to_batch(conv.operands[0], axes, conv.pad_value)
    if axes is None or phases is None or not _is_batch_to_space(chain, axes, phases.block, conv):
        return None
    if any(isinstance(b, BiasAddOp) and axis_of(b.axis, 4) in axes for b in between):
        return None
    padding = _padding(op, conv, axes, phases)
    if padding is None:
        return None
    dilation = tuple(d * b for d, b in zip(conv.dilation, phases.block, strict=True))
    value = rw.clone(conv, phases.picture, conv.operands[1], padding=padding, dilation=dilation)
    for step in between:
        value = rw.clone(step, value, *step.operands[1:])
    return value


def _is_batch_to_space(chain: Movement, axes: tuple[int, int], block: tuple[int, int], conv: Conv2dOp) -> bool:
    """Whether movements are the batch-to-space of this block, behind a convolution of stride 1."""
    split, order, merged = chain
    phases = static_shape(split.operands[0].type)
    count = block[0] * block[1]
    if phases[0] % count or tuple(conv.strides) != (1, 1):
        return False
    one = (phases[0] // count, *phases[1:])
    inverse = batch_order(axes)
    back = tuple(inverse.index(axis) for axis in range(6))
    whole = tuple(size * block[axes.index(axis)] if axis in axes else size for axis, size in enumerate(one))
    return (
        tuple(shape_of(split.type)) == (*block, *one) and order.axes == back and tuple(shape_of(merged.type)) == whole
    )


def _padding(
    op: SliceOp | ReshapeOp, conv: Conv2dOp, axes: tuple[int, int], phases: Phases
) -> tuple[int, int, int, int] | None:
    """The padding with which the dilated convolution has the result's size; None where it would have to crop."""
    begin = op.begin if isinstance(op, SliceOp) else (0,) * 4
    if isinstance(op, SliceOp):
        kept = [axis for axis in range(4) if axis not in axes]
        source = shape_of(op.operands[0].type)
        if any(op.strides[a] != 1 or begin[a] < 0 for a in range(4)):
            return None
        if any(shape_of(op.type)[a] != source[a] for a in kept):
            return None
    kernel = conv.logical_sizes()[1]
    picture = shape_of(phases.picture.type)
    result = [0] * 4
    for k, axis in enumerate(axes):
        block = phases.block[k]
        before = phases.padding[k] + conv.padding[k] * block - begin[axis]
        reach = (kernel["HW"[k]] - 1) * conv.dilation[k] * block
        after = shape_of(op.type)[axis] + reach - picture[axis] - before
        if not isinstance(after, int):
            return None
        result[k], result[k + 2] = before, after
    return None if min(result) < 0 else (result[0], result[1], result[2], result[3])


class FlattenAtrousConvPass(ModulePass):
    """
    Make one dilated convolution of space-to-batch, a convolution and batch-to-space.

    `reshape (transpose (reshape (graph.conv2d (reshape (transpose (reshape (pad %x)))), %w)))`  ->
    `graph.conv2d %x, %w {dilation = [2, 2], padding = [2, 2, 2, 2]}`

    Pointwise ops between the convolution and batch-to-space, a bias and an activation, follow the new convolution.
    """

    name = "graph-flatten-atrous-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, ATROUS)
