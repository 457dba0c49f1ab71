"""
What parallel branches cost apart and as one, in cycles of one core: the tiles that their schedules choose, what they
read from beyond L2, kernels started, parts copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mlc.targets.cost.caches import FLOAT_BYTES, far_bytes_per_cycle, is_far
from mlc.targets.cost.threads import worth_threads
from mlc.targets.cost.tiles import pieces, register_tile, step_cycles
from mlc.targets.target import Target


@dataclass(frozen=True)
class Contraction:
    """A contraction: `count` times `rows` x `outputs` sums of `depth` terms; elements of data and of weights."""

    count: int
    rows: int
    outputs: int
    depth: int
    data: int
    weights: int
    block: int = 0
    """Outputs that lie in one vector; 0 for all that fit."""
    padded: bool = False
    """Whether the data is copied with its padding first."""


@dataclass(frozen=True)
class BranchCosts:
    """What the cost condition knows of the target."""

    target: Target
    threads: int

    @staticmethod
    def of(target: str, threads: int) -> BranchCosts:
        """The machine of a target's name."""
        return BranchCosts(Target.parse(target), max(1, threads))

    @property
    def lanes(self) -> int:
        """Elements of f32 in a native vector."""
        return self.target.lanes("f32")

    def contraction(self, work: Contraction) -> float:
        """Cycles of a contraction in a kernel of its own. If one row fills half of a vector, two rows share it."""
        block = work.block or self.lanes
        rows, vectors = work.rows, ceil(work.outputs / block)
        if 2 * block == self.lanes:
            rows = ceil(rows / 2)
        tile, core = register_tile(rows, vectors, self.target), self.target.core
        cut = [(r, v, n * m) for r, n in pieces(rows, tile.rows) for v, m in pieces(vectors, tile.vectors)]
        steps = sum(count * step_cycles(r, v, core) for r, v, count in cut)
        tiles = sum(count for _, _, count in cut)
        arithmetic = work.count * (work.depth * steps + core.tile_cycles * tiles)
        cycles = max(arithmetic / self.share(arithmetic), self.stream(work.data) + self.stream(work.weights))
        return cycles + self.start(arithmetic) + (self.copy(work.data) if work.padded else 0.0)

    def copy(self, elements: int, whole: bool = True) -> float:
        """Cycles to copy this many elements; `whole` unless the copy cuts up blocks of channels."""
        core = self.target.core
        cycles = 2 * FLOAT_BYTES * elements / (core.copy_bytes_per_cycle if whole else core.reorder_bytes_per_cycle)
        return cycles / self.share(cycles) + self.start(cycles)

    def stream(self, elements: int) -> float:
        """Cycles to read elements from L3 or memory; 0 if they stay in L2, where reads hide behind the arithmetic."""
        size = FLOAT_BYTES * elements
        return size / far_bytes_per_cycle(size, self.target) if is_far(size, self.target) else 0.0

    def share(self, cycles: float) -> int:
        """The threads that a kernel is dealt out to."""
        return self.threads if worth_threads(cycles, self.threads, self.target) else 1

    def start(self, cycles: float) -> float:
        """Cycles to start a kernel."""
        core = self.target.core
        return core.dispatch_cycles if worth_threads(cycles, self.threads, self.target) else core.call_cycles
