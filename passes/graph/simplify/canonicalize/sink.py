"""
Reshapes that only add or drop axes of size 1 sink below pointwise ops and reductions, next to other views.

A convolution's bias and activation then follow it directly, where a model squeezes the picture between them (exported
1-D convolutions do), and fuse with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import (
    AvgPool2dOp,
    BatchMatmulOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    Conv2dOp,
    GraphOp,
    MaxOp,
    MaxPool2dOp,
    MeanOp,
    MinOp,
    ReshapeOp,
    SumOp,
    UnaryOp,
    op_classes,
    shape_of,
)
from mlc.dialects.graph.pointwise import is_own_pointwise
from mlc.dialects.graph.types import Dim, Shape, product
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

SINKS = Rules()
COMPUTING = (Conv2dOp, MaxPool2dOp, AvgPool2dOp, BatchMatmulOp, UnaryOp, BinaryOp, BiasAddOp, CastOp)


def unit_reshape(value: SSAValue) -> SSAValue | None:
    """The operand of a reshape of a computed value that only adds or drops axes of size 1."""
    reshape = defining_op(value, ReshapeOp)
    if reshape is None:
        return None
    source, owner = reshape.operands[0], reshape.operands[0].owner
    if not isinstance(owner, COMPUTING) and not (isinstance(owner, Operation) and is_own_pointwise(owner)):
        return None
    return source if _sizes(shape_of(source.type)) == _sizes(shape_of(value.type)) else None


def _sizes(shape: Sequence[Dim]) -> list[Dim]:
    return [size for size in shape if size != 1]


@SINKS.on(*op_classes(UnaryOp))
def sink_below_unary(op: UnaryOp, rw: Rewriter) -> Replacement:
    """`relu(reshape(x)) -> reshape(relu(x))`."""
    source = unit_reshape(op.operands[0])
    if source is None:
        return None
    new = rw.clone(op, source)
    return rw.insert(ReshapeOp.make(new, result=op.type))


@SINKS.on(*op_classes(BinaryOp))
def sink_below_binary(op: BinaryOp, rw: Rewriter) -> Replacement:
    """`add(reshape(x), y) -> reshape(add(x, y'))` where y is constant or such a reshape too."""
    return _sunk(op, rw)


@SINKS.on_own("elementwise", "broadcast")
def sink_below_own(op: GraphOp, rw: Rewriter) -> Replacement:
    """`my.act(reshape(x)) -> reshape(my.act(x))`, as for unary and binary ops."""
    return _sunk(op, rw)


def _sunk(op: GraphOp, rw: Rewriter) -> Replacement:
    """A pointwise op before the reshapes of its operands; None where not all of them fit."""
    result = shape_of(op.type)
    sources = [unit_reshape(operand) for operand in op.operands]
    full = [
        s for s, operand in zip(sources, op.operands, strict=True) if s is not None and shape_of(operand.type) == result
    ]
    if not full:
        return None
    shape = shape_of(full[0].type)
    operands = [_fitted(rw, v, s, result, shape) for v, s in zip(op.operands, sources, strict=True)]
    fitting = [operand for operand in operands if operand is not None]
    if len(fitting) < len(operands):
        return None
    new = rw.try_clone(op, *fitting, shape=shape)
    if new is None:
        rw.undo()
        return None
    return rw.insert(ReshapeOp.make(new, shape=result))


def _fitted(rw: Rewriter, value: SSAValue, source: SSAValue | None, result: Shape, shape: Shape) -> SSAValue | None:
    """An operand that broadcasts to `result`, as it broadcasts to `shape`, which has other axes of size 1."""
    own = shape_of(value.type)
    if source is not None and shape_of(source.type) == shape:
        return source
    if product(own) == 1:
        return value if len(own) <= len(shape) else None
    if source is None and not is_constant(value):
        return None
    aligned = iter((*(1,) * (len(result) - len(own)), *own))
    along = iter([size for size, whole in zip(aligned, result, strict=True) if whole != 1])
    return rw.make(ReshapeOp, value, shape=tuple(1 if size == 1 else next(along) for size in shape))


@SINKS.on(MeanOp, SumOp, MaxOp, MinOp)
def sink_below_reduction(op: MeanOp | SumOp | MaxOp | MinOp, rw: Rewriter) -> Replacement:
    """`max(reshape(x)) -> reshape(max(x))`."""
    source = unit_reshape(op.operands[0])
    if source is None:
        return None
    places = [axis for axis, size in enumerate(shape_of(source.type)) if size != 1]
    numbers = [axis for axis, size in enumerate(shape_of(op.operands[0].type)) if size != 1]
    axes = tuple(places[numbers.index(axis)] for axis in op.reduced_axes if axis in numbers)
    if not axes:
        return None
    return rw.insert(ReshapeOp.make(rw.make(type(op), source, axes=axes, keepdims=True), result=op.type))
