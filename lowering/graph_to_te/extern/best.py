"""
The best few elements of a row: by a heap where very few are wanted, by a tournament where few are (tournament.py); else
the row is filtered by a bound and then sorted.

The bound is a key below which lie the wanted elements and hardly more; it is found by bisection, which counts whole
vectors of keys. Up to `RANKED` elements are then sorted by their ranks: the number of keys below each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType, i64
from xdsl.ir import SSAValue

from mlc.dialects import graph
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of, shape_of
from mlc.dialects.index import TYPICAL
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder, Number, Outputs
from mlc.lowering.graph_to_te.extern.order import KEY_BITS, LANES, LAST, Emit, Keys, sort
from mlc.lowering.graph_to_te.extern.tiles import visit
from mlc.lowering.graph_to_te.extern.tournament import competes, tournament

HEAP_RATIO, WIDE_HEAP_RATIO = 512, 128
"""Ratio of the row's length to the wanted elements from which on a heap selects them: few elements ever enter it. The
second is for keys of other widths than 32 bits. 1 of 1000 and 5 of 10,000 elements take 0.85 to 1.1 of the time of a
tournament with AVX2 and with AVX-512; 5 of 1000 elements of 64 bits take 0.3 to 0.4 of the time of a bound."""
BOUND_RATIO = 2
"""Ratio of the row's length to the wanted elements from which on a bound leaves out elements before the sort."""
RANKED = 128
"""Elements, at most, that are sorted by rank: each key is compared with all keys."""
OPEN_LENGTH = 16 * TYPICAL
"""The length that is assumed for a row of symbolic size when the algorithm is chosen."""
SLACK = 16
"""Elements that a bound may leave beyond the wanted ones, or a quarter of these if that is more: an exact bound would
take more steps of bisection."""
BRACKET_GROUPS = 4
"""Groups of `LANES` lanes, at most, whose best keys give the bisection its first interval. If more elements are wanted
than these have lanes, it begins with all keys."""
Load = Callable[..., SSAValue]
"""`load(i)` or `load(i, lanes)`: an element of a row, or a tile of them that begins there."""
Pair = Callable[[SSAValue], tuple[SSAValue, SSAValue]]
"""(key, item) number i."""


