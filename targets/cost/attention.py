"""The blocks of queries and keys of an attention."""

from __future__ import annotations

from math import ceil, lcm

from mlc.targets.cost.caches import FLOAT_BYTES, planned_l2_bytes
from mlc.targets.cost.threads import balance
from mlc.targets.cost.thresholds import (
    BAND_KEYS,
    BAND_VECTORS,
    GOOD_BALANCE,
    OPEN_VECTORS,
    QUERY_BLOCK_START,
    SPILLED_STRIPS,
    STRIP_KEYS,
    STRIP_VECTORS,
    STRIPS,
)
from mlc.targets.cost.tiles import even_split, held_rows, register_tile
from mlc.targets.target import Target


def query_block(queries: int, keys: int, target: Target, *, band: bool = False) -> int:
    """
    The queries of a block: its strips fit the planned share of L2; up to `STRIP_VECTORS` vectors.

    Two vectors, or those that whole tiles of the second product cover, are worth strips of up to `SPILLED_STRIPS` times
    L2: keys and values are read again for each block.
    """
    width = target.lanes("f32")
    strips = STRIPS * FLOAT_BYTES * keys * width
    tiled = None if band else _tiled_vectors(target)
    least = next((v for v in (tiled, 2) if v and v * strips <= SPILLED_STRIPS * target.l2_bytes), 1)
    most = BAND_VECTORS if band else tiled or STRIP_VECTORS
    vectors = max(least, min(most, planned_l2_bytes(target) // strips))
    return min(queries, even_split(ceil(queries / width), vectors) * width)


def shared_query_block(queries: int, heads: int, block: int, threads: int, target: Target) -> int:
    """
    The queries of a block, `block` of them or fewer, with which threads that share the queries of a head end together.

    Where whole heads keep the threads busy, it is `block`. Where whole tiles of the second product cover `block`, fewer
    queries would leave them: each thread has a block, at least.
    """
    width = target.lanes("f32")
    if balance(heads, threads) >= GOOD_BALANCE:
        return block
    most = ceil(min(block, ceil(queries / ceil(threads / heads))) / width)  # vectors

    def vectors_of_a_thread(vectors: int) -> float:
        blocks = ceil(queries / (vectors * width))
        parts = parts_of_a_head(heads, blocks, threads)
        return ceil(heads * parts / threads) * ceil(blocks / parts) * (vectors + QUERY_BLOCK_START)

    tried = [most] if _tiled_vectors(target) else range(most, 0, -1)
    return min(block, width * min(tried, key=vectors_of_a_thread))


def parts_of_a_head(heads: int, blocks: int, threads: int) -> int:
    """The fewest tasks for the blocks of queries of one head that keep threads busy; all blocks where none do."""
    return next((n for n in range(1, blocks + 1) if balance(heads * n, threads) >= GOOD_BALANCE), blocks)


def _tiled_vectors(target: Target) -> int | None:
    """The vectors of queries, up to `STRIP_VECTORS`, that whole tiles of two vectors cover: 24 queries, 6 a tile."""
    width, rows = target.lanes("f32"), held_rows(2, target)
    return next((v for v in range(STRIP_VECTORS, 1, -1) if v * width % rows == 0), None)


def open_query_block(target: Target) -> int:
    """The queries of a block where the number of queries is open: two vectors, the widest tile of the scores."""
    return OPEN_VECTORS * target.lanes("f32")


def score_rows(keys: int, block: int, target: Target) -> int:
    """The keys of a register tile of the scores, beside a block of queries."""
    return register_tile(keys, ceil(block / target.lanes("f32")), target).rows


def band_block(keys: int, block: int, target: Target) -> int:
    """
    The keys that the loops of an attention with a band of allowed keys take or leave together.

    Whole register tiles and whole steps of the passes over the strip, `BAND_KEYS` or a little more.
    """
    step = lcm(score_rows(keys, block, target), STRIP_KEYS)
    return step * ceil(BAND_KEYS / step)
