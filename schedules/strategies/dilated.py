"""
Convolutions of strong dilation: the taps that fall into the padding are left out, and nothing is padded.

Where most taps of a window lie outside of the picture, a padded copy would be several times as large as the picture,
and most products would multiply by zero. Here each tap is a product of its own, over the pixels for which it lies in
the picture:

    parallel(other, row block, column part) | columns, rows of the block | kh, kw | row tiles | channels | tile

kh runs over the taps inside of the picture, and the row tiles of each kw begin and end where that tap does
(passes/loop/partitioning/clip.py). The sums stay in memory between taps. If the weights of all taps exceed L2, the
loop over rows goes inside of the taps, so that the weights of one tap stay in L2 for all rows:

    parallel(other, column part) | columns | channel blocks | kh, kw | rows | row tiles | channels | tile
"""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from mlc.dialects import sched
from mlc.dialects.index import Index
from mlc.schedules.analysis import KernelInfo, Read, Stage
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction import ContractionSchedule, Handle, present, schedule_of
from mlc.schedules.strategies.contraction_sizes import TileSize
from mlc.schedules.strategies.roles import roles_of
from mlc.targets.cost.caches import FLOAT_BYTES, is_far
from mlc.targets.cost.thresholds import (
    CLIPPED_DEPTH,
    CLIPPED_FEW_ROWS,
    CLIPPED_FREE_BITS,
    CLIPPED_SHARE,
    CLIPPED_SUM_CYCLES,
    CLIPPED_TAPS,
    KEPT_TAPS,
    NARROW_VECTORS,
)
from mlc.targets.cost.tiles import even_split, most_rows, pieces, step_cycles
from mlc.targets.target import Target


class Taps(NamedTuple):
    """The reduction axes of a window's rows and columns."""

    rows: int
    columns: int


