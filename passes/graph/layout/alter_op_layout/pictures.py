"""
Convolutions that read a plain picture as it is: in blocks of one channel (`NCHW1c`), a view of the plain layout.

A step of a convolution broadcasts one number of its picture to a vector of output channels, which needs no block of
input channels. Blocks keep the numbers of neighbouring channels side by side, where the op before has made them; the
copy of a plain picture into blocks costs as much as a few products with each number. Strided windows that do not
overlap, or that have few channels, multiply each number few times, and a padded copy of few channels has short vectors.

Source: 32 convolutions on Zen 3 (AVX2). Windows of 3 x 3 and stride 2 on 3 to 6 channels take 0.58 to 0.93 of the time
with the copy, those of 4 x 4 to 16 x 16 pixels on 3 to 7 channels 0.83 to 0.97, 3 x 3 of stride 3 on 32 and 64 channels
0.84 to 1.01, and 1 x 1 of stride 2 0.85 to 0.92. Slower are first layers of stride 1 (1.0 to 1.09), 3 x 3 of stride 2
on 32 and 64 channels (1.02), 1 x 1 of stride 2 on 14 pixels a row, which use a part of each cache line (1.10), and
2 x 2 of stride 2 without padding, whose channels lie on more pages than the L1 TLB holds (1.08).
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type

from mlc.dialects.graph import Conv2dOp, TransposeOp, shape_of
from mlc.passes.graph.layout.alter_op_layout.planes import FEW_CHANNELS
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN, Versions
from mlc.passes.graph.shared.blocks import static_size
from mlc.passes.graph.shared.constants import element_of
from mlc.passes.rewriting import defining_op

LEAST_ROW = 24
"""Pixels of a row of a picture of many channels that is read as it is, at least."""


def reads_plain(op: Conv2dOp, v: Versions) -> bool:
    """Whether a convolution without groups is faster on its plain picture than on a copy of it in blocks."""
    x, w = op.operands
    if v.native(x) != PLAIN or not all(isinstance(element_of(one), Float32Type) for one in (x, w)):
        return False
    if any(use.operation is not op for use in x.uses):  # other readers may need the blocks
        return False
    if defining_op(x, TransposeOp) is not None:  # its copy can be in blocks
        return False
    (channels, width), taps = map(static_size, shape_of(x.type)[1::2]), static_size(shape_of(w.type)[3])
    stride = op.strides[1]
    if channels is None or taps is None or stride == 1:
        return False
    if channels < FEW_CHANNELS:
        return True
    apart = stride > (taps - 1) * op.dilation[1]
    return apart and (taps == 1 or any(op.padding)) and width is not None and width >= LEAST_ROW
