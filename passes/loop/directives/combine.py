"""How a reduction block combines its accumulator with a new value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Block, Operation, SSAValue

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


Combination = Callable[[Block, Sequence[SSAValue], Sequence[SSAValue]], list[SSAValue]]
"""(body, the values so far, new values) -> the combined values, whose ops it appends to the body."""


def combination_of(block: loop.BlockOp) -> Combination | None:
    """How a reduction combines two partial results; None where that is not known to commute."""
    if block.combine is not None:
        return _by_region(block.combine.block)
    combiner = combiner_of(block)
    if combiner is None:
        return None
    store = next(op for op in block.body.block.ops if isinstance(op, loop.StoreOp))
    owner = store.value.owner
    properties: dict[str, Attribute] = dict(owner.properties) if isinstance(owner, COMBINER_OPS) else {}

    def combine(body: Block, accs: Sequence[SSAValue], parts: Sequence[SSAValue]) -> list[SSAValue]:
        new = combiner.create(operands=[accs[0], parts[0]], properties=properties, result_types=[accs[0].type])
        body.add_op(new)
        return [new.results[0]]

    return combine


def _by_region(source: Block) -> Combination:
    def combine(body: Block, accs: Sequence[SSAValue], parts: Sequence[SSAValue]) -> list[SSAValue]:
        values: dict[SSAValue, SSAValue] = dict(zip(source.args, [*accs, *parts], strict=True))
        for op in source.ops:
            if isinstance(op, loop.YieldOp):
                return [values[v] for v in op.values]
            copy = op.clone(values)
            body.add_op(copy)
            values.update(zip(op.results, copy.results, strict=True))
        return []

    return combine