class DilatedSchedule(ContractionSchedule):
    """Writes the schedule of a convolution over a padded picture in which each tap is a product of its own."""

    def tile(self) -> TileSize:
        """The register tile of a contraction; it is narrow and tall, so that more rows use each vector of weights."""
        size, e, r = super().tile(), self.stage.extents, self.roles
        per_lane = ceil(size.lanes / self.width)
        if r.rows is None or r.columns is None or r.column_blocks or size.columns * per_lane <= NARROW_VECTORS:
            return size
        columns = max(1, NARROW_VECTORS // per_lane)
        return TileSize(most_rows(e[r.rows], columns * per_lane, self.target), columns, size.lanes)

    @property
    def inlines_pads(self) -> bool:
        """Masks replace the padded copy: they become the bounds of loops."""
        return True

    def taps(self) -> Taps | None:
        """The axes of the window; None if the stage is not a convolution that this strategy can schedule."""
        st, r, outer = self.stage, self.roles, self._outer_row()
        plain = not (r.dot or st.symbolic or r.across is not None or r.scalar.unit > 1 or r.vector.unit > 1)
        plain = plain and all(str(read.element) == "f32" for read in (r.scalar, r.vector))
        if not plain or r.rows is None or outer is None or r.stride > 1 or self.size.pixels > 1:
            return None
        found = [self._tap(r.scalar, outer), self._tap(r.scalar, r.rows)]
        if None in found or len(self.pads) != 1 or not _only_pads(self.pads[0]):
            return None
        rows, columns = (k for k in found if k is not None)
        return Taps(rows, columns) if rows != columns else None

    def _tap(self, read: Read, axis: int) -> int | None:
        """The window's axis for a spatial axis: the reduction axis in the same dimension of the picture, or None."""
        along = [e for e in read.exprs if e.uses(axis)]
        taps = [k for k in self.stage.reduce if len(along) == 1 and along[0].is_affine and along[0].uses(k)]
        return taps[0] if len(taps) == 1 and self.stage.extents[taps[0]] <= CLIPPED_TAPS else None

    def inside(self, axis: int, tap: int) -> list[int]:
        """For each tap along a spatial axis, the number of output points for which it reads inside of the picture."""
        (pad,) = self.pads
        position = next(n for n, e in enumerate(self.roles.scalar.exprs) if e.uses(axis))
        at = self.roles.scalar.exprs[position]
        step, dilation = at.coefficient(axis), at.coefficient(tap)
        shift, size = at.const + pad.reads[0].exprs[position].const, pad.reads[0].shape[position]
        return [
            sum(0 <= o * step + k * dilation + shift < size for o in range(self.stage.extents[axis]))
            for k in range(self.stage.extents[tap])
        ]

    def is_dilated(self, taps: Taps) -> bool:
        """Whether the taps are dilated: neighbouring taps read elements that are not neighbours."""
        return any(abs(e.coefficient(tap)) > 1 for e in self.roles.scalar.exprs for tap in taps)

    def share_of_rows(self, taps: Taps) -> float:
        """Of all pairs of an output row and a row of taps, the part in which the taps read a row of the picture."""
        outer = self._outer_row()
        assert outer is not None
        inside = self.inside(outer, taps.rows)
        return sum(inside) / (self.stage.extents[outer] * len(inside))

    def share(self, taps: Taps) -> float:
        """The part of the products whose factor lies in the picture, and not in the padding."""
        rows = self.roles.rows
        assert rows is not None
        inside = self.inside(rows, taps.columns)
        return self.share_of_rows(taps) * sum(inside) / (self.stage.extents[rows] * len(inside))

    def pays(self, taps: Taps) -> bool:
        """Whether leaving out the padding saves more than storing and loading the sums at each tap costs."""
        depth = prod(self.stage.extents[k] for k in self.stage.reduce if k not in taps)
        if depth < CLIPPED_DEPTH or self.share(taps) > CLIPPED_SHARE:
            return False
        rows = self.roles.rows
        assert rows is not None
        counts = self.target.vector_bits < CLIPPED_FREE_BITS and not self.is_dilated(taps)
        through_memory = CLIPPED_SUM_CYCLES if counts else 0.0
        inside = self.inside(rows, taps.columns)
        clipped = sum(self._row_cycles(count, depth, through_memory) for count in inside) * self.share_of_rows(taps)
        return clipped <= len(inside) * self._row_cycles(self.stage.extents[rows], depth, 0.0)

    def _row_cycles(self, count: int, depth: int, through_memory: float) -> float:
        """Cycles of one tap for a row of `count` points; to store and load a vector of sums takes `through_memory`."""
        vectors = max(1, self.size.columns * self.size.lanes // self.width)
        return sum(
            tiles * (depth * step_cycles(rows, vectors, self.target.core) + through_memory * rows * vectors)
            for rows, tiles in pieces(count, self.size.rows)
        )

    def keeps_weights(self, taps: Taps) -> bool:
        """
        Whether the loop over rows runs inside of the loops over taps.

        It does if the weights of all taps for a column of tiles exceed L2, or if there are few rows: each row would
        prefetch its part of the next column's weights, but only at the taps that lie in the picture for it.
        """
        outer = self._outer_row()
        if prod(self.stage.extents[k] for k in taps) > KEPT_TAPS or self._column_tiles() < self.threads:
            return False
        width = self.size.columns * self.size.lanes
        depth = self.stage.depth
        few = outer is not None and self.stage.extents[outer] <= CLIPPED_FEW_ROWS
        return few or is_far(FLOAT_BYTES * width * depth, self.target)

    def _column_tiles(self) -> int:
        r, size = self.roles, self.size
        return self._count(r.columns, size.columns) * self._count(r.lanes, size.lanes)

    def build_taps(self, taps: Taps) -> sched.ScheduleOp:
        """The schedule."""
        s, st, r, size = self.s, self.stage, self.roles, self.size
        outer_row = self._outer_row()
        assert outer_row is not None
        s.compute_inline(s.block(self.pads[0].name))
        block = s.block(st.name)
        loops = list(s.loops(block, len(st.extents)))
        l_outer, l_inner = self._split(loops[r.lanes], st.extents[r.lanes], size.lanes)
        c_outer, c_inner = self._split_axis(loops, r.columns, size.columns)
        r_outer, r_inner = self._split_axis(loops, r.rows, size.rows)
        keeps, chunk = self.keeps_weights(taps), list[Handle]()
        others = [k for k in st.spatial if k not in (r.rows, r.columns, r.lanes, outer_row)]
        groups = self.groups_of(others)
        before, after = [loops[k] for k in others if k not in groups], [loops[k] for k in groups]
        if keeps:
            part, columns = self._parts(present(c_outer, l_outer), self.threads)
            grid, row_in = [*before, *after, *present(part)], loops[outer_row]
        else:
            dealt = self._tuned_grid(self.grid(outer_row, size.rows, self._column_tiles()), outer_row)
            row_out, row_in = s.split(loops[outer_row], [None, dealt.row_block])
            part, columns = self._parts(present(c_outer, l_outer), dealt.column_parts)
            rows_first = present(*before, row_out, *after)
            grid = present(part, *rows_first) if dealt.columns_first else present(*rows_first, part)
        window, depth = [loops[k] for k in taps], [loops[k] for k in st.reduce if k not in taps]
        tile = present(r_inner, c_inner, l_inner)
        if keeps:
            chunk, depth = self._depth_chunk(depth, taps)
        order = [*chunk, *window, row_in] if keeps else [row_in, *window]
        s.reorder(*grid, *columns, *order, *present(r_outer), *depth, *tile)
        fused = s.grid(grid)
        at = [*fused, *columns][-1] if keeps else row_in
        for stage in self.epilogue:
            self._attach_row(stage, at)
        init, _ = s.decompose_reduction(block, [*chunk, *window][0])
        s.vectorize(*tile)
        around = len(present(r_outer)) + (1 if keeps else 0)
        s.vectorize(*s.loops(init, around + len(tile), under=at)[around:])
        self._mark(window, [*columns[-1:], *chunk])
        parallelize(s, fused, st, self.cycles * self.share(taps), self.target, self.threads)
        return s.finish()

    def _mark(self, window: list[Handle], panels: list[Handle]) -> None:
        """Mark the loops over taps to leave out padding, and the loops over panels to prefetch the next weights."""
        for loop in window:
            self.s.pragma(loop, "clip", 1)
        for loop in panels if self._prefetches_panels() else ():
            self.s.pragma(loop, "prefetch", 1)

    def _depth_chunk(self, depth: list[Handle], taps: Taps) -> tuple[list[Handle], list[Handle]]:
        """The channels in chunks whose weights for a tile stay in L1: (loops over chunks, loops inside of one)."""
        first, *rest = [k for k in self.stage.reduce if k not in taps]
        step = FLOAT_BYTES * self.size.columns * self.size.lanes * prod(self.stage.extents[k] for k in rest)
        most = max(1, self.target.l1_bytes // (2 * step))
        outer, inner = self._split(depth[0], self.stage.extents[first], even_split(self.stage.extents[first], most))
        return present(outer), [inner, *depth[1:]]

    def _attach_row(self, stage: Stage, at: Handle) -> None:
        """Compute an epilogue on a row of tiles."""
        s, r = self.s, self.roles
        block = s.block(stage.name)
        s.reverse_compute_at(block, at)
        loops = list(s.loops(block, stage.num_spatial, under=at))
        assert r.rows is not None
        r_outer, r_inner = self._split(loops[r.rows], stage.extents[r.rows], self.size.rows)
        tile = [r_inner, *(loops[k] for k in (r.columns, r.lanes) if k is not None)]
        taken = (r.rows, r.columns, r.lanes)
        s.reorder(*[loops[k] for k in stage.spatial if k not in taken], *present(r_outer), *tile)
        s.vectorize(*tile)


def _only_pads(pad: Stage) -> bool:
    """Whether a stage copies a picture and surrounds it with zeros, and does nothing else."""
    if len(pad.reads) != 1 or len(list(pad.op.body.block.ops)) > 3 or not pad.reads[0].mask:
        return False
    return all(_is_shifted(e, k) for k, e in enumerate(pad.reads[0].exprs))


def _is_shifted(e: Index, axis: int) -> bool:
    """Whether an expression is an axis plus a constant."""
    rest = e - e.const
    return rest.coefficient(axis) == 1 and len(rest.terms) == 1


@strategy(family="contraction", priority=45)
def dilated(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Convolutions of windows that have many of their taps in the padding."""
    schedule = schedule_of(kernel, target, threads, DilatedSchedule, roles_of)
    taps = schedule.taps() if schedule is not None else None
    return schedule.build_taps(taps) if schedule is not None and taps is not None and schedule.pays(taps) else None
