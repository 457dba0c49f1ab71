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


def non_max_suppression(b: Body, op: Any, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """The boxes by falling scores; a box is chosen if it overlaps none that was chosen before."""
    boxes, scores, order, most, iou, limit = inputs
    where, count = outputs
    batches, classes, n = static_shape(op.operands[1].type)
    chosen = b.buffer(n)
    iou_limit, score_limit, maximum = b.load(iou), b.load(limit), b.load(most)

    def sides(batch: SSAValue, box: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
        """The least and the greatest coordinate of a box along both axes."""
        p = [b.load(boxes, batch, box, k) for k in range(4)]
        if op.center:
            half = [b.binary(arith.MulfOp, p[2 + k], b.constant(0.5, p[0].type)) for k in range(2)]
            return [(b.binary(arith.SubfOp, p[k], half[k]), b.binary(arith.AddfOp, p[k], half[k])) for k in range(2)]
        pairs = [(p[k], p[2 + k]) for k in range(2)]
        return [(b.binary(arith.MinimumfOp, u, v), b.binary(arith.MaximumfOp, u, v)) for u, v in pairs]

    def area(box: list[tuple[SSAValue, SSAValue]]) -> SSAValue:
        return b.binary(arith.MulfOp, *(b.binary(arith.SubfOp, high, low) for low, high in box))

    def overlaps(batch: SSAValue, box: SSAValue, other: SSAValue) -> SSAValue:
        """Whether the intersection over the union is above the limit."""
        mine, theirs = sides(batch, box), sides(batch, other)
        zero = b.constant(0, mine[0][0].type)
        inner = []
        for (low, high), (start, end) in zip(mine, theirs, strict=True):
            length = b.binary(
                arith.SubfOp, b.binary(arith.MinimumfOp, high, end), b.binary(arith.MaximumfOp, low, start)
            )
            inner.append(b.binary(arith.MaximumfOp, length, zero))
        common = b.binary(arith.MulfOp, *inner)
        union = b.binary(arith.SubfOp, b.binary(arith.AddfOp, area(mine), area(theirs)), common)
        above = b.compare("gt", b.binary(arith.DivfOp, common, union), iou_limit)
        return b.both(b.compare("gt", union, zero), above)

    def visit(batch: SSAValue, kind: SSAValue, k: SSAValue, taken: SSAValue, total: SSAValue) -> list[SSAValue]:
        box = b.load(order, batch, kind, k)
        wanted = b.both(b.compare("gt", b.load(scores, batch, kind, box), score_limit), b.compare("lt", taken, maximum))
        others = b.select(wanted, taken, 0)
        hits = b.loop(0, others, [0], lambda j, h: [b.plus(h, b.as_number(overlaps(batch, box, b.load(chosen, j))))])[0]
        good = b.both(wanted, b.compare("eq", hits, 0))
        b.store(box, chosen, taken, where=good)
        for column, value in enumerate((batch, kind, box)):
            b.store(value, where, total, column, where=good)
        one = b.as_number(good)
        return [b.plus(taken, one), b.plus(total, one)]

    def each(batch: SSAValue, kind: SSAValue, total: SSAValue) -> list[SSAValue]:
        _, total = b.loop(0, n, [0, total], lambda k, taken, t: visit(batch, kind, k, taken, t))
        return [total]

    (total,) = b.loop(0, batches, [0], lambda batch, t: b.loop(0, classes, [t], lambda kind, t: each(batch, kind, t)))
    for column in range(3):
        b.loop(total, batches * classes * n, [], lambda i, column=column: b.store(0, where, i, column))
    b.store(total, count)


def argsort(b: Body, op: Any, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Runs of 1, 2, 4, ... elements are merged, row by row; of equal elements the first comes first."""
    (x,), (order,) = inputs, outputs
    shape, kept = static_shape(op.operands[0].type), static_shape(op.results[0].type)
    axis = op.axis % len(shape)
    size, unsigned = shape[axis], str(op.operands[0].type.element_type).startswith("ui")

    def merge(at: list[SSAValue], source: SSAValue, target: SSAValue, width: int) -> None:
        """Merge neighbouring runs of `width` elements."""

        def run(r: SSAValue) -> None:
            low = b.binary(arith.MuliOp, r, 2 * width)
            middle = b.binary(arith.MinSIOp, b.plus(low, width), size)
            high = b.binary(arith.MinSIOp, b.plus(low, 2 * width), size)

            def step(k: SSAValue, i: SSAValue, j: SSAValue) -> list[SSAValue]:
                left = b.load(source, b.binary(arith.MinSIOp, i, size - 1))
                right = b.load(source, b.binary(arith.MinSIOp, j, size - 1))
                u, v = (b.load(x, *at[:axis], place, *at[axis:]) for place in (left, right))
                better = b.compare("gt" if op.descending else "lt", v, u, unsigned)
                more = b.both(b.compare("lt", j, high), better)
                takes_right = b.binary(arith.OrIOp, b.compare("ge", i, middle), more)
                b.store(b.select(takes_right, right, left), target, k)
                one = b.as_number(takes_right)
                return [b.plus(i, b.minus(1, one)), b.plus(j, one)]

            b.loop(low, high, [low, middle], step)

        b.loop(0, -(-size // (2 * width)), [], run)

    def row(at: list[SSAValue]) -> None:
        source, target, width = b.buffer(size, "local"), b.buffer(size, "local"), 1
        b.loop(0, size, [], lambda i: b.store(i, source, i))
        while width < size:
            merge(at, source, target, width)
            source, target, width = target, source, 2 * width
        b.loop(0, kept[axis], [], lambda i: b.store(b.load(source, i), order, *at[:axis], i, *at[axis:]))

    def visit(rest: Sequence[int], at: list[SSAValue]) -> None:
        if not rest:
            return row(at)
        kind = "serial" if at else "parallel"
        b.loop(0, rest[0], [], lambda i: visit(rest[1:], [*at, i]), kind)
        return None

    visit([*shape[:axis], *shape[axis + 1 :]], [])


EXTERN: dict[type[Any], Extern] = {
    graph.ArgsortOp: argsort,
    graph.NonzeroOp: nonzero,
    graph.UniqueOp: unique,
    graph.NonMaxSuppressionOp: non_max_suppression,
}


FEW = 512
"""Up to so many elements an order is counted out, in vectors, rather than merged."""


def is_extern(op: Any) -> bool:
    """Whether an op is lowered here."""
    if isinstance(op, graph.ArgsortOp):
        x = op.operands[0].type
        element: Any = x.element_type  # pyright: ignore[reportAttributeAccessIssue]
        wide = isinstance(element, IntegerType) or element in (f32, f64)
        return wide and x.has_static_shape() and static_shape(x)[op.axis] > FEW  # pyright: ignore
    return type(op) in EXTERN
