"""Kernels over rows - softmax, layer norm, sums along the last axis: one pass over each row, rows in parallel."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.dialects.index import dim
from mlc.schedules.analysis import KernelInfo, Stage, slides
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.schedules.strategies.injective import pointwise_vectors
from mlc.targets.target import Target

MANY_REGISTERS = 32
"""Vector registers from which a pointwise stage with its constants and the sums of a reduction fit."""
F32_BYTES = 4


def common_outer(kernel: KernelInfo) -> int:
    """The number of leading axes that all stages have with equal extents: those outside of a row."""
    reducing = [st for st in kernel.stages if st.is_reduction]
    n = min(st.num_spatial for st in reducing)
    n = min(n, kernel.stages[-1].num_spatial)
    first = tuple(reducing[0].extents[:n])
    while n and any(tuple(st.extents[:n]) != first[:n] for st in kernel.stages):
        n -= 1
    return n


def _shares_rows(kernel: KernelInfo, n: int) -> bool:
    """Whether every stage reads other stages only in its own row: at the same `n` outer axes."""
    for st in kernel.stages:
        for r in st.reads:
            if r.tensor in kernel.by_result and any(
                not (r.exprs[k].terms == ((k, 1),) and r.exprs[k].const == 0)
                and not (st.extents[k] == 1 and r.exprs[k].is_const)
                for k in range(min(n, len(r.exprs)))
            ):
                return False
    return True


def _has_lanes(st: Stage, target: Target) -> bool:
    """Whether the last axis is long enough for lanes."""
    lanes = st.num_spatial - 1
    return lanes >= 0 and (st.extents[lanes] >= target.lanes("f32") // 2 or lanes in st.symbolic)


@strategy(family="reduction", priority=30)
def rows(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Stages that share their outer axes, with reductions along inner axes that are contiguous in what they read."""
    reducing = [st for st in kernel.stages if st.is_reduction]
    if not reducing or any(st.op.reducer is not None or len(st.results) > 1 for st in reducing):
        return None
    n = common_outer(kernel)
    if not _shares_rows(kernel, n) or len(kernel.outputs) != 1:
        return None
    if any(all(r.step(st.reduce[-1]) not in (0, 1) for r in st.reads) for st in reducing):
        return None
    if any((slides(st) or st.sums_gathered_rows) and _has_lanes(st, target) for st in reducing):
        return None  # its lanes are along the reduced axis: few elements of a window, or elements far from each other
    s = ScheduleBuilder(kernel.name)
    root = kernel.stages[-1]
    block = s.block(root.name)
    loops = list(s.loops(block, len(root.extents)))
    s.symbolic |= {loops[k] for k in root.symbolic}
    grid = s.grid(loops[:n])
    width = target.lanes("f32")
    _vectorize_stage(s, root, block, loops[n:], width)
    joined = joined_sums(kernel, pointwise_vectors(s) * width, target) if grid else {}
    for st in reversed(kernel.stages[:-1]):
        b = s.block(st.name)
        if grid:
            s.compute_at(b, grid[-1])
        inner = list(s.loops(b, len(st.extents), under=grid[-1] if grid else None))
        s.symbolic |= {inner[k] for k in st.symbolic}
        if any(st is one for one in joined.values()):
            continue
        parts = _vectorize_stage(s, st, b, inner[n:], width)
        if parts is not None and (following := joined.get(st.name)) is not None:
            _join(s, following, parts)
    if grid:
        if root.symbolic:
            parallelize(s, grid, root, root.points / width * len(kernel.stages), target, threads)
        elif threads > 1:
            s.parallel(*grid)
    return s.finish()


def joined_sums(kernel: KernelInfo, lanes: int, target: Target) -> dict[str, Stage]:
    """
    Pointwise stage -> the reduction of its rows that runs in the stage's loop over pieces of `lanes` elements.

    The reduction reads each piece while it is in registers; what else it reads is computed before that stage. On
    targets with few registers, this is done only for rows that L1 does not hold: shorter ones gain nothing.
    """
    found: dict[str, Stage] = {}
    for k, st in enumerate(kernel.stages):
        own = [r for r in st.reads if r.tensor in kernel.by_result]
        if not st.is_reduction or len(st.reduce) != 1 or not own:
            continue
        last = max((kernel.by_result[r.tensor] for r in own), key=kernel.stages.index)
        identity = tuple(dim(axis) for axis in range(len(st.extents)))
        whole = all(r.exprs == identity and not r.mask for r in own if r.tensor in last.results)
        same = not last.is_reduction and last.extents == st.extents and last.symbolic == st.symbolic
        long = st.extents[-1] > lanes or st.reduce[-1] in st.symbolic
        fits = target.vector_registers >= MANY_REGISTERS or st.extents[-1] * F32_BYTES > target.l1_bytes
        if whole and same and long and fits and last.name not in found and kernel.stages.index(last) < k:
            found[last.name] = st
    return found


def _join(s: ScheduleBuilder, st: Stage, parts: SSAValue) -> None:
    """Reduce each piece of a row behind the stage that computes it; the reduction is initialized before the loop."""
    block = s.block(st.name)
    s.reverse_compute_at(block, parts)
    *_, lanes = s.loops(block, len(st.extents), under=parts)
    s.decompose_reduction(block, parts)
    s.vectorize(lanes)


def _vectorize_stage(
    s: ScheduleBuilder, st: Stage, block: SSAValue, inner: list[SSAValue], width: int
) -> SSAValue | None:
    """
    Vectorize the last axis by several vectors; a reduction is initialized before its loops.

    Gives the loop over the pieces of the last axis; None where it is one piece.
    """
    if not inner:
        return None
    extent, last, pieces = st.extents[-1], inner[-1], None
    outer = inner[:-1]
    wide = pointwise_vectors(s) * width
    if extent > wide or last in s.symbolic:
        pieces, last = s.split(last, [None, wide])
        outer = [*outer, pieces]
    if st.is_reduction:
        reducing = len(st.extents) - st.num_spatial
        loops = [*outer, last]
        first = loops[len(inner) - reducing] if len(inner) >= reducing else loops[0]
        s.decompose_reduction(block, first)
    s.vectorize(last)
    return pieces
