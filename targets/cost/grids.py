"""Blocks of rows and parts of columns: how a contraction is dealt out to threads and caches."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.caches import planned_l2_bytes
from mlc.targets.cost.open_sizes import least_regret, open_block, open_blocks, scored_sizes
from mlc.targets.cost.thresholds import (
    COLUMN_PARTS_PER_THREAD,
    PRODUCT_PARTS_PER_THREAD,
)
from mlc.targets.cost.tiles import divisors, even_split
from mlc.targets.machine import Core
from mlc.targets.target import Target


@dataclass(frozen=True)
class Grid:
    """How a contraction is dealt out: rows a block, and parts into which the columns are split."""

    row_block: int
    column_parts: int
    columns_first: bool = False
    """Whether a thread takes all rows of its columns, so that no number of rows leaves it without work."""


@dataclass(frozen=True)
class GridWork:
    """
    What a grid deals out: `batches`, blocks of rows, groups of channels, parts of columns, in this order.

    `rows` is the outer row axis (output rows of a convolution), `row_bytes` the input bytes of one such row,
    `halo_rows` how many rows neighbouring blocks share, `columns` the number of column tiles. `width` is the width of
    all columns in tiles; it is less than `columns` if the last tile is not a whole one.
    """

    batches: int
    rows: int
    columns: int
    row_bytes: float
    halo_rows: int
    width: float
    weight_bytes: float
    cycles: float
    pads: bool
    streams: bool = False
    """Whether all rows may pass over one panel of weights after the other."""
    dealt: bool = False
    """Whether the rows are rows of a picture that other kernels deal out to threads in the same order."""
    groups: int = 1
    """Groups of channels, each with rows and weights of its own, that a thread passes over for its rows."""

    @property
    def nests(self) -> int:
        """How many nests of rows and columns there are."""
        return self.batches * self.groups

    def block_bytes(self, block: int) -> float:
        """The input bytes of a block of rows."""
        return (block + self.halo_rows) * self.row_bytes

    def leaves_l2(self, block: int, l2: float) -> bool:
        """Whether a block of several rows exceeds `l2` bytes, so that each column tile reads it from beyond L2."""
        return block > 1 and self.block_bytes(block) > l2

    def foreign_bytes(self, grid: Grid, rows: int, threads: int) -> float:
        """
        The input bytes that one thread reads and another thread has written; 0 unless the rows are `dealt`.

        If threads take rows, these are half of the halo rows. If they take columns or groups, they are all that a
        thread reads, except the part that it wrote itself (1 / `threads`).
        """
        by_rows = self.batches * ceil(rows / grid.row_block)
        if threads == 1 or not self.dealt:
            return 0.0
        if by_rows >= threads and not grid.columns_first:
            return self.halo_rows / 2 * self.row_bytes * self.groups
        return self.nests * rows * self.row_bytes / min(threads, by_rows * self.groups) * (1 - 1 / threads)

    def cost(self, grid: Grid, rows: int, threads: int, l2: float, core: Core) -> float:
        """Cycles of the busiest thread if the row axis had `rows` rows, scaled to the actual number of rows."""
        parts, each = grid.column_parts, min(ceil(self.columns / grid.column_parts), self.width)
        blocks = ceil(rows / grid.row_block)
        whole = grid.columns_first
        rounds = ceil(self.nests * blocks * parts / threads)  # tasks that the busiest thread runs
        share = rounds * min(grid.row_block, rows) * each / (self.nests * rows * self.width)
        if whole:
            share = ceil(parts / threads) * each / self.width
        far = self.weight_bytes / parts > l2
        weights = self.weight_bytes * (self.nests * blocks if far else 1 if whole else threads)
        far_rows = whole and self.block_bytes(rows) > l2
        if self.leaves_l2(grid.row_block, l2):
            passes = self.columns
        else:
            passes = parts if self.pads or far_rows else min(parts, threads)
        inputs = self.block_bytes(grid.row_block) * self.nests * blocks * passes
        copies = inputs / core.pad_bytes_per_cycle if self.pads else 0.0
        streams = weights / core.memory_bytes_per_cycle + inputs / core.input_bytes_per_cycle
        foreign = self.foreign_bytes(grid, rows, threads) / LINE_BYTES * core.foreign_line_cycles
        moved = (streams + copies) * share + foreign
        return self.cycles * share + (moved + core.task_cycles * rounds) * self.rows / rows

    def streamed_cost(self, threads: int, core: Core) -> float:
        """The cycles if each thread reads its share of the rows once for every panel of weights, which stays in L2."""
        read = self.rows * self.row_bytes / threads
        copies = read / core.pad_bytes_per_cycle if self.pads else 0.0
        moved = (
            self.weight_bytes / core.memory_bytes_per_cycle + read * self.columns / core.input_bytes_per_cycle + copies
        )
        return self.cycles * ceil(self.rows / threads) / self.rows + self.nests * moved + core.task_cycles


def choose_grid(work: GridWork, threads: int, target: Target, open_rows: int = 0) -> Grid:
    """
    Blocks of rows that stay in L2 while all columns pass over them, in a grid that keeps every thread busy.

    A block of several rows must fit the planned part of L2, unless it is exactly one thread's share of the rows:
    smaller blocks may be less even. `open_rows` is the typical extent of the axis that is cut into `work.rows` if this
    is symbolic, else 0: then a grid is scored at several sizes, at each by its cost in terms of the best grid's.
    """
    scored: list[tuple[list[float], Grid]] = []
    l2, rows, core = planned_l2_bytes(target), work.rows, target.core
    sizes = scored_sizes(rows, open_rows)
    even = open_rows or work.streams or not work.pads
    most = open_block(work.cycles / rows, threads) if open_rows and not work.halo_rows else rows
    shares = {ceil(rows / threads)} if work.dealt else set[int]()
    blocks = {even_split(rows, n) for n in range(1, min(rows, most) + 1)} if even else {*divisors(rows), *shares}
    share = ceil(rows / threads) if threads > 1 else 0
    for block in sorted(blocks):
        if work.leaves_l2(block, l2) and block != share:
            continue
        for parts in range(1, min(work.columns, COLUMN_PARTS_PER_THREAD * threads) + 1):
            if ceil(work.columns / ceil(work.columns / parts)) != parts:
                continue
            orders = (False, True) if open_rows and 1 < threads and parts % threads == 0 else (False,)
            for grid in (Grid(block, parts, first) for first in orders):
                scored.append(([work.cost(grid, some, threads, l2, core) for some in sizes], grid))
    best = least_regret(scored)
    far = work.streams and rows > 1 and not open_rows and work.block_bytes(ceil(rows / threads)) > l2
    if far and work.streamed_cost(threads, core) < work.cost(best, rows, threads, l2, core):
        return Grid(ceil(rows / threads), 1)
    return best


def product_parts(
    rows: int,
    columns: int,
    batches: int,
    cycles: float,
    far: tuple[float, float],
    threads: int,
    core: Core,
    extents: tuple[int, int] = (0, 0),
) -> Grid:
    """
    Parts of a large product, as (rows a part, columns a part), so that threads are busy and bytes come from far once.

    `far` is (bytes of the left operand, of the right one); the right one is read, and a copy of it written. `extents`
    are those of the rows and of the columns, where they are symbolic, else 0, as for `choose_grid`.
    """
    scored: list[tuple[list[float], Grid]] = []
    most = PRODUCT_PARTS_PER_THREAD * threads
    sizes = [(m, n) for m in scored_sizes(rows, extents[0]) for n in scored_sizes(columns, extents[1])]
    row_parts, column_parts = (
        open_blocks(count) if extent else [ceil(count / n) for n in range(1, min(count, most) + 1)]
        for count, extent in zip((rows, columns), extents, strict=True)
    )
    for row in row_parts:
        for column in column_parts:
            costs: list[float] = []
            for m, n in sizes:
                rounds = ceil(batches * ceil(m / row) * ceil(n / column) / threads)
                share = rounds * min(row, m) * min(column, n) / (batches * rows * columns)
                bytes_in = rounds * (far[0] * min(row, m) / rows + 2 * far[1] * min(column, n) / columns)
                costs.append(cycles * share + bytes_in / core.memory_bytes_per_cycle + core.task_cycles * rounds)
            scored.append((costs, Grid(row, column)))
    return least_regret(scored)
