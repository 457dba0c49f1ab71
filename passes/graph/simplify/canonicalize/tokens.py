"""
Tokens become pictures, and pictures tokens, by a transpose next to the convolution and a reshape outside of it.

    conv2d (reshape (transpose %x {axes = [0, 2, 1]}))  ->  conv2d (transpose (reshape %x) {axes = [0, 3, 1, 2]})
    transpose (reshape (conv2d %x)) {axes = [0, 2, 1]}  ->  reshape (transpose (conv2d %x) {axes = [0, 2, 3, 1]})

The transposes then are NHWC -> NCHW and back, which a change of the convolution's layout takes in.
"""

from __future__ import annotations

from mlc.dialects.graph import Conv2dOp, ReshapeOp, TransposeOp, shape_of
from mlc.dialects.graph.types import Shape
from mlc.passes.graph.shared.views import reshape_groups
from mlc.passes.graph.simplify.canonicalize.shuffle import is_convolved
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

TOKENS = Rules()


@TOKENS.on(Conv2dOp)
def picture_from_tokens(op: Conv2dOp, rw: Rewriter) -> Replacement:
    """`conv2d(reshape(transpose(x))) -> conv2d(transpose(reshape(x)))` where the reshape only splits axes."""
    reshape = defining_op(op.operands[0], ReshapeOp)
    inner = None if reshape is None else defining_op(reshape.operands[0], TransposeOp)
    if reshape is None or inner is None or not (reshape.result.has_one_use() and inner.result.has_one_use()):
        return None
    shape = shape_of(reshape.type)
    parts = _parts(shape_of(inner.type), shape)
    if parts is None:
        return None
    order = [axis for source in range(len(parts)) for axis in parts[inner.axes.index(source)]]
    value = rw.make(ReshapeOp, inner.operands[0], shape=tuple(shape[axis] for axis in order))
    picture = rw.make(TransposeOp, value, axes=tuple(order.index(axis) for axis in range(len(shape))))
    return rw.clone(op, picture, op.operands[1])


@TOKENS.on(TransposeOp)
def tokens_from_picture(op: TransposeOp, rw: Rewriter) -> Replacement:
    """`transpose(reshape(conv2d(x))) -> reshape(transpose(conv2d(x)))` where the reshape only merges axes."""
    reshape = defining_op(op.operands[0], ReshapeOp)
    if reshape is None or not reshape.result.has_one_use() or not is_convolved(reshape.operands[0]):
        return None
    parts = _parts(shape_of(reshape.type), shape_of(reshape.operands[0].type))
    if parts is None:
        return None
    axes = tuple(axis for place in op.axes for axis in parts[place])
    return rw.insert(ReshapeOp.make(rw.make(TransposeOp, reshape.operands[0], axes=axes), result=op.type))


def _parts(whole: Shape, parts: Shape) -> list[list[int]] | None:
    """The axes of `parts` that each axis of `whole` consists of; None where one of them has a part of two."""
    groups = reshape_groups(whole, parts)
    found = {axes[0]: made for axes, made in groups}
    units = [[axis for axis, size in enumerate(shape) if size == 1] for shape in (whole, parts)]
    if any(len(axes) != 1 for axes, _ in groups) or len(units[0]) != len(units[1]) or 0 in whole:
        return None
    found |= {axis: [made] for axis, made in zip(*units, strict=True)}
    return [found[axis] for axis in range(len(whole))]
