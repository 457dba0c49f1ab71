"""
How each op computes on a blocked layout: one rule for each family of ops, in a table by op class.

A rule returns the layout and the value that replace the op's result, or None: then the op keeps its plain operands.
Channels that pad a block hold arbitrary finite values: convolutions multiply them by zero weights, and ops that could
make infinities of them (division, logarithms) do not take padded blocks.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import (
    AddOp,
    AvgPool2dOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    Conv2dTransposeOp,
    DenseOp,
    DivideOp,
    GraphOp,
    LayoutTransformOp,
    LogOp,
    LookupOp,
    MaxOp,
    MaxPool2dOp,
    MeanOp,
    MinOp,
    ModOp,
    PadOp,
    PowerOp,
    PreluOp,
    ProdOp,
    ReciprocalOp,
    ReshapeOp,
    Resize2dOp,
    RsqrtOp,
    SliceOp,
    SqrtOp,
    SumOp,
    UnaryOp,
    WhereOp,
    op_classes,
    shape_of,
    tensor,
)
from mlc.dialects.graph.base import AttrValue
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.pointwise import is_total
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.layout.alter_op_layout.channels_last import computes_channels_last
from mlc.passes.graph.layout.alter_op_layout.frames import picture_of
from mlc.passes.graph.layout.alter_op_layout.patches import convolution_on_planes
from mlc.passes.graph.layout.alter_op_layout.pictures import reads_plain
from mlc.passes.graph.layout.alter_op_layout.planes import feeds_convolutions, feeds_depthwise
from mlc.passes.graph.layout.alter_op_layout.subpixel import transposed_convolution
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.blocks import (
    data_name,
    divisor_block,
    groups_in_block,
    in_halves,
    kernel_name,
    padded,
    static_size,
    unit_block,
    wasteful,
    whole_block,
    whole_words,
    words,
    words_block,
)
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import RuleTable, defining_op

Version: TypeAlias = tuple[str, SSAValue]
Result: TypeAlias = Version | None
Pointwise: TypeAlias = BinaryOp | WhereOp | PreluOp
RULES = RuleTable[[Versions, int], Version]()
MASKED_BLOCK = 16
"""Lanes of f32 from which on targets load vectors under masks (AVX-512), as a copy that pads needs them."""
MOST_PADDED = 1.3
"""Size of a padded picture, relative to the picture, up to which the copy that changes its layout pads it."""
UNSAFE: set[type[Operation]] = {LogOp, SqrtOp, RsqrtOp, ReciprocalOp, DivideOp, PowerOp, ModOp}
"""Ops that can make infinities or NaN of the arbitrary finite values in padded channels."""


@RULES.on(Conv2dOp)
def convolution(op: Conv2dOp, v: Versions, block: int) -> Result:
    """`conv2d %x, %w -> conv2d %x', %w' {data_layout = "NCHW16c", kernel_layout = "OIHW16i16o"}`."""
    x, w = op.operands
    channels, (outputs, inputs, *_) = static_size(shape_of(x.type)[1]), map(static_size, shape_of(w.type))
    if op.data_layout != PLAIN or op.kernel_layout != "OIHW" or not channels or not outputs or not inputs:
        return None
    if not is_constant(w):
        return None
    known = v.recorded.at(op)
    last = computes_channels_last(op, block, v.target)
    if not known.outer and not last and (made := convolution_on_planes(op, v, block)) is not None:
        return made
    if op.groups == 1:
        inner, outer, kernel = _dense_blocks(op, v, block, channels, outputs)
    elif inputs == 1 and op.groups == channels == outputs:
        inner = outer = known.outer or (channels if last else v.channel_block(channels, block))
        word = words(x, w, 0) if op.dilation[1] == 1 and op.out_dtype == "int32" else 1
        kernel = kernel_name(0, outer) + (f"{word}w" if word > 1 else "")
    else:
        inner, outer, kernel = _grouped_blocks(op, v, block, inputs, outputs // op.groups)
    if inner == 1 and outer == 1:
        return None
    weight = w if kernel == "OIHW" else v.make(LayoutTransformOp, w, src="OIHW", dst=kernel)
    picture = picture_of(x, data_name(inner), v)
    logical = 0 if outputs % outer == 0 else outputs
    layouts: dict[str, AttrValue] = {"data_layout": data_name(inner), "kernel_layout": kernel, "channels": logical}
    top, left, bottom, right = op.padding
    if (taps := static_size(shape_of(w.type)[3])) is not None:
        right += -taps % layout(kernel).factors["W"]  # the transform pads rows of taps with zeros
    if inner == block and pads_with_layout(op, picture, block):
        picture = v.make(PadOp, picture, pad_width=(0, 0, 0, 0, top, bottom, left, right, 0, 0))
        top = left = bottom = right = 0
    layouts["padding"] = (top, left, bottom, right)
    new = v.clone(op, picture, weight, result=None, **layouts)
    made = defining_op(new, Conv2dOp)
    assert made is not None
    return made.out_layout, new


def _dense_blocks(op: Conv2dOp, v: Versions, block: int, channels: int, outputs: int) -> tuple[int, int, str]:
    """The blocks of input and output channels of a convolution without groups, and the layout of its kernel."""
    (x, w), known, wide = op.operands, v.recorded.at(op), v.matrix_block(op, block)
    near = 1 if reads_plain(op, v) else near_block(channels, whole_block(channels, wide, block), x, v)
    inner = whole_words(known.inner or near, x, w, block)
    reads = block if wide > block and feeds_depthwise(op.result) else wide
    outer = known.outer or v.channel_block(outputs, whole_block(outputs, reads, block))
    return inner, outer, kernel_name(inner, outer, words(x, w, inner))


def _grouped_blocks(op: Conv2dOp, v: Versions, block: int, inputs: int, outputs: int) -> tuple[int, int, str]:
    """As `_dense_blocks`, with groups that have `inputs` and `outputs` channels each."""
    if (side := groups_in_block(inputs, outputs, op.groups, block)) > 1:
        return side * inputs, side * outputs, kernel_name(inputs, side * outputs)
    (x, w), wide, halves = op.operands, v.matrix_block(op, block), in_halves(block, v.target)
    inner, outer = (divisor_block(n, wide, halves) for n in (inputs, outputs))
    if inner % (word := words(x, w, inputs)):
        inner = words_block(inputs, wide, word)
    return inner, outer, kernel_name(inner, outer, word)


def pads_with_layout(op: Conv2dOp, picture: SSAValue, block: int) -> bool:
    """
    Whether the copy that changes the layout of a convolution's picture pads it, too.

    No other op reads the picture, and padding adds little to it. Windows of Winograd's algorithm are left out: it reads
    tiles of the picture under masks, and copies nothing.
    """
    x, w = op.operands
    taps = shape_of(w.type)[2:], op.strides, op.dilation
    if block < MASKED_BLOCK or taps == ((3, 3), (1, 1), (1, 1)):
        return False
    height, width = map(static_size, shape_of(x.type)[2:])
    transform = defining_op(picture, LayoutTransformOp)
    if not any(op.padding) or transform is None or {use.operation for use in x.uses} != {op, transform}:
        return False
    if op.groups > 1 or not height or not width or not isinstance(element_of(x), Float32Type):
        return False
    top, left, bottom, right = op.padding
    return (height + top + bottom) * (width + left + right) <= MOST_PADDED * height * width


def near_block(channels: int, block: int, picture: SSAValue, v: Versions) -> int:
    """
    The block of channels in which a convolution reads its picture.

    It is the block of the picture's native layout, if that is at least half of the best block and divides it, or is a
    wider one of a matrix unit, and divides the channels; else the best block.
    """
    size, have = v.channel_block(channels, block), layout(v.native(picture)).factors["C"]
    fits = size % have == 0 if have < size <= 2 * have else size < have <= v.widest_block and have % size == 0
    return have if fits and channels % have == 0 else size


@RULES.on(DenseOp)
def dense(op: DenseOp, v: Versions, block: int) -> Result:
    """`dense %x, %w -> dense %x, %w' {kernel_layout = "OI32o"}` for a constant weight."""
    x, w = op.operands
    units = static_size(shape_of(w.type)[0])
    if op.kernel_layout != "OI" or units is None or units < 2 or not is_constant(w):
        return None
    wide = 2 * block
    size = v.recorded.at(op).outer or (wide if not wasteful(units, wide) else unit_block(units, block))
    word = words(x, w, shape_of(x.type)[-1])
    name = f"OI{size}o" if word == 1 else f"OI{size}o{word}i"
    weight = v.make(LayoutTransformOp, w, src="OI", dst=name)
    logical = 0 if padded(units, size) == units else units
    new = v.make(
        DenseOp,
        v.get(x, PLAIN),
        weight,
        location=op.location,
        kernel_layout=name,
        units=logical,
        out_dtype=op.out_dtype,
    )
    return PLAIN, new


@RULES.on(MaxPool2dOp, AvgPool2dOp, Resize2dOp)
def pool(op: MaxPool2dOp | AvgPool2dOp | Resize2dOp, v: Versions, block: int) -> Result:
    """`max_pool2d %x -> max_pool2d %x' {layout = "NCHW16c"}` where x is computed blocked, or that is faster."""
    (x,) = op.operands
    name = v.native(x)
    if op.layout != PLAIN:
        return None
    if name == PLAIN:
        if isinstance(op, Resize2dOp) or not _reads_apart(op, block):
            return None
        name = data_name(block)
    elif isinstance(op, Resize2dOp) and _mixes_pixels(op) and not feeds_convolutions(op.result):
        return None
    return name, v.clone(op, v.get(x, name), layout=name)


def _mixes_pixels(op: Resize2dOp) -> bool:
    """
    Whether a resized picture is computed from several pixels each, which is slower in blocks than from plain rows.

    Source: 21 and 32 channels of 40 x 44, resized by 2, 4 and 7.8 and returned, reduced or normalised on Zen 4, take
    0.2 to 0.6 of the time between plain pictures; in front of convolutions of 3 x 3 they take 1.4 to 1.6 of it.
    """
    return op.mode != "nearest"


def _reads_apart(op: MaxPool2dOp | AvgPool2dOp, block: int) -> bool:
    """
    Whether windows overlap at a stride from 3 on: lanes along a plain row would be read apart, several times each.

    Source: windows of 5 to 9 pixels and stride 3 and 4 between plain pictures take 0.48 to 0.91 of the time in blocks
    on Zen 4, transforms included, 0.8 to 0.86 with AVX2.
    """
    stride, channels = op.strides[1], static_size(shape_of(op.type)[1])
    return stride > 2 and op.pool_size[1] > stride and channels is not None and channels % block == 0


@RULES.on(*op_classes(UnaryOp), CastOp)
def unary(op: UnaryOp | CastOp, v: Versions, block: int) -> Result:
    """`relu %x -> relu %x'` where x is computed blocked."""
    (x,) = op.operands
    name = v.computed(x)
    if name == PLAIN or (type(op) in UNSAFE and v.channels_padded(x)):
        return None
    if isinstance(op, CastOp):
        return name, v.make(CastOp, v.get(x, name), location=op.location, dtype=op.type.element_type)
    return name, v.clone(op, v.get(x, name))


@RULES.on(LookupOp)
def lookup(op: LookupOp, v: Versions, block: int) -> Result:
    """`lookup %q, %table -> lookup %q', %table` where the bytes are computed blocked."""
    q, table = op.operands
    name = v.native(q)
    return None if name == PLAIN else (name, v.clone(op, v.get(q, name), v.get(table, PLAIN)))


@RULES.on(*op_classes(BinaryOp), WhereOp, PreluOp)
def pointwise(op: Pointwise, v: Versions, block: int) -> Result:
    """`add %x, %y -> add %x', %y'` where an operand of the result's channels is computed blocked."""
    shape = shape_of(op.type)
    chosen = _chosen(op, v)
    if chosen is None or len(shape) != 4:
        return None
    name, padding = v.computed(chosen), v.channels_padded(chosen)
    if padding and type(op) in UNSAFE:
        return None
    operands = [v.broadcast(operand, name, shape[1]) for operand in op.operands]
    fitting = [operand for operand in operands if operand is not None]
    return (name, v.clone(op, *fitting)) if len(fitting) == len(operands) else None


