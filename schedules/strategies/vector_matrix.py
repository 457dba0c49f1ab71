"""
A vector times a plain matrix: rows of the matrix stream past sums that stay in L1.

    parallel(other, column part) | blocks of the depth | column tiles | depth in a block | tile of lanes

Each element of the matrix is used once, so how it is read decides. A tile of columns over the whole depth reads a piece
of a cache line, on a page of its own, from each row; a block of a few rows reads each of them from end to end, as the
hardware prefetches, and its sums are loaded and stored once a block.
"""

from __future__ import annotations

from math import ceil, prod

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction import ContractionSchedule, present, schedule_of
from mlc.schedules.strategies.contraction_sizes import TileSize
from mlc.schedules.strategies.roles import Roles, roles_of
from mlc.targets.cost.caches import FLOAT_BYTES
from mlc.targets.cost.thresholds import STREAMED_DEPTHS, STREAMED_LEAST_LANES, STREAMED_VECTORS
from mlc.targets.target import Target


class VectorMatrixSchedule(ContractionSchedule):
    """Writes the schedule of a product with one row."""

    def tile(self) -> TileSize:
        """A few vectors of columns."""
        return TileSize(1, 1, min(STREAMED_VECTORS * self.width, self.stage.extents[self.roles.lanes]))

    def build(self) -> sched.ScheduleOp:
        """The schedule."""
        s, st, r = self.s, self.stage, self.roles
        steps = s.choose("depth", STREAMED_DEPTHS, STREAMED_DEPTHS[0])
        block = s.block(st.name)
        loops = list(s.loops(block, len(st.extents)))
        others = [loops[k] for k in st.spatial if k != r.lanes]
        columns, lanes = s.split(loops[r.lanes], [None, self.size.lanes])
        part, rest = self._parts([columns], self._column_parts())
        depth, k = s.split(loops[-1], [None, steps])
        s.reorder(*others, *present(part), depth, *rest, k, lanes)
        grid = s.grid([*others, *present(part)])
        for stage in self.epilogue:
            self._attach_behind(stage, grid[-1])
        init, _ = s.decompose_reduction(block, depth)
        s.vectorize(lanes)
        s.vectorize(s.loops(init, len(rest) + 1, under=grid[-1])[-1])
        parallelize(s, grid, st, self.cycles, self.target, self.threads)
        return s.finish()

    def _column_parts(self) -> int:
        """Parts of the columns: the sums of one fill half of L1 at most, and each thread has one."""
        st, lanes = self.stage, self.roles.lanes
        near = ceil(FLOAT_BYTES * st.extents[lanes] / (self.target.l1_bytes // 2))
        others = prod(st.extents[k] for k in st.spatial if k != lanes)
        return max(near, ceil(self.threads / others))


@strategy(family="contraction", priority=44)
def vector_matrix(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Products of one row with a plain matrix of long rows, and pointwise stages behind them."""
    schedule = schedule_of(kernel, target, threads, VectorMatrixSchedule, _roles)
    return schedule.build() if schedule is not None and not schedule.pads else None


def _roles(stage: Stage) -> Roles | None:
    """The roles where each element of a plain f32 matrix is used once, in rows that are long."""
    found = roles_of(stage)
    if found is None or found.dot or stage.symbolic or len(stage.reduce) > 1 or not stage.gives_f32:
        return None
    v = found.vector
    if found.rows is not None or found.columns is not None or found.across is not None or found.stride > 1:
        return None
    plain = v.unit == 1 and v.element_bytes == FLOAT_BYTES and not v.mask and all(e.is_affine for e in v.exprs)
    rows = v.step(found.lanes) == 1 and v.step(stage.reduce[0]) == stage.extents[found.lanes]
    long = stage.extents[found.lanes] >= STREAMED_LEAST_LANES and stage.depth > 2 * STREAMED_DEPTHS[0]
    last = found.lanes == stage.num_spatial - 1
    return found if plain and rows and long and last else None
