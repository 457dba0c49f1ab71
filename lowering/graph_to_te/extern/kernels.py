"""The table of extern ops, and the kernels of nonzero and unique."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64
from xdsl.ir import Operation, SSAValue

from mlc.dialects import graph
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of, product, shape_of
from mlc.dialects.te_builder.loop_body import Buffer, Fill, LoopBodyBuilder, Outputs
from mlc.lowering.graph_to_te.extern.best import argsort
from mlc.lowering.graph_to_te.extern.cumulative import cumulative
from mlc.lowering.graph_to_te.extern.order import Keys, sort
from mlc.lowering.graph_to_te.extern.scatter import scatter_elements, scatter_nd
from mlc.lowering.graph_to_te.extern.suppression import non_max_suppression

Extern = Callable[..., None]


def nonzero(b: LoopBodyBuilder, op: graph.NonzeroOp, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Append the indices of each element that is not zero; the columns beyond the count are zeroed."""
    (x,), (where, count) = inputs, outputs
    shape = shape_of(op.operands[0].type)

    def visit(axis: int, at: list[SSAValue], n: SSAValue) -> SSAValue:
        if axis < len(shape):
            return b.loop(0, shape[axis], [n], lambda i, n: [visit(axis + 1, [*at, i], n)])[0]
        value = b.load(x, *at)
        found = b.compare("ne", value, 0)
        for row, index in enumerate(at):
            b.store(index, where, row, n, where=found)
        return b.plus(n, b.as_number(found))

    total = visit(0, [], b.constant(0))
    size = shape_of(op.results[0].type)[1]
    for row in range(len(shape)):
        b.loop(total, size, [], lambda i, row=row: b.store(0, where, row, i))
    b.store(total, count)


def unique(b: LoopBodyBuilder, op: graph.UniqueOp, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Sort the rows stably, so that equal ones are adjacent, then number the groups of equal rows."""
    (x,), (first, which, often, count) = inputs, outputs
    rows, width = shape_of(op.operands[0].type)
    t = op.input_types[0].element_type
    element = x.element if isinstance(x, Fill) else element_of(x)
    keys = Keys(b, element, str(t).startswith("ui"), False)
    order, other = b.buffer(rows), b.buffer(rows)
    heads, times, groups = (b.buffer(rows) for _ in range(3))

    def start(i: SSAValue) -> None:
        b.store(i, order, i)
        b.store(0, times, i)
        b.store(0, heads, i)

    b.loop(0, rows, [], start)
    _sort_rows(b, keys, x, (rows, width), order, other)
    total = _number_groups(b, x, (rows, width), order, (heads, groups, times))
    if op.sorted:
        for source, target in ((heads, first), (groups, which), (times, often)):
            b.loop(0, rows, [], lambda i, s=source, t=target: b.store(b.load(s, i), t, i))
    else:
        _order_by_first(b, rows, (heads, groups, times), (first, which, often), other)
    b.store(total, count)


def _sort_rows(
    b: LoopBodyBuilder, keys: Keys, x: Buffer, shape: tuple[Dim, Dim], order: SSAValue, other: SSAValue
) -> None:
    """Sort rows lexicographically: stably by each column, the last one first; `other` is a temporary like `order`."""
    rows, width = shape

    def sort_by(column: SSAValue) -> None:
        """One stable sort; `column` counts from the last."""
        column = b.minus(width - 1, column)

        def pair(i: SSAValue) -> tuple[SSAValue, SSAValue]:
            row = b.load(order, i)
            return keys.of(b.load(x, row, column)), row

        sort(b, keys, rows, rows, pair, lambda place, row: b.store(row, other, place))
        b.loop(0, rows, [], lambda i: b.store(b.load(other, i), order, i))

    b.loop(0, width, [], sort_by)


def _number_groups(
    b: LoopBodyBuilder, x: Buffer, shape: tuple[Dim, Dim], order: SSAValue, found: Sequence[SSAValue]
) -> SSAValue:
    """
    The number of distinct rows, given their sorted order.

    Writes to `found`: the first row of each group of equal rows, each row's group, each group's number of rows.
    """
    (rows, width), (heads, groups, times) = shape, found

    def visit(i: SSAValue, group: SSAValue) -> list[SSAValue]:
        """A sorted row belongs to the group of its predecessor, or starts the next group."""
        row, before = b.load(order, i), b.load(order, b.binary(arith.MaxSIOp, b.minus(i, 1), 0))
        new = b.compare("eq", i, 0)

        def differs(k: SSAValue, found: SSAValue) -> list[SSAValue]:
            return [b.binary(arith.OrIOp, found, b.compare("ne", b.load(x, row, k), b.load(x, before, k)))]

        (new,) = b.loop(0, width, [new], differs)
        group = b.plus(group, b.as_number(new))
        b.store(row, heads, group, where=new)
        b.store(group, groups, row)
        b.store(b.plus(b.load(times, group), 1), times, group)
        return [group]

    return b.plus(b.loop(0, rows, [-1], visit)[0], 1)


def _order_by_first(b: LoopBodyBuilder, rows: Dim, found: Sequence[SSAValue], outputs: Outputs, rank: SSAValue) -> None:
    """Renumber the groups by the position of their first row."""
    (heads, groups, times), (first, which, often) = found, outputs
    for buffer in (first, often):
        b.loop(0, rows, [], lambda i, buffer=buffer: b.store(0, buffer, i))

    def number(i: SSAValue, n: SSAValue) -> list[SSAValue]:
        group = b.load(groups, i)
        head = b.compare("eq", b.load(heads, group), i)
        b.store(n, rank, group, where=head)
        b.store(i, first, n, where=head)
        b.store(b.load(times, group), often, n, where=head)
        return [b.plus(n, b.as_number(head))]

    b.loop(0, rows, [0], number)
    b.loop(0, rows, [], lambda i: b.store(b.load(rank, b.load(groups, i)), which, i))


EXTERN: dict[type[Operation], Extern] = {
    graph.ArgsortOp: argsort,
    graph.CumulativeOp: cumulative,
    graph.ScatterElementsOp: scatter_elements,
    graph.ScatterNdOp: scatter_nd,
    graph.NonzeroOp: nonzero,
    graph.UniqueOp: unique,
    graph.NonMaxSuppressionOp: non_max_suppression,
}


MAX_COUNTED_RANKS = 24
"""Elements up to which argsort counts each element's rank (vectorized te, quadratic) instead of sorting."""
MAX_GATHERED_UPDATES = 1 << 22
"""Pairs (element, update) up to which a scatter searches the updates of each element (vectorized te)."""


def is_extern(op: Operation) -> bool:
    """Whether an op is lowered to a loop.func here, rather than to te."""
    if isinstance(op, graph.ArgsortOp):
        x = op.operands[0].type
        element = element_of(op.operands[0])
        wide = isinstance(element, IntegerType) or element in (f32, f64)
        size = shape_of(x)[op.axis]
        return wide and (not isinstance(size, int) or size > MAX_COUNTED_RANKS)
    if isinstance(op, graph.ScatterElementsOp | graph.ScatterNdOp):
        element = element_of(op.operands[0])
        narrow = isinstance(element, AnyFloat) and element not in (f32, f64)
        pairs = product([n for v in op.operands[:2] for n in shape_of(v.type)])
        return not (narrow and op.reduction != "none") and (not isinstance(pairs, int) or pairs > MAX_GATHERED_UPDATES)
    return type(op) in EXTERN