@RULES.on_own("elementwise", "broadcast")
def own_pointwise(op: GraphOp, v: Versions, block: int) -> Result:
    """`my.act %x -> my.act %x'` where an operand of the result's channels is computed blocked, and my.act takes x'."""
    shape, chosen = shape_of(op.type), _chosen(op, v)
    if chosen is None or len(shape) != 4 or len(op.results) != 1:
        return None
    name = v.computed(chosen)
    if v.channels_padded(chosen) and not is_total(op):
        return None
    operands = [v.broadcast(operand, name, shape[1]) for operand in op.operands]
    fitting = [operand for operand in operands if operand is not None]
    if len(fitting) < len(operands):
        return None
    new = v.try_clone(op, *fitting, shape=shape_of(v.blocked_type(op.results[0], name)))
    return None if new is None else (name, new)


def _chosen(op: GraphOp, v: Versions) -> SSAValue | None:
    """The operand whose layout a pointwise op takes: the first full-sized one that is computed blocked."""
    for operand in op.operands:
        shape = shape_of(operand.type)
        if v.computed(operand) != PLAIN and len(shape) == 4 and shape[1] == shape_of(op.type)[1]:
            return operand
    return None


@RULES.on(BiasAddOp)
def bias(op: BiasAddOp, v: Versions, block: int) -> Result:
    """`bias_add %x, %b -> add %x', %b'` where x is computed blocked, b' being 1 x C/16 x 1 x 1 x 16."""
    x, vector = op.operands
    name = v.computed(x)
    if name == PLAIN or axis_of(op.axis, 4) != 1:
        return None
    addend = v.reshaped_version(vector, (1, shape_of(x.type)[1], 1, 1), name)
    return name, v.make(AddOp, v.get(x, name), addend, location=op.location)


