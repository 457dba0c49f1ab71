"""The grid of a contraction's nest: which row blocks and column parts are tasks of their own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import ceil, prod

from mlc.schedules.analysis import Read
from mlc.schedules.knobs import AUTO, BY_MODEL, SWITCH, blocks, switched
from mlc.schedules.strategies.contraction_sizes import ContractionSizes
from mlc.targets.cost.caches import is_far, streams
from mlc.targets.cost.grids import Grid, GridWork, choose_grid
from mlc.targets.cost.open_sizes import open_block
from mlc.targets.cost.thresholds import PAGE_BYTES
from mlc.targets.cost.tiles import even_split
from mlc.targets.matrix import MATRIX_PRODUCT_CYCLES, MATRIX_ROWS

MOST_COLUMN_PARTS = 16
"""Parts of the columns that tuning tries, at most."""


class ContractionGrid(ContractionSizes):
    """How a contraction's tiles are dealt out among threads."""

    def grid(self, outer_row: int | None, tile_rows: int, column_tiles: int) -> Grid:
        """The parallel grid: row blocks and column parts."""
        st, r = self.stage, self.roles
        tile_axes = (r.rows, r.columns, r.lanes, outer_row)
        if self.reads_planes and outer_row is None and r.columns not in st.symbolic:
            return self._grid_of_planes(tile_rows)
        open_rows = st.open_extent(r.rows if outer_row is None else outer_row)
        if outer_row is not None:
            rows, row_bytes, halo = self._image_rows(outer_row, tile_axes)
        else:
            rows = self._count(r.rows, tile_rows)
            if rows > 1 and open_rows and is_far(r.scalar.bytes, self.target):
                # all of S is read once for each panel of V; the panel stays in L2
                each = ceil(rows / self.threads)
                return Grid(min(each, open_block(self.cycles / rows, self.threads)), 1)
            row_bytes, halo = r.scalar.bytes / max(rows, 1), self._halo(r.rows) // tile_rows if self.pads else 0
        others = [k for k in st.spatial if k not in tile_axes]
        groups = self.groups_of(others) if outer_row is not None else []
        work = GridWork(
            batches=prod(st.extents[k] for k in others if k not in groups),
            groups=prod(st.extents[k] for k in groups),
            rows=rows,
            columns=column_tiles,
            width=self.column_width,
            row_bytes=row_bytes,
            halo_rows=halo,
            weight_bytes=r.vector.bytes,
            cycles=self.cycles,
            pads=bool(self.pads) and not self.inlines_pads,
            streams=outer_row is None,
            dealt=self.stage.deals_rows and (outer_row is not None or self._deals_pixels),
        )
        return choose_grid(work, self.threads, self.target, open_rows)

    def groups_of(self, others: Sequence[int]) -> list[int]:
        """
        Of the axes outside of the tiles, the ones over groups of channels that a thread loops over for its rows.

        None of them on one thread, which computes all rows of a group before the next group.
        """
        if self.threads == 1 or not self.stage.deals_rows:
            return []
        return [k for k in others if self.roles.vector.uses(k)]

    @property
    def column_width(self) -> float:
        """The width of all columns, in column tiles; a last tile of fewer vectors counts as a part of one."""
        e, r, size = self.stage.extents, self.roles, self.size
        vector = 1 if r.dot else self.width
        lanes = ceil(e[r.lanes] / vector) / ceil(size.lanes / vector)
        return lanes * (1 if r.columns is None else e[r.columns] / size.columns)

    def _grid_of_planes(self, tile_rows: int) -> Grid:
        """The parallel grid where V is a picture in planes: parts of the columns are blocks of rows of pixels."""
        st, r, columns = self.stage, self.roles, self.size.columns
        assert r.columns is not None
        rows, tiles = self._count(r.columns, columns), self._count(r.rows, tile_rows)
        others = [k for k in st.spatial if k not in (r.rows, r.columns, r.lanes)]
        work = GridWork(
            batches=prod(st.extents[k] for k in others),
            rows=rows,
            columns=1,
            width=1.0,
            row_bytes=r.vector.bytes / rows / prod(st.extents[k] for k in others if r.vector.uses(k)),
            halo_rows=self._halo(r.columns, r.vector) // columns,
            weight_bytes=r.scalar.bytes,
            cycles=self.cycles,
            pads=bool(self.pads) and not self.inlines_pads,
        )
        block = choose_grid(work, self.threads, self.target).row_block
        return Grid(tiles, ceil(rows / block))

    def _tuned_grid(self, grid: Grid, outer_row: int | None) -> Grid:
        """The grid that the knobs say; the cost model's by default."""
        axis = self.roles.rows if outer_row is None else outer_row
        rows = 1 if axis is None else self.stage.extents[axis]
        if axis is not None and axis not in self.stage.symbolic:
            block = self.s.choose("grid_rows", blocks(rows), AUTO)
            grid = replace(grid, row_block=min(block, rows) or grid.row_block)
        parts = self.s.choose("grid_columns", blocks(MOST_COLUMN_PARTS), AUTO)
        order = self.s.choose("columns_first", SWITCH, BY_MODEL) if self.threads > 1 else BY_MODEL
        first = switched(order, grid.columns_first)
        return replace(grid, column_parts=parts or grid.column_parts, columns_first=first)

    @property
    def reads_far_rows(self) -> bool:
        """
        Whether V, and with it the result, has rows of whole pages, as planes of pixels, whose columns are tiles.

        Either the lines of a column of V evict each other from L1, or L1 holds S from one run of columns to the next.
        """
        st, r = self.stage, self.roles
        whole = r.rows is not None and r.columns is None and r.lanes not in st.symbolic and self._outer_row() is None
        if not whole or r.dot or self._packed or self.size.words > 1 or r.vector.step(r.lanes) != 1:
            return False
        apart = r.vector.element_bytes * (r.vector.step(st.reduce[-1]) or 0)
        collide = st.depth > streams(apart, self.target)
        return apart >= PAGE_BYTES and (collide or r.scalar.bytes <= self.target.l1_bytes)

    def run_length(self, grid: Grid) -> int:
        """
        The column tiles in a run: so many of them a tile of rows computes before the next one does; 1 without runs.

        A run writes neighbouring lines of few rows, and reads a copy of its columns of V, which takes half of L1.
        """
        if not self.reads_far_rows or grid.row_block == 1:
            return 1
        count = self._count(self.roles.lanes, self.size.lanes)
        panel = self.roles.vector.element_bytes * self.stage.depth * self.size.lanes
        return even_split(count, max(1, min(count // grid.column_parts, self.target.l1_bytes // 2 // panel)))

    @property
    def cycles(self) -> float:
        """The kernel's time on one core at its peak."""
        if self.size.words > 1:
            products = self.stage.points / self.roles.vector.unit / self.size.words / MATRIX_ROWS / self.width
            return products * MATRIX_PRODUCT_CYCLES
        return self.stage.points / self.width / self.target.core.fmas_per_cycle / self.roles.vector.unit

    def _image_rows(self, outer_row: int, tile_axes: Collection[int | None]) -> tuple[int, float, int]:
        """(output rows, input bytes of one for a picture or group, input rows that two neighbours share)."""
        st, read = self.stage, self.roles.scalar
        along = [x for x in read.exprs if x.uses(outer_row)]
        step = max(along[0].coefficient(outer_row), 1)
        others = [k for k in st.spatial if k not in tile_axes]
        sizes = [
            ceil(n / prod(st.extents[k] for k in others if x.uses(k)))
            for n, x in zip(read.shape, read.exprs, strict=True)
            if not x.uses(outer_row)
        ]
        return st.extents[outer_row], read.element_bytes * prod(sizes) * step, self._halo(outer_row)

    def _halo(self, axis: int | None, read: Read | None = None) -> int:
        """The steps of an axis that neighbouring blocks of S, or another, read: a window along it, and its dilation."""
        exprs = (read or self.roles.scalar).exprs
        along = next((x for x in exprs if x.uses(axis)), None) if axis is not None else None
        if axis is None or along is None:
            return 0
        step = max(along.coefficient(axis), 1)
        ranges = [(0, 0) if k == axis else rg for k, rg in enumerate(self.stage.ranges)]
        return max(0, along.bounds(_zero_by_default(ranges))[1] + 1 - step) // step

    def _count(self, axis: int | None, size: int) -> int:
        return ceil(self.stage.extents[axis] / size) if axis is not None else 1

    def _outer_columns(self) -> int:
        """The steps of the outermost loop over column tiles."""
        columns = self._count(self.roles.columns, self.size.columns)
        return columns if columns > 1 else self._count(self.roles.lanes, self.size.lanes)


def _zero_by_default(ranges: list[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    class Default(dict[int, tuple[int, int]]):
        def __missing__(self, key: int) -> tuple[int, int]:
            return (0, 0)

    return Default(enumerate(ranges))
