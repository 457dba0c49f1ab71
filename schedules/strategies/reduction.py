"""Reductions whose lanes are spatial: pooling in blocked layouts, sums over leading axes."""

from __future__ import annotations

from math import ceil

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage, followers, slides
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.injective import (
    TRIED_VECTORS,
    pointwise_vectors,
    row_axis,
    schedule_pointwise,
    spread,
)
from mlc.targets.cost.threads import worth_threads
from mlc.targets.cost.thresholds import REDUCTION_ROWS, SLIDING_UNROLLED, WINDOW_ROWS, WINDOW_TAPS, WINDOW_VECTORS
from mlc.targets.cost.tiles import even_split
from mlc.targets.cost.windows import BLOCKED_PIXELS, BLOCKED_RANK
from mlc.targets.target import Target

TRIED_ROWS = (1, 2, 4, 8, 16)
"""Rows of a register tile, at most, that tuning tries."""


@strategy(family="reduction", priority=20)
def reduction(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """One reduction per pass over memory: lanes along the last spatial axis, a few rows in registers."""
    if not any(st.is_reduction for st in kernel.stages):
        return None
    s = ScheduleBuilder(kernel.name)
    done: set[str] = set()
    for st in kernel.stages:
        if st.name in done:
            continue
        if not st.is_reduction:
            schedule_pointwise(s, st, target, threads)
        elif st.num_spatial and st.points:
            behind = followers(kernel, st)
            _schedule_reduction(s, st, behind, target, threads)
            done |= {f.name for f in behind}
    return s.finish()


def _schedule_reduction(s: ScheduleBuilder, st: Stage, behind: list[Stage], target: Target, threads: int) -> None:
    block = s.block(st.name)
    loops = list(s.loops(block, len(st.extents)))
    s.symbolic |= {loops[k] for k in st.symbolic}
    by_rows = summed_rows(st, target, threads)
    if by_rows is not None:
        _sum_parts_of_rows(s, st, loops[by_rows], by_rows, target, threads)
        loops, threads = list(s.loops(block, st.num_spatial + 1)), 1
    spatial, reduce = loops[: st.num_spatial], loops[st.num_spatial :]
    extents = [st.extents[k] for k in st.spatial]
    # the last axis longer than one gives the lanes, the one before it the rows of a register tile: a mean may keep axes
    order = sorted(range(len(spatial)), key=lambda k: extents[k] > 1 or spatial[k] in s.symbolic)
    spatial, extents = [spatial[k] for k in order], [extents[k] for k in order]
    overlapping = order[-2:] == sorted(order)[-2:] and _windows_overlap(st)
    short = spatial and spatial[-1] in s.symbolic and slides(st)  # rows may be shorter than several vectors
    inner = _tile(s, spatial, extents, target.lanes("f32"), overlapping, 1 if short else None)
    s.reorder(*spatial, *reduce, *inner)
    init, _ = s.decompose_reduction(block, reduce[0])
    under = spatial[-1] if spatial else None
    if overlapping:
        s.unroll(reduce[-2])
    if slides(st) and st.extents[-1] <= WINDOW_TAPS:
        s.unroll(reduce[-1])  # then it is known at compile time which lanes of each tap lie in the padding
    s.vectorize(*inner)
    s.vectorize(*(s.loops(init, len(inner), under=under) if under is not None else s.loops(init, len(inner))))
    for f in behind:
        _attach(s, f, under, len(inner))
    rows = row_axis(st) if threads > 1 else None
    spread(s, spatial, extents, st, target, threads, None if rows is None else order.index(rows))


def summed_rows(st: Stage, target: Target, threads: int) -> int | None:
    """
    The axis of a sum over all rows of pictures in blocks of channels, if each thread is to sum up a part of the rows.

    Convolutions deal out rows, too: a thread reads what it has written.
    """
    plain = st.deals_rows and not (st.has_computed_mask or st.gather_index_may_overrun or len(st.results) > 1)
    cycles = target.core.pointwise_cycles_per_element * st.points
    if not plain or not worth_threads(cycles, threads, target) or st.extents[0] >= threads:
        return None
    for read in (r for r in st.reads if len(r.shape) == BLOCKED_RANK):
        for axis in BLOCKED_PIXELS:
            along = [k for k in st.reduce if read.exprs[axis].uses(k) and st.extents[k] > 1]
            if any(read.exprs[axis].uses(k) for k in st.spatial):
                return None  # a window, as of a pool
            if along:
                return along[0] if len(along) == 1 and st.extents[along[0]] >= threads else None
    return None


def _sum_parts_of_rows(s: ScheduleBuilder, st: Stage, rows: SSAValue, axis: int, target: Target, threads: int) -> None:
    """The sums of a part of the rows for each thread; what sums up the parts is left to do."""
    each = ceil(st.extents[axis] / threads)
    part, _ = s.split(rows, [None, each])
    first = s.rfactor(part, 1)
    loops = list(s.loops(first, len(st.extents) + 1))
    part = loops.pop(axis)
    order = sorted(st.spatial, key=lambda k: st.extents[k] > 1)
    spatial, extents = (
        [part, *(loops[k] for k in order)],
        [ceil(st.extents[axis] / each), *(st.extents[k] for k in order)],
    )
    reduce = loops[st.num_spatial :]
    inner = _tile(s, spatial, extents, target.lanes("f32"), overlapping=False)
    s.reorder(*spatial, *reduce, *inner)
    init, _ = s.decompose_reduction(first, reduce[0])
    s.vectorize(*inner)
    s.vectorize(*s.loops(init, len(inner), under=spatial[-1]))
    s.parallel(part)


def _windows_overlap(st: Stage) -> bool:
    """Whether a window slides along the last two axes step by step, and is small enough to unroll."""
    if st.num_spatial < 2 or len(st.reduce) != 2 or not (slides(st) and slides(st, 2)):
        return False
    rows = st.num_spatial - 2
    steps = {e.coefficient(rows) for r in st.reads for e in r.exprs if e.uses(rows)}
    return steps == {1} and st.depth <= SLIDING_UNROLLED


def _tile(
    s: ScheduleBuilder,
    spatial: list[SSAValue],
    extents: list[int],
    width: int,
    overlapping: bool,
    vectors: int | None = None,
) -> list[SSAValue]:
    """
    The loops of a register tile, cut off the last of `spatial`, whose extents are kept: rows, if any, and lanes.

    `vectors` are those of lanes, where it is not left to choose. Overlapping windows of a few rows read the rows that
    they share once.
    """
    lanes, last = extents.pop(), spatial.pop()
    many = lanes > width or last in s.symbolic
    inner: list[SSAValue] = []
    if many and overlapping:
        wide = width * s.choose("window_vectors", TRIED_VECTORS, WINDOW_VECTORS)
        inner.append(_cut(s, spatial, extents, s.choose("window_rows", TRIED_ROWS, WINDOW_ROWS)))
    else:
        wide = width * (vectors or pointwise_vectors(s))
        if not many and spatial and extents[-1] > 1:
            inner.append(_cut(s, spatial, extents, s.choose("rows", TRIED_ROWS, REDUCTION_ROWS)))
    if lanes > wide or last in s.symbolic:
        outer, last = s.split(last, [None, wide])
        spatial.append(outer)
        extents.append(-(-lanes // wide))
    return [*inner, last]


def _cut(s: ScheduleBuilder, loops: list[SSAValue], extents: list[int], most: int) -> SSAValue:
    """The inner of the two loops that the last one is split into, as evenly as it can be; a short one as it is."""
    size = even_split(extents[-1], most)
    if size == extents[-1] and loops[-1] not in s.symbolic:
        extents.pop()
        return loops.pop()
    outer, inner = s.split(loops.pop(), [None, size])
    loops.append(outer)
    extents[-1] = -(-extents[-1] // size)
    return inner


def _attach(s: ScheduleBuilder, f: Stage, at: SSAValue | None, count: int) -> None:
    block = s.block(f.name)
    if at is None:
        s.vectorize(*list(s.loops(block, f.num_spatial))[-1:])
        return
    s.reverse_compute_at(block, at)
    loops = list(s.loops(block, f.num_spatial, under=at))
    s.vectorize(*loops[-count:])
