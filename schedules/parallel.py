"""Parallel loops: whether threads pay is decided by the schedule, or at run time where extents are symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.index import IndexMapAttr
from mlc.schedules.analysis import Read, Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.targets.cost.threads import least_work, worth_threads
from mlc.targets.target import Target


def parallelize(
    s: ScheduleBuilder, grid: Sequence[SSAValue], stage: Stage, cycles: float, target: Target, threads: int
) -> None:
    """
    Mark a nest of loops as parallel where `cycles`, the time of the kernel's largest stage, outweighs the dispatch.

    A sum takes no less than a pointwise kernel of the elements that it reads from each tensor: what several threads
    have written, all of them read, too, since lines that another CPU has read take long to write again.
    Where extents are symbolic, the kernel decides at run time: it compares the number of points (`work`) with `least`.
    """
    elements = min((_elements(stage, read) for read in stage.reads), default=0)
    cycles = max(cycles, target.core.pointwise_cycles_per_element * elements)
    if not stage.symbolic:
        if worth_threads(cycles, threads, target):
            s.parallel(*grid)
    elif threads > 1:
        s.parallel(*grid)
        typical = prod(stage.extents[k] for k in stage.symbolic)
        s.pragma(grid[-1], "work", IndexMapAttr.get(stage.work))
        s.pragma(grid[-1], "least", least_work(cycles, typical, threads, target))


def _elements(stage: Stage, read: Read) -> int:
    """The elements of a tensor that a stage reads, at most."""
    along = prod(extent for axis, extent in enumerate(stage.extents) if read.uses(axis))
    return min(along, prod(read.shape))
