"""
The cost of Winograd's convolution, cycles of one core: which blocks of tiles stay in cache, how long all takes; and the
cost of the direct sum, which it is to beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from mlc.targets.cost.caches import FLOAT_BYTES, far_bytes_per_cycle, spilled_bytes_per_cycle
from mlc.targets.cost.open_sizes import least_regret, scored_sizes
from mlc.targets.cost.thresholds import L2_SHARE_OF_TRANSFORMS, OVERLAP, WINOGRAD_LEAST_COLUMNS
from mlc.targets.cost.tiles import divisors, register_tile
from mlc.targets.target import Target

TAPS = 9
"""Taps of a 3 x 3 window."""
PARALLEL_STEPS = 3
"""Parallel loops of a picture that is transformed as a whole: forth, product, back."""


@dataclass(frozen=True)
class Block:
    """Tile rows and tile columns of a block; the whole picture where `whole`: then each step is a parallel loop."""

    rows: int
    columns: int
    whole: bool = False


@dataclass(frozen=True)
class WinogradProblem:
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
    """Vectors of the output channels of a group."""
    groups: int = 1

    @property
    def points(self) -> int:
        """Points of a transformed tile."""
        return (self.m + 2) ** 2

    @property
    def weight_bytes(self) -> int:
        """Bytes of the transformed weights."""
        return FLOAT_BYTES * self.points * self.inputs * self.outputs // self.groups

    def tile_bytes(self, count: int) -> int:
        """Bytes of transformed tiles, of the picture and of the result."""
        return FLOAT_BYTES * self.points * count * (self.inputs + self.outputs)

    def blocks(self) -> Iterator[Block]:
        """The ways to cut the picture: whole rows of tiles, or parts of one row."""
        yield Block(self.tile_rows, self.tile_columns, True)
        yield from (Block(r, self.tile_columns) for r in divisors(self.tile_rows))
        parts = [c for c in divisors(self.tile_columns) if WINOGRAD_LEAST_COLUMNS <= c < self.tile_columns]
        yield from (Block(1, c) for c in parts)

    def cycles(self, block: Block, target: Target, threads: int) -> float:
        """How long the whole takes, on the thread that takes longest."""
        all_tiles, core = self.tile_rows * self.tile_columns * self.batch, target.core
        count = all_tiles if block.whole else block.rows * block.columns
        blocks = all_tiles / count
        tile = register_tile(count, self.product_vectors, target)
        tiles = self.points * blocks * ceil(count / tile.rows) * ceil(self.product_vectors / tile.vectors) * self.groups
        product = self.points * all_tiles * self.inputs * self.product_vectors / core.fmas_per_cycle
        product += core.tile_cycles * tiles
        forth = core.transform_cycles_per_vector * self.input_vectors
        back = core.inverse_cycles_per_vector * self.output_vectors
        transforms = all_tiles * self.points * (forth + back)
        transforms += self._spilled(self.tile_bytes(count), blocks, target)
        weights = self._stream(self.tile_bytes(count), blocks, target)
        dispatch = core.dispatch_cycles if threads > 1 else 0
        memory = self._from_memory(target)
        if block.whole:
            weights = weights if memory else weights / threads
            return overlapped(product / threads, weights) + transforms / threads + PARALLEL_STEPS * dispatch
        weights = weights * min(threads, blocks) if memory else weights
        return (overlapped(product, weights) + transforms) / blocks * ceil(blocks / threads) + dispatch

    def _from_memory(self, target: Target) -> bool:
        """Whether the weights come from memory, which all threads share."""
        return far_bytes_per_cycle(self.weight_bytes, target) == target.core.memory_bytes_per_cycle

    def _stream(self, tile_bytes: int, blocks: float, target: Target) -> float:
        """Cycles to load the weights: once if they stay in L2 beside a block's tiles, else once for each block."""
        resident = self.weight_bytes + tile_bytes <= L2_SHARE_OF_TRANSFORMS * target.l2_bytes
        return self.weight_bytes * (1 if resident else blocks) / far_bytes_per_cycle(self.weight_bytes, target)

    def _spilled(self, tile_bytes: int, blocks: float, target: Target) -> float:
        """Cycles in which transformed tiles that do not stay in L2 are written and read again."""
        if tile_bytes <= L2_SHARE_OF_TRANSFORMS * target.l2_bytes:
            return 0.0
        return 2 * tile_bytes * blocks / spilled_bytes_per_cycle(tile_bytes, target)

    def best(self, target: Target, threads: int) -> tuple[float, Block]:
        """(cycles, block) of the fastest way."""
        return min(((self.cycles(b, target, threads), b) for b in self.blocks()), key=lambda one: one[0])

    def best_rows(self, target: Target, threads: int) -> int:
        """How many rows of tiles a block has, where the picture's sizes are known at run time: good for most."""
        sizes = (scored_sizes(count, self.m * count) for count in (self.tile_rows, self.tile_columns))
        pictures = [replace(self, tile_rows=rows, tile_columns=columns) for rows, columns in zip(*sizes, strict=True)]

        def costs(rows: int) -> list[float]:
            return [p.cycles(Block(min(rows, p.tile_rows), p.tile_columns), target, threads) for p in pictures]

        return least_regret([(costs(rows), rows) for rows in range(1, self.tile_rows + 1)])


def overlapped(computing: float, streaming: float) -> float:
    """Cycles of computing and streaming at once: the longer of the two hides a part of the shorter (`OVERLAP`)."""
    return max(computing, streaming) + (1 - OVERLAP) * min(computing, streaming)


def direct_cycles(points: float, inputs: int, outputs: int, vectors: float, target: Target, threads: int) -> float:
    """
    Cycles of a direct 3 x 3 convolution of `inputs` and `outputs` channels.

    `points` are the pixels of the result; `vectors` is the number of vectors of output channels for a pixel, with a
    half where two pixels share a vector.
    """
    core = target.core
    product = TAPS * points * inputs * vectors / core.sustained_fmas_per_cycle / threads
    return overlapped(product, FLOAT_BYTES * TAPS * inputs * outputs / core.memory_bytes_per_cycle)


def problem(
    m: int,
    batch: int,
    size: tuple[int, int],
    inputs: tuple[int, int],
    outputs: tuple[int, int],
    wide: int,
    lanes: int,
    groups: int = 1,
) -> WinogradProblem:
    """
    The problem of a picture of height x width results, channels as (blocks, channels of a block).

    `wide` is the block of output channels in the product.
    """
    channels = outputs[0] * outputs[1]
    return WinogradProblem(
        m,
        batch,
        ceil(size[0] / m),
        ceil(size[1] / m),
        inputs[0] * inputs[1],
        channels,
        inputs[0] * ceil(inputs[1] / lanes),
        outputs[0] * ceil(outputs[1] / lanes),
        channels // wide // groups * ceil(wide / lanes),
        groups,
    )
