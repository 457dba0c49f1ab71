"""
Matrix products: blocked by the caches, the right operand packed where its rows are far apart.

A product whose left operand stays in L2 keeps the nest of a contraction. A larger one is blocked as in BLIS (Low et
al., "Analytical modeling is enough for high-performance BLIS", 2016), with the roles of the operands swapped:

    parallel(batch, row part, column part) | column group | depth block | pack V | row tiles | column tiles | k | tile

The strip of S that a row tile reads in a depth block stays in L1 while the column tiles of a group pass over it, and
the group's block of V stays in L2 for all rows. Partial sums go from one depth block to the next through the output.
Where V is packed already, a depth block of rows of S stays in L2 instead, and panels of V stream past it:

    parallel(batch, row part, column part) | row group | depth block | column tiles | row tiles | k | tile

A V whose lanes lie apart (the B of A B^T) is always packed: squares of it are transposed in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import f32

from mlc.dialects import sched
from mlc.dialects.index import tile
from mlc.schedules.analysis import KernelInfo, Read, Stage
from mlc.schedules.knobs import AUTO, BY_MODEL, SWITCH, blocks, switched
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction import ContractionSchedule, Handle, present, schedule_of
from mlc.schedules.strategies.contraction_sizes import TileSize
from mlc.schedules.strategies.roles import Roles
from mlc.targets.cost.caches import (
    depth_block,
    gains_by_prefetch,
    is_far,
    planned_l2_bytes,
    share_a_set,
    streams,
)
from mlc.targets.cost.grids import Grid, GridWork, choose_grid, product_parts
from mlc.targets.cost.thresholds import L2_SHARE_UNPACKED, LEAST_LANES, TRANSPOSED_ROWS
from mlc.targets.cost.tiles import Strips, even_split
from mlc.targets.target import Target

DEPTH_BLOCKS = (64, 128, 192, 256, 384, 512, 768, 1024)
"""Reduction steps of a depth block that tuning tries."""
MOST_GROUP = 64
"""Register tiles of a group that tuning tries, at most."""


@dataclass(frozen=True)
class Blocks:
    """The blocking of a product: register tiles in a part and in a group, reduction steps in a depth block."""

    row_part: int
    column_part: int
    rows: int
    columns: int
    depth: int


def product_roles(stage: Stage) -> Roles | None:
    """The roles in `sum over k of S[.., i, k] * V[.., k, j]`, however both are laid out; None of anything else."""
    if stage.factors is None or len(stage.reduce) != 1 or stage.num_spatial < 2:
        return None
    long = stage.long_axes
    if len(long) < 2:
        return None
    lanes = long[-1]
    users = [read for read in stage.factors if read.uses(lanes)]
    if len(users) != 1:
        return None
    vector = users[0]
    scalar = stage.factors[0] if vector is stage.factors[1] else stage.factors[1]
    if scalar.tensor is vector.tensor and stage.symbolic:
        return None  # one copy would serve both factors: it is not a panel, and its size is not bounded
    rows = [k for k in long[:-1] if scalar.uses(k) and not vector.uses(k)]
    if len(rows) != 1 or any(read.mask for read in stage.factors) or not all(e.is_affine for e in scalar.exprs):
        return None
    if vector.step(lanes) == 1:
        return Roles(scalar, vector, lanes, rows[0], None)
    plain = all(e.is_affine for e in vector.exprs) and len(vector.shape) >= 2
    if not plain or stage.extents[rows[0]] < TRANSPOSED_ROWS or stage.extents[lanes] < LEAST_LANES:
        return None
    return Roles(scalar, vector, lanes, rows[0], None)


class MatmulSchedule(ContractionSchedule):
    """Writes the schedule of a matrix product: one reduction axis, an axis of rows and the lanes, perhaps batches."""

    # --- sizes ---

    def tile(self) -> TileSize:
        """The register tile of a contraction, with at most as many rows as L1 holds streams of."""
        size, read = super().tile(), self.roles.scalar
        if size.words > 1:
            return size
        apart = read.step(self._rows)
        along = 1 if read.unit > 1 else read.step(self.stage.reduce[-1])
        if along != 1 or not apart or size.pixels > 1:
            return size
        most = streams(self.word_bytes * apart, self.target)
        return size if size.rows <= most else size._replace(rows=even_split(self.stage.extents[self._rows], most))

    def _strips(self) -> Strips | None:
        return super()._strips() if self._packed else None  # depth blocks, or a copy of V, keep its columns near

    def _side_by_side(self) -> int:
        return 1 if self.transposes else super()._side_by_side()

    @property
    def transposes(self) -> bool:
        """Whether V is not contiguous along the lanes, so that it is read through a transposed copy."""
        return self.roles.vector.step(self.roles.lanes) != 1

    @property
    def _rows(self) -> int:
        assert self.roles.rows is not None
        return self.roles.rows

    @property
    def _batches(self) -> list[int]:
        return [k for k in self.stage.spatial if k not in (self._rows, self.roles.lanes)]

    def _bytes(self, axis: int) -> float:
        """The bytes of the operand along one spatial axis, in one batch."""
        return float(self.word_bytes) * self.stage.extents[axis] * self.stage.extents[-1] / self.roles.scalar.unit

    @property
    def blocked(self) -> bool:
        """
        Whether S is too large to stay in L2 while all columns pass over it, or V needs a copy.

        In a matrix unit it is not: sums go through the stack between blocks of the depth. On Granite Rapids, bf16
        products of 256 to 2048 rows and 1024 to 8192 terms take 0.38 to 0.96 of the time without these blocks.
        """
        if self.transposes or self.size.pixels > 1:
            return self.transposes
        known = self._rows not in self.stage.symbolic  # blocks of open rows are as short as their fewest rows ask for
        far = is_far(self._bytes(self._rows), self.target) and self.size.words == 1
        return switched(self.s.choose("blocked", SWITCH, BY_MODEL), far and known)

    def grid(self, outer_row: int | None, tile_rows: int, column_tiles: int) -> Grid:
        """The parallel grid of row blocks and column parts, by the bytes of one batch."""
        rows = self._count(self._rows, tile_rows)
        work = GridWork(
            batches=prod(self.stage.extents[k] for k in self._batches),
            rows=rows,
            columns=column_tiles,
            width=self.column_width,
            row_bytes=self._bytes(self._rows) / max(rows, 1),
            halo_rows=0,
            weight_bytes=self._bytes(self.roles.lanes),
            cycles=self.cycles,
            pads=False,
        )
        return choose_grid(work, self.threads, self.target, self.stage.open_extent(self._rows))

    def _worth_packing(self) -> bool:
        """Whether V is a plain matrix that does not stay in L2, or whose rows map to the same cache sets."""
        apart = self.roles.vector.step(self.stage.reduce[-1]) or 0
        large = self._bytes(self.roles.lanes) > L2_SHARE_UNPACKED * self.target.l2_bytes
        many = self._many_panels(self.size.lanes) and (large or share_a_set(self.word_bytes * apart, self.target))
        return self._packs(many or self.reads_far_rows)

    def blocks(self) -> Blocks:
        """Row and column parts for the threads; groups and depth blocks for the caches."""
        r, st, target = self.roles, self.stage, self.target
        rows, columns = self._count(self._rows, self.size.rows), self._count(r.lanes, self.size.lanes)
        batches = prod(st.extents[k] for k in self._batches)
        far = (self._bytes(self._rows), self._bytes(r.lanes))
        extents = st.open_extent(self._rows), st.open_extent(r.lanes)
        parts = product_parts(rows, columns, batches, self.cycles, far, self.threads, target.core, extents)
        row_part = min(self.s.choose("row_part", blocks(rows), AUTO), rows) or parts.row_block
        column_part = min(self.s.choose("column_part", blocks(columns), AUTO), columns) or parts.column_parts
        unit = r.scalar.unit
        steps = st.extents[-1] // unit
        tried, strip = [n for n in DEPTH_BLOCKS if n < steps], self.word_bytes * self.size.rows
        depth = unit * (self.s.choose("depth", (AUTO, *tried), AUTO) or depth_block(steps, strip, target))
        depth -= depth % (unit * self.size.words)  # whole products of a matrix unit
        if unit > 1 and (not depth or st.extents[-1] % depth):
            depth = st.extents[-1]  # a predicate must not split the factors of one word
        if self.transposes and depth < st.extents[-1]:
            depth = self.width * ceil(depth / self.width)  # whole squares of the transposition
        near = planned_l2_bytes(target) // (self.word_bytes * depth // unit)  # rows or columns of a block that fit L2
        group_rows, group = row_part, column_part
        wanted = self.s.choose("group", blocks(MOST_GROUP), AUTO)
        if self._copies:
            group = min(wanted, column_part) or even_split(column_part, max(1, near // self.size.lanes))
        else:
            group_rows = min(wanted, row_part) or even_split(row_part, max(1, near // self.size.rows))
        row_part, column_part = (n * ceil(part / n) for n, part in ((group_rows, row_part), (group, column_part)))
        ragged = rows % row_part or columns % column_part
        if self.epilogue and ragged:
            depth = st.extents[-1]  # an epilogue after all depth blocks needs parts of full size
        return Blocks(row_part, column_part, group_rows, group, depth)

    # --- the nest ---

    def build(self) -> sched.ScheduleOp:
        """The schedule."""
        return self._build_blocked() if self.blocked else super().build()

    def _build_blocked(self) -> sched.ScheduleOp:
        """The schedule of a product whose operands exceed L2."""
        s, st, r, size, b = self.s, self.stage, self.roles, self.size, self.blocks()
        block = s.block(st.name)
        loops = list(s.loops(block, len(st.extents)))
        s.symbolic |= {loops[k] for k in st.symbolic}
        rows, r_inner = self._split_axis(loops, r.rows, size.rows)
        columns, l_inner = self._split_axis(loops, r.lanes, size.lanes)
        row_part, rows = self._cut(rows, self._count(r.rows, size.rows), b.row_part)
        column_part, columns = self._cut(columns, self._count(r.lanes, size.lanes), b.column_part)
        row_group, rows = self._cut(rows, b.row_part, b.rows)
        group, columns = self._cut(columns, b.column_part, b.columns)
        depth, k = self._split(loops[-1], st.extents[-1], b.depth)
        parts = s.symbolic_first([*(loops[n] for n in self._batches), *present(row_part, column_part)])
        inner = present(rows, columns) if self._copies else present(columns, rows)
        k, words = self._words(k, b.depth) if r.scalar.unit > 1 else (k, [])
        tile_loops = present(r_inner, l_inner, *words)
        s.reorder(*parts, *present(row_group, group, depth), *inner, *present(k), *tile_loops)
        grid = s.grid(parts)
        top = grid[-1] if grid else None
        around = present(top, row_group, group)
        if self._copies:
            self._pack_group(block, [*around, *present(depth)][-1:])
        elif len(inner) == 2 and self.widens_panels:
            self._pack(block, inner[0], f32)
        inside = around if depth is not None else [*around, *inner]
        attach = self._attach if depth is None else self._attach_behind
        for stage in self.epilogue if inside else ():
            attach(stage, inside[-1])
        init, _ = s.decompose_reduction(block, present(depth, k, *tile_loops)[0])
        s.vectorize(*tile_loops)
        self._vectorize_init(init, inside[-1] if inside else None, len(inner) if depth is not None else 0)
        gains = gains_by_prefetch(self._bytes(self.roles.lanes), self.target)
        if len(inner) == 2 and not self._copies and gains:
            s.pragma(inner[0], "prefetch", 1)
        if grid:
            parallelize(s, grid, self.stage, self.cycles, self.target, self.threads)
        return s.finish()

    @property
    def _copies(self) -> bool:
        """Whether a blocked product packs V: it is not packed yet, or is not contiguous along the lanes."""
        return self.transposes or self._packs(self._many_panels(self.size.lanes))

    def _cut(self, loop: Handle | None, extent: int, size: int) -> tuple[Handle | None, Handle | None]:
        """Split a loop into (outer, inner); no loop gives (None, None)."""
        return (None, None) if loop is None else self._split(loop, extent, size)

    def _vectorize_init(self, init: Handle, under: Handle | None, outer: int) -> None:
        """Vectorize the initialization of a reduction; `outer` loops over tiles stand around its register tile."""
        count = outer + 2
        loops = self.s.loops(init, count, under=under) if under is not None else self.s.loops(init, count)
        self.s.vectorize(*loops[outer:])

    def _pack_group(self, block: Handle, at: list[Handle]) -> None:
        """A copy of a block of V, each column tile's part contiguous: `v[k, j] -> v'[j floordiv 32, k, j mod 32]`."""
        s, st, read, lanes = self.s, self.stage, self.roles.vector, self.size.lanes
        copy = s.cache_read(block, st.buffer_number(read.tensor))
        for loop in at:
            s.compute_at(copy, loop)
        across, along = (self._dimension(read, axis) for axis in (self.roles.lanes, st.reduce[-1]))
        rank = len(read.shape)
        loops = list(s.loops(copy, rank, under=at[0]) if at else s.loops(copy, rank))
        if self.transposes:
            outer, inner = s.split(loops[across], [None, min(lanes, self.width)])
            far, near = s.split(loops[along], [None, self.width])
            rest = [loops[n] for n in range(rank) if n not in (across, along)]
            s.reorder(*rest, outer, far, near, inner)
            s.vectorize(near, inner)
        else:
            s.vectorize(s.split(loops[across], [None, lanes])[1])
        rest = [tile(n) for n in range(rank) if n not in (across, along)]
        panel = [tile(across).floordiv(lanes)] if read.shape[across] > lanes else []
        s.transform_layout(copy, [*rest, *panel, tile(along), tile(across).mod(lanes) if panel else tile(across)])

    def _dimension(self, read: Read, axis: int) -> int:
        """The last dimension of an operand along which an axis moves."""
        return max(n for n, e in enumerate(read.exprs) if e.uses(axis))


@strategy(family="contraction", priority=50)
def matmul(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Kernels with one matrix product and pointwise stages behind it."""
    schedule = schedule_of(kernel, target, threads, MatmulSchedule, product_roles)
    return schedule.build() if schedule is not None and not schedule.pads else None
