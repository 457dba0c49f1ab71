"""Kernels with a scan: the steps run one after another, the stages of a step in vectors."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects import sched, te
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.injective import schedule_pointwise, split_lanes, spread
from mlc.targets.cost.threads import worth_threads
from mlc.targets.target import Target


@strategy(family="scan", priority=50)
def recurrence(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Each stage in its own nest, in a scan below the loop over the steps; plain where points of a step depend."""
    s = ScheduleBuilder(kernel.name)
    for st in kernel.stages:
        scan = st.op.parent_op()
        if isinstance(scan, te.ScanOp) and scan.reads_itself(st.op):
            continue
        if st.is_reduction:
            _schedule_reduction(s, st, target, threads)
        elif st.in_scan:
            _schedule_pointwise_step(s, st, target, threads)
        else:
            schedule_pointwise(s, st, target, threads)
    return s.finish()


def _schedule_pointwise_step(s: ScheduleBuilder, st: Stage, target: Target, threads: int) -> None:
    """Lanes along the last axis behind the step."""
    if len(st.extents) < 2 or st.gather_index_may_overrun or st.has_computed_mask:
        return
    loops = list(s.loops(s.block(st.name), len(st.extents)))
    s.symbolic |= {loops[k] for k in st.symbolic}
    extents = list(st.extents[1:])
    outer, inner = split_lanes(s, loops[1:], extents, target)
    _spread(s, outer, extents, st, target, threads)
    s.vectorize(inner)


def _spread(
    s: ScheduleBuilder, outer: list[SSAValue], extents: list[int], st: Stage, target: Target, threads: int
) -> None:
    """Parallel loops outside of a scan, and in one where a single step is worth waking the threads for."""
    cycles = target.core.pointwise_cycles_per_element * st.points / max(st.extents[0] if st.extents else 1, 1)
    if not st.in_scan or (not st.symbolic and worth_threads(cycles, threads, target)):
        spread(s, outer, extents, st, target, threads)


def _schedule_reduction(s: ScheduleBuilder, st: Stage, target: Target, threads: int) -> None:
    """Lanes along a reduction that is contiguous in what it reads, else along the last spatial axis."""
    first = 1 if st.in_scan else 0
    if st.gather_index_may_overrun or st.has_computed_mask or not st.points:
        return
    along_reduction = st.op.reducer is None and len(st.results) == 1 and _is_contiguous(st)
    if not along_reduction and st.num_spatial <= first:
        return
    block = s.block(st.name)
    loops = list(s.loops(block, len(st.extents)))
    s.symbolic |= {loops[k] for k in st.symbolic}
    spatial, reducing = loops[first : st.num_spatial], loops[st.num_spatial :]
    if along_reduction:
        extents = [st.extents[-1]]
        outer, lanes = split_lanes(s, reducing[-1:], extents, target)
        start = (reducing[:-1] + outer + [lanes])[0]
        s.decompose_reduction(block, start)
        s.vectorize(lanes)
        _spread(s, spatial, list(st.extents[first : st.num_spatial]), st, target, threads)
        return
    extents = list(st.extents[first : st.num_spatial])
    outer, lanes = split_lanes(s, spatial, extents, target)
    s.reorder(*outer, *reducing, lanes)
    init, _ = s.decompose_reduction(block, reducing[0])
    s.vectorize(lanes)
    above = outer[-1] if outer else loops[0] if first else None
    (init_lanes,) = s.loops(init, 1, under=above) if above is not None else s.loops(init, 1)
    s.vectorize(init_lanes)
    _spread(s, outer, extents, st, target, threads)


def _is_contiguous(st: Stage) -> bool:
    """Whether neighbours along the last reduction axis are neighbours in memory, or the same element, in each read."""
    steps = [r.step(st.reduce[-1]) for r in st.reads]
    return bool(steps) and all(step in (0, 1) for step in steps) and 1 in steps
