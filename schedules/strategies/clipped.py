"""
Depthwise convolutions whose windows are about as large as the picture: rows of the window in the padding are left out.

The columns of the picture are padded by a copy; the rows are not: the loop over the rows of the window has bounds that
depend on the row of the result (passes/loop/partitioning/clip.py), and its sums stay in registers.

    parallel(other, row block) | padded columns | rows of the block, row tiles | kh within the picture, kw | tile
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.contraction import ContractionSchedule, Nest, schedule_of
from mlc.schedules.strategies.roles import roles_of
from mlc.targets.cost.grids import Grid
from mlc.targets.cost.thresholds import CLIPPED_TASKS
from mlc.targets.cost.tiles import divisors
from mlc.targets.target import Target


class ClippedSchedule(ContractionSchedule):
    """Writes the schedule of a convolution over rows whose padding is a mask, and columns that are padded by a copy."""

    @property
    def inlines_pads(self) -> bool:
        """The padding of rows is a mask, which becomes the bounds of a loop."""
        return True

    def groups_of(self, others: Sequence[int]) -> list[int]:
        """No axes: a thread copies all rows of a group."""
        return []

    def grid(self, outer_row: int | None, tile_rows: int, column_tiles: int) -> Grid:
        """A grid of column parts and few blocks of rows, since each block copies all rows of the picture."""
        grid = super().grid(outer_row, tile_rows, column_tiles)
        if outer_row is None:
            return grid
        extents, taken = self.stage.extents, (self.roles.rows, self.roles.columns, self.roles.lanes, outer_row)
        others = prod(extents[k] for k in self.stage.spatial if k not in taken)
        wanted = 1 if self.threads == 1 else ceil(CLIPPED_TASKS * self.threads / others)
        each = max((n for n in divisors(column_tiles) if column_tiles >= n * wanted), default=1)
        parts = column_tiles // each
        return replace(grid, row_block=ceil(extents[outer_row] / ceil(wanted / parts)), column_parts=parts)

    def columns_copy(self) -> Stage | None:
        """The stage that pads the columns, if rows are padded apart by the stage that the sum reads; else None."""
        if len(self.pads) != 1:
            return None
        found = [p for p in self.kernel.producers(self.pads[0]) if not p.is_reduction]
        return found[0] if len(found) == 1 and self.kernel.consumers(found[0]) == self.pads else None

    def copied_pads(self) -> list[Stage]:
        """The copy that pads the columns."""
        copy = self.columns_copy()
        return [] if copy is None else [copy]

    def clip(self, nest: Nest) -> None:
        """The loop over the rows of the window leaves out padding."""
        self.s.pragma(nest.reduce[0], "clip", 1)


@strategy(family="contraction", priority=46)
def clipped(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Convolutions whose rows and columns are padded apart."""
    schedule = schedule_of(kernel, target, threads, ClippedSchedule, roles_of)
    return schedule.build() if schedule is not None and schedule.columns_copy() is not None else None
