"""
The best few elements of a row with keys of 32 bits: the best of each block compete, and one after the other leaves.

A key and the place of its element are one number of 64 bits, so that no two are equal, and the order is stable. Finding
the best element takes a pass over the best ones of all blocks, and a pass over the block that it leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.graph.dims import Dim
from mlc.dialects.te_builder.loop_body import LoopBodyBuilder
from mlc.lowering.graph_to_te.extern.order import KEY_BITS, LANES, LAST, Emit, Keys

BLOCK = 64
"""Elements of a block, a power of two."""
MOST_WANTED, LEAST_RATIO, LONGEST = 128, 8, 1 << 14
"""Elements wanted, at most; the least ratio of a row's length to them; the longest row, whose numbers stay near.

Source: 64 rows of 64 to 10,000 elements on Zen 4. 1 to 100 wanted elements take 0.1 to 0.85 of the time of a bound
or of ranks, 250 of 1000 take 1.4, 16 of 64 take 1.2."""


def competes(keys: Keys, size: Dim, wanted: Dim) -> bool:
    """Whether a tournament finds the best `wanted` of `size` elements."""
    if not isinstance(size, int) or not isinstance(wanted, int) or keys.bits != KEY_BITS:
        return False
    return wanted <= MOST_WANTED and LEAST_RATIO * wanted <= size <= LONGEST


def tournament(
    b: LoopBodyBuilder, keys: Keys, size: int, wanted: int, load: Callable[..., SSAValue], emit: Emit
) -> None:
    """The best `wanted` of `size` elements; `load(i, lanes)` loads elements, `emit(rank, place)` stores the result."""
    blocks = -(-size // BLOCK)
    slots = -(-blocks // LANES) * LANES
    all_, bests, one = b.buffer(blocks * BLOCK, "local"), b.buffer(slots, "local"), b.buffer(1, "local")

    def join(k: SSAValue) -> None:
        first = b.binary(arith.MuliOp, k, LANES)
        b.store_tile(keys.with_place(keys.of(load(first, LANES)), b.places(first, LANES)), all_, [first])

    def least(tiles: list[SSAValue]) -> SSAValue:
        return b.reduce("min", reduce(lambda x, y: b.binary(arith.MinSIOp, x, y), tiles))

    def compete(block: SSAValue) -> None:
        first = b.binary(arith.MuliOp, block, BLOCK)
        tiles = [b.load_tile(all_, [b.plus(first, n)], 0, LANES) for n in range(0, BLOCK, LANES)]
        b.store_tile(least(tiles), bests, [block])

    def leave(rank: SSAValue) -> None:
        b.store_tile(least([b.load_tile(bests, [b.number(n)], 0, LANES) for n in range(0, slots, LANES)]), one)
        place = b.binary(arith.AndIOp, b.load(one, 0), (1 << KEY_BITS) - 1)
        emit(rank, place)
        b.store(LAST, all_, place)
        compete(b.binary(arith.ShRSIOp, place, BLOCK.bit_length() - 1))

    whole = size // LANES * LANES
    b.loop(0, size // LANES, [], join)
    b.loop(whole, size, [], lambda i: b.store(keys.with_place(keys.of(load(i)), i), all_, i))
    b.loop(size, blocks * BLOCK, [], lambda i: b.store(LAST, all_, i))
    b.loop(blocks, slots, [], lambda i: b.store(LAST, bests, i))
    b.loop(0, blocks, [], compete)
    b.loop(0, wanted, [], leave)
