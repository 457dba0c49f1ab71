"""Converts the scalar body of a stage to ops on loop buffers: reads become loads, scalar ops their canonical form."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop, te
from mlc.dialects.scalar import CASTS, predicate_of
from mlc.support.errors import fail

Values = dict[SSAValue, SSAValue]


def convert_body(stage: te.ComputeOp, block: Block, buffers: Values) -> list[SSAValue]:
    """Append the body of `stage` to `block`, whose arguments are its axes there."""
    values: Values = dict(zip(stage.axes, block.args, strict=True))
    values |= {v: b for v, b in buffers.items() if isinstance(v.type, IndexType)}  # the kernel's symbols
    return convert_ops(stage, stage.body.block, block, values, buffers)


def convert_ops(stage: te.ComputeOp, source: Block, block: Block, values: Values, buffers: Values) -> list[SSAValue]:
    """Append the ops of a block of `stage` to `block`; returns the yielded values."""
    for op in source.ops:
        if isinstance(op, te.YieldOp):
            return [values[v] for v in op.values]
        new = BODY.get(type(op), _unknown)(op, values, buffers)
        new.location = op.location
        block.add_op(new)
        values[op.results[0]] = new.results[0]
        if (hint := op.results[0].name_hint) is not None:
            new.results[0].name_hint = hint
    fail(stage, "expected the body to end in te.yield")


def _unknown(op: Operation, values: Values, buffers: Values) -> Operation:
    fail(op, f"expected te.read, te.index, and ops of arith and math in a stage, but got '{op.name}'")


def _same(op: Operation, values: Values, buffers: Values) -> Operation:
    return type(op).create(
        operands=[values[v] for v in op.operands],
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
        result_types=[r.type for r in op.results],
    )


def _read(op: te.ReadOp, values: Values, buffers: Values) -> Operation:
    rest = [values[v] for v in op.operands[1:]]
    return loop.LoadOp.create(
        operands=[buffers[op.operands[0]], *rest],
        properties=op.properties.copy(),
        result_types=[op.results[0].type],
    )


def _index(op: te.IndexOp, values: Values, buffers: Values) -> Operation:
    return loop.IndexOp.create(
        operands=[values[v] for v in op.operands],
        properties=op.properties.copy(),
        result_types=[op.results[0].type],
    )


def _compare(op: arith.CmpfOp | arith.CmpiOp, values: Values, buffers: Values) -> Operation:
    name = predicate_of(op)
    if name not in loop.COMPARES:
        fail(op, f"expected a predicate of {', '.join(loop.COMPARES)}, but got '{name}'")
    return loop.CompareOp.make(name, values[op.lhs], values[op.rhs])


def _select(op: arith.SelectOp, values: Values, buffers: Values) -> Operation:
    return loop.SelectOp.make(*(values[v] for v in op.operands))


def _fma(op: Operation, values: Values, buffers: Values) -> Operation:
    return loop.FmaOp.make(*(values[v] for v in op.operands))


def _cast(op: Operation, values: Values, buffers: Values) -> Operation:
    return loop.CastOp.create(
        operands=[values[op.operands[0]]],
        properties={"kind": CASTS[type(op)]},
        result_types=[op.results[0].type],
    )


# `arith.sitofp` becomes `loop.cast sitofp`, and so on.
_KEPT = [op for dialect in (arith.Arith, math.Math) for op in dialect.operations]
BODY: dict[type[Operation], Callable[..., Operation]] = {
    **dict.fromkeys(_KEPT, _same),
    **dict.fromkeys(CASTS, _cast),
    te.ReadOp: _read,
    te.IndexOp: _index,
    arith.CmpfOp: _compare,
    arith.CmpiOp: _compare,
    arith.SelectOp: _select,
    math.FmaOp: _fma,
}
