"""
Transposed convolutions in blocked layouts: convolutions of stride 1 for the sub-pixels.

With stride s, rows o = s * q + r - top of the result are a convolution of the picture by the taps r, r + s, .. of the
kernel. Where all (r, c) have as many taps, their kernels are concatenated to one convolution with s * s times the
channels; where that would multiply many zeros (3x3 with stride 2: 16 taps for 9), each has a convolution of its own,
and their results are concatenated. The channels are shuffled: (r, c, o) at (q, p) goes to o at (s * q + r, s * p + c).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BiasAddOp,
    BroadcastToOp,
    ConcatenateOp,
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
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.blocks import (
    data_name,
    kernel_name,
    padded,
    static_size,
    whole_words,
    words,
)
from mlc.passes.graph.shared.constants import is_constant

MOST_ZERO_TAPS = 1.3
"""If one convolution for all sub-pixels would have this many times the taps of the kernel, since it pads them with zero
taps, then each sub-pixel has a convolution of its own."""
WINOGRAD = [3, 3]
"""The window of a convolution that Winograd's transforms may compute with fewer products, zero taps or not."""


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
        self.block = v.channel_block(self.outputs * phases if self.few else self.outputs, block)
        self.room = self.outputs if self.few else padded(self.outputs, self.block)
        x, w = op.operands
        self.inner = whole_words(v.channel_block(self.inputs, block), x, w, block)
        self.kernel = kernel_name(self.inner, self.block, words(x, w, self.inner))
        self.count = [-(-k // s) for k, s in zip(self.taps, self.strides, strict=True)]
        self.first = [op.padding[axis] // op.strides[axis] for axis in (0, 1)]
        least = [k // s for k, s in zip(self.taps, self.strides, strict=True)]
        wasteful = phases * prod(self.count) >= MOST_ZERO_TAPS * prod(self.taps) and self.count != WINOGRAD
        self.apart = not self.few and wasteful and all(f < c for f, c in zip(self.first, least, strict=True))
        """Whether each sub-pixel has a convolution of its own."""

    @property
    def fits(self) -> bool:
        """Whether all rows and columns of the result overlap the kernel, for any symbol, and blocks divide evenly."""
        even = not self.few or padded(self.outputs * self.strides[0] * self.strides[1], self.block) == (
            self.outputs * self.strides[0] * self.strides[1]
        )
        known = all(isinstance(self._last(axis) + 1 - self.picture[axis], int) for axis in (0, 1))
        return even and known and all(f < c for f, c in zip(self.first, self.count, strict=True))

    def convolved(self, bias: SSAValue | None) -> SSAValue:
        """The sub-pixels as channels, for the rows and columns of windows that the result needs."""
        if not self.apart:
            y = self._convolution(self._kernel(), self.count)
            return y if bias is None else self._biased(y, bias, self.strides[0] * self.strides[1])
        parts: list[SSAValue] = []
        for phase in product(*map(range, self.strides)):
            count = [-(-(k - at) // s) for k, at, s in zip(self.taps, phase, self.strides, strict=True)]
            y = self._convolution(self._kernel_of(phase, count), count)
            parts.append(y if bias is None else self._biased(y, bias, 1))
        return self.v.make(ConcatenateOp, *parts, axis=1)

    def _kernel(self) -> SSAValue:
        """`IOHW -> (r, c, o) I H' W'`: the taps of each sub-pixel, last first."""
        make, (kh, kw), (sh, sw), (th, tw) = self.v.make, self.taps, self.strides, self.count
        w = self._widened(th * sh - kh, tw * sw - kw)
        w = make(ReshapeOp, w, shape=(self.inputs, self.room, th, sh, tw, sw))
        if th > 1 or tw > 1:
            w = make(FlipOp, w, axes=(2, 4))
        w = make(TransposeOp, w, axes=(3, 5, 1, 0, 2, 4))
        w = make(ReshapeOp, w, shape=(sh * sw * self.room, self.inputs, th, tw))
        return make(LayoutTransformOp, w, src="OIHW", dst=self.kernel)

    def _kernel_of(self, phase: Sequence[int], count: Sequence[int]) -> SSAValue:
        """`IOHW -> O I H' W'`: the taps of one sub-pixel, last first."""
        make = self.v.make
        w = make(SliceOp, self._widened(0, 0), begin=(0, 0, *phase), end=(END,) * 4, strides=(1, 1, *self.strides))
        if max(count) > 1:
            w = make(FlipOp, w, axes=(2, 3))
        w = make(TransposeOp, w, axes=(1, 0, 2, 3))
        return make(LayoutTransformOp, w, src="OIHW", dst=self.kernel)

    def _widened(self, rows: int, columns: int) -> SSAValue:
        """The kernel padded with zeros: channels up to a full block, and `rows` and `columns` more at the end."""
        width = (0, 0, 0, self.room - self.outputs, 0, rows, 0, columns)
        w = self.op.operands[1]
        return self.v.make(PadOp, w, pad_width=width) if any(width) else w

    def _convolution(self, kernel: SSAValue, count: Sequence[int]) -> SSAValue:
        padding = [c - 1 - f for c, f in zip(count, self.first, strict=True)]
        padding += [max(0, self._last(axis) + 1 - self.picture[axis]) for axis in (0, 1)]
        return self.v.make(
            Conv2dOp,
            self.v.get(self.op.operands[0], data_name(self.inner)),
            kernel,
            location=self.op.location,
            padding=tuple(padding),
            data_layout=data_name(self.inner),
            kernel_layout=self.kernel,
            out_dtype=self.op.out_dtype,
        )

    def _last(self, axis: int) -> Dim:
        """The last row (column) of windows that the result needs."""
        return (self.op.padding[axis] + shape_of(self.op.type)[2 + axis] - 1) // self.strides[axis]

    def _biased(self, y: SSAValue, bias: SSAValue, phases: int) -> SSAValue:
        """Add a bias for each result channel to each of the `phases` sub-pixels."""
        make = self.v.make
        if self.room != self.outputs:
            bias = make(PadOp, bias, pad_width=(0, self.room - self.outputs))
        bias = make(BroadcastToOp, bias, shape=(phases, self.room))
        blocks = (1, phases * self.room // self.block, 1, 1)
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
    `conv2d_transpose %x, %w {strides = [2, 2]} -> transpose (conv2d %x', %w')`, between reshapes; or `transpose
    (concatenate (conv2d %x', %w0), (conv2d %x', %w1), ..)`.

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
    if not isinstance(bias, BiasAddOp) or axis_of(bias.axis, 4) != 1 or not is_constant(bias.operands[1]):
        return sizes.shuffled(sizes.convolved(None))
    v.at = bias  # the vector may be defined after the convolution
    name, new = sizes.shuffled(sizes.convolved(bias.operands[1]))
    v.set(bias.results[0], name, new)
    return name, new