class Heap:
    """A binary heap of the best `size` pairs (key, place), the worst of them at the root."""

    def __init__(self, b: LoopBodyBuilder, keys: Keys, size: int) -> None:
        self.b, self.size = b, size
        self.key, self.place = b.buffer(size, "local", keys.type), b.buffer(size, "local")

    def _worse(self, key: SSAValue, place: SSAValue, than: SSAValue, other: SSAValue) -> SSAValue:
        b = self.b
        later = b.both(b.compare("eq", key, than), b.compare("gt", place, other))
        return b.binary(arith.OrIOp, b.compare("gt", key, than), later)

    def sink(self, start: Number, key: SSAValue, place: SSAValue, size: Number) -> None:
        """Sift down: insert a pair at `start`, moving worse children up."""
        b = self.b

        def step(_: SSAValue, at: SSAValue) -> list[SSAValue]:
            left = b.plus(b.plus(at, at), 1)
            right = b.plus(left, 1)
            least, most = (b.binary(arith.MinSIOp, i, self.size - 1) for i in (left, right))
            pairs = [(b.load(self.key, i), b.load(self.place, i)) for i in (least, most)]
            other = b.both(b.compare("lt", right, size), self._worse(*pairs[1], *pairs[0]))
            child = b.select(other, right, left)
            k, p = (b.select(other, two, one) for one, two in zip(*pairs, strict=True))
            moves = b.both(b.compare("lt", child, size), self._worse(k, p, key, place))
            b.store(k, self.key, at, where=moves)
            b.store(p, self.place, at, where=moves)
            return [b.select(moves, child, at)]

        (at,) = b.loop(0, self.size.bit_length() - 1, [start], step)
        b.store(key, self.key, at)
        b.store(place, self.place, at)

    def begin(self, key_at: Callable[[SSAValue], SSAValue]) -> None:
        """Build the heap from the first `size` elements."""
        b = self.b

        def take(i: SSAValue) -> None:
            b.store(key_at(i), self.key, i)
            b.store(i, self.place, i)

        def settle(i: SSAValue) -> None:
            at = b.minus(self.size // 2 - 1, i)
            self.sink(at, b.load(self.key, at), b.load(self.place, at), self.size)

        b.loop(0, self.size, [], take)
        b.loop(0, self.size // 2, [], settle)

    def offer(self, key: SSAValue, place: SSAValue) -> None:
        """Replace the worst pair by this one, if this one is better."""
        b = self.b
        better = b.compare("lt", key, b.load(self.key, 0))
        b.loop(0, b.as_number(better), [], lambda _: self.sink(0, key, place, self.size))

    def drain(self, emit: Emit) -> None:
        """`emit(rank, place)` each pair, the worst first."""
        b = self.b

        def step(i: SSAValue) -> None:
            end = b.minus(self.size - 1, i)
            emit(end, b.load(self.place, 0))
            self.sink(0, b.load(self.key, end), b.load(self.place, end), end)

        b.loop(0, self.size, [], step)


def select(b: LoopBodyBuilder, keys: Keys, size: Dim, wanted: int, load: Load, emit: Emit) -> None:
    """The best `wanted` of `size` elements; `load(i, lanes)` loads elements, `emit(rank, place)` stores the result."""
    heap = Heap(b, keys, wanted)
    heap.begin(lambda i: keys.of(load(i)))
    best = b.buffer(1, "local", keys.type)
    blocks = (size - wanted) // LANES

    def block(k: SSAValue) -> None:
        """Offer the elements of a block one by one only if its best element enters the heap."""
        first = b.plus(b.binary(arith.MuliOp, k, LANES), wanted)
        b.store_tile(b.reduce("min", keys.of(load(first, LANES))), best)
        some = b.compare("lt", b.load(best, 0), b.load(heap.key, 0))
        end = b.plus(first, b.select(some, LANES, 0))
        b.loop(first, end, [], lambda i: heap.offer(keys.of(load(i)), i))

    if keys.bits >= 32:
        b.loop(0, blocks, [], block)
    done = wanted + blocks * LANES if keys.bits >= 32 else wanted
    b.loop(done, size, [], lambda i: heap.offer(keys.of(load(i)), i))
    heap.drain(emit)


def sort_best(b: LoopBodyBuilder, keys: Keys, size: Dim, wanted: int, load: Load, emit: Emit) -> None:
    """The best `wanted` of `size` elements; `emit(rank, place)` is called for some ranks from `wanted` on, too."""
    limit = _bound(b, keys, size, wanted, load)
    found, places = b.buffer(size, "local", keys.type), b.buffer(size, "local")
    best = b.buffer(1, "local", keys.type)

    def take(i: SSAValue, kept: SSAValue) -> list[SSAValue]:
        key = keys.of(load(i))
        b.store(key, found, kept)
        b.store(i, places, kept)
        return [b.plus(kept, b.as_number(b.compare("le", key, limit)))]

    def block(k: SSAValue, kept: SSAValue) -> list[SSAValue]:
        first = b.binary(arith.MuliOp, k, LANES)
        b.store_tile(b.reduce("min", keys.of(load(first, LANES))), best)
        some = b.compare("le", b.load(best, 0), limit)
        return b.loop(first, b.plus(first, b.select(some, LANES, 0)), [kept], take)

    (kept,) = b.loop(0, size // LANES, [0], block)
    (kept,) = b.loop(size // LANES * LANES, size, [kept], take)

    def pair(i: SSAValue) -> tuple[SSAValue, SSAValue]:
        return b.load(found, i), b.load(places, i)

    def by_digits(count: SSAValue) -> None:
        sort(b, keys, size, count, pair, emit)

    if keys.bits > i64.width.data // 2:
        return by_digits(kept)
    few = b.compare("le", kept, RANKED)
    b.loop(0, b.as_number(few), [], lambda _: sort_by_ranks(b, keys, kept, pair, emit))
    b.loop(0, b.as_number(b.compare("gt", kept, RANKED)), [], lambda _: by_digits(kept))
    return None


def _bound(b: LoopBodyBuilder, keys: Keys, size: Dim, wanted: int, load: Load) -> SSAValue:
    """A bound on keys: at least `wanted` elements do not exceed it, and few others do not (`SLACK`)."""
    tile, sums = VectorType(keys.type, [LANES]), b.buffer(1, "local", keys.type)
    zeros, ones = (b.spread(b.constant(n, keys.type), tile) for n in (0, 1))
    most = wanted + max(SLACK, wanted // 4)

    def step(_: SSAValue, low: SSAValue, high: SSAValue) -> list[SSAValue]:
        active = b.compare("lt", low, high)
        half = b.binary(arith.ShRSIOp, b.binary(arith.XOrIOp, low, high), b.constant(1, keys.type))
        middle = b.plus(b.binary(arith.AndIOp, low, high), half)
        bound = b.spread(middle, tile)

        def count_block(k: SSAValue, counts: SSAValue) -> list[SSAValue]:
            within = b.compare("le", keys.of(load(b.binary(arith.MuliOp, k, LANES), LANES)), bound)
            return [b.plus(counts, b.select(within, ones, zeros))]

        def count(i: SSAValue, total: SSAValue) -> list[SSAValue]:
            return [b.plus(total, b.as_number(b.compare("le", keys.of(load(i)), middle)))]

        (counts,) = b.loop(0, b.select(active, b.number(size // LANES), 0), [zeros], count_block)
        b.store_tile(b.reduce("sum", counts), sums)
        total = b.load(sums, 0)
        total = total if keys.bits == i64.width.data else b.cast("extsi", total, i64)
        (total,) = b.loop(size // LANES * LANES, size, [total], count)
        enough, close = b.compare("ge", total, wanted), b.compare("le", total, most)
        raised = b.select(enough, b.select(close, middle, low), b.plus(middle, b.constant(1, keys.type)))
        return [b.select(active, raised, low), b.select(b.both(active, enough), middle, high)]

    _, high = b.loop(0, keys.bits, list(_bracket(b, keys, size, wanted, load, sums)), step)
    return high


def _bracket(
    b: LoopBodyBuilder, keys: Keys, size: Dim, wanted: int, load: Load, one: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """
    The bounds (low, high) of the key of the last wanted element.

    `low` is the best key of all. Each of at least `wanted` lanes has a best key: `high` is the worst of these.
    """
    least, greatest = (b.constant(n, keys.type) for n in (-1 << (keys.bits - 1), (1 << (keys.bits - 1)) - 1))
    groups = -(-wanted // LANES)
    if groups > BRACKET_GROUPS:
        return least, greatest
    tile, step = VectorType(keys.type, [LANES]), groups * LANES
    least_of = partial(b.binary, arith.MinSIOp)

    def better(k: SSAValue, *bests: SSAValue) -> list[SSAValue]:
        first = b.binary(arith.MuliOp, k, step)
        return [least_of(best, keys.of(load(b.plus(first, g * LANES), LANES))) for g, best in enumerate(bests)]

    bests = b.loop(0, size // step, [b.spread(greatest, tile)] * groups, better)
    b.store_tile(b.reduce("max", reduce(partial(b.binary, arith.MaxSIOp), bests)), one)
    high = b.load(one, 0)
    b.store_tile(b.reduce("min", reduce(least_of, bests)), one)
    (low,) = b.loop(size // step * step, size, [b.load(one, 0)], lambda i, low: [least_of(low, keys.of(load(i)))])
    return low, high


def sort_by_ranks(b: LoopBodyBuilder, keys: Keys, count: SSAValue, pair: Pair, emit: Emit) -> None:
    """`emit` up to `RANKED` pairs (key of 32 bits, item) in a stable order; a pair's number makes its key unique."""
    both, sums = b.buffer(RANKED, "local"), b.buffer(1, "local")
    tile = VectorType(i64, [LANES])
    zeros, ones = (b.spread(b.constant(n), tile) for n in (0, 1))
    blocks = b.binary(arith.ShRSIOp, b.plus(count, LANES - 1), LANES.bit_length() - 1)

    def join(i: SSAValue) -> None:
        b.store(keys.with_place(pair(i)[0], i), both, i)

    def place(i: SSAValue) -> None:
        mine = b.spread(b.load(both, i), tile)

        def compare(k: SSAValue, ranks: SSAValue) -> list[SSAValue]:
            less = b.compare("lt", b.load_tile(both, [b.binary(arith.MuliOp, k, LANES)], 0, LANES), mine)
            return [b.plus(ranks, b.select(less, ones, zeros))]

        (ranks,) = b.loop(0, blocks, [zeros], compare)
        b.store_tile(b.reduce("sum", ranks), sums)
        emit(b.load(sums, 0), pair(i)[1])

    b.loop(0, count, [], join)
    b.loop(count, b.binary(arith.MuliOp, blocks, LANES), [], lambda i: b.store(LAST, both, i))
    b.loop(0, count, [], place)


def argsort(b: LoopBodyBuilder, op: graph.ArgsortOp, inputs: Sequence[SSAValue], outputs: Outputs) -> None:
    """Each row separately: sorted, or its best elements found by a heap, a tournament or a bound."""
    (x,), (order,) = inputs, outputs
    shape, kept = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    axis = op.axis % len(shape)
    size, wanted = shape[axis], kept[axis]
    given = op.input_types[0].element_type
    keys = Keys(b, element_of(x), str(given).startswith("ui"), op.descending)

    length = size if isinstance(size, int) else OPEN_LENGTH
    ratio = HEAP_RATIO if keys.bits == KEY_BITS else WIDE_HEAP_RATIO

    def row(at: list[SSAValue]) -> None:
        def load(i: SSAValue, lanes: int = 0) -> SSAValue:
            place = [*at[:axis], i, *at[axis:]]
            return b.load_tile(x, place, axis, lanes) if lanes else b.load(x, *place)

        def emit(rank: SSAValue, place: SSAValue) -> None:
            whole = wanted == size
            b.store(place, order, *at[:axis], rank, *at[axis:], where=None if whole else b.compare("lt", rank, wanted))

        if isinstance(wanted, int) and wanted * ratio <= length:
            select(b, keys, size, wanted, load, emit)
        elif competes(keys, size, wanted):
            assert isinstance(size, int)
            assert isinstance(wanted, int)
            tournament(b, keys, size, wanted, load, emit)
        elif length <= RANKED and keys.bits == KEY_BITS:
            sort_by_ranks(b, keys, b.number(size), lambda i: (keys.of(load(i)), i), emit)
        elif isinstance(wanted, int) and wanted * BOUND_RATIO <= length and keys.bits >= KEY_BITS:
            sort_best(b, keys, size, wanted, load, emit)
        else:
            sort(b, keys, size, size, lambda i: (keys.of(load(i)), i), emit)

    visit(b, [*shape[:axis], *shape[axis + 1 :]], row, "parallel")
