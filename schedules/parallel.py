"""Parallel loops: whether threads pay is decided by the schedule, or at run time where extents are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.index import IndexMapAttr
from mlc.schedules.analysis import Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.targets.cost.threads import least_work, worth_threads
from mlc.targets.target import Target


def parallelize(
    s: ScheduleBuilder, grid: Sequence[SSAValue], stage: Stage, cycles: float, target: Target, threads: int
) -> None:
    """
    Mark a nest of loops as parallel where `cycles`, the time of the kernel's largest stage, outweighs the dispatch.

    Where extents are symbolic, the kernel decides at run time: it compares the number of points (`work`) with `least`.
    """
    if not stage.symbolic:
        if worth_threads(cycles, threads, target):
            s.parallel(*grid)
    elif threads > 1:
        s.parallel(*grid)
        typical = prod(stage.extents[k] for k in stage.symbolic)
        s.pragma(grid[-1], "work", IndexMapAttr.get(stage.work))
        s.pragma(grid[-1], "least", least_work(cycles, typical, threads, target))
