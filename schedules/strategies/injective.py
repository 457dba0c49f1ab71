"""Kernels without reductions: elementwise chains, broadcasts, data movement."""

from __future__ import annotations

from math import ceil, prod

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.dialects.index import dim
from mlc.schedules.analysis import KernelInfo, Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.caches import FLOAT_BYTES
from mlc.targets.cost.threads import balance, worth_threads
from mlc.targets.cost.thresholds import (
    BLOCKED_SQUARES_ROWS,
    GOOD_BALANCE,
    LEAST_LANES,
    POINTWISE_VECTORS,
    SQUARES_IN_A_ROW,
)
from mlc.targets.cost.windows import BLOCKED_PIXELS, BLOCKED_RANK
from mlc.targets.target import Target

TRIED_VECTORS = (1, 2, 4, 8, 16)
"""Vectors of an iteration of a pointwise loop that tuning tries."""

UNROLLED_PIECES = 32
"""Pieces of a row whose places are computed that are unrolled, at most. Source: pictures of 128 to 1200 columns, Zen 4,
whose quotients took 5 to 40 times as long as reading and adding."""


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
    rows, extents, flat = row_axis(st) if threads > 1 else None, list(st.extents), False
    needed = any(_needs_indices(st, axis) for axis in range(1, len(loops)))
    start = min(st.symbolic, default=0)
    if is_flat(st) and len(loops) > 1 and len(st.symbolic) < 2 and prod(extents[:start]) == 1 and not needed:
        first, flat = rows or start, True
        loops, extents = [*loops[:first], s.fuse(*loops[first:])], [*extents[:first], prod(extents[first:])]
    scalar = st.gather_index_may_overrun or st.has_computed_mask
    turned = None if scalar or len(loops) < 2 else turned_axis(st, target)
    if turned is not None:
        _schedule_turned(s, st, loops, turned, target, threads)
        return
    if not scalar and interleaves(st, target):
        _schedule_interleaved(s, st, loops, target, threads)
        return
    channels = None if scalar else deinterleaved_axis(st)
    if not (scalar or st.symbolic or flat):
        _fuse_runs(s, st, loops, extents, rows or 0)
    outer, inner = (loops, None) if scalar else split_lanes(s, loops, extents, target)
    if inner is not None and channels is not None:
        each = outer.pop(channels)
        extents.pop(channels)
        s.reorder(*outer, each, inner)
        s.unroll(each)
    if len(outer) == len(st.extents) and _computes_columns(st) and extents[-1] <= UNROLLED_PIECES:
        s.unroll(outer.pop())
    chosen = {k for k in st.spatial if k not in st.symbolic and any(m.uses(k) for r in st.reads for m in r.mask)}
    if st.symbolic and chosen and threads > 1:
        # the loops that choose the part of a concatenation go inside of the parallel loop
        shared = next((k for k in range(len(outer)) if k not in chosen and extents[k] > 1), 0)
        order = sorted(range(len(outer)), key=lambda k: (k > shared, k in chosen))
        outer, extents = [outer[k] for k in order], [extents[k] for k in order]
        s.reorder(*outer)
    spread(s, outer, extents, st, target, threads, rows)
    if inner is not None:
        s.vectorize(inner)


def _computes_columns(st: Stage) -> bool:
    """
    Whether the places along the last axis are quotients, as of a picture that is resized: constants, once unrolled.

    Rows of such a picture are read one by one, so that nothing else is left to compute for a row.
    """
    last = len(st.extents) - 1
    return last not in st.symbolic and any(r.step(last) is None for r in st.reads)


def _fuse_runs(s: ScheduleBuilder, st: Stage, loops: list[SSAValue], extents: list[int], first: int) -> None:
    """Make one loop of the last axes, from `first` on, that are one in all reads, as rows and columns of a picture."""
    for axis in range(len(loops) - 1, first, -1):
        if not _is_one_run(st, axis):
            return
        loops[axis - 1 :] = [s.fuse(loops[axis - 1], loops[axis])]
        extents[axis - 1 :] = [extents[axis - 1] * extents[axis]]


