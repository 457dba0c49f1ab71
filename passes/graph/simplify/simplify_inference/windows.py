"""Windows that cost less as several: the maximum over a large one."""

from __future__ import annotations

from mlc.dialects.graph import MaxPool2dOp
from mlc.passes.rewriting import Replacement, Rewriter, Rules

WINDOWS = Rules()


@WINDOWS.on(MaxPool2dOp)
def maximum_by_rows(op: MaxPool2dOp, rw: Rewriter) -> Replacement:
    """`max over h x w -> max over h x 1 of the max over 1 x w`, where that compares less than half as often."""
    (height, width), (down, right) = op.pool_size, op.strides
    rows_per_output = min(down, height)  # each row of the picture is searched once, for all windows that hold it
    if 2 * (rows_per_output * width + height) >= height * width or op.ceil_mode:
        return None
    top, left, bottom, far = op.padding
    along = rw.make(
        MaxPool2dOp,
        op.operands[0],
        pool_size=(1, width),
        strides=(1, right),
        padding=(0, left, 0, far),
        dilation=(1, op.dilation[1]),
        layout=op.layout,
    )
    return rw.make(
        MaxPool2dOp,
        along,
        pool_size=(height, 1),
        strides=(down, 1),
        padding=(top, 0, bottom, 0),
        dilation=(op.dilation[0], 1),
        layout=op.layout,
    )
