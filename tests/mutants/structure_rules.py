"""Bugs of layouts, of fusion and of quantisation."""

from collections.abc import Iterator
from random import Random

import numpy as np
from graph_rules import SOURCES, static
from operators import Change, mutation, replace, replace_by, same_types, swap_operands, wrapped
from xdsl.dialects.builtin import SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.types import shape_of

# --- layouts -------------------------------------------------------------------------------------------------------


@mutation("layout")
def layout_as_reshape(op: Operation, random: Random) -> Iterator[Change]:
    """A change of layout moves nothing."""
    if isinstance(op, g.LayoutTransformOp):
        a, b = static(op.operands[0]), static(op.result)
        if a and b and np.prod(a) == np.prod(b):
            yield lambda: replace_by(op, g.ReshapeOp.make(op.operands[0], result=op.type))


@mutation("layout")
def swapped_layout_axes(op: Operation, random: Random) -> Iterator[Change]:
    """Two axes of one size are exchanged in a change of layout."""
    if isinstance(op, g.LayoutTransformOp):
        yield from exchanged_axes(op)


def exchanged_axes(op: GraphOp) -> Iterator[Change]:
    """The result of an op with two axes of one size exchanged."""
    shape = static(op.results[0]) or ()
    for i in range(len(shape)):
        for j in range(i):
            if shape[i] == shape[j] != 1:
                axes = list(range(len(shape)))
                axes[i], axes[j] = j, i

                def change(axes: list[int] = axes) -> None:
                    users = list(op.results[0].uses)
                    moved = g.TransposeOp.make(op.results[0], axes=axes)
                    block = op.parent
                    assert block is not None
                    block.insert_op_after(moved, op)
                    for use in users:
                        use.operation.operands[use.index] = moved.result

                yield change


@mutation("layout")
def wrong_block(op: Operation, random: Random) -> Iterator[Change]:
    """Channel c of a blocked image is put at place `c // blocks` of block `c mod blocks`."""
    if isinstance(op, g.LayoutTransformOp) and layout(op.src).is_plain and not layout(op.dst).is_plain:
        shape = static(op.result)
        if shape and op.dst.startswith("NCHW") and len(shape) == 5 and shape[1] > 1:

            def change() -> None:
                plain = op.clone()
                wide = g.TransposeOp.make(plain.results[0], axes=[0, 4, 1, 2, 3])
                split = g.ReshapeOp.make(wide.result, result=op.type)
                replace_by(op, plain, wide, split)

            yield change


@mutation("layout")
def wrong_weight_packing(op: Operation, random: Random) -> Iterator[Change]:
    """A packed weight is read with two axes of one size exchanged."""
    if isinstance(op, g.Conv2dOp | g.DenseOp) and len(shape_of(op.operands[1].type)) > (
        4 if isinstance(op, g.Conv2dOp) else 2
    ):
        shape = static(op.operands[1]) or ()
        for i in range(len(shape)):
            for j in range(i):
                if shape[i] == shape[j] != 1:
                    axes = list(range(len(shape)))
                    axes[i], axes[j] = j, i
                    yield lambda axes=axes: wrapped(op, 1, g.TransposeOp.make(op.operands[1], axes=axes))


@mutation("layout")
def rotated_lanes(op: Operation, random: Random) -> Iterator[Change]:
    """The lanes of a blocked weight or bias are read rotated by one."""
    if isinstance(op, g.Conv2dOp | g.DenseOp | g.AddOp | g.MultiplyOp):
        shape = static(op.operands[1])
        if shape and len(shape) >= 3 and shape[-1] > 1:

            def change() -> None:
                rank, last = len(shape), shape[-1]
                ones, zeros = [1] * rank, [0] * rank
                cut = [*shape[:-1], last - 1]
                head = g.SliceOp.make(op.operands[1], begin=zeros, end=cut, strides=ones)
                tail = g.SliceOp.make(op.operands[1], begin=[*zeros[:-1], last - 1], end=shape, strides=ones)
                wrapped(op, 1, head, tail, g.ConcatenateOp.make(tail.result, head.result, axis=rank - 1))

            yield change


# --- fusion -----------------------------------------------------------------------------------------------------


@mutation("fusion")
def stale_epilogue(op: Operation, random: Random) -> Iterator[Change]:
    """A fused region yields a value of before its last op."""
    if isinstance(op, g.YieldOp) or op.name == "func.return":
        for k, value in enumerate(op.operands):
            source = value.owner
            if isinstance(source, GraphOp) and not isinstance(source, SOURCES):
                for earlier in source.operands:
                    if earlier.type == value.type:
                        yield lambda k=k, earlier=earlier: op.operands.__setitem__(k, earlier)


