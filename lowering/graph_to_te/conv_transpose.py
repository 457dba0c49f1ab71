"""
Transposed convolution by sub-pixel decomposition: one stage, without products with inserted zeros.

Along an axis of stride s, element o of the result meets the taps r, r + s, r + 2s, .. with r = (o + top) mod s, and
the rows q, q - 1, q - 2, .. with q = (o + top) div s. With a dilation all taps are tried instead, under a mask.
"""

from __future__ import annotations

from typing import Any

from mlc.dialects.graph.ops.conv_transpose import Conv2dTransposeOp
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import ReduceAxis, Tensor
from mlc.lowering.graph_to_te.layouts import widened
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


@lowering(Conv2dTransposeOp)
def conv2d_transpose(op: Conv2dTransposeOp, x: Tensor, w: Tensor) -> Tensor:
    """The sum over the input channels of a group and the taps that meet a row and a column."""
    inputs, outputs = x.shape[1] // op.groups, w.shape[1]
    ic = te.reduce_axis(inputs, "ic")
    taps = [_tap_axis(op, axis, w.shape[2 + axis]) for axis in (0, 1)]
    reduce = [ic, *(t for t in taps if t is not None)]

    def body(n: te.IndexExpr, oc: te.IndexExpr, oh: te.IndexExpr, ow: te.IndexExpr) -> te.Reduction:
        rows: list[te.IndexExpr] = []
        kernel: list[te.IndexExpr | ReduceAxis] = []
        inside, exists = list[te.IndexExpr](), list[te.IndexExpr]()
        for axis, o in enumerate((oh, ow)):
            row, tap, meets = _meeting(op, axis, o, taps[axis])
            rows.append(row)
            kernel.append(tap)
            inside += [*meets, row, x.shape[2 + axis] - 1 - row]
            exists.append(w.shape[2 + axis] - 1 - tap)
        channel = ic.expr if op.groups == 1 else oc // outputs * inputs + ic
        pixel = x.read([n, channel, *rows], mask=te.condition(inside))
        weight = w.read([channel, oc % outputs, *kernel], mask=te.condition(exists))
        return te.sum(widened(op, pixel) * widened(op, weight), axis=reduce)

    return te.compute(shape_of_result(op), body, stage_name(op), axes=["n", "oc", "oh", "ow"], reduce=reduce)


def _tap_axis(op: Conv2dTransposeOp, axis: int, taps: int) -> ReduceAxis | None:
    """The reduction over the taps that contribute to one element; None if it is a single tap."""
    count = taps if op.dilation[axis] > 1 else -(-taps // op.strides[axis])
    return te.reduce_axis(count, ("kh", "kw")[axis]) if count > 1 else None


def _meeting(
    op: Conv2dTransposeOp, axis: int, out: te.IndexExpr, t: ReduceAxis | None
) -> tuple[te.IndexExpr, te.IndexExpr | ReduceAxis, list[te.IndexExpr]]:
    """(image index, kernel tap, mask expressions) of reduction step t for one element of the result."""
    stride, at = op.strides[axis], out + op.padding[axis]
    count: Any = 0 if t is None else t.expr
    if op.dilation[axis] == 1:
        return at // stride - count, at % stride + count * stride, []
    from_tap = at - count * op.dilation[axis]
    return from_tap // stride, te.IndexExpr(out.stage, out.stage.index(count)), [-(from_tap % stride)]