def turned_axis(st: Stage, target: Target) -> int | None:
    """The axis along which all reads that the last axis strides through are contiguous; None if there is none."""
    last, width = len(st.extents) - 1, target.lanes("f32")
    if st.extents[last] < LEAST_LANES and last not in st.symbolic:
        return None
    strided = [r for r in st.reads if r.step(last) not in (0, 1)]
    for axis in range(last - 1, -1, -1):
        if strided and (st.extents[axis] >= width // 2 or axis in st.symbolic):
            masked = not target.masked_memory and any(m.uses(axis) for r in strided for m in r.mask)
            if not masked and all(r.step(axis) == 1 for r in strided) and not st.gathers_may_overrun([axis, last]):
                return axis
    return None


def _schedule_turned(
    s: ScheduleBuilder, st: Stage, loops: list[SSAValue], axis: int, target: Target, threads: int
) -> None:
    """
    Squares of vectors, which are read along `axis` and written along the last one: transposed in registers.

    Rows and columns of a picture are one axis, so that only its end is ragged. Squares that are narrower than a cache
    line come in blocks of whole lines if one of the axes is short: blocks of the longer axis are the outer loop.
    """
    width, extents = target.lanes("f32"), list(st.extents)
    inner: list[SSAValue] = []
    for k in (len(loops) - 1, axis):
        if k - 1 not in (-1, axis) and _is_one_run(st, k):
            loops[k - 1 : k + 1] = [s.fuse(loops[k - 1], loops[k])]
            extents[k - 1 : k + 1] = [extents[k - 1] * extents[k]]
            axis -= k <= axis
    turned = sorted((axis, len(loops) - 1), key=lambda k: -extents[k])
    blocks = [1, 1]
    if FLOAT_BYTES * width < LINE_BYTES and width < extents[turned[1]] <= BLOCKED_SQUARES_ROWS:
        blocks = [SQUARES_IN_A_ROW, LINE_BYTES // (FLOAT_BYTES * width)]
    within: list[SSAValue] = []
    for k, block in zip(turned, blocks, strict=True):
        if extents[k] > width or loops[k] in s.symbolic:
            loops[k], *squares, piece = s.split(loops[k], [None, *([block] if block > 1 else []), width])
            within = [*squares, *within]
            extents[k] = ceil(extents[k] / (block * width))
        else:
            piece = loops[k]
        inner.insert(0 if k == axis else len(inner), piece)
    order = [k for k in range(len(loops)) if k not in turned] + turned if within else range(len(loops))
    outer = [(loops[k], extents[k]) for k in order if loops[k] not in inner]
    s.reorder(*(loop for loop, _ in outer), *within, *inner)
    spread(s, [loop for loop, _ in outer], [extent for _, extent in outer], st, target, threads)
    s.vectorize(*inner)


def deinterleaved_axis(st: Stage) -> int | None:
    """
    An axis of a few channels that lie side by side in what is read, with pixels along the last axis; None if none is.

    All channels of a piece of pixels are written one after the other, while the lines that hold them are in L1. That
    pays if nothing else differs by channel: factors of channels stay in registers where channels are the outer loop.
    """
    last = len(st.extents) - 1
    for axis in range(last):
        channels = st.extents[axis]
        if not 1 < channels < LEAST_LANES or axis in st.symbolic:
            continue
        apart = [r for r in st.reads if r.step(axis) != 0 or any(m.uses(axis) for m in r.mask)]
        steps = {(r.step(axis), r.step(last)) for r in apart}
        if steps == {(1, channels)} and not any(r.mask for r in apart):
            return axis
    return None


def interleaves(st: Stage, target: Target) -> bool:
    """Whether the last axis is of a few channels, which are read apart: each along the axis before."""
    last = len(st.extents) - 1
    if last < 1 or not 1 < st.extents[last] < LEAST_LANES or last in st.symbolic:
        return False
    if st.extents[last - 1] < target.lanes("f32") and last - 1 not in st.symbolic:
        return False
    if any(m.uses(last) or m.uses(last - 1) for r in st.reads for m in r.mask):
        return False
    if st.gathers_may_overrun([last - 1, last]):
        return False
    apart = any(r.step(last) not in (0, 1) for r in st.reads)
    return apart and all(r.step(last - 1) in (0, 1) for r in st.reads)


def _schedule_interleaved(s: ScheduleBuilder, st: Stage, loops: list[SSAValue], target: Target, threads: int) -> None:
    """The lanes run along the axis before the channels, so that a tile has a row for each channel."""
    *loops, channels = loops
    *extents, _ = st.extents
    if len(loops) > 1 and _is_one_run(st, len(loops) - 1):
        loops[-2:] = [s.fuse(loops[-2], loops[-1])]
        extents[-2:] = [extents[-2] * extents[-1]]
    lanes = target.lanes("f32")
    if extents[-1] > lanes or loops[-1] in s.symbolic:
        loops[-1], piece = s.split(loops[-1], [None, lanes])
        extents[-1] = -(-extents[-1] // lanes)
    else:
        piece = loops.pop()
        extents.pop()
    s.reorder(*loops, channels, piece)
    spread(s, loops, extents, st, target, threads)
    s.vectorize(channels, piece)


def _is_one_run(st: Stage, axis: int) -> bool:
    """Whether an axis and the one before are one in all reads: rows and columns of a picture."""
    if {axis - 1, axis} & st.symbolic or _needs_indices(st, axis):
        return False
    for r in st.reads:
        outer, inner = r.step(axis - 1), r.step(axis)
        if outer is None or inner is None or outer != inner * st.extents[axis]:
            return False
        if any(m.uses(axis) or m.uses(axis - 1) for m in r.mask):
            return False
    return True


def _needs_indices(st: Stage, axis: int) -> bool:
    """
    Whether values are computed with the index of an axis or of the one before, and rows are long.

    In a loop that is both axes an index is a quotient or a rest, a division for each lane.
    """
    return bool({axis, axis - 1} & st.axes_in_values) and st.extents[-1] >= LEAST_LANES


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


def row_axis(st: Stage) -> int | None:
    """The axis of the rows of a picture in blocks of channels, [N, C / b, H, W, b], if threads are to take these."""
    if not st.deals_rows or st.num_spatial != BLOCKED_RANK:
        return None
    return next((axis for axis in BLOCKED_PIXELS if st.extents[axis] > 1), None)


def _rows_first(
    s: ScheduleBuilder, outer: list[SSAValue], extents: list[int], rows: int, threads: int
) -> tuple[list[SSAValue], list[int]]:
    """
    Split the loop over rows into one part for each thread, and move the loop over parts in front of the channels.

    Convolutions deal out rows, too, so that a thread reads what it has written. Returns the loops and their extents.
    """
    if not 1 < rows < len(outer) or extents[0] >= threads or extents[rows] < threads:
        return outer, extents
    each = ceil(extents[rows] / threads)
    part, rest = s.split(outer[rows], [None, each])
    outer = [outer[0], part, *outer[1:rows], rest, *outer[rows + 1 :]]
    s.reorder(*outer)
    return outer, [extents[0], ceil(extents[rows] / each), *extents[1:rows], each, *extents[rows + 1 :]]


def spread(
    s: ScheduleBuilder,
    outer: list[SSAValue],
    extents: list[int],
    stage: Stage,
    target: Target,
    threads: int,
    rows: int | None = None,
) -> None:
    """Fuse leading loops until every thread has an even share, and run them in parallel; loop `rows` goes first."""
    cycles = target.core.pointwise_cycles_per_element * stage.points
    if not outer or not (stage.symbolic or worth_threads(cycles, threads, target)):
        return
    if rows is not None:
        outer, extents = _rows_first(s, outer, extents, rows, threads)
    take, tasks = 0, 1
    while take < len(outer) and (balance(tasks, threads) < GOOD_BALANCE or tasks < threads):
        tasks *= extents[take]
        take += 1
    if tasks < 2:
        return
    # loops of symbolic stages are not fused: the index of one chooses the part of a concatenation
    grid = outer[:take] if stage.symbolic else s.grid(outer[:take])
    parallelize(s, grid, stage, cycles, target, threads)
