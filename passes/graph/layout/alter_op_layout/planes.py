"""
Convolutions that compute on planes of pixels: pixels are the lanes, and no channel is moved or padded.

Blocks inside a group cannot be padded, so that groups of 17 or 58 channels leave most lanes of a blocked layout empty;
and the channel shuffles between such convolutions move whole planes of the plain layout, but single elements of blocks.
1x1 convolutions and windows on few channels do so, too, where picture and result are plain, and convolutions of few
output channels, which would leave most lanes of a block empty.

In `NC20cHW`, a view of the plain layout, C counts the groups and c the channels of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import (
    BiasAddOp,
    BinaryOp,
    ConcatenateOp,
    Conv2dOp,
    GraphOp,
    LayoutTransformOp,
    LookupOp,
    MeanOp,
    PoolOp,
    TransposeOp,
    UnaryOp,
    shape_of,
)
from mlc.dialects.graph.base import AttrValue
from mlc.dialects.graph.types import is_static, static_shape
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions, is_planar
from mlc.passes.graph.select_algorithm.shapes import winograd_share
from mlc.passes.graph.shared.blocks import (
    channel_block,
    divisor_block,
    groups_in_block,
    in_halves,
    kernel_name,
    padded,
    planes_name,
)
from mlc.passes.graph.shared.constants import element_of
from mlc.passes.rewriting import defining_op
from mlc.targets.cost.thresholds import (
    BLOCKED_WINDOW_COST,
    HALF_VECTOR_COST,
    MOST_PADDED_PLANES,
    PLAIN_TRANSFORM_COST,
    PLANAR_COST,
    PLANAR_STRIDED_COST,
    PLANAR_WINDOW_COST,
    SHARED_VECTOR_COST,
    STRIDED_LANES,
    TRANSFORM_COST,
)

FEW_CHANNELS = 8
"""Channels from which on blocks fill a vector of AVX2."""
LEAST_PLANAR_VECTORS = 3
"""Vectors of a row, at least, from which on one thread multiplies windows on planes, not in blocks of channels.

