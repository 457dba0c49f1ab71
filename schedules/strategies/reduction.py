"""Reductions whose lanes are spatial: pooling in blocked layouts, sums over leading axes."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage, reads_pointwise, slides
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.injective import pointwise_vectors, schedule_pointwise, spread
from mlc.targets.cost.thresholds import REDUCTION_ROWS, WINDOW_TAPS
from mlc.targets.cost.tiles import even_split
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
            followers = _followers(kernel, st)
            _schedule_reduction(s, st, followers, target, threads)
            done |= {f.name for f in followers}
    return s.finish()


def _followers(kernel: KernelInfo, st: Stage) -> list[Stage]:
    """The pointwise stages directly after a reduction whose other operands are computed before it."""
    found: list[Stage] = []
    known = {*kernel.before(st), st}
    for c in kernel.after(st):
        if not reads_pointwise(c, st) or not set(kernel.producers(c)) <= known:
            break
        found.append(c)
        known.add(c)
    return found


def _schedule_reduction(s: ScheduleBuilder, st: Stage, followers: list[Stage], target: Target, threads: int) -> None:
    width = target.lanes("f32")
    block = s.block(st.name)
    loops = list(s.loops(block, len(st.extents)))
    s.symbolic |= {loops[k] for k in st.symbolic}
    spatial, reduce = [loops[k] for k in st.spatial], [loops[k] for k in st.reduce]
    extents = [st.extents[k] for k in st.spatial]
    # the last axis longer than one gives the lanes, the one before it the rows of a register tile: a mean may keep axes
    order = sorted(range(len(spatial)), key=lambda k: extents[k] > 1 or spatial[k] in s.symbolic)
    spatial, extents = [spatial[k] for k in order], [extents[k] for k in order]
    inner, lanes = [spatial.pop()], extents.pop()
    wide = pointwise_vectors(s) * width
    if lanes > wide or inner[0] in s.symbolic:
        outer, inner[0] = s.split(inner[0], [None, wide])
        spatial.append(outer)
        extents.append(-(-lanes // wide))
    elif spatial and extents[-1] > 1 and lanes <= width:
        rows = even_split(extents[-1], s.choose("rows", TRIED_ROWS, REDUCTION_ROWS))
        if rows < extents[-1] or spatial[-1] in s.symbolic:
            outer, row = s.split(spatial.pop(), [None, rows])
            spatial.append(outer)
            extents[-1] = -(-extents[-1] // rows)
        else:
            row = spatial.pop()
            extents.pop()
        inner.insert(0, row)
    s.reorder(*spatial, *reduce, *inner)
    init, _ = s.decompose_reduction(block, reduce[0])
    under = spatial[-1] if spatial else None
    if slides(st) and st.extents[-1] <= WINDOW_TAPS:
        s.unroll(reduce[-1])  # which taps of which lanes lie in the padding is known when compiling
    s.vectorize(*inner)
    s.vectorize(*(s.loops(init, len(inner), under=under) if under is not None else s.loops(init, len(inner))))
    for f in followers:
        _attach(s, f, under, len(inner))
    spread(s, spatial, extents, st, target, threads)


def _attach(s: ScheduleBuilder, f: Stage, at: SSAValue | None, count: int) -> None:
    block = s.block(f.name)
    if at is None:
        s.vectorize(*list(s.loops(block, f.num_spatial))[-1:])
        return
    s.reverse_compute_at(block, at)
    loops = list(s.loops(block, f.num_spatial, under=at))
    s.vectorize(*loops[-count:])
