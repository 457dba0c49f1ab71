"""
graph-quantize: convolutions and dense layers of a float model multiply bytes, by the ranges that calibration found.

The attribute `mlc.range = [low, high]` of a contraction holds the observed range of its data. The data are quantised to
unsigned bytes with one scale for the tensor, for all readers; weights to signed bytes with one scale for each output
channel; a constant bias behind the contraction to int32 in the scale of the products. graph-simplify-qdq then makes
integer kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, Float64Type, FloatAttr, ModuleOp, f32, f64
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass

from mlc.dialects.constants import items
from mlc.dialects.graph import (
    AbsOp,
    AddOp,
    BiasAddOp,
    ConstantOp,
    Conv2dOp,
    DenseOp,
    DequantizeOp,
    DivideOp,
    FullOp,
    MaximumOp,
    MaxOp,
    MultiplyOp,
    QuantizeOp,
    ReshapeOp,
    shape_of,
)
from mlc.dialects.graph.types import Dim
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter, functions, outer_blocks
from mlc.support.errors import UserError, fail

RANGE = "mlc.range"
"""The attribute of a contraction that holds the observed range of its data."""
LEVELS = 255
WEIGHT_BITS = (7, 8)
"""The bits that quantised weights may have: seven can be multiplied in pairs without dot products of bytes."""
BIAS_ROOM = 2.0**29
"""The largest absolute value of a quantised bias, which leaves room in int32 for the sum of products."""
Contraction: TypeAlias = Conv2dOp | DenseOp
Bias: TypeAlias = BiasAddOp | AddOp
TINY = 1e-30
"""The smallest scale, used for weights that are all 0."""


def quantisable(op: Operation, depthwise: bool = False) -> TypeGuard[Contraction]:
    """
    Whether an op is a contraction of floats by constant weights, in plain layouts.

    Grouped convolutions are not; depthwise ones are, if asked for. Their channels have one scale although they are
    never summed, which costs more accuracy than the rest of the quantisation.
    """
    if not isinstance(op, Conv2dOp | DenseOp) or op.out_dtype or op.type.element_type != f32:
        return False
    x, w = op.operands
    if isinstance(op, Conv2dOp) and op.groups > 1 and not (depthwise and op.is_depthwise):
        return False
    plain = op.kernel_layout == ("OIHW" if isinstance(op, Conv2dOp) else "OI")
    plain = plain and (isinstance(op, DenseOp) or op.data_layout == "NCHW")
    plain = plain and not is_constant(x) and is_constant(w)
    return plain and is_static(shape_of(w.type))


def range_attribute(low: float, high: float) -> ArrayAttr[FloatAttr[Float64Type]]:
    """The value of the attribute `RANGE`."""
    return ArrayAttr([FloatAttr(float(v), f64) for v in (low, high)])


def parameters(low: float, high: float) -> tuple[float, int]:
    """Scale and zero point of unsigned bytes for a range, extended to include 0, which is represented exactly."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / LEVELS, TINY)
    return scale, min(max(round(-low / scale), 0), LEVELS)


