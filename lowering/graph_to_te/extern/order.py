"""
Sorting: a stable radix sort of integer keys, of a whole row or of its best elements (best.py).

The key of a float is its bits, with the bits below the sign flipped if the sign is set; NaNs come last, -0 equals 0.
A descending order flips all bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType, VectorType, i8, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder, Number

MAX_BYTE_DIGIT_ROW = 1 << 14
"""Elements up to which a row is sorted by digits of 8 bits; longer rows by 11 bits: fewer passes, larger counters."""


LANES = 32
"""Elements that are compared at once where the best ones are looked for."""
KEY_BITS = 32
"""The width of a key that shares a number of 64 bits with the place of its element. Rows of narrower keys are sorted
whole, and wider ones are not ranked."""
LAST = (1 << 63) - 1
"""The greatest such number: it stands for no element."""


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

    def with_place(self, key: SSAValue, place: SSAValue) -> SSAValue:
        """Keys of `KEY_BITS` bits above the places of their elements: no two are equal, and their order is stable."""
        b, shift = self.b, self.b.constant(KEY_BITS)
        if isinstance(place.type, VectorType):
            shift = b.spread(shift, place.type)
        return b.binary(arith.OrIOp, b.binary(arith.ShLIOp, b.cast("extsi", key, i64), shift), place)

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
