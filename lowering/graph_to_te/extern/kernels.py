"""The kernels: what each op does with the buffers of its operands and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, f64
from xdsl.ir import SSAValue

from mlc.dialects import graph
from mlc.dialects.graph.types import static_shape
from mlc.lowering.graph_to_te.extern.body import Body, Fill
from mlc.lowering.graph_to_te.extern.order import argsort
from mlc.lowering.graph_to_te.extern.suppression import non_max_suppression

Buffer = SSAValue | Fill
Outputs = Sequence[SSAValue | None]
Extern = Callable[[Body, Any, Sequence[Buffer], Outputs], None]


def nonzero(b: Body, op: Any, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Each element's indices go where the next ones belong, and stay there if it is not zero."""
    (x,), (where, count) = inputs, outputs
    shape = static_shape(op.operands[0].type)

    def visit(axis: int, at: list[SSAValue], n: SSAValue) -> SSAValue:
        if axis < len(shape):
            return b.loop(0, shape[axis], [n], lambda i, n: [visit(axis + 1, [*at, i], n)])[0]
        value = b.load(x, *at)
        found = b.compare("ne", value, 0)
        for row, index in enumerate(at):
            b.store(index, where, row, n, where=found)
        return b.plus(n, b.as_number(found))

    total = visit(0, [], b.constant(0))
    size = static_shape(op.results[0].type)[1]
    for row in range(len(shape)):
        b.loop(total, size, [], lambda i, row=row: b.store(0, where, row, i))
    b.store(total, count)


def unique(b: Body, op: Any, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """For each row the first row that equals it; among first rows its rank is the number of those before it."""
    (x,), (first, which, often, count) = inputs, outputs
    rows, width = static_shape(op.operands[0].type)
    heads = b.buffer(rows)
    unsigned = str(op.operands[0].type.element_type).startswith("ui")

    def order(i: SSAValue, j: SSAValue) -> tuple[SSAValue, SSAValue]:
        """(whether row i is less than row j, whether they are equal)."""

        def step(k: SSAValue, less: SSAValue, same: SSAValue) -> list[SSAValue]:
            u, v = b.load(x, i, k), b.load(x, j, k)
            less = b.binary(arith.OrIOp, less, b.both(same, b.compare("lt", u, v, unsigned)))
            return [less, b.both(same, b.compare("eq", u, v))]

        no, yes = b.compare("ne", i, i), b.compare("eq", i, i)
        less, same = b.loop(0, width, [no, yes], step)
        return less, same

    def head(i: SSAValue) -> None:
        """The first row like row i."""
        found = b.loop(0, i, [i], lambda j, f: [b.select(b.both(order(j, i)[1], b.compare("eq", f, i)), j, f)])
        b.store(found[0], heads, i)

    b.loop(0, rows, [], head)
    for buffer in (first, often):
        b.loop(0, rows, [], lambda i, buffer=buffer: b.store(0, buffer, i))

    def place(i: SSAValue) -> None:
        """Where row i belongs, and how often it is there."""
        mine = b.load(heads, i)

        def visit(j: SSAValue, rank: SSAValue, times: SSAValue) -> list[SSAValue]:
            other = b.load(heads, j)
            is_head = b.compare("eq", other, j)
            before = order(j, mine)[0] if op.sorted else b.compare("lt", j, mine)
            rank = b.plus(rank, b.as_number(b.both(is_head, before)))
            return [rank, b.plus(times, b.as_number(b.compare("eq", other, mine)))]

        rank, times = b.loop(0, rows, [0, 0], visit)
        b.store(rank, which, i)
        b.store(mine, first, rank)
        b.store(times, often, rank)

    b.loop(0, rows, [], place)

    def number(i: SSAValue, n: SSAValue) -> list[SSAValue]:
        """Count the first rows."""
        return [b.plus(n, b.as_number(b.compare("eq", b.load(heads, i), i)))]

    b.store(b.loop(0, rows, [0], number)[0], count)


EXTERN: dict[type[Any], Extern] = {
    graph.ArgsortOp: argsort,
    graph.NonzeroOp: nonzero,
    graph.UniqueOp: unique,
    graph.NonMaxSuppressionOp: non_max_suppression,
}


FEW = 512
"""Up to so many elements an order is counted out, in vectors, rather than sorted."""


def is_extern(op: Any) -> bool:
    """Whether an op is lowered here."""
    if isinstance(op, graph.ArgsortOp):
        x = op.operands[0].type
        element: Any = x.element_type  # pyright: ignore[reportAttributeAccessIssue]
        wide = isinstance(element, IntegerType) or element in (f32, f64)
        return wide and x.has_static_shape() and static_shape(x)[op.axis] > FEW  # pyright: ignore
    return type(op) in EXTERN