class Quantizer:
    """Quantises the contractions of one block that have a range."""

    def __init__(self, block: Block, weight_bits: int = 8) -> None:
        self.block, self.weight_levels = block, (1 << (weight_bits - 1)) - 1
        self.data: dict[tuple[SSAValue, float, int], SSAValue] = {}
        self.rw = Rewriter()

    def run(self) -> None:
        """Quantise every contraction that has a range, with its bias."""
        for op in list(self.block.ops):
            given = op.attributes.pop(RANGE, None)
            if given is None:
                continue
            if not quantisable(op, depthwise=True) or (bounds := _bounds(given)) is None:
                wanted = f"{RANGE} = [low, high] on a convolution or dense layer by constant weights"
                fail(op, f"expected {wanted}, but got {given}")
            self.contraction(op, *parameters(*bounds))

    def contraction(self, op: Contraction, scale: float, zero: int) -> None:
        """`conv2d %x, %w` -> `conv2d (dequantize (quantize %x)), (dequantize (quantize %w))`."""
        self.rw.at = op
        x = self.quantised(op.operands[0], scale, zero)
        self.rw.at = op
        op.operands[0] = x
        sx = self.rw.insert(ConstantOp.make(scale, dtype="float32"))
        found = _bias_behind(op)
        sw = self.weight_scale(op.operands[1])
        if found is not None:
            b = found[0].operands[found[1]]
            self.hoist(b, op)
            sw = self.scale_for_bias(sw, sx, b)
        op.operands[1] = self.constant(op.operands[1], sw, 0, "int8")
        if found is not None:
            self.bias(*found, self.rw.make(MultiplyOp, sw, sx))

    def quantised(self, x: SSAValue, scale: float, zero: int) -> SSAValue:
        """The data quantised and dequantised; all their readers read the result, so that only bytes are stored."""
        known = self.data.get((x, scale, zero))
        if known is not None:
            return known
        readers = self.readers(x)
        self.insert_behind(x)
        s = self.rw.insert(ConstantOp.make(scale, dtype="float32"))
        z = self.rw.insert(ConstantOp.make(zero, dtype="uint8"))
        wide = self.rw.make(DequantizeOp, self.rw.make(QuantizeOp, x, s, z), s, z)
        for use in readers:
            use.operation.operands[use.index] = wide
        self.data[x, scale, zero] = self.data[wide, scale, zero] = wide
        return wide

    def readers(self, x: SSAValue) -> list[Use]:
        """The uses of a value by ops of the block, except its terminator; regions of control flow keep the float."""
        uses = [use for use in x.uses if use.operation.parent is self.block]
        return [use for use in uses if not use.operation.name.startswith("func.")]

    def insert_behind(self, x: SSAValue) -> None:
        """Insert new ops right behind the definition of a value."""
        owner, first = x.owner, self.block.first_op
        if isinstance(owner, Operation) and owner.parent is self.block and owner.next_op is not None:
            self.rw.at = owner.next_op
        elif first is not None and not isinstance(owner, Operation):
            self.rw.at = first

    def hoist(self, constant: SSAValue, before: Operation) -> None:
        """Move a constant, and the ops it is computed by, before an op if they are behind it."""
        op = constant.owner
        if isinstance(op, Operation) and op.parent is self.block and before.is_before_in_block(op):
            for operand in op.operands:
                self.hoist(operand, before)
            op.detach()
            self.block.insert_op_before(op, before)

    def weight_scale(self, w: SSAValue) -> SSAValue:
        """One scale for each output channel, which maps its largest weight to 127, or to 63 of seven bits."""
        axes = tuple(range(1, len(shape_of(w.type))))
        largest = self.rw.make(MaxOp, self.rw.make(AbsOp, w), axes=axes)
        levels = self.rw.insert(ConstantOp.make(float(self.weight_levels), dtype="float32"))
        tiny = self.rw.insert(ConstantOp.make(TINY, dtype="float32"))
        return self.rw.make(MaximumOp, self.rw.make(DivideOp, largest, levels), tiny)

    def scale_for_bias(self, sw: SSAValue, sx: SSAValue, b: SSAValue) -> SSAValue:
        """The scales of weights, increased where the bias in the scale of the products would exceed int32."""
        size = shape_of(sw.type)
        b = b if shape_of(b.type) == size else self.rw.make(ReshapeOp, b, shape=size)
        room = self.rw.insert(ConstantOp.make(BIAS_ROOM, dtype="float32"))
        return self.rw.make(
            MaximumOp, sw, self.rw.make(DivideOp, self.rw.make(AbsOp, b), self.rw.make(MultiplyOp, sx, room))
        )

    def constant(self, value: SSAValue, scale: SSAValue, axis: int, dtype: str) -> SSAValue:
        """A constant quantised with zero points of 0, and dequantised."""
        zero = self.rw.insert(FullOp.make(shape_of(scale.type), 0, dtype))
        return self.rw.make(
            DequantizeOp, self.rw.make(QuantizeOp, value, scale, zero, axis=axis), scale, zero, axis=axis
        )

    def bias(self, reader: Bias, at: int, scale: SSAValue) -> None:
        """Quantise a constant vector, operand `at` of the op that adds it, to int32."""
        self.rw.at = reader
        b = reader.operands[at]
        axis = _vector_axis(shape_of(b.type), shape_of(scale.type)[0])
        reader.operands[at] = self.constant(b, scale, axis or 0, "int32")


def _bias_behind(op: Contraction) -> tuple[Bias, int] | None:
    """The only reader of a contraction, if it adds a constant a channel, and the number of that operand."""
    y = op.results[0]
    reader = next(iter(y.uses)).operation if y.has_one_use() else None
    if not isinstance(reader, BiasAddOp | AddOp):
        return None
    at = next(k for k, v in enumerate(reader.operands) if v is not y)
    b = reader.operands[at]
    axis = _vector_axis(shape_of(b.type), shape_of(op.operands[1].type)[0])
    channels = 1 if isinstance(op, Conv2dOp) else -1
    fits = is_constant(b) and axis is not None and _channel_axis(reader, b, axis) == channels
    return (reader, at) if fits else None


def _bounds(given: Attribute) -> tuple[float, float] | None:
    """The two numbers of a range attribute; None if it has another form."""
    values = [float(v.value.data) for v in items(given) if isinstance(v, FloatAttr)]
    return (values[0], values[1]) if len(values) == 2 and values[0] <= values[1] else None


def _vector_axis(shape: Sequence[Dim], size: Dim) -> int | None:
    """The one axis of a vector of this size: `1x16x1x1 -> 1`."""
    axes = [k for k, n in enumerate(shape) if n != 1]
    return axes[0] if len(axes) == 1 and shape[axes[0]] == size else None


def _channel_axis(reader: Bias, b: SSAValue, axis: int) -> int:
    """Along which axis of the result a vector varies: 1, or -1 for the last."""
    rank = len(shape_of(reader.type))
    at = reader.axis % rank if isinstance(reader, BiasAddOp) else axis + rank - len(shape_of(b.type))
    return -1 if at == rank - 1 and rank < 4 else at


@dataclass(frozen=True)
class QuantizePass(ModulePass):
    """
    Quantise contractions that have an `mlc.range`.

    `graph.conv2d %x, %w {..., mlc.range = [0.0, 6.0]}`
    -> `graph.conv2d (dequantize (quantize %x, 6 / 255, 0)), (dequantize (quantize %w, %s, 0) {axis = 0})`
    """

    name = "graph-quantize"
    error_budget: ClassVar[float] = 0.25
    """The part of its largest element by which a result may move under validation: steps of 1/255 in each layer."""
    weight_bits: int = 8
    """7 or 8."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; UserError for another number of bits than `WEIGHT_BITS`."""
        if self.weight_bits not in WEIGHT_BITS:
            raise UserError(f"expected weights of 7 or 8 bits, but got {self.weight_bits!r}")
        for function in functions(op):
            for block in outer_blocks(function):
                Quantizer(block, self.weight_bits).run()
        eliminate_dead_code(op)
