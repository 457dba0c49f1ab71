"""How a reduction block combines its accumulator with a new value."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation

from mlc.dialects import loop

COMBINER_OPS = (
    *(arith.AddfOp, arith.AddiOp, arith.MulfOp, arith.MuliOp, arith.MaximumfOp, arith.MinimumfOp),
    *(arith.MaxSIOp, arith.MinSIOp, arith.MaxUIOp, arith.MinUIOp, arith.MaxnumfOp, arith.MinnumfOp),
)
"""The commutative, associative ops that a block may reduce with."""


def combiner_of(block: loop.BlockOp) -> type[Operation] | None:
    """The op by which a reduction combines its accumulator with a new value; loop.fma adds."""
    stores = [op for op in block.body.block.ops if isinstance(op, loop.StoreOp)]
    if len(stores) != 1:
        return None
    op = stores[0].value.owner
    if isinstance(op, loop.FmaOp):
        found, operands = arith.AddfOp if isinstance(op.c.type, AnyFloat) else arith.AddiOp, [op.c]
    elif isinstance(op, COMBINER_OPS):
        found, operands = type(op), list(op.operands)
    else:
        return None
    for v in operands:
        load = v.owner
        if isinstance(load, loop.LoadOp) and load.buffer is stores[0].buffer and load.map == stores[0].map:
            return found if v.uses.get_length() == 1 else None
    return None
