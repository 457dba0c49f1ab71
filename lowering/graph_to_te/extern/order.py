"""
Orders: elements become integers whose order is theirs, which are sorted digit by digit, or of which a heap keeps a few.

The integer of a float is its bits, those below the sign turned over where it is set; NaNs come last, -0 equals 0.
Falling orders turn all bits over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, VectorType, i8, i64
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import shape_of
from mlc.dialects.index import TYPICAL
from mlc.lowering.graph_to_te.extern.body import Body, Number

SMALL = 1 << 14
"""Rows of fewer elements are sorted by digits of 8 bits, longer ones of 11: what counts them must stay in the cache."""
FEW = 16
"""Of a row so many times as long as what is wanted of it, a heap keeps the best."""
LANES = 32
"""So many elements are looked at together for one that belongs into the heap."""


class Keys:
    """What stands for elements of one type in an order."""

    def __init__(self, b: Body, element: Any, unsigned: bool, descending: bool) -> None:
        self.b, self.element, self.descending = b, element, descending
        self.is_float = isinstance(element, Float32Type | Float64Type)
        self.flips = unsigned and not self.is_float
        width = 64 if isinstance(element, Float64Type) else 32 if self.is_float else element.width.data
        self.type = IntegerType(max(width, 8))
        self.bits = max(width, 8)

    def _number(self, value: int, like: SSAValue) -> SSAValue:
        """An integer constant for every lane."""
        scalar = self.b.constant(value, self.type)
        return self.b.spread(scalar, like.type) if isinstance(like.type, VectorType) else scalar

    def of(self, x: SSAValue) -> SSAValue:
        """The signed integers of elements, lane by lane: the less, the earlier."""
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
            if self.flips:
                key = b.binary(arith.XOrIOp, key, self._number(-1 << (self.bits - 1), key))
        return b.binary(arith.XOrIOp, key, self._number(-1, key)) if self.descending else key

    def digit(self, key: SSAValue, shift: int, bits: int) -> SSAValue:
        """A digit of an integer, as a number; those of negative integers are less."""
        b = self.b
        key = b.binary(arith.XOrIOp, key, b.constant(-1 << (self.bits - 1), self.type))
        if shift:
            key = b.binary(arith.ShRUIOp, key, b.constant(shift, self.type))
        key = key if self.bits == 64 else b.cast("extui" if self.bits < 64 else "trunci", key, i64)
        return b.binary(arith.AndIOp, key, (1 << bits) - 1)


Told = Callable[[SSAValue, SSAValue], None]


def sort(
    b: Body, keys: Keys, size: Dim, count: Number, pair: Callable[[SSAValue], Sequence[SSAValue]], tell: Told
) -> None:
    """
    Sort `count` of at most `size` pairs by their last digit, then by the one before it, ...; equal ones stay in order.

    `pair(i)` is an integer and what goes with it; `tell(place, what)` is told what goes to each place.
    """
    bits = 8 if not isinstance(size, int) or size <= SMALL or keys.bits < 32 else 11
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

        end = k == len(counts) - 1
        _move(b, keys, count, (k * bits, bits), source, buffer, (lambda p, _, w: tell(p, w)) if end else keep)
        source, target = target, source


def _move(
    b: Body,
    keys: Keys,
    count: Number,
    digit: tuple[int, int],
    source: Sequence[SSAValue],
    counts: SSAValue,
    put: Callable[[SSAValue, SSAValue, SSAValue], None],
) -> None:
    """Put each pair behind those of lesser digits and those of the same digit before it."""

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
    """The best `size` pairs (integer, place) so far, the worst of them first."""

    def __init__(self, b: Body, keys: Keys, size: int) -> None:
        self.b, self.size = b, size
        self.key, self.place = b.buffer(size, "local", keys.type), b.buffer(size, "local")

    def _worse(self, key: SSAValue, place: SSAValue, than: SSAValue, other: SSAValue) -> SSAValue:
        b = self.b
        later = b.both(b.compare("eq", key, than), b.compare("gt", place, other))
        return b.binary(arith.OrIOp, b.compare("gt", key, than), later)

    def sink(self, start: Number, key: SSAValue, place: SSAValue, size: Number) -> None:
        """Put a pair at `start`, or below it while one of the two below it is worse."""
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
        """Take the first pairs."""
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
        """Take a pair in place of the worst, if it is better."""
        b = self.b
        better = b.compare("lt", key, b.load(self.key, 0))
        b.loop(0, b.as_number(better), [], lambda _: self.sink(0, key, place, self.size))

    def drain(self, tell: Told) -> None:
        """`tell(rank, place)` for each, the worst first."""
        b = self.b

        def step(i: SSAValue) -> None:
            end = b.minus(self.size - 1, i)
            tell(end, b.load(self.place, 0))
            self.sink(0, b.load(self.key, end), b.load(self.place, end), end)

        b.loop(0, self.size, [], step)


def select(b: Body, keys: Keys, size: Dim, wanted: int, load: Callable[..., SSAValue], tell: Told) -> None:
    """The best `wanted` of `size` elements; `load(i, lanes)` loads some, `tell(rank, place)` is told the result."""
    heap = Heap(b, keys, wanted)
    heap.begin(lambda i: keys.of(load(i)))
    best = b.buffer(1, "local", keys.type)
    blocks = (size - wanted) // LANES

    def block(k: SSAValue) -> None:
        """Look at each element only if one of them is better."""
        first = b.plus(b.binary(arith.MuliOp, k, LANES), wanted)
        b.store_tile(b.reduce("min", keys.of(load(first, LANES))), best)
        some = b.compare("lt", b.load(best, 0), b.load(heap.key, 0))
        end = b.plus(first, b.select(some, LANES, 0))
        b.loop(first, end, [], lambda i: heap.offer(keys.of(load(i)), i))

    if keys.bits >= 32:
        b.loop(0, blocks, [], block)
    done = wanted + blocks * LANES if keys.bits >= 32 else wanted
    b.loop(done, size, [], lambda i: heap.offer(keys.of(load(i)), i))
    heap.drain(tell)


def argsort(b: Body, op: Any, inputs: Sequence[Any], outputs: Sequence[SSAValue | None]) -> None:
    """Each row of its own: sorted, or the best of it if few are wanted."""
    (x,), (order,) = inputs, outputs
    shape, kept = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    axis = op.axis % len(shape)
    size, wanted = shape[axis], kept[axis]
    given = op.operands[0].type.element_type
    keys = Keys(b, x.type.element_type, str(given).startswith("ui"), op.descending)

    def row(at: list[SSAValue]) -> None:
        def load(i: SSAValue, lanes: int = 0) -> SSAValue:
            place = [*at[:axis], i, *at[axis:]]
            return b.load_tile(x, place, axis, lanes) if lanes else b.load(x, *place)

        def tell(place: SSAValue, what: SSAValue) -> None:
            whole = wanted == size
            b.store(what, order, *at[:axis], place, *at[axis:], where=None if whole else b.compare("lt", place, wanted))

        if isinstance(wanted, int) and wanted * FEW <= (size if isinstance(size, int) else TYPICAL * FEW):
            select(b, keys, size, wanted, load, tell)
        else:
            sort(b, keys, size, size, lambda i: (keys.of(load(i)), i), tell)

    def visit(rest: Sequence[Dim], at: list[SSAValue]) -> None:
        if not rest:
            return row(at)
        kind = "serial" if at else "parallel"
        b.loop(0, rest[0], [], lambda i: visit(rest[1:], [*at, i]), kind)
        return None

    visit([*shape[:axis], *shape[axis + 1 :]], [])
