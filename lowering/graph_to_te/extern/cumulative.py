"""The kernel of running sums and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from mlc.dialects import graph
from mlc.dialects.graph.types import element_of, shape_of
from mlc.dialects.te_builder.loop_body import Buffer, Fill, LoopBodyBuilder, Number, Outputs
from mlc.lowering.graph_to_te.extern.tiles import combiner, loaded, stored, visit, visit_tiles
from mlc.targets.target import dtype_bits

ROWS_TOGETHER = 8
"""Rows along the last axis that are summed side by side, at most. Source: rows of 445 x 634 on Zen 3, where 8 take 104
us, 4 take 114 and 16 take 130."""
TILE_BITS = 1024
"""The size of a tile of running sums along another axis than the last one, in registers. Source: 700 x 300 and 512 x
512 on Zen 4 take 0.87 and 0.63 of the time of half as many bits; twice as many fill the registers of SSE."""
STREAMED_BYTES = 1 << 20
"""Bytes of rows from which on each row is added to the one before, in memory: a tile reads its few lanes of each row
far apart. Source: 2000 x 1000 and 512 x 512 on Zen 4 take 0.4 and 0.55 of the time of tiles; 64 x 777 takes 1.1."""
PIECE_BYTES = 2048
"""Bytes of a piece of such a row: the piece of the row before stays in L1, and threads take different pieces. Shorter
ones are slower on two threads than on one: past the end of its piece, a CPU prefetches what the other one writes.
Source: 512 x 512 on Zen 4 takes 36 us on one thread, 170 us on two far from each other that have half a row each."""


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
    together = max(1, scan.lanes(last) if scan.neighbours else min(last, ROWS_TOGETHER))
    write = scan.stream if scan.streams(last) else scan.rows

    def groups(at: list[SSAValue]) -> None:
        def group(n: SSAValue) -> None:
            write([*at, b.binary(arith.MuliOp, n, together)][: len(shape) - 1], together)

        b.loop(0, last // together, [], group, kinds[1])
        if rest := last % together:
            write([*at, b.number(last - rest)], rest)

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

    def streams(self, last: int) -> bool:
        """Whether a row of `last` elements is combined with the one before in memory."""
        size = shape_of(self.op.operands[0].type)[self.axis]
        element = dtype_bits(element_of(self.y)) // 8
        return self.neighbours and isinstance(size, int) and element * size * last >= STREAMED_BYTES

    def lanes(self, last: int) -> int:
        """The elements of a row of `last` elements that are computed together."""
        bits = max(32, dtype_bits(element_of(self.y)))
        return min(last, (8 * PIECE_BYTES if self.streams(last) else TILE_BITS) // bits)

    def stream(self, at: Sequence[SSAValue], count: int) -> None:
        """`count` lanes, the first one at these indices: each row is the one before combined with that of x."""
        b, op, y, x = self.b, self.op, self.y, self.x
        size, signless = shape_of(op.operands[0].type)[self.axis], element_of(y)
        combine = combiner(op.combine, op.input_types[0].element_type, signless)
        assert isinstance(size, int)
        assert isinstance(x, SSAValue)

        def tiles(body: Callable[[Callable[[Number], list[Number]], int], None]) -> None:
            def tile(to: list[SSAValue], lanes: int) -> None:
                lane = b.plus(at[-1], to[0])
                body(lambda place: [*at[: self.axis], place, *at[self.axis : -1], lane], lanes)

            visit_tiles(b, [count], tile, (x, y))

        def row(i: Number) -> Number:
            return b.minus(size - 1, i) if op.backward else i

        def first(place: Callable[[Number], list[Number]], lanes: int) -> None:
            if op.exclusive:
                value = b.constant(0 if op.combine == "add" else 1, signless)
                value = b.spread(value, VectorType(signless, [lanes])) if lanes > 1 else value
            else:
                value = loaded(b, x, place(row(0)), lanes)
            stored(b, value, y, place(row(0)), lanes)

        def step(i: SSAValue) -> None:
            before = row(b.minus(i, 1))

            def more(place: Callable[[Number], list[Number]], lanes: int) -> None:
                added = loaded(b, x, place(before if op.exclusive else row(i)), lanes)
                value = b.binary(combine, loaded(b, y, place(before), lanes), added)
                stored(b, value, y, place(row(i)), lanes)

            tiles(more)

        tiles(first)
        b.loop(1, size, [], step)

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
                lanes = count if tiles else 1
                more.append(b.binary(combine, total, loaded(b, self.x, indices, lanes)))
                stored(b, total if op.exclusive else more[-1], self.y, indices, lanes)
            return more

        b.loop(0, size, start, step)
