"""
Sorting: a stable radix sort of integer keys, and a heap for the best few elements of a row.

The key of a float is its bits, with the bits below the sign flipped if the sign is set; NaNs come last, -0 equals 0.
A descending order flips all bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, VectorType, i8, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import graph, loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of, shape_of
from mlc.dialects.index import TYPICAL
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder, Number, Outputs

MAX_BYTE_DIGIT_ROW = 1 << 14
"""Elements up to which a row is sorted by digits of 8 bits; longer rows by 11 bits: fewer passes, larger counters."""
HEAP_RATIO = 16
"""Ratio of the row's length to the wanted elements from which a heap selects them, instead of a sort."""
SELECT_LANES = 32
"""Elements that are compared at once with the worst one in the heap."""


class Keys:
    """Maps elements of one type to integer sort keys."""

    def __init__(self, b: LoopBodyBuilder, element: Attribute, unsigned: bool, descending: bool) -> None:
        self.b, self.element, self.descending = b, element, descending
        self.is_float = isinstance(element, Float32Type | Float64Type)
        self.unsigned = unsigned and not self.is_float
        double = isinstance(element, Float64Type)
        width = element.width.data if isinstance(element, IntegerType) else 64 if double else 32
        self.type = IntegerType(max(width, 8))
        self.bits = max(width, 8)

    def _number(self, value: int, like: SSAValue) -> SSAValue:
        """An integer constant for every lane."""
        scalar = self.b.constant(value, self.type)
        return self.b.spread(scalar, like.type) if isinstance(like.type, VectorType) else scalar

    def of(self, x: SSAValue) -> SSAValue:
        """The signed sort keys of elements, lane by lane: a smaller key comes first."""
        b = self.b
        if self.is_float:
            zero = b.constant(0.0, self.element)
            if isinstance(x.type, VectorType):
                zero = b.spread(zero, x.type)
            bits = b.cast("bitcast", b.binary(arith.AddfOp, x, zero), self.type)
            top = (1 << (self.bits - 1)) - 1
            signs = b.binary(arith.ShRSIOp, bits, self._number(self.bits - 1, bits))
            key = b.binary(arith.XOrIOp, bits, b.binary(arith.AndIOp, signs, self._number(top, bits)))
            key = b.select(b.add(loop.CompareOp.make("une", x, x)), self._number(top, bits), key)
        else:
            key = b.cast("extui", x, i8) if self.element == IntegerType(1) else x
            if self.unsigned:
                key = b.binary(arith.XOrIOp, key, self._number(-1 << (self.bits - 1), key))
        return b.binary(arith.XOrIOp, key, self._number(-1, key)) if self.descending else key

    def digit(self, key: SSAValue, shift: int, bits: int) -> SSAValue:
        """The digit of `bits` bits at `shift` of a key with its sign bit flipped, so that negative keys come first."""
        b = self.b
        key = b.binary(arith.XOrIOp, key, b.constant(-1 << (self.bits - 1), self.type))
        if shift:
            key = b.binary(arith.ShRUIOp, key, b.constant(shift, self.type))
        key = key if self.bits == 64 else b.cast("extui" if self.bits < 64 else "trunci", key, i64)
        return b.binary(arith.AndIOp, key, (1 << bits) - 1)


Emit = Callable[[SSAValue, SSAValue], None]
"""Stores an item at a position of the order: `emit(position, item)`."""


def sort(
    b: LoopBodyBuilder, keys: Keys, size: Dim, count: Number, pair: Callable[[SSAValue], Sequence[SSAValue]], emit: Emit
) -> None:
    """
    Stable radix sort of `count` (at most `size`) pairs, least significant digit first.

    `pair(i)` is (key, item) number i; `emit(position, item)` stores the sorted items.
    """
    bits = 8 if not isinstance(size, int) or size <= MAX_BYTE_DIGIT_ROW or keys.bits < 32 else 11
    counts = [b.buffer(1 << bits, "local") for _ in range(0, keys.bits, bits)]
    source, target = ([b.buffer(size, "local", keys.type), b.buffer(size, "local")] for _ in range(2))
    for buffer in counts:
        b.loop(0, 1 << bits, [], lambda i, buffer=buffer: b.store(0, buffer, i))

    def look(i: SSAValue) -> None:
        """Copy a pair and count its digits."""
        key, what = pair(i)
        b.store(key, source[0], i)
        b.store(what, source[1], i)
        for k, buffer in enumerate(counts):
            digit = keys.digit(key, k * bits, bits)
            b.store(b.plus(b.load(buffer, digit), 1), buffer, digit)

    b.loop(0, count, [], look)
    for k, buffer in enumerate(counts):

        def keep(place: SSAValue, key: SSAValue, what: SSAValue, target: Sequence[SSAValue] = target) -> None:
            b.store(key, target[0], place)
            b.store(what, target[1], place)

        def last(place: SSAValue, key: SSAValue, what: SSAValue) -> None:
            emit(place, what)

        end = k == len(counts) - 1
        put = last if end else keep
        _scatter_by_digit(b, keys, count, (k * bits, bits), source, buffer, put)
        source, target = target, source


