"""Loops that threads share: decided where a schedule is written, or at run time where extents are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.index import IndexMapAttr
from mlc.schedules.analysis import Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.targets.cost.threads import least_work, worth_threads
from mlc.targets.target import Target


def deal(
    s: ScheduleBuilder, grid: Sequence[SSAValue], stage: Stage, cycles: float, target: Target, threads: int
) -> None:
    """
    Run a nest of loops on threads where `cycles`, the time of the stage with most of the kernel's work, is worth it.

    Where its extents are symbolic that is asked at run time: are there enough points in it?
    """
    if not stage.symbolic:
        if worth_threads(cycles, threads, target):
            s.parallel(*grid)
    elif threads > 1:
        s.parallel(*grid)
        typical = prod(stage.extents[k] for k in stage.symbolic)
        s.pragma(grid[-1], "work", IndexMapAttr.get(stage.work))
        s.pragma(grid[-1], "least", least_work(cycles, typical, threads, target))
