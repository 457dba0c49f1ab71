"""Fast construction of arith and math ops: `Op.create` with the properties that their verifiers expect."""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

FLOAT_PREDICATES = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)
INT_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
CASTS: dict[type[Operation], StringAttr] = {
    op: StringAttr(op.name.removeprefix("arith."))
    for op in (
        arith.SIToFPOp,
        arith.UIToFPOp,
        arith.FPToSIOp,
        arith.FPToUIOp,
        arith.ExtFOp,
        arith.TruncFOp,
        arith.ExtSIOp,
        arith.ExtUIOp,
        arith.TruncIOp,
        arith.IndexCastOp,
        arith.BitcastOp,
    )
}

TRAPPING = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, arith.FloorDivSIOp)
"""Integer divisions: one by 0 may trap, so none is computed where its result is not wanted."""


INDEX = IndexType()


def predicate_of(op: arith.CmpfOp | arith.CmpiOp) -> str:
    """The name of a comparison's predicate: `olt`, `slt`, .."""
    names = FLOAT_PREDICATES if isinstance(op, arith.CmpfOp) else INT_PREDICATES
    return names[op.predicate.value.data]


def byte_size(element: Attribute) -> int:
    """Bytes of one element in memory; i1 takes one byte, an index eight."""
    if isinstance(element, IntegerType):
        return max(1, (element.width.data + 7) // 8)
    return element.bitwidth // 8 if isinstance(element, AnyFloat) else 8


@cache
def default_properties(op: type[Any]) -> dict[str, Attribute]:
    """The properties of an op class that have a default: `fastmath`, `overflowFlags`."""
    properties = op.get_irdl_definition().properties
    return {name: d.default_value for name, d in properties.items() if getattr(d, "default_value", None) is not None}


def make(op: type[Operation], *operands: SSAValue, type: Attribute | None = None) -> Operation:
    """An op on these operands; its result has their type unless another is given."""
    return op.create(
        operands=operands,
        properties=default_properties(op).copy(),
        result_types=[operands[0].type if type is None else type],
    )


def constant(value: float | int, type: Attribute) -> Operation:
    """`arith.constant` of a float, integer or index type."""
    attr: Attribute
    if isinstance(type, AnyFloat):
        attr = FloatAttr(float(value), type)
    elif isinstance(type, IndexType):
        attr = IntegerAttr(int(value), type)
    elif isinstance(type, IntegerType):
        bits = type.width.data
        number = int(value) & ((1 << bits) - 1)
        attr = IntegerAttr(number - (1 << bits) if bits > 1 and number >> (bits - 1) else number, type)
    else:
        raise VerifyException(f"expected a float, an integer or an index, but got {type}")
    return arith.ConstantOp.create(properties={"value": attr}, result_types=[type])
