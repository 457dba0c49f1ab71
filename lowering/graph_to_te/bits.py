"""Bitwise ops, bit casts, and the angle functions: one expression each."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from mlc.dialects.graph.ops import bits, trigonometry
from mlc.dialects.scalar import make
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.elementwise import lower_binary, of_values
from mlc.lowering.graph_to_te.table import lowering, stage_name


def _shift(x: Scalar, y: Scalar, op: bits.BitwiseOp) -> Scalar:
    """By the width or more, all bits are shifted out."""
    assert isinstance(x.type, IntegerType)
    width = x.type.width.data
    left = isinstance(op, bits.ShiftLeftOp)
    shift = arith.ShLIOp if left else arith.ShRUIOp if x.kind == 2 else arith.ShRSIOp
    inside = y < width
    by = te.where(inside, y, width - 1)
    shifted = Scalar(x.stage, x.stage.add(make(shift, x.value, by.value)), x.unsigned)
    return shifted if shift is arith.ShRSIOp else te.where(inside, shifted, 0)


lower_binary(
    {
        bits.BitwiseAndOp: of_values(lambda x, y: x & y),
        bits.BitwiseOrOp: of_values(lambda x, y: x | y),
        bits.BitwiseXorOp: of_values(lambda x, y: x ^ y),
        bits.ShiftLeftOp: _shift,
        bits.ShiftRightOp: _shift,
    }
)


@lowering(bits.BitwiseNotOp)
def bitwise_not(op: bits.BitwiseNotOp, x: Tensor) -> Tensor:
    """All bits flipped."""
    return te.compute(x.shape, lambda *i: ~x[i], stage_name(op))


@lowering(bits.BitcastOp)
def bitcast(op: bits.BitcastOp, x: Tensor) -> Tensor:
    """The same bits as another type."""
    element, unsigned = te.signless(op.type.element_type)

    def body(*i: te.IndexExpr) -> Scalar:
        value = x[i]
        if value.type == element:
            return Scalar(value.stage, value.value, unsigned)
        return Scalar(value.stage, value.stage.add(make(arith.BitcastOp, value.value, type=element)), unsigned)

    return te.compute(x.shape, body, stage_name(op))


UNARY: dict[type[Operation], type[Operation]] = {
    trigonometry.TanOp: math.TanOp,
    trigonometry.AsinOp: math.AsinOp,
    trigonometry.AcosOp: math.AcosOp,
    trigonometry.AtanOp: math.AtanOp,
    trigonometry.SinhOp: math.SinhOp,
    trigonometry.CoshOp: math.CoshOp,
}


@lowering(*UNARY)
def unary(op: Operation, x: Tensor) -> Tensor:
    """One call of the C library's function an element."""
    function = UNARY[type(op)]
    return te.compute(x.shape, lambda *i: te.scalars.apply(function, x[i]), stage_name(op))
