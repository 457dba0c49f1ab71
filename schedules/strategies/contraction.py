"""
Contractions - dense, batch matmul, convolutions of every kind - as one register-tiled, blocked, parallel nest.

A stage `out[spatial] = sum(reduce) S[...] * V[...]` has lanes (its last axis, contiguous in V), rows (an axis that
only S has: each step broadcasts one scalar a row) and columns (an axis that only V has, further vectors). The nest is

    parallel(other, row block, group, column part) | pad | columns, rows of the block, row tiles | reduction | tile
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import TypeVar

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import sched
from mlc.dialects.index import tile
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.knobs import BY_MODEL, SWITCH, switched
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction_grid import ContractionGrid
from mlc.schedules.strategies.injective import schedule_pointwise
from mlc.schedules.strategies.roles import Roles, roles_of
from mlc.targets.cost.caches import is_far, leave_l2
from mlc.targets.cost.thresholds import (
    LEAST_LANES,
    PACKED_LONG_BITS,
    PACKED_LONG_ROW_TILES,
    PACKED_ROW_TILES,
    PAD_ROWS,
    PAD_VECTORS,
    POINTWISE_VECTORS,
    SKIPPED_DILATION,
    WALK_DEPTH,
)
from mlc.targets.target import Target

Handle = SSAValue
S = TypeVar("S", bound="ContractionSchedule")


@dataclass
class Nest:
    """The loops of a contraction, outer to inner, after splitting."""

    block: Handle
    grid: list[Handle]
    columns: list[Handle]
    rows: list[Handle]
    run: list[Handle]  # column tiles that a tile of rows computes one after another
    reduce: list[Handle]
    tile: list[Handle]
    spatial_tile: int  # how many loops of the tile are spatial; one more may reduce


def present(*handles: Handle | None) -> list[Handle]:
    """The handles that are not None."""
    return [h for h in handles if h is not None]


class ContractionSchedule(ContractionGrid):
    """Writes the schedule of a kernel that has one contraction."""

    def build(self) -> sched.ScheduleOp:
        """The schedule."""
        s, st, r = self.s, self.stage, self.roles
        size = self.size
        if self.inlines_pads:
            for pad in self.pads:
                s.compute_inline(s.block(pad.name))
        block = s.block(st.name)
        loops = list(s.loops(block, len(st.extents)))
        s.symbolic |= {loops[k] for k in st.symbolic}
        for k in self.skipped_taps:
            s.pragma(loops[k], "skip", 1)
        reduce, k_inner = self._reduction([loops[k] for k in st.reduce])  # k_inner: loops of the register tile
        outer_row = self._outer_row()
        l_outer, l_inner = self._split(loops[r.lanes], st.extents[r.lanes], size.lanes)
        c_outer, c_inner = self._split_axis(loops, r.columns, size.columns)
        r_outer, r_inner = self._split_axis(loops, r.rows, size.rows)
        column_tiles = self._count(r.columns, size.columns) * self._count(r.lanes, size.lanes)
        grid = self._tuned_grid(self.grid(outer_row, size.rows, column_tiles), outer_row)
        row_out, row_in = None, None
        if outer_row is not None:
            row_out, row_in = s.split(loops[outer_row], [None, grid.row_block])
        elif r_outer is not None:
            row_out, r_outer = s.split(r_outer, [None, grid.row_block])
        others = [k for k in st.spatial if k not in (r.rows, r.columns, r.lanes, outer_row)]
        groups = self.groups_of(others) if outer_row is not None else []
        before, after = [loops[k] for k in others if k not in groups], [loops[k] for k in groups]
        columns, run = present(c_outer, l_outer), list[Handle]()
        if (length := self.run_length(grid)) > 1 and l_outer is not None:
            outer, inner = s.split(l_outer, [None, length])
            columns, run = [outer], [inner]
        part, columns = self._parts(columns, grid.column_parts, length)
        nest = Nest(
            block=block,
            grid=present(part, *before, row_out, *after)
            if grid.columns_first
            else s.symbolic_first(present(*before, row_out, *after, part)),
            columns=columns,
            rows=present(row_in, r_outer),
            run=run,
            reduce=reduce,
            tile=present(r_inner, c_inner, l_inner, *k_inner),
            spatial_tile=len(present(r_inner, c_inner, l_inner)),
        )
        s.reorder(*nest.grid, *nest.columns, *nest.rows, *nest.run, *nest.reduce, *nest.tile)
        return self._finish(nest, packs=outer_row is None and (bool(run) or grid.row_block >= self._packed_row_tiles))

    def _reduction(self, reduce: list[Handle]) -> tuple[list[Handle], list[Handle]]:
        """The reduction loops in order, and those that are part of the register tile, if any."""
        r, st, size, k_inner = self.roles, self.stage, self.size, list[Handle]()
        if self.reads_planes:  # channel by channel: those of one pixel lie far apart
            order = sorted(range(len(reduce)), key=lambda n: -(r.vector.step(st.reduce[n]) or 0))
            reduce = [reduce[n] for n in order]
        elif self.reads_one_channel and self.windows_overlap:  # channels last: no taps are kept for the next step
            reduce = [*reduce[1:], reduce[0]]
        if r.dot:
            k_outer, k = self._split(reduce[-1], st.extents[-1], size.depth * self.width)
            reduce, k_inner = [*reduce[:-1], *present(k_outer)], [k]
        elif r.vector.unit > 1:  # a word's factors are summed inside of the tile
            k_outer, k_inner = self._words(reduce[-1], st.extents[-1])
            reduce = [*reduce[:-1], *present(k_outer)]
        if self.slides and (window := self._window()) is not None:
            at = window - st.num_spatial
            reduce = [*reduce[:at], *reduce[at + 1 :], reduce[at]]
        return reduce, k_inner

    def _words(self, k: Handle, extent: int) -> tuple[Handle | None, list[Handle]]:
        """(outer, inner) loops of a reduction; inner are the words that a matrix unit sums, and their factors."""
        unit = max(self.roles.vector.unit, self.roles.scalar.unit)
        outer, inner = self._split(k, extent, self.size.words * unit)
        return outer, [inner] if self.size.words == 1 else list(self.s.split(inner, [None, unit]))

    def _finish(self, nest: Nest, packs: bool) -> sched.ScheduleOp:
        """Attach the epilogue, the initialization, packing and padding to the nest; vectorize and parallelize it."""
        s, n = self.s, nest.spatial_tile
        grid = s.grid(nest.grid)
        top = grid[-1] if grid else None
        attach = [*present(top), *nest.columns, *nest.rows, *nest.run][-1:]
        for stage in self.epilogue if attach else ():
            self._attach(stage, attach[0])
        panels = [*present(top), *nest.columns][-1:]
        if panels and packs and self.widens_panels:
            self._pack(nest.block, panels[0], f32)
        elif panels and self._worth_packing() and packs:
            self._pack(nest.block, panels[0])
        if self.roles.across is not None:
            self._transpose(nest.block, self.roles.across)
        init, _ = s.decompose_reduction(nest.block, (nest.reduce or nest.tile)[0])
        s.vectorize(*self._shared(nest.tile[:n]), *nest.tile[n:])
        for handle in self.unrolled(nest):
            s.unroll(handle)
        s.vectorize(*self._shared(s.loops(init, n, under=attach[0]) if attach else s.loops(init, n)))
        for pad in self.pads if self.skipped_taps else ():
            schedule_pointwise(s, pad, self.target, self.threads)
        for pad in reversed(self.copied_pads()) if attach else ():
            self._pad(pad, top if top is not None else attach[0])
        self.clip(nest)
        if nest.columns and nest.rows and self._prefetches_panels():
            s.pragma(nest.columns[-1], "prefetch", 1)
        if nest.rows and not nest.columns and len(nest.reduce) > 1 and self._prefetches_planes():
            s.pragma(nest.rows[-1], "stream", 1)
        if grid:
            parallelize(s, grid, self.stage, self.cycles, self.target, self.threads)
        return s.finish()

    def unrolled(self, nest: Nest) -> list[Handle]:
        """The reduction loops that are unrolled: the taps along a row of a sliding window, so that rows share loads."""
        return nest.reduce[-len(self._unrolled()) :] if self.slides and len(nest.reduce) > 1 else []

    def copied_pads(self) -> list[Stage]:
        """The padded copies of a block of rows."""
        if self.inlines_pads or self.skipped_taps:
            return []
        return [p for p in self.pads if self.kernel.consumers(p) == [self.stage]]

    @cached_property
    def skipped_taps(self) -> list[int]:
        """The reduction axes of a window whose taps are so far apart that many may lie in the padding of open sizes."""
        st, r = self.stage, self.roles
        if self.inlines_pads or not st.symbolic or len(self.pads) != 1 or r.dot or r.scalar.unit > 1 or r.rows is None:
            return []
        along = [e for e in r.scalar.exprs if any(e.uses(k) and k in st.symbolic for k in st.spatial)]
        return [k for k in st.reduce if any(abs(e.coefficient(k)) >= SKIPPED_DILATION for e in along)]

    def clip(self, nest: Nest) -> None:
        """Mark the reduction loops that leave out padding: none here."""

    def _prefetches_planes(self) -> bool:
        """Whether S exceeds L2, and each tile reads many planes of it: 1x1 windows of stride 1, blocked channels."""
        r, st = self.roles, self.stage
        if r.rows is None or self.pads or self._window() is not None or st.extents[st.reduce[0]] < WALK_DEPTH:
            return False
        step = next(e.coefficient(r.rows) for e in r.scalar.exprs if e.uses(r.rows))
        channels = r.scalar.exprs[-1].uses(len(st.extents) - 1) and st.extents[-1] >= LEAST_LANES
        return step == 1 and channels and is_far(self.word_bytes * prod(r.scalar.shape), self.target)

    @property
    def _packed_row_tiles(self) -> int:
        """The row tiles that share a copied panel of V, at least."""
        st, read = self.stage, self.roles.vector
        apart = self.word_bytes * (read.step(st.reduce[-1]) or 0)
        if self.target.vector_bits < PACKED_LONG_BITS or leave_l2(st.depth, apart, self.target):
            return PACKED_ROW_TILES
        return PACKED_LONG_ROW_TILES

    def _worth_packing(self) -> bool:
        """Whether V is a plain matrix whose rows are far apart: a panel of it is copied for all rows of a block."""
        return self._packs(self.reads_far_rows or self._many_panels(self.size.lanes))

    def _packs(self, by_model: bool) -> bool:
        """Whether panels of V are copied: where that is possible, as the knob says."""
        r = self.roles
        plain = all(e.is_affine for e in r.vector.exprs) and r.vector.tensor not in self.kernel.by_result
        if not plain or r.across is not None or r.dot or r.columns is not None:
            return False
        return switched(self.s.choose("pack", SWITCH, BY_MODEL), by_model)

    def _transpose(self, block: Handle, across: int) -> None:
        """A copy of the whole of V, made once: the dimension of the lanes becomes the last one."""
        s, read = self.s, self.roles.vector
        copy = s.cache_read(block, self.stage.buffer_number(read.tensor), "global")
        loops = list(s.loops(copy, len(read.shape)))
        others = [n for n in range(len(read.shape)) if n != across]
        outer, inner = self._split(loops[across], read.shape[across], self.width)
        s.reorder(*present(outer), *(loops[n] for n in others), inner)
        s.vectorize(inner)
        s.transform_layout(copy, [*(tile(n) for n in others), tile(across)])

    def _pack(self, block: Handle, at: Handle, element: Attribute | None = None) -> None:
        """A contiguous copy of the panel of V that a column of tiles reads, perhaps of wider elements."""
        s = self.s
        copy = s.cache_read(block, self.stage.buffer_number(self.roles.vector.tensor), element=element)
        s.compute_at(copy, at)
        s.vectorize(s.loops(copy, len(self.roles.vector.shape), under=at)[-1])

    def _split_axis(self, loops: list[Handle], axis: int | None, size: int) -> tuple[Handle | None, Handle | None]:
        """An axis' loop in (outer, inner), or nothing where no axis has the role."""
        return self._split(loops[axis], self.stage.extents[axis], size) if axis is not None else (None, None)

    def _split(self, loop: Handle, extent: int, size: int) -> tuple[Handle | None, Handle]:
        """(outer, inner); no outer loop where the tile covers the axis."""
        if size >= extent and loop not in self.s.symbolic:
            return None, loop
        outer, inner = self.s.split(loop, [None, size])
        return outer, inner

    def _parts(self, column_loops: list[Handle], parts: int, run: int = 1) -> tuple[Handle | None, list[Handle]]:
        """Split the outermost loop over (runs of) columns into parts, one a task: (loop over parts, loops in one)."""
        if not column_loops or parts == 1:
            return None, column_loops
        first, extent = column_loops[0], ceil(self._outer_columns() / run)
        if parts >= extent:
            return first, column_loops[1:]
        factors = [None, ceil(extent / parts)] if first in self.s.symbolic else [parts, None]
        part, rest = self.s.split(first, factors)
        return part, [rest, *column_loops[1:]]

    # --- parts of the nest ---

    def _shared(self, tile: list[Handle]) -> list[Handle]:
        """Neighbouring rows in one axis with the lanes: `rows, columns, lanes -> rows / 2, columns, 2 * lanes`."""
        if self.size.pixels == 1:
            return tile
        s, (rows, *columns, lanes), outer = self.s, tile, []
        if self.size.rows > self.size.pixels:
            split, rows = s.split(rows, [None, self.size.pixels])
            outer = [split]
        s.reorder(*outer, *columns, rows, lanes)
        return [*outer, *columns, s.fuse(rows, lanes)]

    def _attach(self, stage: Stage, at: Handle) -> None:
        """Compute an epilogue on the tile while it is in registers."""
        s = self.s
        block = s.block(stage.name)
        s.reverse_compute_at(block, at)
        loops = list(s.loops(block, stage.num_spatial, under=at))
        order = [k for k in (self.roles.rows, self.roles.columns, self.roles.lanes) if k is not None]
        tile = [loops[k] for k in order]
        s.reorder(*[loops[k] for k in stage.spatial if k not in order], *tile)
        s.vectorize(*self._shared(tile))

    def _attach_behind(self, stage: Stage, at: Handle) -> None:
        """Compute an epilogue on the finished sums of a part, one register tile after another."""
        s, r = self.s, self.roles
        block = s.block(stage.name)
        s.reverse_compute_at(block, at)
        loops = list(s.loops(block, stage.num_spatial, under=at))
        axes = [(k, size) for k, size in ((r.rows, self.size.rows), (r.lanes, self.size.lanes)) if k is not None]
        tiles = [s.split(loops[k], [None, size]) for k, size in axes]
        others = [loops[k] for k in stage.spatial if k not in (r.rows, r.lanes)]
        inner = [one for _, one in tiles]
        s.reorder(*others, *(outer for outer, _ in tiles), *inner)
        s.vectorize(*inner)

    def _pad(self, pad: Stage, at: Handle) -> None:
        """The padded rows of a block, in the thread's scratch."""
        s = self.s
        block = s.block(pad.name)
        s.compute_at(block, at)
        s.set_scope(block, "local")
        loops = list(s.loops(block, pad.num_spatial, under=at))
        s.symbolic |= {loops[k] for k in pad.symbolic}
        axis, pixels = pad.num_spatial - 1, self.reads_one_channel
        if pixels:  # they lie side by side
            axis -= 1
            s.reorder(loops[-1], loops[axis])
        last, tile = loops[axis], []
        if pad.extents[axis] > PAD_VECTORS * self.width or axis in pad.symbolic:
            _, last = s.split(last, [None, POINTWISE_VECTORS * self.width])
        elif self.target.masked_memory and axis and not pixels and (size := min(pad.extents[-2], PAD_ROWS)) > 1:
            tile = [self._split(loops[-2], pad.extents[-2], size)[1]]
        s.vectorize(*tile, last)


def schedule_of(
    kernel: KernelInfo, target: Target, threads: int, kind: type[S], roles: Callable[[Stage], Roles | None]
) -> S | None:
    """The schedule writer for a kernel of one contraction, optional pads and pointwise stages; None for others."""
    anchors = [st for st in kernel.stages if st.factors is not None]
    if len(anchors) != 1 or any(st.is_reduction and st is not anchors[0] for st in kernel.stages):
        return None
    stage = anchors[0]
    if any(e < 1 for e in stage.extents):
        return None
    found = roles(stage)
    if found is None:
        return None
    schedule = kind(kernel, stage, found, target, threads)
    return schedule if len(schedule.epilogue) == len(kernel.after(stage)) else None


@strategy(family="contraction", priority=40)
def contraction(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Kernels with one contraction, perhaps a pad before it, and pointwise stages behind it."""
    schedule = schedule_of(kernel, target, threads, ContractionSchedule, roles_of)
    return schedule.build() if schedule is not None else None
