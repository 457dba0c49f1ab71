"""
Transposed convolutions in blocked layouts: a convolution of stride 1 for all sub-pixels at once.

With stride s, rows o = s * q + r - top of the result are a convolution of the picture by the taps r, r + s, .. of the
kernel. The kernels of all (r, c) are concatenated to one convolution with s * s times the channels. Its result is
shuffled: channel (r, c, o) at (q, p) goes to channel o at (s * q + r, s * p + c). No inserted zeros are multiplied.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BiasAddOp,
    BroadcastToOp,
    Conv2dOp,
    Conv2dTransposeOp,
    FlipOp,
    LayoutTransformOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import Dim, axis_of, shape_of, static_shape
from mlc.passes.graph.layout.alter_op_layout.blocks import channel_block, data_name, kernel_name, padded, static_size
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.constants import is_constant


class Subpixel:
    """The sizes of one transposed convolution, and the ops that replace it."""

    def __init__(self, op: Conv2dTransposeOp, v: Versions, block: int) -> None:
        self.op, self.v = op, v
        self.batch, inputs, *self.picture = shape_of(op.operands[0].type)
        self.inputs = static_size(inputs) or 0
        _, self.outputs, *self.taps = static_shape(op.operands[1].type)
        self.strides = op.strides
        # Each sub-pixel has blocks of its own; with few result channels, all sub-pixels share one block.
        phases = self.strides[0] * self.strides[1]
        self.few = self.outputs * phases <= block or self.outputs == 1
        self.block = channel_block(self.outputs * phases if self.few else self.outputs, block)
        self.room = self.outputs if self.few else padded(self.outputs, self.block)
        self.inner = channel_block(self.inputs, block)
        self.count = [-(-k // s) for k, s in zip(self.taps, self.strides, strict=True)]
        self.first = [op.padding[axis] // op.strides[axis] for axis in (0, 1)]

    @property
    def fits(self) -> bool:
        """Whether all rows and columns of the result overlap the kernel, for any symbol, and blocks divide evenly."""
        even = not self.few or padded(self.outputs * self.strides[0] * self.strides[1], self.block) == (
            self.outputs * self.strides[0] * self.strides[1]
        )
        known = all(isinstance(self._last(axis) + 1 - self.picture[axis], int) for axis in (0, 1))
        return even and known and all(f < c for f, c in zip(self.first, self.count, strict=True))

    def kernel(self) -> SSAValue:
        """`IOHW -> (r, c, o) I H' W'`: the taps of each sub-pixel, last first."""
        make, (kh, kw), (sh, sw), (th, tw) = self.v.make, self.taps, self.strides, self.count
        w = self.op.operands[1]
        width = (0, 0, 0, self.room - self.outputs, 0, th * sh - kh, 0, tw * sw - kw)
        if any(width):
            w = make(PadOp, w, pad_width=width)
        w = make(ReshapeOp, w, shape=(self.inputs, self.room, th, sh, tw, sw))
        if th > 1 or tw > 1:
            w = make(FlipOp, w, axes=(2, 4))
        w = make(TransposeOp, w, axes=(3, 5, 1, 0, 2, 4))
        w = make(ReshapeOp, w, shape=(sh * sw * self.room, self.inputs, th, tw))
        return make(LayoutTransformOp, w, src="OIHW", dst=kernel_name(self.inner, self.block))

    def convolved(self) -> SSAValue:
        """The convolution for the rows and columns of windows that the result needs."""
        padding = [c - 1 - f for c, f in zip(self.count, self.first, strict=True)]
        padding += [max(0, self._last(axis) + 1 - self.picture[axis]) for axis in (0, 1)]
        return self.v.make(
            Conv2dOp,
            self.v.get(self.op.operands[0], data_name(self.inner)),
            self.kernel(),
            location=self.op.location,
            padding=tuple(padding),
            data_layout=data_name(self.inner),
            kernel_layout=kernel_name(self.inner, self.block),
        )

    def _last(self, axis: int) -> Dim:
        """The last row (column) of windows that the result needs."""
        return (self.op.padding[axis] + shape_of(self.op.type)[2 + axis] - 1) // self.strides[axis]

    def biased(self, y: SSAValue, bias: SSAValue) -> SSAValue:
        """A bias per result channel, on the sub-pixels."""
        make, (sh, sw) = self.v.make, self.strides
        if self.room != self.outputs:
            bias = make(PadOp, bias, pad_width=(0, self.room - self.outputs))
        bias = make(BroadcastToOp, bias, shape=(sh * sw, self.room))
        blocks = (1, sh * sw * self.room // self.block, 1, 1)
        return make(AddOp, y, make(ReshapeOp, bias, shape=(*blocks, self.block) if self.block > 1 else blocks))

    def shuffled(self, y: SSAValue) -> tuple[str, SSAValue]:
        """Sub-pixels moved to their places, and the rows and columns of the padding cut off."""
        make, (sh, sw), n = self.v.make, self.strides, self.batch
        rows, columns = shape_of(y.type)[2:4]
        if self.few:
            inside = (sh, sw, self.outputs)
            if self.block > 1 and shape_of(y.type)[1] == 1:
                y = make(ReshapeOp, y, shape=(n, rows, columns, *inside))
                y = make(TransposeOp, y, axes=(0, 5, 1, 3, 2, 4))
            else:
                y = make(LayoutTransformOp, y, src=data_name(self.block), dst=PLAIN) if self.block > 1 else y
                y = make(ReshapeOp, y, shape=(n, *inside, rows, columns))
                y = make(TransposeOp, y, axes=(0, 3, 4, 1, 5, 2))
            name, shape = PLAIN, (n, self.outputs, rows * sh, columns * sw)
        else:
            blocks = self.room // self.block
            y = make(ReshapeOp, y, shape=(n, sh, sw, blocks, rows, columns, self.block))
            y = make(TransposeOp, y, axes=(0, 3, 4, 1, 5, 2, 6))
            name, shape = data_name(self.block), (n, blocks, rows * sh, columns * sw, self.block)
        return name, self._cut(make(ReshapeOp, y, shape=shape))

    def _cut(self, y: SSAValue) -> SSAValue:
        shape = shape_of(y.type)
        begin, end = [0] * len(shape), [END] * len(shape)
        for axis in (0, 1):
            begin[2 + axis] = self.op.padding[axis] - self.first[axis] * self.strides[axis]
            surplus = shape[2 + axis] - begin[2 + axis] - shape_of(self.op.type)[2 + axis]
            assert isinstance(surplus, int)
            end[2 + axis] = -surplus if surplus else END
        if not any(begin) and set(end) == {END}:
            return y
        return self.v.make(SliceOp, y, begin=tuple(begin), end=tuple(end), strides=(1,) * len(shape))


def transposed_convolution(op: Conv2dTransposeOp, v: Versions, block: int) -> tuple[str, SSAValue] | None:
    """
    `conv2d_transpose %x, %w {strides = [2, 2]} -> transpose (conv2d %x', %w')`, between reshapes.

    A bias_add after it is added before the transpose; its result gets its version here.
    """
    x, w = op.operands
    if op.groups != 1 or tuple(op.dilation) != (1, 1) or not is_constant(w):
        return None
    if any(static_size(size) is None for size in (shape_of(x.type)[1], *shape_of(w.type))):
        return None
    sizes = Subpixel(op, v, block)
    if not sizes.fits:
        return None
    bias = next((use.operation for use in op.result.uses), None) if op.result.has_one_use() else None
    y = sizes.convolved()
    if not isinstance(bias, BiasAddOp) or axis_of(bias.axis, 4) != 1 or not is_constant(bias.operands[1]):
        return sizes.shuffled(y)
    v.at = bias  # the vector may be defined after the convolution
    name, new = sizes.shuffled(sizes.biased(y, bias.operands[1]))
    v.set(bias.results[0], name, new)
    return name, new
