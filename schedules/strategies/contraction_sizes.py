"""
The register tile of a contraction: rows, columns and lanes, from the axes' roles and the target's registers.

The cost model's choice is the default of a knob each, so that tuning may try others.
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from xdsl.dialects.builtin import f16

from mlc.dialects.index import Div
from mlc.schedules.analysis import KernelInfo, Stage, reads_pointwise
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.knobs import BY_MODEL, SWITCH, sizes, switched
from mlc.schedules.strategies.matrix import matrix_tile
from mlc.schedules.strategies.roles import Roles
from mlc.support.alignment import LINE_BYTES
from mlc.support.errors import UserError
from mlc.targets.cost.caches import FLOAT_BYTES, gains_by_prefetch, is_far
from mlc.targets.cost.thresholds import (
    DOT_COLUMNS,
    DOT_LINES,
    DOT_ROWS,
    GROUPS_APART,
    MOST_ROWS,
    MOST_VECTORS,
    OPEN_ROWS,
    PACKED_DEPTH,
    PACKED_PANELS,
    PAIR_REGISTERS,
    SHARED_LANES_PAIRS,
    SHARED_LANES_VECTORS,
    SLIDING_TAPS,
    SLIDING_UNROLLED,
    STREAM_ROWS,
    STREAM_SHARED_ROWS,
    WIDENED_BITS,
    WIDENED_F16_ROWS,
    WIDENED_L1,
    WIDENED_PANEL_ROWS,
    WIDENED_ROWS,
    WIDENED_VECTORS,
    WOVEN_REGISTERS,
)
from mlc.targets.cost.tiles import RegisterTile, Strips, even_split, held_rows, register_tile, sliding_rows
from mlc.targets.cost.windows import BLOCKED_RANK, Row, window_tile
from mlc.targets.matrix import MATRIX_ROWS, MATRIX_SUMS
from mlc.targets.target import Target

MOST_TILE_ROWS = 32
"""Rows of a register tile that tuning tries, at most: the registers of AVX-512."""
MOST_TILE_VECTORS = 8
"""Vectors of a register tile's row that tuning tries, at most."""


class TileSize(NamedTuple):
    """The register tile: rows, steps of the column axis, lanes."""

    rows: int
    columns: int
    lanes: int
    pixels: int = 1  # rows side by side in the lanes
    depth: int = 1  # vectors of the last reduction axis, where that gives the lanes
    words: int = 1  # of the last reduction axis, that one instruction of a matrix unit sums


