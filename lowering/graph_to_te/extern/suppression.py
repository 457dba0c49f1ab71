"""
Non-maximum suppression: per batch and class, candidates above the score threshold are sorted and chosen greedily.

    candidates -> sort -> compare each with the chosen boxes, 16 at a time -> rows of the class -> all rows compacted

Classes are independent: they run in parallel, each into its own part of the result; a final pass compacts the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects import graph, loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import shape_of
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder, Outputs
from mlc.lowering.graph_to_te.extern.order import Keys, sort

BOX_LANES = 16
"""Chosen boxes that are compared with a candidate at once."""
CANDIDATES_PER_CHECK = 64
"""Candidates between two checks whether enough boxes are chosen."""


@dataclass
class Suppression:
    """The boxes and the overlap threshold."""

    b: LoopBodyBuilder
    center: bool
    boxes: SSAValue
    iou: SSAValue

    def corners(self, batch: SSAValue, box: SSAValue) -> list[SSAValue]:
        """The lower corner, the upper corner (two coordinates each) and the area of a box."""
        b = self.b
        p = [b.load(self.boxes, batch, box, k) for k in range(4)]
        if self.center:
            half = [b.binary(arith.MulfOp, p[2 + k], b.constant(0.5, p[0].type)) for k in range(2)]
            low = [b.binary(arith.SubfOp, p[k], half[k]) for k in range(2)]
            high = [b.binary(arith.AddfOp, p[k], half[k]) for k in range(2)]
        else:
            low = [b.binary(arith.MinimumfOp, p[k], p[2 + k]) for k in range(2)]
            high = [b.binary(arith.MaximumfOp, p[k], p[2 + k]) for k in range(2)]
        sides = [b.binary(arith.SubfOp, v, u) for u, v in zip(low, high, strict=True)]
        return [*low, *high, b.binary(arith.MulfOp, *sides)]

    def overlap(self, mine: Sequence[SSAValue], chosen: Sequence[SSAValue], first: SSAValue) -> SSAValue:
        """The intersection over union of a box and chosen ones, lane by lane; 0 where the union is empty."""
        b = self.b
        theirs = [b.load_tile(buffer, [first], 0, BOX_LANES) for buffer in chosen]
        mine = [b.spread(v, theirs[0].type) for v in mine]
        zero = b.spread(b.constant(0, self.iou.type), theirs[0].type)
        inner: list[SSAValue] = []
        for k in range(2):
            low = b.binary(arith.MaximumfOp, mine[k], theirs[k])
            high = b.binary(arith.MinimumfOp, mine[2 + k], theirs[2 + k])
            inner.append(b.binary(arith.MaximumfOp, b.binary(arith.SubfOp, high, low), zero))
        common = b.binary(arith.MulfOp, *inner)
        union = b.binary(arith.SubfOp, b.binary(arith.AddfOp, mine[4], theirs[4]), common)
        there = b.add(loop.CompareOp.make("ogt", union, zero))
        return b.select(there, b.binary(arith.DivfOp, common, union), zero)

    def hits(self, mine: Sequence[SSAValue], chosen: Sequence[SSAValue], taken: SSAValue, most: SSAValue) -> SSAValue:
        """1 if a box overlaps a chosen one by more than the threshold, else 0; `most` is a buffer of one element."""
        b = self.b
        blocks = b.binary(arith.DivSIOp, b.plus(taken, BOX_LANES - 1), BOX_LANES)

        def block(k: SSAValue, hit: SSAValue) -> list[SSAValue]:
            def look(_: SSAValue, hit: SSAValue) -> list[SSAValue]:
                ratio = self.overlap(mine, chosen, b.binary(arith.MuliOp, k, BOX_LANES))
                b.store_tile(b.reduce("max", ratio), most)
                return [b.as_number(b.compare("gt", b.load(most, 0), self.iou))]

            return b.loop(0, b.minus(1, hit), [hit], look)

        return b.loop(0, blocks, [0], block)[0]


@dataclass
class Selection:
    """The chosen boxes as rows (batch, class, box), at most `room` per class, and their number per class."""

    b: LoopBodyBuilder
    sizes: tuple[Dim, Dim, Dim]
    """Batches, classes, boxes."""
    room: Dim
    scores: SSAValue
    limit: SSAValue
    """The score threshold."""
    most: SSAValue
    """The largest number of chosen boxes per class."""
    boxed: Suppression
    keys: Keys
    rows: SSAValue
    counts: SSAValue

    def place(self, number: SSAValue) -> tuple[SSAValue, SSAValue]:
        """(batch, class) of the linear number of a class."""
        classes = self.sizes[1]
        return self.b.binary(arith.DivSIOp, number, classes), self.b.binary(arith.RemSIOp, number, classes)

    def first_row(self, number: SSAValue) -> SSAValue:
        """The first row of a class's part of the result."""
        return self.b.binary(arith.MuliOp, number, self.room)

    def each(self, number: SSAValue) -> None:
        """Select the boxes of one class: collect candidates, sort them, choose."""
        b, n = self.b, self.sizes[2]
        batch, kind = self.place(number)
        raw, order, places = b.buffer(n, "local", self.keys.type), b.buffer(n, "local"), b.buffer(n, "local")

        def candidate(i: SSAValue, found: SSAValue) -> list[SSAValue]:
            score = b.load(self.scores, batch, kind, i)
            good = b.compare("gt", score, self.limit)
            b.store(self.keys.of(score), raw, found, where=good)
            b.store(i, places, found, where=good)
            return [b.plus(found, b.as_number(good))]

        (found,) = b.loop(0, n, [0], candidate)
        found = b.select(b.compare("gt", self.most, 0), found, 0)
        sort(b, self.keys, n, found, lambda i: (b.load(raw, i), b.load(places, i)), lambda p, w: b.store(w, order, p))
        b.store(self.choose((batch, kind), self.first_row(number), order, found), self.counts, batch, kind)

    def choose(self, place: tuple[SSAValue, SSAValue], row: SSAValue, order: SSAValue, found: SSAValue) -> SSAValue:
        """Choose boxes in this order and store their rows; returns their number."""
        b = self.b
        chosen, best = self.nothing_chosen()

        def visit(k: SSAValue, taken: SSAValue) -> list[SSAValue]:
            box = b.load(order, k)
            mine = self.boxed.corners(place[0], box)
            hit = self.boxed.hits(mine, chosen, taken, best)
            good = b.both(b.compare("eq", hit, 0), b.compare("lt", taken, self.most))
            for value, buffer in zip(mine, chosen, strict=True):
                b.store(value, buffer, taken, where=good)
            for column, value in enumerate((*place, box)):
                b.store(value, self.rows, b.plus(row, taken), column, where=good)
            return [b.plus(taken, b.as_number(good))]

        def part(k: SSAValue, taken: SSAValue) -> list[SSAValue]:
            start = b.binary(arith.MuliOp, k, CANDIDATES_PER_CHECK)
            end = b.binary(arith.MinSIOp, b.plus(start, CANDIDATES_PER_CHECK), found)
            end = b.select(b.compare("lt", taken, self.most), end, start)
            return b.loop(start, end, [taken], visit)

        parts = b.binary(arith.DivSIOp, b.plus(found, CANDIDATES_PER_CHECK - 1), CANDIDATES_PER_CHECK)
        return b.loop(0, parts, [0], part)[0]

    def nothing_chosen(self) -> tuple[list[SSAValue], SSAValue]:
        """Zeroed buffers for the corners and areas of chosen boxes, and a buffer of one element."""
        b, element = self.b, self.limit.type
        rooms = -(-self.room // BOX_LANES) * BOX_LANES
        chosen, best = [b.buffer(rooms, "local", element) for _ in range(5)], b.buffer(1, "local", element)
        for buffer in chosen:
            zero = b.constant(0, element)
            b.loop(0, rooms, [], lambda i, buffer=buffer, zero=zero: b.store(zero, buffer, i))
        return chosen, best

    def gather(self, number: SSAValue, total: SSAValue) -> list[SSAValue]:
        """Compact: move a class's rows down to row `total`, never past their old place; returns the new total."""
        b = self.b
        rows, first = b.load(self.counts, *self.place(number)), self.first_row(number)

        def move(i: SSAValue) -> None:
            for column in range(3):
                b.store(b.load(self.rows, b.plus(first, i), column), self.rows, b.plus(total, i), column)

        b.loop(0, rows, [], move)
        return [b.plus(total, rows)]


def non_max_suppression(
    b: LoopBodyBuilder, op: graph.NonMaxSuppressionOp, inputs: Sequence[SSAValue], outputs: Outputs
) -> None:
    """Select the rows of each class in parallel, then compact them."""
    boxes, scores, most, iou, limit = inputs
    batches, classes, n = shape_of(op.operands[1].type)
    rows, count = outputs
    if rows is None:
        rows = b.buffer([batches * classes * op.room, 3])
    counts = b.buffer([batches, classes])
    least = b.load(limit)
    greatest = b.binary(arith.MinSIOp, b.load(most), op.room)
    keys, boxed = Keys(b, least.type, False, True), Suppression(b, op.center, boxes, b.load(iou))
    selection = Selection(b, (batches, classes, n), op.room, scores, least, greatest, boxed, keys, rows, counts)
    b.loop(0, batches * classes, [], selection.each, "parallel")
    (total,) = b.loop(0, batches * classes, [0], selection.gather)
    for column in range(3):
        b.loop(total, batches * classes * op.room, [], lambda i, column=column: b.store(0, rows, i, column))
    b.store(total, count)
