"""Analytic choices: register tiles, row blocks, parallel grids. All numbers are cycles or bytes of one core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, isqrt, prod
from typing import TYPE_CHECKING

from mlc.dialects.index import IndexMapAttr
from mlc.targets.target import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import SSAValue

    from mlc.schedules.analysis import Stage
    from mlc.schedules.builder import ScheduleBuilder


def divisors(n: int) -> list[int]:
    """The divisors of n, ascending."""
    small = [d for d in range(1, isqrt(n) + 1) if n % d == 0]
    return [*small, *(n // d for d in reversed(small) if d * d != n)]


def even_split(extent: int, most: int) -> int:
    """The tile size <= most that needs as few tiles as possible, as even as possible: 57, 14 -> 12."""
    tiles = ceil(extent / most)
    return ceil(extent / tiles)


@dataclass(frozen=True)
class RegisterTile:
    """A micro-kernel: `rows` broadcast scalars times `vectors` native vectors."""

    rows: int
    vectors: int


def _tile_cycles(rows: int, vectors: int, scalar_loads: bool) -> float:
    """Cycles of one step of the reduction: two FMAs and two loads a cycle, an FMA takes four."""
    fmas = rows * vectors / 2
    loads = ((rows + vectors) if scalar_loads else rows * vectors + vectors) / 2
    return max(fmas, loads, 4.0)


@lru_cache(maxsize=4096)
def register_tile(
    rows: int,
    vectors: int,
    registers: int,
    scalar_loads: bool = True,
    unit: int = 1,
    threads: int = 1,
    least: int = 1,
) -> RegisterTile:
    """
    The tile that covers rows x vectors in the fewest cycles with accumulators and operands in registers.

    The method is that of BLIS (Low et al., "Analytical modeling is enough for high-performance BLIS", 2016), with
    ragged edges counted. `unit` is the number of vectors in a block of a packed operand, which a tile must not cross.
    With `threads`, the cycles are those of the thread that gets most where columns of tiles are dealt out, and the
    vectors, which come from beyond L1 then, count by themselves. The tile has `least` rows, if there are so many.
    """
    best: tuple[float, int, RegisterTile] | None = None
    for v in range(1, min(vectors, 16) + 1):
        if unit % v and v % unit:
            continue
        for r in range(min(rows, least), min(rows, 31) + 1):
            if r * v + v + (1 if r > 1 or scalar_loads else 0) > registers:
                break
            r_even = even_split(rows, r)
            if r_even != r:
                continue
            cost = 0.0
            most = min(vectors, ceil(ceil(vectors / v) / threads) * v)
            for width, n_v in _pieces(most, v):
                for height, n_r in _pieces(rows, r):
                    cost += n_v * n_r * (_tile_cycles(height, width, scalar_loads) + (width / 8 if threads > 1 else 0))
            candidate = (cost, -r * v, RegisterTile(r, v))
            if best is None or candidate[:2] < best[:2]:
                best = candidate
    assert best is not None
    return best[2]


def _pieces(total: int, size: int) -> list[tuple[int, int]]:
    """(size, count) of the full and of the ragged pieces."""
    full, rest = divmod(total, size)
    return [(s, n) for s, n in ((size, full), (rest, 1 if rest else 0)) if n]


def balance(tasks: int, threads: int) -> float:
    """The part of the time that threads work when equal tasks are dealt out to them."""
    return tasks / (ceil(tasks / threads) * threads)


@dataclass(frozen=True)
class Grid:
    """How a contraction is dealt out: rows a block, and parts into which the columns are split."""

    row_block: int
    column_parts: int
    columns_first: bool = False
    """Whether a thread takes all rows of its columns, so that no number of rows leaves it without work."""


@dataclass(frozen=True)
class Work:
    """
    What a grid deals out.

    `rows` is the outer row axis (output rows of a convolution), `row_bytes` the input bytes of one such row,
    `halo_rows` how many rows neighbouring blocks share, `columns` the number of column tiles.
    """

    batches: int
    rows: int
    columns: int
    row_bytes: float
    halo_rows: int
    weight_bytes: float
    cycles: float
    pads: bool

    def block_bytes(self, block: int) -> float:
        """The input bytes of a block of rows."""
        return (block + self.halo_rows) * self.row_bytes

    def cost(self, grid: Grid, rows: int, threads: int, l2: float) -> float:
        """The cycles of a grid on the thread that takes longest, were there so many rows; of as many as there are."""
        parts, each = grid.column_parts, ceil(self.columns / grid.column_parts)
        blocks = ceil(rows / grid.row_block)
        whole = grid.columns_first
        rounds = ceil(self.batches * blocks * parts / threads)  # tasks that the busiest thread runs
        share = rounds * min(grid.row_block, rows) * each / (self.batches * rows * self.columns)
        if whole:
            share = ceil(parts / threads) * each / self.columns
        # bytes from L3 or memory at 8 bytes a cycle; from L2 they are free beside the FMAs
        far = self.weight_bytes / parts > l2
        weights = self.weight_bytes * (self.batches * blocks if far else 1 if whole else threads)
        far_rows = whole and self.block_bytes(rows) > l2
        passes = parts if self.pads or far_rows else min(parts, threads)
        inputs = self.block_bytes(grid.row_block) * self.batches * blocks * passes
        copies = inputs / 24 if self.pads else 0.0
        moved = (weights / 8 + inputs / 16 + copies) / threads
        return self.cycles * share + (moved + 300 * rounds) * self.rows / rows


def choose_grid(work: Work, threads: int, target: Target, open_rows: bool = False) -> Grid:
    """
    Blocks of rows that stay in L2 while all columns pass over them, in a grid that keeps every thread busy.

    Rows that are `open` are as many as a symbol says, about so many: the grid is to be good for fewer and for more.
    """
    best: tuple[float, Grid] | None = None
    l2, rows = target.l2_bytes * 0.5, work.rows
    sizes = [max(1, round(rows * part)) for part in (PARTS if open_rows else (1.0,))]
    even = open_rows or not work.pads
    most = open_block(work.cycles / rows, threads) if open_rows and not work.halo_rows else rows
    for block in sorted({even_split(rows, n) for n in range(1, min(rows, most) + 1)}) if even else divisors(rows):
        if work.block_bytes(block) > l2 and block > 1:
            continue
        for parts in range(1, min(work.columns, 4 * threads) + 1):
            if ceil(work.columns / ceil(work.columns / parts)) != parts:
                continue
            orders = (False, True) if open_rows and 1 < threads and parts % threads == 0 else (False,)
            for grid in (Grid(block, parts, first) for first in orders):
                cost = sum(work.cost(grid, some, threads, l2) for some in sizes)
                if best is None or cost < best[0]:
                    best = cost, grid
    return best[1] if best is not None else Grid(1, 1)


def open_block(cycles: float, threads: int) -> int:
    """
    The most rows of a block where they are open, each of so many cycles.

    A loop runs over all of them, those that are not there too; and a block that is all rows there are is one thread's.
    """
    return OPEN_BLOCK if threads == 1 else max(2, min(OPEN_BLOCK, ceil(TASK_CYCLES / max(cycles, 1.0))))


OPEN_BLOCK = 32
TASK_CYCLES = 20000.0  # of one thread's task, beside which what it takes to get it is little
PARTS = (0.35, 0.6, 0.8, 1.0, 1.3, 1.7)  # of the usual size: what a size that is open may well be
DISPATCH_CYCLES = 2000.0  # of handing a kernel to other threads and waiting for them, between CPUs far apart


def worth_threads(cycles: float, threads: int) -> bool:
    """Whether dealing a kernel of so many cycles out to threads saves more than waking them costs."""
    return threads > 1 and cycles * (1 - 1 / threads) > DISPATCH_CYCLES


def deal(s: ScheduleBuilder, grid: Sequence[SSAValue], stage: Stage, cycles: float, threads: int) -> None:
    """
    Run a nest of loops on threads where a stage of so many cycles, of which the kernel's time is, is worth it.

    Where its extents are symbolic that is asked at run time: are there enough points in it?
    """
    if not stage.symbolic:
        if worth_threads(cycles, threads):
            s.parallel(*grid)
    elif threads > 1:
        s.parallel(*grid)
        typical = prod(stage.extents[k] for k in stage.symbolic)
        least = typical * DISPATCH_CYCLES / (max(cycles, 1.0) * (1 - 1 / threads))
        s.pragma(grid[-1], "work", IndexMapAttr.get(stage.work))
        s.pragma(grid[-1], "least", max(1, round(least)))