class ContractionSizes:
    """The sizes with which a kernel of one contraction is tiled."""

    def __init__(self, kernel: KernelInfo, stage: Stage, roles: Roles, target: Target, threads: int) -> None:
        self.kernel, self.stage, self.roles = kernel, stage, roles
        self.target, self.threads = target, threads
        self.s = ScheduleBuilder(kernel.name)
        self.width = target.lanes(stage.sum_bits)
        self.word_bytes = stage.sum_bits // 8
        self.pads = [p for p in kernel.producers(stage) if not p.is_reduction]
        self.size = self.tuned(self.tile())
        self.epilogue = [c for c in kernel.after(stage) if reads_pointwise(c, stage)]

    def tile(self) -> TileSize:
        """The register tile of least cost in the cost model."""
        r = self.roles
        rows = max(self.stage.extents[r.rows] if r.rows is not None else 1, self._least_rows)
        if r.dot:
            return self._dot_tile(rows)
        if (matrix := matrix_tile(self.stage, r, self.target, self._packed_vectors())) is not None:
            return TileSize(*matrix[:3], words=matrix.words)
        if self.slides:
            return self._sliding_tile(rows)
        if self._side_by_side() > 1:
            return self._side_by_side_tile(rows)
        return self._narrow_tile(rows) or self._wide_tile(rows)

    @property
    def _least_rows(self) -> int:
        """The rows that a tile has at least."""
        return OPEN_ROWS if self.roles.rows in self.stage.symbolic else 1

    @property
    def _loads_scalars(self) -> bool:
        """Whether a step loads one scalar for each row, not a vector for each sum."""
        return not self.roles.scalar.uses(self.roles.lanes)

    def _dot_tile(self, rows: int) -> TileSize:
        """The register tile of sums over lanes."""
        if self._reads_lines():
            return TileSize(1, 1, 1, depth=DOT_LINES)
        rows, lanes = even_split(rows, DOT_ROWS), self.stage.extents[self.roles.lanes]
        return TileSize(rows, 1, even_split(lanes, min(DOT_COLUMNS, self.target.vector_registers // 2 // rows)))

    def _side_by_side_tile(self, rows: int) -> TileSize:
        """The register tile of rows that share a vector."""
        r, pixels, columns = self.roles, self._side_by_side(), self._most_columns()
        lanes = self.stage.extents[r.lanes]
        per_lane = pixels * lanes // self.width
        unit = per_lane if r.column_blocks is None else columns * per_lane
        shared = ceil(rows / pixels)
        t = register_tile(shared, columns * per_lane, self.target, pixels, self._loads_scalars, unit)
        if t.vectors < per_lane:  # a tile has the lanes of whole rows
            return TileSize(even_split(shared, held_rows(per_lane, self.target, pixels)) * pixels, 1, lanes, pixels)
        return TileSize(t.rows * pixels, t.vectors // per_lane, lanes, pixels)

    def _narrow_tile(self, rows: int) -> TileSize | None:
        """The register tile of whole columns; None without columns, and where one is wider than the best tile."""
        r, lanes = self.roles, self.stage.extents[self.roles.lanes]
        if lanes > self.width and r.columns is None:
            return None
        per_lane, columns = ceil(lanes / self.width), self._most_columns()
        unit = 1 if r.column_blocks is None else columns * per_lane
        threads = self.threads if self._prefetches_panels() and self._rows_per_panel() <= STREAM_SHARED_ROWS else 1
        t = self._register_tile(rows, columns * per_lane, unit, threads)
        return TileSize(t.rows, t.vectors // per_lane, lanes) if t.vectors >= per_lane else None

    def _wide_tile(self, rows: int) -> TileSize:
        """The register tile of a part of the lanes."""
        lanes = self.stage.extents[self.roles.lanes]
        threads = self.threads if self._rows_per_panel() <= MOST_ROWS else 1
        widens = self._widens(rows) and not self.widens_panels
        t = self._register_tile(rows, ceil(lanes / self.width), self._packed_vectors(), threads, widens)
        return TileSize(t.rows, 1, min(lanes, t.vectors * self.width))

    def _register_tile(self, rows: int, vectors: int, unit: int, threads: int, widens: bool = False) -> RegisterTile:
        """The register tile of least cost for this many rows and vectors: `register_tile`."""
        return register_tile(
            rows,
            vectors,
            self.target,
            self._reserved(),
            self._loads_scalars,
            unit,
            threads=threads,
            row_threads=self._row_threads(),
            least=self._least_rows,
            strips=self._strips(),
            widens=widens,
        )

    def _row_threads(self) -> int:
        """The threads to which tiles of rows are dealt out if the rows are all pixels of a picture; else 1."""
        few = STREAM_SHARED_ROWS if self._prefetches_panels() else MOST_ROWS  # with fewer rows, columns are dealt out
        return self.threads if self._deals_pixels and self._rows_per_panel() > few else 1

    @property
    def _deals_pixels(self) -> bool:
        """Whether the rows are all pixels of a picture in blocks of channels, as of a 1x1 convolution."""
        pixels = self.roles.columns is not None and not self.reads_planes and self._outer_row() is None
        return pixels and self.stage.deals_rows

    def _sliding_tile(self, rows: int) -> TileSize:
        """The register tile of a sliding window; it has several vectors if channels are the last axis."""
        r = self.roles
        lanes, row = self.stage.extents[r.lanes], self._window_row(rows)
        if lanes > self.width and (tile := window_tile(row, lanes, self.target)) is not None:
            return TileSize(tile.rows, 1, min(lanes, tile.vectors * self.width))
        pixels = self._side_by_side()
        even = even_split(ceil(rows / pixels), sliding_rows(row.step, self.target))
        return TileSize(even * pixels, 1, min(lanes, self.width), pixels)

    def _reserved(self) -> int:
        """The registers that neither sums nor operands of a step may take."""
        woven = WOVEN_REGISTERS if self._weaves_words() else 0
        r, nested = self.roles, len(self.stage.reduce) > 1
        bytes_ = r.scalar.unit > 1 and r.scalar.element_bytes == 1
        pairs = PAIR_REGISTERS if nested and bytes_ and self.target.multiplies_bytes_by_pairs else 0
        return r.stride - 1 + woven + pairs

    def _weaves_words(self) -> bool:
        """Whether each sum's word is woven from the lanes of several loads, as in a depthwise window of bytes."""
        r = self.roles
        return r.vector.unit > 1 and r.scalar.uses(r.lanes) and r.scalar.step(r.lanes) == 1

    def _most_columns(self) -> int:
        """The columns that a tile may have."""
        r = self.roles
        return r.column_blocks or (1 if r.columns is None else self.stage.extents[r.columns])

    def _reads_lines(self) -> bool:
        """Whether sums over lanes for a single row read V, once, in vectors that fill a cache line."""
        r, st = self.roles, self.stage
        enough = st.extents[-1] >= DOT_LINES * self.width or st.reduce[-1] in st.symbolic
        whole = r.vector.element_bytes * self.width == LINE_BYTES
        return r.rows is None and whole and enough

    def tuned(self, size: TileSize) -> TileSize:
        """The register tile that the knobs say; the cost model's by default."""
        e, r = self.stage.extents, self.roles
        rows, columns, lanes, depth = size.rows, size.columns, size.lanes, size.depth
        if r.rows is not None:
            most = MOST_TILE_ROWS * size.pixels
            rows = self.s.choose("tile_rows", sizes(e[r.rows], rows, most, size.pixels), rows)
        if r.dot and r.rows is None:
            lanes = self.s.choose("dot_columns", [n for n in (1, 2, 4, 8) if n <= e[r.lanes]], lanes)
            depth = self.s.choose("dot_vectors", (1, 2, 4), depth)
        if self.slides or size.pixels > 1:
            return size._replace(rows=rows)
        if r.columns is not None:
            most = self._most_columns()
            tried = [n for n in sizes(most, columns, MOST_TILE_VECTORS) if r.column_blocks is None or most % n == 0]
            columns = self.s.choose("tile_columns", tried, columns)
        elif e[r.lanes] > self.width and not r.dot:
            most = MOST_TILE_VECTORS * self.width
            packed = self._packed_vectors() * self.width  # a tile's lanes are parts of a packed block, or whole ones
            tried = [n for n in sizes(e[r.lanes], lanes, most, self.width) if n % packed == 0 or packed % n == 0]
            lanes = self.s.choose("tile_lanes", tried, lanes)
        chosen = TileSize(rows, columns, min(lanes, e[r.lanes]), size.pixels, depth, size.words)
        if chosen != size and not r.dot:
            self._expect_registers(chosen)
        return chosen

    def _expect_registers(self, size: TileSize) -> None:
        """UserError where a tile that was given keeps more sums than there are registers."""
        rows, most, what = size.rows, self.target.vector_registers, "vectors, the registers of the target"
        if size.words > 1:
            rows, most, what = ceil(rows / MATRIX_ROWS), MATRIX_SUMS, "matrices, the registers of the target for sums"
        kept = rows * size.columns * ceil(size.lanes / self.width)
        if kept > most:
            raise UserError(f"expected a tile of at most {most} {what}, but got {kept}")

    def _side_by_side(self) -> int:
        """How many rows share a vector where the lanes alone leave the last one half empty: 24 channels, two pixels."""
        r, e = self.roles, self.stage.extents
        lanes = e[r.lanes]
        if r.rows is None or r.dot or r.rows != r.lanes - 1 or e[r.rows] < 2:
            return 1
        if lanes > SHARED_LANES_VECTORS * self.width or (self.target.splits_vectors and not self.slides):
            return 1
        if 2 * (lanes % self.width) != self.width:
            return 1
        fits = held_rows(2 * lanes // self.width, self.target, reserved=2) >= SHARED_LANES_PAIRS
        return 2 if fits or self.slides else 1

    @property
    def slides(self) -> bool:
        """Whether this is a sliding window (depthwise): rows share loads, so the window's last axis is unrolled."""
        r, st = self.roles, self.stage
        shares = r.scalar.uses(r.lanes) and r.vector.uses(r.lanes) and r.rows is not None and r.columns is None
        window = self._window() if shares else None
        if window is None or st.extents[window] > SLIDING_TAPS:
            return False
        return prod(self._unrolled()) <= SLIDING_UNROLLED

    def _window(self) -> int | None:
        """The reduction axis that moves through the rows' dimension of the scalar operand: taps along a row."""
        r, st = self.roles, self.stage
        assert r.rows is not None
        along = [e for e in r.scalar.exprs if e.uses(r.rows)]
        taps = st.reduce[:-1] if r.vector.unit > r.scalar.unit else st.reduce  # the last one counts within a word of V
        return next((k for k in taps if st.extents[k] > 1 and any(e.uses(k) for e in along)), None)

    def _unrolled(self) -> list[int]:
        """The extents of the unrolled loops of a sliding window: its taps, and perhaps the channels of a group."""
        st, window, apart = self.stage, self._window(), self._groups_in_lanes() > GROUPS_APART
        return [st.extents[k] for k in st.reduce if k == window or (apart and window is not None and k > window)]

    def _groups_in_lanes(self) -> int:
        """How many groups of a convolution lie side by side in the lanes."""
        r = self.roles
        terms = [t for t, _ in r.scalar.exprs[-1].terms if isinstance(t, Div) and t.expr.uses(r.lanes)]
        return ceil(self.stage.extents[r.lanes] / terms[0].by) if len(terms) == 1 and not terms[0].is_mod else 1

    @property
    def inlines_pads(self) -> bool:
        """Whether masks replace the padded copy: whole vectors are loaded, few of them at a border."""
        r = self.roles
        if not self.slides or self.size.pixels > 1 or r.vector.unit > 1:
            return False
        return self.target.masked_memory and r.scalar.step(r.lanes) == 1

    @property
    def reads_planes(self) -> bool:
        """Whether V is a picture in planes: windows of it move along the lanes, and along rows of pixels."""
        r, st = self.roles, self.stage
        if r.columns is None or r.column_blocks is not None or r.dot or r.across is not None or r.vector.unit > 1:
            return False
        along = [e for e in r.vector.exprs if e.uses(r.lanes) or e.uses(r.columns)]
        return len(along) == 2 and any(e.uses(k) for e in along for k in st.reduce)

    @property
    def reads_one_channel(self) -> bool:
        """Whether S is a plain picture in the layout NCHW1c, and the rows of the tile are pixels of one of its rows."""
        r = self.roles
        if r.rows is None or self.slides or len(r.scalar.shape) != BLOCKED_RANK or r.scalar.shape[-1] != 1:
            return False
        return r.scalar.exprs[-2].uses(r.rows)

    @property
    def windows_overlap(self) -> bool:
        """Whether the windows of neighbouring pixels of a row have pixels in common."""
        if self._window() is None:
            return False
        row = self._window_row(1)
        return row.step < row.span

    def _window_row(self, rows: int) -> Row:
        """A row of pixels of a window's result."""
        r, window = self.roles, self._window()
        assert r.rows is not None
        assert window is not None
        step, reach = (max(1, *(abs(e.coefficient(axis)) for e in r.scalar.exprs)) for axis in (r.rows, window))
        return Row(rows, step, (self.stage.extents[window] - 1) * reach + 1)

    def _strips(self) -> Strips | None:
        """The footprint of V in L1, in strips one vector wide."""
        bytes_ = self.roles.vector.element_bytes * self.width * self.stage.depth
        return Strips(bytes_, 0 if self._packed else self._loose_bytes(), self._packed)

    @property
    def _packed(self) -> bool:
        """Whether V is packed in blocks of columns."""
        return self.roles.columns is not None or self._packed_vectors() > 1

    def _many_panels(self, lanes: int) -> bool:
        """Whether V has many panels of `lanes` columns, and its reduction many terms."""
        return self.roles.vector.shape[-1] >= PACKED_PANELS * lanes and self.stage.depth >= PACKED_DEPTH

    def _loose_bytes(self) -> int:
        """
        Bytes of L1 that a column of tiles takes up without using them, over the whole reduction.

        A row of V that starts inside of a cache line, and is not copied, uses two lines in part. If neighbouring
        scalars of S lie far apart, each takes up a line.
        """
        st, r = self.stage, self.roles
        of_scalars, of_vectors = (
            (read.step(st.reduce[-1]) or 1) * read.unit * read.element_bytes for read in (r.scalar, r.vector)
        )
        apart = of_scalars >= LINE_BYTES
        within = of_vectors % (self.width * r.vector.unit * r.vector.element_bytes) != 0
        copied = self._many_panels(MOST_VECTORS * self.width)
        return LINE_BYTES * st.depth * (apart + (within and not copied))

    def _widens(self, rows: int) -> bool:
        """Whether vectors of narrow elements of V, which are no words, become long ones of f32 in many rows."""
        read = self.roles.vector
        return read.unit == 1 and read.element_bytes < FLOAT_BYTES and rows >= WIDENED_ROWS

    @property
    def widens_panels(self) -> bool:
        """Whether a copy of each panel of narrow elements of V has them as f32 for all rows of tiles."""
        read, st, r, rows = self.roles.vector, self.stage, self.roles, self._rows_per_panel()
        plain = st.gives_f32 and not st.symbolic and not read.mask and read.tensor not in self.kernel.by_result
        if not plain or not self._widens(rows) or r.rows is None or rows != st.extents[r.rows]:
            return False
        near = FLOAT_BYTES * st.depth * WIDENED_VECTORS * self.width <= WIDENED_L1 * self.target.l1_bytes
        at_once = read.element == f16 and not self.target.has_half_path  # one instruction widens a vector
        least = WIDENED_F16_ROWS if at_once else WIDENED_PANEL_ROWS
        pays = near and rows >= least and self.target.vector_bits < WIDENED_BITS
        return switched(self.s.choose("widen", SWITCH, BY_MODEL), pays)

    def _packed_vectors(self) -> int:
        """The vectors in one block of a packed operand `w[j floordiv 32, k, j mod 32]`, else 1."""
        for t, _ in self.roles.vector.minor.terms:
            if isinstance(t, Div) and t.is_mod:
                return max(1, t.by // self.width)
        return 1

    def _outer_row(self) -> int | None:
        """The spatial axis outside of the row axis along which only S moves: the rows of an output image."""
        r, st = self.roles, self.stage
        taken = (r.rows, r.columns, r.lanes)
        found = [
            k for k in st.spatial if k not in taken and st.extents[k] > 1 and r.scalar.uses(k) and not r.vector.uses(k)
        ]
        return found[-1] if found else None

    def _prefetches_panels(self) -> bool:
        """Whether V comes from beyond L2, and too few rows share a panel of it to hide the latency of loading it."""
        size = self.word_bytes * prod(self.roles.vector.shape)
        far = is_far(size, self.target) and gains_by_prefetch(size, self.target)
        return far and self._rows_per_panel() <= STREAM_ROWS

    def _rows_per_panel(self) -> int:
        """The points of all spatial axes that V does not have: they read the same panel of V."""
        taken = (self.roles.lanes, self.roles.columns)
        return prod(e for k, e in enumerate(self.stage.extents[: self.stage.num_spatial]) if k not in taken)
