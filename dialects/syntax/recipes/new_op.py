"""Making an op on operands without its constructor, which registers operands, results and regions one by one."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue, SSAValues, Use


def new_op(cls: type[Operation], operands: Sequence[SSAValue]) -> Operation:
    """An op of a class that uses these operands; results, properties and attributes are left to the caller."""
    op = cls.__new__(cls)
    op._operands = held = SSAValues(operands)
    op._operand_uses = uses = tuple([Use(op, number) for number in range(len(held))])
    for operand, use in zip(held, uses, strict=True):
        operand.add_use(use)
    return op
