"""Register tiles: how many rows and vectors of a product are summed in registers at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isqrt
from typing import NamedTuple

from mlc.targets.cost.thresholds import (
    FULL_REGISTERS,
    L2_RATE_OF_PACKED_TILES,
    L2_RATE_OF_TILES,
    MOST_ROWS,
    MOST_VECTORS,
    SLIDING_REGISTERS,
    WIDENED_BITS,
    WIDENING_CYCLES,
    WIDENING_OPERATIONS,
)
from mlc.targets.machine import Core
from mlc.targets.target import Target


def divisors(n: int) -> list[int]:
    """The divisors of n, ascending."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return [*small, *(n // d for d in reversed(small) if d * d != n)]


def even_split(extent: int, most: int) -> int:
    """The tile size <= most that needs as few tiles as possible, as even as possible: 57, 14 -> 12."""
    tiles = ceil(extent / most)
    return ceil(extent / tiles)


def pieces(total: int, size: int) -> list[tuple[int, int]]:
    """(size, count) of the full and of the ragged pieces of a length: `11, 4 -> (4, 2), (3, 1)`."""
    full, rest = divmod(total, size)
    return [(s, n) for s, n in ((size, full), (rest, 1 if rest else 0)) if n]


class Strips(NamedTuple):
    """
    The footprint in L1 of a product's second operand.

    A strip is a column of the operand, one vector wide, over the whole reduction.
    """

    bytes: int
    """Bytes of one strip."""
    loose_bytes: int = 0
    """Bytes of L1 that a tile takes up without using them: the rest of cache lines that it reads in part."""
    packed: bool = False
    """Whether consecutive steps of the reduction read consecutive memory."""

    def far_cycles(self, rows: int, vectors: int, target: Target) -> float:
        """
        Cycles in which L2 delivers the vectors of one reduction step, if the strips of a tile exceed L1; else 0.

        The first operand's rows for this tile and for the next one pass through L1 as well, and count.
        """
        if (vectors + 2 * rows / target.lanes("f32")) * self.bytes + self.loose_bytes <= target.l1_bytes:
            return 0.0
        rate = L2_RATE_OF_PACKED_TILES if self.packed else L2_RATE_OF_TILES
        return vectors * target.vector_bits / 8 / (rate * target.core.l2_bytes_per_cycle)


@dataclass(frozen=True)
class RegisterTile:
    """A micro-kernel: `rows` broadcast scalars times `vectors` native vectors."""

    rows: int
    vectors: int


def step_cycles(rows: int, vectors: int, core: Core, scalar_loads: bool = True, widens: bool = False) -> float:
    """
    Cycles of one step of the reduction: its FMAs, loads, operations, or an FMA's latency, whichever takes longest.

    A step loads its vectors, and a scalar for each row; without `scalar_loads` a vector for each sum, which is an
    operand of its FMA, as the vectors of a single row are. Vectors of narrow elements are widened.
    """
    fmas = rows * vectors
    loads = (rows + vectors) if scalar_loads else fmas + vectors
    issued = (
        fmas + (rows if scalar_loads else 0) + (vectors if rows > 1 else 0) + widens * WIDENING_OPERATIONS * vectors
    )
    return max(
        fmas / core.fmas_per_cycle + core.step_cycles,
        loads / core.loads_per_cycle,
        issued / core.operations_per_cycle,
        core.fma_latency_cycles,
    )


@lru_cache(maxsize=4096)
def register_tile(
    rows: int,
    vectors: int,
    target: Target,
    reserved: int = 0,
    scalar_loads: bool = True,
    unit: int = 1,
    threads: int = 1,
    row_threads: int = 1,
    least: int = 1,
    strips: Strips | None = None,
    widens: bool = False,
) -> RegisterTile:
    """
    The tile that covers rows x vectors in the fewest cycles with accumulators and operands in registers.

    The method is that of BLIS (Low et al., "Analytical modeling is enough for high-performance BLIS", 2016), with
    ragged edges counted.

    `rows`, `vectors`: the size of the product, in rows and in vectors of columns.
    `reserved`: registers that something else takes.
    `scalar_loads`: whether a step loads one scalar for each row; if not, it loads a vector for each sum.
    `unit`: vectors in a block of the packed second operand; a tile lies in one block, or takes whole blocks.
    `threads`: the number of threads to which column tiles are dealt out; the cycles of the busiest thread count. With
    several threads, vectors come from beyond L1, which takes extra cycles.
    `row_threads`: the number of threads to which row tiles are dealt out; the cycles of the busiest thread count.
    `least`: rows of the tile, at least, if the product has that many.
    `strips`: the second operand's footprint in L1. If it exceeds L1 and there are several row tiles, each of them reads
    its vectors from L2.
    `widens`: whether vectors of narrow elements are widened to f32, once for each row tile.
    """
    registers, far = target.vector_registers - reserved, target.core.far_vector_cycles if threads > 1 else 0.0
    widening = WIDENING_CYCLES if widens and target.vector_bits >= WIDENED_BITS else 0.0
    best: tuple[float, int, RegisterTile] | None = None
    for v in range(1, min(vectors, MOST_VECTORS) + 1):
        if unit % v and v % unit:
            continue
        for r in range(min(rows, least), min(rows, MOST_ROWS) + 1):
            held = r * v + v + (1 if r > 1 or scalar_loads else 0)
            if held > registers:
                break
            r_even = even_split(rows, r)
            if r_even != r:
                continue
            cost, tall = 0.0, min(rows, ceil(ceil(rows / r) / row_threads) * r)
            most = min(vectors, ceil(ceil(vectors / v) / threads) * v)
            for width, n_v in pieces(most, v):
                for height, n_r in pieces(tall, r):
                    step = step_cycles(height, width, target.core, scalar_loads, widens) + width * (far + widening)
                    if strips is not None and r < rows:
                        step = max(step, strips.far_cycles(height, width, target))
                    cost += n_v * n_r * step
            cost *= FULL_REGISTERS if held == registers else 1.0
            candidate = (cost, -r * v, RegisterTile(r, v))
            if best is None or candidate[:2] < best[:2]:
                best = candidate
    assert best is not None
    return best[2]


def held_rows(vectors: int, target: Target, reserved: int = 0) -> int:
    """The most rows of a tile that is `vectors` wide: registers hold its sums beside the operands of a step."""
    return max(1, (target.vector_registers - reserved - vectors - 1) // vectors)


def most_rows(rows: int, vectors: int, target: Target) -> int:
    """The rows of a tile that is `vectors` wide: as many as registers hold, evenly dealt."""
    return even_split(rows, held_rows(vectors, target))


def sliding_rows(step: int, target: Target) -> int:
    """Rows of a sliding window's tile, at most, where neighbours read `step` elements apart."""
    part, whole = SLIDING_REGISTERS
    return max(1, target.vector_registers * part // (whole * step))
