"""Kernels of scatters and of cumulative sums: one pass over the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import graph, loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of, shape_of
from mlc.dialects.te_builder.loop_body import Buffer, Fill, LoopBodyBuilder, Outputs

COMBINE: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
"""The ops that combine two floats, signed integers, unsigned integers."""

ROWS_TOGETHER, LANES_TOGETHER = 8, 16
"""Rows of running sums that are computed side by side, at most; along other axes than the last one they are lanes of a
tile. Source: rows of 445 x 634 on Zen 3, where 8 take 104 us, 4 take 114 and 16 take 130; lanes, a line of the cache in
f32, not measured apart."""


COPIED_LANES = 32
"""Elements of a row that are copied or combined as one tile: some vectors, for the few operations of a loop."""


def combiner(how: str, given: Attribute, element: Attribute) -> type[Operation]:
    """The op class that combines elements of a type."""
    return COMBINE[how][0 if isinstance(element, AnyFloat) else 2 if str(given).startswith("ui") else 1]


def visit(
    b: LoopBodyBuilder, sizes: Sequence[Dim], body: Callable[[list[SSAValue]], None], kind: str = "serial"
) -> None:
    """A loop nest over these sizes with `body(indices)` innermost; `kind` is that of the outermost loop."""

    def inner(rest: Sequence[Dim], at: list[SSAValue]) -> None:
        if not rest:
            return body(at)
        b.loop(0, rest[0], [], lambda i: inner(rest[1:], [*at, i]), "serial" if at else kind)
        return None

    inner(list(sizes), [])


def visit_tiles(
    b: LoopBodyBuilder, sizes: Sequence[Dim], body: Callable[[list[SSAValue], int], None], kind: str = "serial"
) -> None:
    """A loop nest over `body(indices, lanes)` for tiles along the last axis; of one lane where its size is open."""
    if not sizes or not isinstance(sizes[-1], int) or sizes[-1] < 2:
        visit(b, sizes, lambda at: body(at, 1), kind)
        return
    *outer, last = sizes
    assert isinstance(last, int)
    lanes = min(last, COPIED_LANES)

    def row(at: list[SSAValue]) -> None:
        def tile(n: SSAValue) -> None:
            body([*at, b.binary(arith.MuliOp, n, lanes)], lanes)

        b.loop(0, last // lanes, [], tile, "serial" if outer else kind)
        if rest := last % lanes:
            body([*at, b.number(last - rest)], rest)

    visit(b, outer, row, kind)


def cumulative(b: LoopBodyBuilder, op: graph.CumulativeOp, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """
    Rows of running combinations, from the first element to the last, or backward.

    Each step waits for the one before, so that neighbouring rows, whose steps do not, run side by side.
    """
    (x,), (y,) = inputs, outputs
    shape = shape_of(op.operands[0].type)
    axis = op.axis % len(shape)
    assert y is not None
    scan = Scan(b, op, x, y, axis)
    *outer, last = [*shape[:axis], *shape[axis + 1 :]] or [1]
    if not isinstance(last, int) or isinstance(x, Fill):
        visit(b, [*outer, last][: len(shape) - 1], lambda at: scan.rows(at, 1), "parallel")
        return
    kinds = ("parallel", "serial") if any(n != 1 for n in outer) else ("serial", "parallel")
    together = max(1, min(last, LANES_TOGETHER if scan.neighbours else ROWS_TOGETHER))

    def groups(at: list[SSAValue]) -> None:
        def group(n: SSAValue) -> None:
            scan.rows([*at, b.binary(arith.MuliOp, n, together)][: len(shape) - 1], together)

        b.loop(0, last // together, [], group, kinds[1])
        if rest := last % together:
            scan.rows([*at, b.number(last - rest)], rest)

    visit(b, outer, groups, kinds[0])


@dataclass(frozen=True)
class Scan:
    """Running combinations of x in y along an axis."""

    b: LoopBodyBuilder
    op: graph.CumulativeOp
    x: Buffer
    y: SSAValue
    axis: int

    @property
    def neighbours(self) -> bool:
        """Whether elements of neighbouring rows are neighbours in memory."""
        return self.axis + 1 < len(shape_of(self.op.operands[0].type))

    def rows(self, at: Sequence[SSAValue], count: int) -> None:
        """Those of `count` neighbouring rows, the first one at these indices of the other axes."""
        b, op = self.b, self.op
        size, signless = shape_of(op.operands[0].type)[self.axis], element_of(self.y)
        combine = combiner(op.combine, op.input_types[0].element_type, signless)
        first = b.constant(0 if op.combine == "add" else 1, signless)
        tiles = count > 1 and self.neighbours
        start = [b.spread(first, VectorType(signless, [count]))] if tiles else [first] * count

        def step(i: SSAValue, *totals: SSAValue) -> list[SSAValue]:
            place = b.minus(b.minus(size, 1), i) if op.backward else i
            more: list[SSAValue] = []
            for k, total in enumerate(totals):
                row = [*at[:-1], b.plus(at[-1], k)] if k else at
                indices = [*row[: self.axis], place, *row[self.axis :]]
                if tiles:
                    assert isinstance(self.x, SSAValue)
                    more.append(b.binary(combine, total, b.load_tile(self.x, indices, len(at), count)))
                    b.store_tile(total if op.exclusive else more[-1], self.y, indices, len(at))
                else:
                    more.append(b.binary(combine, total, b.load(self.x, *indices)))
                    b.store(total if op.exclusive else more[-1], self.y, *indices)
            return more

        b.loop(0, size, start, step)


def _place(b: LoopBodyBuilder, index: SSAValue, given: Attribute, size: Dim) -> tuple[SSAValue, SSAValue]:
    """An index with negative values wrapped, and whether it is in bounds."""
    assert isinstance(index.type, IntegerType)
    unsigned = str(given).startswith("ui")
    if index.type != i64:
        index = b.cast("extui" if unsigned else "extsi", index, i64)
    if not unsigned:
        index = b.select(b.compare("lt", index, 0), b.plus(index, size), index)
    inside = b.both(b.compare("ge", index, 0), b.compare("lt", index, size))
    return b.select(inside, index, 0), inside


def _write(
    b: LoopBodyBuilder,
    op: graph.ScatterElementsOp | graph.ScatterNdOp,
    y: SSAValue,
    at: Sequence[SSAValue],
    value: SSAValue,
    where: SSAValue,
) -> None:
    """Store an update, or a tile of updates along the last axis, combined with what is at its place."""
    tiles, last = isinstance(value.type, VectorType), len(at) - 1
    if op.reduction != "none":
        combine = combiner(op.reduction, op.input_types[0].element_type, element_of(y))
        value = b.binary(combine, _loaded(b, y, at, loop.shape_of(value.type)[0] if tiles else 1), value)
    if tiles:
        b.store_tile(value, y, at, last, where)
    else:
        b.store(value, y, *at, where=where)


def _loaded(b: LoopBodyBuilder, x: Buffer, at: Sequence[SSAValue], lanes: int) -> SSAValue:
    """An element, or a tile of `lanes` of them along the last axis."""
    return b.load_tile(x, at, len(at) - 1, lanes) if lanes > 1 and isinstance(x, SSAValue) else b.load(x, *at)


def _copied(b: LoopBodyBuilder, x: Buffer, y: SSAValue, shape: Sequence[Dim]) -> None:
    def copy(at: list[SSAValue], lanes: int) -> None:
        value = _loaded(b, x, at, lanes)
        if lanes > 1:
            b.store_tile(value, y, at, len(at) - 1)
        else:
            b.store(value, y, *at)

    if isinstance(x, Fill) or element_of(y) == i1:
        visit(b, shape, lambda at: copy(at, 1), "parallel")
    else:
        visit_tiles(b, shape, copy, "parallel")


def scatter_elements(
    b: LoopBodyBuilder, op: graph.ScatterElementsOp, inputs: Sequence[Buffer], outputs: Outputs
) -> None:
    """Copy the operand, then apply the updates in order."""
    (x, indices, updates), (y,) = inputs, outputs
    assert y is not None
    shape, places = (shape_of(v.type) for v in op.operands[:2])
    axis = op.axis % len(shape)
    given = op.input_types[1].element_type
    _copied(b, x, y, shape)

    def update(at: list[SSAValue]) -> None:
        place, inside = _place(b, b.load(indices, *at), given, shape[axis])
        _write(b, op, y, [*at[:axis], place, *at[axis + 1 :]], b.load(updates, *at), inside)

    visit(b, places, update)


def scatter_nd(b: LoopBodyBuilder, op: graph.ScatterNdOp, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Copy the operand, then apply the slices of the updates in order."""
    (x, indices, updates), (y,) = inputs, outputs
    assert y is not None
    shape, (count, depth) = (shape_of(v.type) for v in op.operands[:2])
    given = op.input_types[1].element_type
    _copied(b, x, y, shape)

    def update(m: SSAValue) -> None:
        found = [_place(b, b.load(indices, m, d), given, shape[d]) for d in range(int(depth))]
        first, inside = [place for place, _ in found], b.both(*(holds for _, holds in found))

        def write(at: Sequence[SSAValue], lanes: int) -> None:
            _write(b, op, y, [*first, *at], _loaded(b, updates, [m, *at], lanes), inside)

        if isinstance(updates, Fill) or element_of(y) == i1:
            visit(b, shape[len(first) :], lambda at: write(at, 1))
        else:
            visit_tiles(b, shape[len(first) :], write)

    b.loop(0, count, [], update)