@RULES.on(MeanOp, SumOp, MaxOp, MinOp, ProdOp)
def reduction(op: MeanOp | SumOp | MaxOp | MinOp | ProdOp, v: Versions, block: int) -> Result:
    """`mean %x {axes = [2, 3]} -> mean %x' {axes = [2, 3]}` over H and W of an x that is computed blocked."""
    (x,) = op.operands
    name = v.native(x)
    if name == PLAIN or not set(op.reduced_axes) <= {2, 3}:
        return None
    new = v.make(type(op), v.get(x, name), location=op.location, axes=op.reduced_axes, keepdims=True)
    if op.keepdims:
        return name, new
    kept = [1 if axis in op.reduced_axes else size for axis, size in enumerate(shape_of(x.type))]
    plain = tensor(kept, op.type.element_type)
    picture = v.make(LayoutTransformOp, new, src=name, dst=PLAIN, result=plain)
    return PLAIN, v.make(ReshapeOp, picture, result=op.type)


@RULES.on(ConcatenateOp)
def concatenation(op: ConcatenateOp, v: Versions, block: int) -> Result:
    """`concatenate %x, %y {axis = 1} -> concatenate %x', %y' {axis = 1}` where the block divides all channels."""
    shapes = [shape_of(operand.type) for operand in op.operands]
    blocked = [v.native(operand) for operand in op.operands if v.native(operand) != PLAIN]
    if not blocked or len(shapes[0]) != 4:
        return None
    channels = tuple(shape[1] for shape in shapes)
    if not is_static(channels):
        return None
    axis = axis_of(op.axis, 4)
    sizes = [v.channel_block(sum(channels), block), *(layout(name).factors["C"] for name in blocked)]
    fitting = [b for b in sizes if axis != 1 or all(size % b == 0 for size in channels)]
    if not fitting or fitting[0] == 1:
        return None
    name = data_name(fitting[0])
    operands = [v.get(operand, name) for operand in op.operands]
    return name, v.make(ConcatenateOp, *operands, location=op.location, axis=axis)


