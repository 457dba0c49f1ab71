"""Multi-level tiling of one stage: the loops S S R S R S, or one level of tiles where nothing is used again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.schedules.analysis import Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.knobs import AUTO
from mlc.schedules.parallel import parallelize
from mlc.schedules.sketches.candidates import Factors, factor_lists
from mlc.schedules.strategies.injective import spread
from mlc.targets.cost.thresholds import POINTWISE_VECTORS
from mlc.targets.target import Target

MOST_TILE_VECTORS = 32
"""Vectors of a register tile, at most; the outer loops of a larger tile stay loops."""
UNROLLED = (0, 16, 64)
"""Candidates for the iterations of reduction loops that are repeated in place (Ansor: auto_unroll_max_step)."""


class TiledStage:
    """
    The tiles of a stage: what its knobs say, and the directives for it.

    With 3 inner levels the loops are S0 S1 R0 S2 R1 S3; with one they are S0 R0 S3.
    """

    def __init__(self, s: ScheduleBuilder, st: Stage, target: Target, threads: int, levels: int) -> None:
        self.s, self.st, self.target, self.threads = s, st, target, threads
        self.width = target.lanes("f32")
        self.scalar = st.has_computed_mask or st.gather_index_may_overrun
        self.levels = levels
        self.spatial = [self._factors(k, levels) for k in st.spatial]
        self.reduce = [self._factors(k, 1) for k in st.reduce]
        outer = len(st.spatial)
        counts = (AUTO, *range(1, outer + 1)) if threads > 1 and outer else (AUTO,)
        self.parallel = s.choose(f"{st.name}_parallel", counts, AUTO)
        self.unrolled = s.choose(f"{st.name}_unroll", UNROLLED, 0) if st.is_reduction else 0

    def _factors(self, k: int, levels: int) -> Factors:
        """The extents of the inner levels of an axis; by default the last spatial one is split into vectors."""
        extent, is_last = self.st.extents[k], k == self.st.num_spatial - 1
        ones = (1,) * levels
        if extent == 1:
            return ones
        default = ones
        if is_last and not self.scalar:
            default = (*ones[1:], min(extent, POINTWISE_VECTORS * self.width))
        lists = factor_lists(extent, levels, default, self.width if is_last else 1)
        return self.s.choose(f"{self.st.name}_tile_{k}", lists, default)

    def write(self, fused: Sequence[Stage], caches: bool) -> None:
        """The directives, with the stages that are computed in the tiles, and perhaps a local copy of the result."""
        s, st = self.s, self.st
        block = s.block(st.name)
        copy = s.cache_write(block) if caches else None
        loops = list(s.loops(block, len(st.extents)))
        s.symbolic |= {loops[k] for k in st.symbolic}
        levels = self._split(loops, st.spatial, self.spatial)
        sums = self._split(loops, st.reduce, self.reduce)
        outer, extents = self._outer(levels)
        middle, inner = (levels[2] if self.levels > 1 else []), levels[-1]
        s.reorder(*outer, *sums[0], *middle, *sums[-1], *inner)
        at = outer[-1] if outer else None
        self._lanes(block, sums[0], middle, inner, at)
        for one in reversed(sums[-1] if self._unrolls() else []):
            s.unroll(one)
        if at is not None:
            for behind in [*([copy] if copy is not None else []), *(s.block(f.name) for f in fused)]:
                self._attach(behind, at)
        self._spread(outer, extents)

    def _split(self, loops: list[SSAValue], axes: range, factors: list[Factors]) -> list[list[SSAValue]]:
        """The loops of each level, outer to inner; a level whose extent is 1 has no loop."""
        count = len(factors[0]) if factors else 1
        levels: list[list[SSAValue]] = [[] for _ in range(count + 1)]
        for k, own in zip(axes, factors, strict=True):
            present = [n for n, f in enumerate(own) if f > 1]
            parts = self.s.split(loops[k], [None, *(own[n] for n in present)]) if present else [loops[k]]
            for level, loop in zip([0, *(n + 1 for n in present)], parts, strict=True):
                levels[level].append(loop)
        return levels

    def _outer(self, levels: list[list[SSAValue]]) -> tuple[list[SSAValue], list[int]]:
        """The loops outside of the reduction, S0 and S1, and their extents."""
        own = [-(-self.st.extents[k] // prod(f)) for k, f in zip(self.st.spatial, self.spatial, strict=True)]
        if self.levels == 1:
            return levels[0], own
        return [*levels[0], *levels[1]], [*own, *(f[0] for f in self.spatial if f[0] > 1)]

    def _unrolls(self) -> bool:
        return 1 < prod(f[-1] for f in self.reduce) <= self.unrolled

    def _lanes(
        self, block: SSAValue, sums: list[SSAValue], middle: list[SSAValue], inner: list[SSAValue], at: SSAValue | None
    ) -> None:
        """Vectors along the innermost loops, and the same for the initialization of a reduction."""
        if self.scalar or not inner or self.spatial[-1][-1] == 1:
            return
        sizes = [f[-1] for f in self.spatial if f[-1] > 1]
        tile = 1
        while tile < len(sizes) and self._vectors(sizes[-tile - 1 :]) <= MOST_TILE_VECTORS:
            tile += 1
        if sums:
            init, _ = self.s.decompose_reduction(block, sums[0])
            self.s.vectorize(*inner[-tile:])
            inner = list(self.s.loops(init, len(middle) + len(inner), under=at))
        self.s.vectorize(*inner[-tile:])

    def _vectors(self, sizes: list[int]) -> int:
        return prod(sizes[:-1]) * -(-sizes[-1] // self.width)

    def _attach(self, block: SSAValue, at: SSAValue) -> None:
        """Compute a block that reads the result on the tile, with vectors along its last axis."""
        s = self.s
        s.reverse_compute_at(block, at)
        if self.scalar:
            return
        last = list(s.loops(block, self.st.num_spatial, under=at))[-1]
        if prod(self.spatial[-1]) > POINTWISE_VECTORS * self.width:
            _, last = s.split(last, [None, POINTWISE_VECTORS * self.width])
        if self.spatial[-1][-1] > 1:
            s.vectorize(last)

    def _spread(self, outer: list[SSAValue], extents: list[int]) -> None:
        """Parallel loops: as many of the outermost as the knob says, by default as the cost model says."""
        st = self.st
        if not self.parallel:
            spread(self.s, outer, extents, st, self.target, self.threads)
            return
        taken = outer[: self.parallel]
        grid = taken if st.symbolic else self.s.grid(taken)
        cycles = self.target.core.pointwise_cycles_per_element * st.points
        parallelize(self.s, grid, st, cycles, self.target, self.threads)
