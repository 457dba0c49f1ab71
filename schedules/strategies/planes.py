"""
Depthwise windows over planes of pixels: pixels are the lanes, and rows of the result share the rows that they read.

All taps of the window are unrolled, so that a row which several rows of a tile read is loaded, and for a strided window
permuted, once. The padding is a mask: no row is copied.

    parallel(other, row block) | row tiles, lane tiles | taps, unrolled | tile of rows and lanes
"""

from __future__ import annotations

from math import ceil, prod

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction import ContractionSchedule, Handle, Nest, schedule_of
from mlc.schedules.strategies.contraction_sizes import TileSize
from mlc.schedules.strategies.roles import Roles, roles_of
from mlc.targets.cost.caches import FLOAT_BYTES
from mlc.targets.cost.grids import Grid
from mlc.targets.cost.thresholds import PLANAR_TASKS, SLIDING_UNROLLED
from mlc.targets.cost.windows import planar_tile
from mlc.targets.target import Target


class PlanarSchedule(ContractionSchedule):
    """Writes the schedule of a depthwise window whose columns of pixels are the lanes and whose rows are tiled."""

    @property
    def inlines_pads(self) -> bool:
        """The padding is a mask."""
        return True

    def tile(self) -> TileSize:
        """A few rows of a few vectors of pixels."""
        r, extents = self.roles, self.stage.extents
        assert r.columns is not None
        tile = planar_tile(extents[r.columns], ceil(extents[r.lanes] / self.width), self.target)
        return TileSize(1, tile.rows, min(extents[r.lanes], tile.vectors * self.width))

    def grid(self, outer_row: int | None, tile_rows: int, column_tiles: int) -> Grid:
        """Planes are dealt out; parts of a plane only where there are few planes for the threads."""
        plane = (self.roles.columns, self.roles.lanes)
        planes = prod(self.stage.extents[k] for k in self.stage.spatial if k not in plane)
        wanted = 1 if self.threads == 1 else ceil(PLANAR_TASKS * self.threads / planes)
        return Grid(1, min(wanted, column_tiles))

    def unrolled(self, nest: Nest) -> list[Handle]:
        """All taps."""
        return nest.reduce


def is_planar_window(stage: Stage, roles: Roles) -> bool:
    """Whether all terms of a sum are taps of one small window that moves along the lanes and the rows of a plane."""
    read, rows = roles.vector, roles.columns
    if rows is None or roles.column_blocks is not None or roles.rows is not None or roles.dot or roles.across:
        return False
    if {roles.lanes, rows} & stage.symbolic or read.element_bytes != FLOAT_BYTES:
        return False
    along = [e for e in read.exprs if e.uses(roles.lanes) or e.uses(rows)]
    taps = [k for k in stage.reduce if stage.extents[k] > 1]
    few = 1 < prod(stage.extents[k] for k in taps) <= SLIDING_UNROLLED
    return few and all(any(e.uses(k) for e in along) for k in taps)


def is_plain_copy(pad: Stage) -> bool:
    """Whether a stage copies elements without arithmetic, so that it can be inlined into each tap at no cost."""
    return len(pad.reads) == 1 and pad.op.yield_op.values[0] is pad.reads[0].op.result


@strategy(family="contraction", priority=43)
def planes(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Depthwise windows of few taps over planes; contiguous ones only where loads have masks."""
    schedule = schedule_of(kernel, target, threads, PlanarSchedule, _planar_roles)
    if schedule is None or not all(map(is_plain_copy, schedule.pads)):
        return None
    return schedule.build() if target.masked_memory or schedule.roles.stride > 1 else None


def _planar_roles(stage: Stage) -> Roles | None:
    roles = roles_of(stage)
    return roles if roles is not None and is_planar_window(stage, roles) else None