@RULES.on(SliceOp, PadOp)
def window(op: SliceOp | PadOp, v: Versions, block: int) -> Result:
    """`slice %x -> slice %x'`, `pad %x -> pad %x'` along H, W and (slices) whole blocks of an x computed blocked."""
    (x,) = op.operands
    name = v.native(x)
    if name == PLAIN:
        return None
    if isinstance(op, SliceOp):
        blocks = _channel_blocks(op, layout(name).factors["C"])
        if blocks is None or shape_of(op.type)[0] != shape_of(x.type)[0] or op.strides[:2] != (1, 1):
            return None
        begin, end = (op.begin[0], blocks[0], *op.begin[2:], 0), (op.end[0], blocks[1], *op.end[2:], END)
        return name, v.clone(op, v.get(x, name), begin=begin, end=end, strides=(*op.strides, 1))
    return None if any(op.pad_width[:4]) else (name, v.clone(op, v.get(x, name), pad_width=(*op.pad_width, 0, 0)))


def _channel_blocks(op: SliceOp, block: int) -> tuple[int, int] | None:
    """The first and the last + 1 block of channels of a slice; None where the slice cuts a block."""
    channels = static_size(shape_of(op.operands[0].type)[1])
    if channels is None:
        return None if shape_of(op.type)[1] != shape_of(op.operands[0].type)[1] else (0, END)
    start, stop, _ = slice(op.begin[1], op.end[1]).indices(channels)
    if (start, stop) == (0, channels):
        return 0, END
    return None if start % block or stop % block or stop <= start else (start // block, stop // block)


RULES.on(Conv2dTransposeOp)(transposed_convolution)
