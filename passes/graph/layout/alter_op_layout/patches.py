"""
Convolutions of few channels whose result is read in the plain layout, as a product of weights and patches.

    conv2d %x, %w {strides = [s, t]}   ->   conv2d %patches, %w' {1x1, on planes of pixels}
    patches[n, (k, l, c), i, j] = x[n, c, s * i + k, t * j + l]

Pixels are the lanes of the product, which writes planes; blocks of channels would be moved to planes by a copy, which
takes as long as the sums of a few products each. A slice for each tap makes the patches ("im2col", Chellapilla et al.,
"High performance convolutional neural networks for document processing", 2006).
"""

from __future__ import annotations

from itertools import product
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.graph import ConcatenateOp, Conv2dOp, PadOp, ReshapeOp, SliceOp, TransposeOp, shape_of
from mlc.dialects.graph.types import is_static, static_shape
from mlc.passes.graph.layout.alter_op_layout.planes import (
    computes_in_planes,
    ends_plain,
    planar_convolution,
    product_on_planes,
)
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.constants import element_of
from mlc.targets.cost.thresholds import MOST_PATCH_ELEMENTS, PATCH_COST, PLAIN_TRANSFORM_COST


def convolution_on_planes(op: Conv2dOp, v: Versions, block: int) -> tuple[str, SSAValue] | None:
    """A convolution with pixels as its lanes, where that is faster than blocks of channels: its layout and result."""
    if computes_in_planes(op, v, block):
        return planar_convolution(op, v)
    return product_of_patches(op, v) if multiplies_patches(op, v) else None


def multiplies_patches(op: Conv2dOp, v: Versions) -> bool:
    """Whether copying patches costs less than moving the result from blocks of channels to planes."""
    x, w = op.operands
    if (
        op.groups > 1
        or op.out_dtype
        or op.pad_value
        or not all(is_static(shape_of(one.type)) for one in (x, op.result))
    ):
        return False
    if str(element_of(x)) != "f32" or str(element_of(w)) != "f32" or v.native(x) != PLAIN:
        return False
    outputs, *window = static_shape(w.type)
    if outputs == 1 or prod(window[1:]) == 1 or prod(window) > MOST_PATCH_ELEMENTS:
        return False
    return PATCH_COST * prod(window) < PLAIN_TRANSFORM_COST * outputs and ends_plain(op.result, v)


def product_of_patches(op: Conv2dOp, v: Versions) -> tuple[str, SSAValue]:
    """The convolution as a product on planes."""
    x, w = op.operands
    n, _, height, width = static_shape(op.type)
    outputs, inputs, rows, columns = static_shape(w.type)
    top, left, bottom, right = op.padding
    picture = v.get(x, PLAIN)
    if any(op.padding):
        picture = v.make(PadOp, picture, pad_width=(0, 0, 0, 0, top, bottom, left, right))
    taps: list[SSAValue] = []
    for tap in product(range(rows), range(columns)):
        first = [k * d for k, d in zip(tap, op.dilation, strict=True)]
        last = [f + s * (m - 1) + 1 for f, s, m in zip(first, op.strides, (height, width), strict=True)]
        end, strides = (n, inputs, *last), (1, 1, *op.strides)
        taps.append(v.make(SliceOp, picture, begin=(0, 0, *first), end=end, strides=strides))
    depth = inputs * rows * columns
    patches = v.make(ReshapeOp, v.make(ConcatenateOp, *taps, axis=1), shape=(n, 1, depth, height, width))
    weight = v.make(ReshapeOp, v.make(TransposeOp, w, axes=(0, 2, 3, 1)), shape=(outputs, depth, 1, 1))
    return product_on_planes(op, v, patches, weight)
