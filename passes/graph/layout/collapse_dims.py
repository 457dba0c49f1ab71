"""
graph-collapse-dims: rows and columns of pictures become one axis in kernels that are pointwise over both.

In: fused regions with 1x1 convolutions over pictures of symbolic sizes or blocked layouts (NCHW16c, NC4cHW). Out: the
same regions over pictures of one row, with reshapes, which are views, around them. A loop over one long axis has one
remainder instead of one in each row, and register tiles of any number of rows fit it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mlc.dialects.graph import (
    BiasAddOp,
    BinaryOp,
    Conv2dOp,
    DequantizeOp,
    FusedOp,
    GraphOp,
    LookupOp,
    QuantizeOp,
    ReshapeOp,
    UnaryOp,
    WhereOp,
    YieldOp,
    shape_of,
)
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.elementwise import RetypeOp
from mlc.dialects.graph.pointwise import is_own_pointwise
from mlc.dialects.graph.types import Tensor, axis_of, element_of, is_static, tensor, tensor_type
from mlc.passes.graph.fusion.fuse_ops import fuse
from mlc.passes.rewriting import functions, outer_blocks


@dataclass(frozen=True)
class Picture:
    """Two adjacent axes of the tensors of a region: the number of the first, the rank, and their sizes."""

    at: int
    rank: int
    sizes: tuple[Dim, ...]

    def has(self, value: SSAValue) -> bool:
        """Whether a value has these axes."""
        shape = shape_of(value.type)
        return len(shape) == self.rank and shape[self.at : self.at + 2] == self.sizes

    def is_broadcast(self, value: SSAValue) -> bool:
        """Whether a value is broadcast along both axes by numpy's rules."""
        shape = shape_of(value.type)
        before = max(0, len(shape) - (self.rank - self.at - 2))
        return all(size == 1 for size in shape[:before][-2:])

    def collapsed(self, value: SSAValue) -> Tensor:
        """The type of a value that has the axes, with one row."""
        shape = shape_of(value.type)
        rows, columns = self.sizes
        return tensor((*shape[: self.at], 1, rows * columns, *shape[self.at + 2 :]), element_of(value))


def picture_of(op: Conv2dOp) -> Picture | None:
    """The rows and columns of a 1x1 convolution of stride 1, if a size is symbolic or its channels are in blocks."""
    kernel = op.logical_sizes()[1]
    if (kernel["H"], kernel["W"]) != (1, 1) or op.strides != (1, 1) or any(op.padding):
        return None
    data, shape = layout(op.data_layout), shape_of(op.result.type)
    at = data.position("H")
    sizes = shape[at : at + 2]
    if data.position("W") != at + 1 or (is_static(sizes) and data.is_plain) or 1 in sizes:
        return None
    picture = Picture(at, len(shape), sizes)
    return picture if picture.has(op.operands[0]) else None  # not where the result is in another layout


def keeps(op: Operation, picture: Picture) -> bool:
    """Whether an op is pointwise over the picture, or has no operand or result with its axes."""
    if not any(picture.has(v) for v in (*op.operands, *op.results)):
        return all(picture.rank > len(shape_of(v.type)) or picture.is_broadcast(v) for v in op.results)
    match op:
        case Conv2dOp():
            return picture_of(op) == picture
        case UnaryOp() | RetypeOp() | LookupOp():
            return True
        case BinaryOp() | WhereOp():
            return all(picture.has(v) or picture.is_broadcast(v) for v in op.operands)
        case GraphOp() if is_own_pointwise(op):
            return all(picture.has(v) or picture.is_broadcast(v) for v in op.operands)
        case BiasAddOp() | QuantizeOp() | DequantizeOp():
            return axis_of(op.axis, picture.rank) not in (picture.at, picture.at + 1)
        case _:
            return isinstance(op, YieldOp)


def collapse(fused: FusedOp) -> None:
    """Collapse the picture of a region to one row, if all of its ops are pointwise over it."""
    body = fused.body.block
    convolutions = [op for op in body.ops if isinstance(op, Conv2dOp)]
    picture = picture_of(convolutions[0]) if convolutions else None
    if picture is None or not all(keeps(op, picture) for op in body.ops):
        return
    values = [*body.args, *(result for op in body.ops for result in op.results)]
    for value in values:
        if picture.has(value):
            Rewriter.replace_value_with_new_type(value, picture.collapsed(value))
    last = body.last_op
    assert last is not None
    block = fused.parent
    assert block is not None
    operands = [_reshaped(v, a.type, fused) for v, a in zip(fused.operands, body.args, strict=True)]
    new = FusedOp(operands, list(last.operand_types), fused.detach_region(fused.body), fused.label.data)
    new.properties, new.attributes, new.location = dict(fused.properties), dict(fused.attributes), fused.location
    block.insert_op_before(new, fused)
    for old, result in zip(fused.results, new.results, strict=True):
        back = _reshaped(result, old.type, fused)
        result.name_hint = back.name_hint = old.name_hint
        old.replace_all_uses_with(back)
    fused.detach()
    fused.erase()


def _reshaped(value: SSAValue, type_: Attribute, at: Operation) -> SSAValue:
    if value.type == type_:
        return value
    op = ReshapeOp.make(value, result=tensor_type(type_))
    op.location = at.location
    assert at.parent is not None
    at.parent.insert_op_before(op, at)
    return op.result


class CollapseDimsPass(ModulePass):
    """
    Collapse the rows and columns of pictures of symbolic sizes, or of blocked layouts, to one axis,
    in kernels that are pointwise over them.

    `graph.fused (%a = %x : tensor<1x2x?x?x16xf32, [H, W]>) { graph.conv2d .. relu }`  ->
    `%r = graph.reshape %x; graph.fused (%a = %r : tensor<1x2x1x?x16xf32, [H * W]>) { .. }; graph.reshape`

    A 1x1 convolution and pointwise ops compute each point of the picture from the same point of their operands.
    """

    name = "graph-collapse-dims"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for block in [block for function in functions(op) for block in outer_blocks(function)]:
            for one in list(block.ops):
                if isinstance(one, Conv2dOp) and picture_of(one) is not None:
                    collapse(fuse([one]))
                elif isinstance(one, FusedOp):
                    collapse(one)
