"""
The blocked picture of a convolution along three axes: frames of one blocked value, side by side.

    %t = transpose (concatenate (pad (slice %x)), (pad (slice %x)) {axis = 0}) {axes = [1, 0, 2, 3]}
    conv2d (layout_transform %t), %w
      ->
    %b = layout_transform (transpose %x {axes = [1, 0, 2, 3]})
    conv2d (concatenate (pad (slice %b)), (pad (slice %b)) {axis = 1}), %w

Each frame is read by several taps of the kernel: its layout is changed once, and whole blocks of channels are copied.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import ConcatenateOp, PadOp, SliceOp, TransposeOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.blocks import static_size
from mlc.passes.rewriting import defining_op

_SWAP = (1, 0, 2, 3)
"""From channels of frames to frames of channels, and back."""


def picture_of(value: SSAValue, name: str, v: Versions) -> SSAValue:
    """The version of a convolution's picture in a blocked layout."""
    transpose = defining_op(value, TransposeOp)
    frames = None if transpose is None else defining_op(transpose.operands[0], ConcatenateOp)
    if transpose is None or frames is None or transpose.axes != _SWAP or axis_of(frames.axis, 4) != 0:
        return v.get(value, name)
    sources = {_source(operand) for operand in frames.operands}
    sizes = [static_size(shape_of(operand.type)[0]) for operand in frames.operands]
    block = layout(name).factors["C"]
    source = sources.pop()
    if sources or source in v.of or any(size is None or size % block for size in sizes):
        return v.get(value, name)
    swapped = v.make(TransposeOp, source, axes=_SWAP)
    copies = [_copy(operand, name, swapped, v) for operand in frames.operands]
    new = v.make(ConcatenateOp, *copies, location=frames.location, axis=1)
    v.of.setdefault(value, {PLAIN: value})
    v.set(value, name, new)
    return new


def _source(value: SSAValue) -> SSAValue:
    """The value of whose second axis a chain of slices and paddings takes a part."""
    while isinstance(op := value.owner, SliceOp | PadOp) and _is_along_second(op):
        value = op.operands[0]
    return value


def _is_along_second(op: SliceOp | PadOp) -> bool:
    """Whether a slice or padding of rank 4 changes nothing but the second axis."""
    before, after = shape_of(op.operands[0].type), shape_of(op.type)
    others = [k for k in range(len(after)) if k != 1]
    if len(after) != 4 or any(before[k] != after[k] for k in others):
        return False
    return isinstance(op, SliceOp) or not any(op.pad_width[2 * k] or op.pad_width[2 * k + 1] for k in others)


def _copy(value: SSAValue, name: str, swapped: SSAValue, v: Versions) -> SSAValue:
    """A chain of slices and paddings, of the first axis of a version of the swapped source."""
    op = value.owner
    if not isinstance(op, SliceOp | PadOp) or not _is_along_second(op):
        return v.get(swapped, name)
    x = _copy(op.operands[0], name, swapped, v)
    if isinstance(op, PadOp):
        return v.clone(op, x, pad_width=(*op.pad_width[2:4], *(0,) * 8))
    begin, end = (op.begin[1], *(0,) * 4), (op.end[1], *(END,) * 4)
    return v.clone(op, x, begin=begin, end=end, strides=(op.strides[1], *(1,) * 4))