Source: 54 convolutions of 1 and 3 channels on Zen 4, between plain pictures. Rows of 48 to 224 pixels take 0.6 to 1.1
of the time of blocks or patches, rows of 30 pixels 1.0 to 1.2; with AVX2 rows of whole vectors take 0.5 to 0.94, others
0.9 to 1.4. Where two threads share the work, planes take 0.2 to 1.0 of the time in all of these cases.
"""
POINTWISE = UnaryOp | BinaryOp | BiasAddOp | LookupOp | ConcatenateOp
"""Ops that compute in the layout of what they read."""
FEW_READERS = 16
"""Ops that are looked at behind a convolution to find in which layout its result is read."""


def computes_in_planes(op: Conv2dOp, v: Versions, block: int) -> bool:
    """Whether a convolution is faster on planes than on blocks of channels, with the transforms of each."""
    x, w = op.operands
    shapes = [shape_of(one.type) for one in (x, w, op.result)]
    if op.strides[1] > STRIDED_LANES or op.out_dtype or not all(is_static(s) for s in shapes):
        return False
    if str(element_of(x)) != "f32" or str(element_of(w)) != "f32":
        return False
    between_plain = v.native(x) == PLAIN and ends_plain(op.result, v)
    pointwise = shapes[1][0] != 1 and _is_pointwise(op) and between_plain
    few_inputs = between_plain and _has_few_inputs(op, v, block)
    if op.groups == 1 and not (pointwise or few_inputs or _has_few_outputs(op, v, block)):
        return False
    whole = _moves_whole_blocks(op, block)
    if op.is_depthwise and not is_planar(v.computed(x)) and not _feeds_groups(op.result):
        if not between_plain or _between_reorders(op):
            return False
        whole = True
    cost = LayoutCosts.of(op, block, in_halves(block, v.target), PLAIN_TRANSFORM_COST if whole else TRANSFORM_COST)
    blocked_input = v.native(x) != PLAIN
    plain, blocked = readers(op.result)
    fast = 1.0 if op.groups == 1 or op.is_depthwise else winograd_share(op, block, v.target, v.threads, v.growth)
    planar = cost.planar + (cost.inputs if blocked_input else 0) + (cost.outputs if blocked else 0)
    moved = (0 if blocked_input else cost.inputs) + (cost.outputs if plain else 0)
    return planar < cost.blocked * fast + moved


@dataclass(frozen=True)
class LayoutCosts:
    """
    What a convolution costs, in steps of one vector: on planes of pixels (`planar`) and in blocks of channels.

    `inputs` and `outputs` are what it costs to move the input or the output from one of these layouts to the other.
    """

    planar: float
    blocked: float
    inputs: float
    outputs: float

    @staticmethod
    def of(op: Conv2dOp, block: int, halves: bool, each: float) -> LayoutCosts:
        """
        The costs for blocks of `block` channels; moving one element between the layouts takes `each` steps.

        `halves` says that the target computes a vector as two halves.
        """
        x, w, y = (static_shape(one.type) for one in (*op.operands, op.result))
        points = prod(y) * prod(w[1:])
        height, width = y[2:]
        run = height * width if _is_pointwise(op) else width
        outputs = w[0] // op.groups
        depthwise = w[1] == outputs == 1
        vector = max(1, block // 2) if depthwise else block  # a window's vector that is half empty costs half
        lanes = run / (-(-run // vector) * vector)
        planar, full = (PLANAR_WINDOW_COST, BLOCKED_WINDOW_COST) if depthwise else (PLANAR_COST, 1.0)
        if op.strides[1] > 1:
            planar, full = planar * PLANAR_STRIDED_COST, full * (PLANAR_STRIDED_COST if depthwise else 1.0)
        filled = 1.0 if depthwise else _filled(w[1], outputs, op.groups, block, halves)
        return LayoutCosts(
            planar * points / block / lanes, full * points / block / filled, each * prod(x), each * prod(y)
        )


def _moves_whole_blocks(op: Conv2dOp, block: int) -> bool:
    """Whether a transform moves full blocks: without groups, or with groups of whole blocks of channels."""
    outputs, inputs, *_ = static_shape(op.operands[1].type)
    return op.groups == 1 or (inputs % block == 0 and outputs // op.groups % block == 0)


def _has_few_outputs(op: Conv2dOp, v: Versions, block: int) -> bool:
    """
    Whether a convolution's output channels fill at most half of a block, so that planes of pixels may be faster.

    Its window has several pixels, its strides are 1, and its padding adds little to the picture. If the picture is in
    blocks of channels already, a single output channel stays there for dot products over the channels, and windows of
    3 x 3 stay for Winograd's algorithm.
    """
    x, w = op.operands
    outputs, _, *window = static_shape(w.type)
    if 2 * outputs > block or prod(window) == 1 or tuple(op.strides) != (1, 1) or _pads_much(op):
        return False
    transforms = window == [3, 3] and tuple(op.dilation) == (1, 1)
    return v.native(x) == PLAIN or (outputs > 1 and not transforms)


def _has_few_inputs(op: Conv2dOp, v: Versions, block: int) -> bool:
    """
    Whether windows of stride 1 multiply each number of a picture of few channels, whose planes are faster than blocks.

    Moving the result from blocks of channels to planes takes a good part of such a convolution's time. Where several
    threads compute, patches are slower, too: a kernel copies each tap, and reads what another thread has written.
    """
    inputs, *window = static_shape(op.operands[1].type)[1:]
    if inputs >= FEW_CHANNELS or prod(window) == 1 or tuple(op.strides) != (1, 1) or _pads_much(op):
        return False
    width = static_shape(op.type)[3]
    whole = v.target.masked_memory or width % block == 0
    return v.threads > 1 or (whole and width >= LEAST_PLANAR_VECTORS * block)


def _pads_much(op: Conv2dOp) -> bool:
    """Whether a convolution's padding makes its picture much larger."""
    height, width = static_shape(op.operands[0].type)[2:]
    top, left, bottom, right = op.padding
    return (height + top + bottom) * (width + left + right) > MOST_PADDED_PLANES * height * width


def _is_pointwise(op: Conv2dOp) -> bool:
    """Whether each pixel of the result is computed from the one pixel at its place."""
    return tuple(shape_of(op.operands[1].type)[2:]) == tuple(op.strides) == (1, 1) and not any(op.padding)


def _filled(inputs: int, outputs: int, groups: int, block: int, halves: bool) -> float:
    """The part of the lanes that a block of a group's output channels uses, less what shared vectors cost."""
    half = 1 / (HALF_VECTOR_COST if halves else SHARED_VECTOR_COST)
    if groups == 1:
        size = channel_block(outputs, block, halves)
        return outputs / padded(outputs, size) * (half if 2 * size == block else size / block)
    if groups_in_block(inputs, outputs, groups, block) > 1:
        return 1.0
    size = divisor_block(outputs, block, halves)
    if size > block:
        return 1.0
    return half if 2 * size == block else size / block


