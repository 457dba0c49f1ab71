"""The cost of Winograd's convolution, cycles of one core: which blocks of tiles stay in cache, how long all takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from mlc.schedules.tiling import PARTS, divisors, register_tile
from mlc.targets.target import Target

FORTH, BACK = 8.0, 4.7  # cycles to make a vector of a transformed tile, to take one back: loads, stores and sums
TILE_CYCLES = 60.0  # of a register tile of the product: zeros at its start, stores and misses at its end
L3_RATE, MEMORY_RATE = 14.0, 8.0  # bytes a cycle of weights that stream
SPILL_L3, SPILL_MEMORY = 24.0, 3.0  # bytes a cycle of transformed tiles that leave L2, written and read again
HIDDEN = 0.75  # the part of the smaller of computing and streaming that the larger one hides
REGION = 2000.0  # cycles until all threads work on the next parallel loop


@dataclass(frozen=True)
class Block:
    """Tile rows and tile columns of a block; the whole picture where `whole`: then each step is a parallel loop."""

    rows: int
    columns: int
    whole: bool = False


@dataclass(frozen=True)
class Problem:
    """A convolution by tiles of m x m outputs; channels in vectors of the machine where they are lanes."""

    m: int
    batch: int
    tile_rows: int
    tile_columns: int
    inputs: int
    outputs: int
    input_vectors: int
    output_vectors: int
    product_vectors: int

    @property
    def points(self) -> int:
        """Points of a transformed tile."""
        return (self.m + 2) ** 2

    @property
    def weight_bytes(self) -> int:
        """Bytes of the transformed weights."""
        return 4 * self.points * self.inputs * self.outputs

    def tile_bytes(self, count: int) -> int:
        """Bytes of transformed tiles, of the picture and of the result."""
        return 4 * self.points * count * (self.inputs + self.outputs)

    def blocks(self) -> Iterator[Block]:
        """The ways to cut the picture: whole rows of tiles, or parts of one row."""
        yield Block(self.tile_rows, self.tile_columns, True)
        yield from (Block(r, self.tile_columns) for r in divisors(self.tile_rows))
        yield from (Block(1, c) for c in divisors(self.tile_columns) if 8 <= c < self.tile_columns)

    def cycles(self, block: Block, target: Target, threads: int) -> float:
        """How long the whole takes, on the thread that takes longest."""
        count, all_tiles = block.rows * block.columns, self.tile_rows * self.tile_columns * self.batch
        count = all_tiles if block.whole else count
        blocks = all_tiles / count
        tile = register_tile(count, self.product_vectors, target.vector_registers)
        tiles = self.points * blocks * ceil(count / tile.rows) * ceil(self.product_vectors / tile.vectors)
        product = self.points * all_tiles * self.inputs * self.product_vectors / 2 + TILE_CYCLES * tiles
        transforms = all_tiles * self.points * (FORTH * self.input_vectors + BACK * self.output_vectors)
        tile_bytes, near = self.tile_bytes(count), 0.9 * target.l2_bytes
        resident = self.weight_bytes + tile_bytes <= near
        rate = L3_RATE if self.weight_bytes <= target.l3_bytes / 4 else MEMORY_RATE
        stream = self.weight_bytes * (1 if resident else blocks) / rate
        spilled = 0.0
        if tile_bytes > near:
            spilled = 2 * tile_bytes * blocks / (SPILL_L3 if tile_bytes <= target.l3_bytes / 4 else SPILL_MEMORY)
        total = max(product, stream) + (1 - HIDDEN) * min(product, stream) + transforms + spilled
        if block.whole:
            return total / threads + (3 * REGION if threads > 1 else 0)
        return total / blocks * ceil(blocks / threads) + (REGION if threads > 1 else 0)

    def best(self, target: Target, threads: int) -> tuple[float, Block]:
        """(cycles, block) of the fastest way."""
        return min(((self.cycles(b, target, threads), b) for b in self.blocks()), key=lambda one: one[0])

    def best_rows(self, target: Target, threads: int) -> int:
        """How many rows of tiles a block has, where the picture's sizes are known at run time: good for most."""
        pictures = [replace(self, tile_rows=max(1, round(self.tile_rows * part))) for part in PARTS]

        def cost(rows: int) -> float:
            block = Block(rows, self.tile_columns)
            return sum(p.cycles(block, target, threads) / p.tile_rows for p in pictures)

        return min(range(1, self.tile_rows + 1), key=cost)


def problem(
    m: int, batch: int, size: tuple[int, int], inputs: tuple[int, int], outputs: tuple[int, int], wide: int, lanes: int
) -> Problem:
    """
    The problem of a picture of height x width results, channels as (blocks, channels of a block).

    `wide` is the block of output channels in the product.
    """
    channels = outputs[0] * outputs[1]
    return Problem(
        m,
        batch,
        ceil(size[0] / m),
        ceil(size[1] / m),
        inputs[0] * inputs[1],
        channels,
        inputs[0] * ceil(inputs[1] / lanes),
        outputs[0] * ceil(outputs[1] / lanes),
        channels // wide * ceil(wide / lanes),
    )
