"""The strategy of lowest priority: it takes every kernel without a scan that no other strategy accepts."""

from __future__ import annotations

from math import prod

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage, followers
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.registry import strategy
from mlc.schedules.sketches.rfactor import factor_reduction, partial_counts
from mlc.schedules.sketches.tiling import TiledStage
from mlc.targets.target import Target

ON_OFF = ("off", "on")
"""The candidates of a directive that is written or not."""


@strategy(family="any", priority=1)
def sketch(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Tiles, vectors and parallel loops for each stage by general rules; None for kernels with a scan or no points."""
    if kernel.has_scans or any(e < 1 for st in kernel.stages for e in st.extents):
        return None
    s = ScheduleBuilder(kernel.name)
    done: set[str] = set()
    for st in kernel.stages:
        if st.name in done or not st.extents:
            continue
        if may_inline(kernel, st) and s.choose(f"{st.name}_inline", ON_OFF, "off") == "on":
            s.compute_inline(s.block(st.name))
            continue
        done |= {f.name for f in _schedule(s, kernel, st, target, threads)}
    return s.finish()


def _schedule(s: ScheduleBuilder, kernel: KernelInfo, st: Stage, target: Target, threads: int) -> list[Stage]:
    """The schedule of one stage; the stages behind it that are computed in its tiles."""
    counts = partial_counts(st)
    parts = s.choose(f"{st.name}_rfactor", counts, counts[0]) if len(counts) > 1 else 1
    fused = _fused(s, st, followers(kernel, st) if may_fuse(st) else [])
    caches = may_cache(st) and s.choose(f"{st.name}_cache", ON_OFF, "off") == "on"
    tiled = TiledStage(s, st, target, threads, levels=3 if has_reuse(st) else 1)
    if parts > 1:
        factor_reduction(s, st, parts)
        return []
    tiled.write(fused, caches and not fused)
    return fused


def _fused(s: ScheduleBuilder, st: Stage, behind: list[Stage]) -> list[Stage]:
    return behind if behind and s.choose(f"{st.name}_fuse", ON_OFF, "on") == "on" else []


def may_inline(kernel: KernelInfo, st: Stage) -> bool:
    """Whether a stage may be computed where it is read: pointwise, no output, read by stages without a reduction."""
    if st.is_reduction or st.has_computed_mask or any(r in kernel.outputs for r in st.results):
        return False
    read_by = kernel.consumers(st)
    pure = not any(op.name == "te.call" for op in st.op.body.block.ops)
    return pure and bool(read_by) and not any(c.is_reduction or c.has_computed_mask for c in read_by)


def may_cache(st: Stage) -> bool:
    """Whether the result may be summed up in a local copy: one result, spatial axes, constant extents."""
    return st.is_reduction and len(st.results) == 1 and st.num_spatial > 0 and not st.symbolic


def has_reuse(st: Stage) -> bool:
    """Whether a reduction reads the same elements for several points of its result."""
    long = [k for k in st.spatial if st.extents[k] > 1]
    return st.is_reduction and any(not r.uses(k) for r in st.reads for k in long)


def may_fuse(st: Stage) -> bool:
    """Whether the stages behind may be computed in the tiles of a stage: a reduction of more than one point."""
    return st.is_reduction and prod(st.extents[: st.num_spatial]) > 1