def readers(value: SSAValue) -> tuple[bool, bool]:
    """(plain, blocked): whether a reader of the value, perhaps behind pointwise ops, takes it in that layout."""
    plain = blocked = False
    for op in _readers(value):
        match op:
            case Conv2dOp():
                blocked |= op.groups == 1
            case PoolOp() | MeanOp():
                pass
            case _:
                plain = True
    return plain, blocked


def ends_plain(value: SSAValue, v: Versions) -> bool:
    """Whether a value, perhaps behind pointwise ops on plain values, is only moved or returned, in the plain layout."""
    found = list(_reached(value))
    pointwise = [op for op in found if isinstance(op, POINTWISE)]
    if len(found) >= FEW_READERS or any(v.native(one) != PLAIN for op in pointwise for one in op.operands):
        return False
    return all(not isinstance(op, GraphOp) or op.layout_rule == "fixed" for op in found if op not in pointwise)


def _between_reorders(op: Conv2dOp) -> bool:
    """Whether the picture comes from a transpose or the result goes to one, whose layout is often nearer to blocks."""
    owner = op.operands[0].owner
    while isinstance(owner, POINTWISE):
        owner = owner.operands[0].owner
    return isinstance(owner, TransposeOp) or any(isinstance(end, TransposeOp) for end in _readers(op.result))


def _feeds_groups(value: SSAValue) -> bool:
    """Whether a value, perhaps behind pointwise ops, is read by a convolution of groups of several channels."""
    return any(isinstance(op, Conv2dOp) and op.groups > 1 and not op.is_depthwise for op in _readers(value))


def feeds_convolutions(value: SSAValue) -> bool:
    """Whether a value, perhaps behind pointwise ops and concatenations, is read by a convolution."""
    return any(isinstance(op, Conv2dOp) for op in _readers(value))


def feeds_depthwise(value: SSAValue) -> bool:
    """Whether a value, perhaps behind pointwise ops, is read by a depthwise convolution."""
    return any(isinstance(op, Conv2dOp) and op.is_depthwise for op in _readers(value))


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The readers of a value; pointwise ops and concatenations stand for their own readers."""
    return (op for op in _reached(value) if not isinstance(op, POINTWISE))


def _reached(value: SSAValue) -> Iterator[Operation]:
    """The ops that read a value, directly or behind pointwise ops and concatenations; these ops are yielded, too."""
    work, seen = [value], set[Operation]()
    while work and len(seen) < FEW_READERS:
        for use in work.pop().uses:
            op = use.operation
            if op in seen:
                continue
            seen.add(op)
            if isinstance(op, POINTWISE):
                work += op.results
            yield op


def planar_convolution(op: Conv2dOp, v: Versions) -> tuple[str, SSAValue]:
    """`conv2d %x, %w {groups = 3} -> conv2d %x', %w' {data_layout = "NC80cHW", kernel_layout = "OIHW20o"}`."""
    x, w = op.operands
    outputs, inputs, *_ = static_shape(w.type)
    if inputs == 1 and outputs == op.groups:
        return PLAIN, v.clone(op, v.get(x, PLAIN), w)
    kernel, name = kernel_name(0, outputs // op.groups), planes_name(inputs)
    weight = w if kernel == "OIHW" else v.make(LayoutTransformOp, w, src="OIHW", dst=kernel)
    return _cloned(op, v, v.get(x, name), weight, data_layout=name, kernel_layout=kernel)


def product_on_planes(op: Conv2dOp, v: Versions, planes: SSAValue, w: SSAValue) -> tuple[str, SSAValue]:
    """A convolution as a product, of a weight (outputs, depth, 1, 1), and planes (batch, 1, depth, height, width)."""
    outputs, depth, *_ = static_shape(w.type)
    kernel, name = kernel_name(0, outputs), planes_name(depth)
    weight = w if kernel == "OIHW" else v.make(LayoutTransformOp, w, src="OIHW", dst=kernel)
    ones: dict[str, AttrValue] = {"strides": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0)}
    return _cloned(op, v, planes, weight, data_layout=name, kernel_layout=kernel, **ones)


def _cloned(op: Conv2dOp, v: Versions, x: SSAValue, w: SSAValue, **attributes: AttrValue) -> tuple[str, SSAValue]:
    """A convolution of other operands: the layout of its result, and the result."""
    new = v.clone(op, x, w, result=None, **attributes)
    made = defining_op(new, Conv2dOp)
    assert made is not None
    return made.out_layout, new