def _scatter_by_digit(
    b: LoopBodyBuilder,
    keys: Keys,
    count: Number,
    digit: tuple[int, int],
    source: Sequence[SSAValue],
    counts: SSAValue,
    put: Callable[[SSAValue, SSAValue, SSAValue], None],
) -> None:
    """One pass of the radix sort: `put` each pair after those of smaller digits and earlier ones of the same digit."""

    def start(i: SSAValue, total: SSAValue) -> list[SSAValue]:
        here = b.load(counts, i)
        b.store(total, counts, i)
        return [b.plus(total, here)]

    def move(i: SSAValue) -> None:
        key, what = (b.load(buffer, i) for buffer in source)
        number = keys.digit(key, *digit)
        place = b.load(counts, number)
        b.store(b.plus(place, 1), counts, number)
        put(place, key, what)

    b.loop(0, 1 << digit[1], [0], start)
    b.loop(0, count, [], move)


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


def select(b: LoopBodyBuilder, keys: Keys, size: Dim, wanted: int, load: Callable[..., SSAValue], emit: Emit) -> None:
    """The best `wanted` of `size` elements; `load(i, lanes)` loads elements, `emit(rank, place)` stores the result."""
    heap = Heap(b, keys, wanted)
    heap.begin(lambda i: keys.of(load(i)))
    best = b.buffer(1, "local", keys.type)
    blocks = (size - wanted) // SELECT_LANES

    def block(k: SSAValue) -> None:
        """Offer the elements of a block one by one only if its best element enters the heap."""
        first = b.plus(b.binary(arith.MuliOp, k, SELECT_LANES), wanted)
        b.store_tile(b.reduce("min", keys.of(load(first, SELECT_LANES))), best)
        some = b.compare("lt", b.load(best, 0), b.load(heap.key, 0))
        end = b.plus(first, b.select(some, SELECT_LANES, 0))
        b.loop(first, end, [], lambda i: heap.offer(keys.of(load(i)), i))

    if keys.bits >= 32:
        b.loop(0, blocks, [], block)
    done = wanted + blocks * SELECT_LANES if keys.bits >= 32 else wanted
    b.loop(done, size, [], lambda i: heap.offer(keys.of(load(i)), i))
    heap.drain(emit)


def argsort(b: LoopBodyBuilder, op: graph.ArgsortOp, inputs: Sequence[SSAValue], outputs: Outputs) -> None:
    """Each row separately: sorted, or its best elements selected by a heap if few are wanted."""
    (x,), (order,) = inputs, outputs
    shape, kept = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    axis = op.axis % len(shape)
    size, wanted = shape[axis], kept[axis]
    given = op.input_types[0].element_type
    keys = Keys(b, element_of(x), str(given).startswith("ui"), op.descending)

    def row(at: list[SSAValue]) -> None:
        def load(i: SSAValue, lanes: int = 0) -> SSAValue:
            place = [*at[:axis], i, *at[axis:]]
            return b.load_tile(x, place, axis, lanes) if lanes else b.load(x, *place)

        def emit(rank: SSAValue, place: SSAValue) -> None:
            whole = wanted == size
            b.store(place, order, *at[:axis], rank, *at[axis:], where=None if whole else b.compare("lt", rank, wanted))

        if isinstance(wanted, int) and wanted * HEAP_RATIO <= (size if isinstance(size, int) else TYPICAL * HEAP_RATIO):
            select(b, keys, size, wanted, load, emit)
        else:
            sort(b, keys, size, size, lambda i: (keys.of(load(i)), i), emit)

    def visit(rest: Sequence[Dim], at: list[SSAValue]) -> None:
        if not rest:
            return row(at)
        kind = "serial" if at else "parallel"
        b.loop(0, rest[0], [], lambda i: visit(rest[1:], [*at, i]), kind)
        return None

    visit([*shape[:axis], *shape[axis + 1 :]], [])
