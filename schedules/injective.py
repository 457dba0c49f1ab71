"""Kernels without reductions: elementwise chains, broadcasts, data movement."""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.dialects.index import dim
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.targets.cost.threads import balance, worth_threads
from mlc.targets.cost.thresholds import GOOD_BALANCE, POINTWISE_VECTORS
from mlc.targets.target import Target

TRIED_VECTORS = (1, 2, 4, 8, 16)
"""Vectors of an iteration of a pointwise loop that tuning tries."""


@strategy(family="injective", priority=10)
def injective(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Each stage in its own nest: one fused loop if all accesses are contiguous, else vectors along the last axis."""
    if any(st.is_reduction for st in kernel.stages):
        return None
    s = ScheduleBuilder(kernel.name)
    for st in kernel.stages:
        schedule_pointwise(s, st, target, threads)
    return s.finish()


def schedule_pointwise(s: ScheduleBuilder, st: Stage, target: Target, threads: int) -> None:
    """The schedule of one pointwise stage."""
    if not st.extents:
        return
    block = s.block(st.name)
    loops = list(s.loops(block, len(st.extents)))
    s.symbolic |= {loops[k] for k in st.symbolic}
    if is_flat(st) and len(loops) > 1 and st.symbolic <= {0}:
        loops, extents = [s.fuse(*loops)], [prod(st.extents)]
    else:
        extents = list(st.extents)
    scalar = st.gather_index_may_overrun or st.has_computed_mask
    outer, inner = (loops, None) if scalar else split_lanes(s, loops, extents, target)
    chosen = {k for k in st.spatial if k not in st.symbolic and any(m.uses(k) for r in st.reads for m in r.mask)}
    if st.symbolic and chosen and threads > 1:
        # the loops that choose the part of a concatenation go inside of the parallel loop
        shared = next((k for k in range(len(outer)) if k not in chosen and extents[k] > 1), 0)
        order = sorted(range(len(outer)), key=lambda k: (k > shared, k in chosen))
        outer, extents = [outer[k] for k in order], [extents[k] for k in order]
        s.reorder(*outer)
    spread(s, outer, extents, st, target, threads)
    if inner is not None:
        s.vectorize(inner)


def is_flat(st: Stage) -> bool:
    """Whether every read is an identity access to a tensor of the stage's shape."""
    identity = tuple(dim(k) for k in st.spatial)
    return all(r.exprs == identity and r.shape == tuple(st.extents) and not r.mask for r in st.reads)


def pointwise_vectors(s: ScheduleBuilder) -> int:
    """The vectors of an iteration of pointwise loops, the same for all of a kernel's."""
    return s.choose("vectors", TRIED_VECTORS, POINTWISE_VECTORS)


def split_lanes(
    s: ScheduleBuilder, loops: list[SSAValue], extents: list[int], target: Target
) -> tuple[list[SSAValue], SSAValue]:
    """Split the last axis into pieces of `POINTWISE_VECTORS` vectors: the outer loops, and the loop to vectorize."""
    lanes = pointwise_vectors(s) * target.lanes("f32")
    if extents[-1] > lanes or loops[-1] in s.symbolic:
        outer, inner = s.split(loops[-1], [None, lanes])
        extents[-1] = -(-extents[-1] // lanes)
        return [*loops[:-1], outer], inner
    extents.pop()
    return loops[:-1], loops[-1]


def spread(
    s: ScheduleBuilder, outer: list[SSAValue], extents: list[int], stage: Stage, target: Target, threads: int
) -> None:
    """Fuse leading loops until every thread has an even share, and run them in parallel."""
    cycles = target.core.pointwise_cycles_per_element * stage.points
    if not outer or not (stage.symbolic or worth_threads(cycles, threads, target)):
        return
    take, tasks = 0, 1
    while take < len(outer) and (balance(tasks, threads) < GOOD_BALANCE or tasks < threads):
        tasks *= extents[take]
        take += 1
    if tasks < 2:
        return
    # loops of symbolic stages are not fused: the index of one chooses the part of a concatenation
    grid = outer[:take] if stage.symbolic else s.grid(outer[:take])
    parallelize(s, grid, stage, cycles, target, threads)