@mutation("fusion")
def dropped_fused_op(op: Operation, random: Random) -> Iterator[Change]:
    """An op is lost on its way into a fused kernel."""
    if in_kernel(op) and isinstance(op, GraphOp) and len(op.operands) == 2 and len(op.results) == 1:
        for value in op.operands:
            if value.type == op.results[0].type and not isinstance(op, SOURCES):
                yield lambda value=value: replace(op, value)


def in_kernel(op: Operation) -> bool:
    """Whether an op stands in a fused region or in a kernel's function."""
    parent = op.parent_op()
    return isinstance(parent, g.FusedOp) or (isinstance(parent, FuncOp) and "graph.kernel" in parent.attributes)


@mutation("fusion")
def swapped_kernel_operands(op: Operation, random: Random) -> Iterator[Change]:
    """A fused region or a kernel gets two operands of one type exchanged."""
    if isinstance(op, g.FusedOp | g.CallOp):
        for i in range(len(op.operands)):
            for j in range(i):
                if same_types(op, j, i):
                    yield lambda i=i, j=j: swap_operands(op, i, j)


@mutation("fusion")
def stale_kernel_operand(op: Operation, random: Random) -> Iterator[Change]:
    """A fused region or a kernel reads another value of the same type."""
    if not isinstance(op, g.FusedOp | g.CallOp) or op.parent is None:
        return
    for k, value in enumerate(op.operands):
        found = earlier_value(op, value)
        if found is not None:
            yield lambda k=k, found=found: op.operands.__setitem__(k, found)


def earlier_value(op: Operation, value: SSAValue) -> SSAValue | None:
    """The nearest other value of the same type before an op."""
    before = op.prev_op
    for _ in range(60):
        if before is None:
            return None
        for result in before.results:
            if result is not value and result.type == value.type:
                return result
        before = before.prev_op
    return None


@mutation("fusion")
def wrong_kernel(op: Operation, random: Random) -> Iterator[Change]:
    """A call of another kernel of the same type."""
    if not isinstance(op, g.CallOp):
        return
    module = op.parent_op()
    while module is not None and module.parent_op() is not None:
        module = module.parent_op()
    types = {f.sym_name.data: f.function_type for f in module.walk() if isinstance(f, FuncOp)} if module else {}
    own = op.callee.string_value()
    others = [name for name, t in types.items() if name not in (own, "main") and t == types.get(own)]
    if others:
        other = random.choice(others)
        yield lambda: op.properties.__setitem__("callee", SymbolRefAttr(other))


# --- quantisation -------------------------------------------------------------------------------------------------


def constant_of(value: SSAValue) -> g.ConstantOp | None:
    """The constant behind a value."""
    return value.owner if isinstance(value.owner, g.ConstantOp) else None


def with_value(op: Operation, index: int, array: object) -> None:
    """Let an operand be another constant."""
    wrapped(op, index, g.ConstantOp.make(np.asarray(array)))


@mutation("quantisation")
def wrong_zero_point(op: Operation, random: Random) -> Iterator[Change]:
    """A zero point is off."""
    if isinstance(op, g.QuantizeOp | g.DequantizeOp) and (zero := constant_of(op.operands[2])) is not None:
        value = np.asarray(zero.array())
        yield lambda: with_value(op, 2, np.where(value > 0, value - 1, value + 1).astype(value.dtype))


@mutation("quantisation")
def wrong_quantisation_scale(op: Operation, random: Random) -> Iterator[Change]:
    """The scale of a quantised value is off."""
    if isinstance(op, g.QuantizeOp | g.DequantizeOp) and (scale := constant_of(op.operands[1])) is not None:
        value = np.asarray(scale.array())
        yield lambda: with_value(op, 1, (value * 1.05).astype(value.dtype))


@mutation("quantisation")
def lost_zero_point(op: Operation, random: Random) -> Iterator[Change]:
    """The subtraction of a zero point is left out."""
    if isinstance(op, g.SubtractOp | g.AddOp) and constant_of(op.operands[1]) is not None:
        if op.operands[0].type == op.type and str(op.type.element_type) in ("i32", "si32", "f32"):
            yield lambda: replace(op, op.operands[0])


@mutation("quantisation")
def wrong_pad_of_image(op: Operation, random: Random) -> Iterator[Change]:
    """A quantised image is surrounded by zeros rather than by its zero point."""
    if isinstance(op, g.Conv2dOp) and op.pad_value:
        yield lambda: setattr(op, "pad_value", 0)


@mutation("quantisation")
def wrong_rounding(op: Operation, random: Random) -> Iterator[Change]:
    """A value is truncated where it must be rounded."""
    if isinstance(op, g.RoundOp):
        yield lambda: replace_by(op, g.FloorOp.make(op.operands[0]))


@mutation("quantisation")
def lost_saturation(op: Operation, random: Random) -> Iterator[Change]:
    """A value wraps round where it must saturate."""
    if isinstance(op, g.ClipOp) and any(isinstance(use.operation, g.CastOp) for use in op.result.uses):
        yield lambda: replace(op, op.operands[0])
