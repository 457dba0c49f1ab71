"""The knobs of contractions: the register tile, and how blocks of rows and parts of columns are dealt out."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from mlc.schedules.knobs import knob
from mlc.targets.cost.grids import Grid
from mlc.targets.cost.tiles import even_split

if TYPE_CHECKING:
    from mlc.schedules.contraction import ContractionSchedule, TileSize

T = TypeVar("T", bound="TileSize")

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28)
"""Rows of a register tile."""

VECTORS = (1, 2, 3, 4, 5, 6, 8)
"""Vectors of a row of a register tile."""

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Blocks of rows, and parts of columns."""


def tuned_tile(writer: ContractionSchedule, size: T) -> T:
    """The register tile, by the knobs `rows` and `vectors` or `columns`; a dot's and open sizes are the model's."""
    e, r = writer.stage.extents, writer.roles
    if r.dot or size.pixels > 1:
        return size
    if r.rows is not None and r.rows not in writer.stage.symbolic:
        size = size._replace(rows=knob("rows", _up_to(ROWS, e[r.rows]), size.rows))
    if r.lanes in writer.stage.symbolic:
        return size
    if r.columns is not None and size.lanes >= e[r.lanes] and r.columns not in writer.stage.symbolic:
        return size._replace(columns=knob("columns", _up_to(VECTORS, e[r.columns]), size.columns))
    if e[r.lanes] <= writer.width:
        return size
    packed = writer.packed_vectors()
    wide = [n for n in _up_to(VECTORS, ceil(e[r.lanes] / writer.width)) if n % packed == 0 or packed % n == 0]
    lanes = [min(n * writer.width, e[r.lanes]) for n in wide]
    return size._replace(lanes=knob("lanes", tuple(dict.fromkeys(lanes)), size.lanes))


def tuned_grid(writer: ContractionSchedule, grid: Grid, rows: int, columns: int) -> Grid:
    """
    The grid, by the knobs `row_blocks` and `column_parts`; `rows` and `columns` are the numbers of its points.

    A number of blocks is asked for, and rounded so that they are even: the points follow from other knobs.
    """
    if grid.columns_first or writer.stage.symbolic:
        return grid
    given = (ceil(rows / grid.row_block), grid.column_parts)
    blocks = knob("row_blocks", COUNTS, given[0])
    parts = knob("column_parts", COUNTS, given[1])
    block = grid.row_block if blocks == given[0] else even_split(rows, ceil(rows / min(blocks, rows)))
    if parts != given[1]:
        each = ceil(columns / min(parts, columns))
        parts = ceil(columns / each)
    return Grid(block, parts)


def _up_to(candidates: Sequence[int], most: int) -> tuple[int, ...]:
    return tuple(n for n in candidates if n <= most)


__all__ = ["tuned_grid", "tuned_tile"]
