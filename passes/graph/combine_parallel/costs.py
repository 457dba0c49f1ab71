"""
What parallel branches cost apart and as one, in cycles of one core: the tiles that their schedules choose, what they
read from beyond L2, kernels started, parts copied. The rates were measured on Zen 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from mlc.schedules.tiling import DISPATCH_CYCLES, register_tile, worth_threads
from mlc.schedules.winograd_cost import L3_RATE, MEMORY_RATE, TILE_CYCLES
from mlc.targets.target import Target

CALL_CYCLES = 100.0
"""Of a kernel besides its work, on the thread that calls it."""
COPY_RATE, REORDER_RATE = 20.0, 4.0
"""Bytes a cycle, read and written, of a copy that keeps the order of elements, and of one that cuts up blocks."""
MARGIN = 0.98
"""The branches must take less than this part of their time."""


@dataclass(frozen=True)
class Work:
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
class Machine:
    """What the cost condition knows of the target."""

    target: Target
    threads: int

    @staticmethod
    def of(target: str, threads: int) -> Machine:
        """The machine of a target's name."""
        return Machine(Target.parse(target), max(1, threads))

    @property
    def lanes(self) -> int:
        """Elements of f32 in a native vector."""
        return self.target.lanes("f32")

    def contraction(self, work: Work) -> float:
        """Cycles of one, started alone; two rows share a vector of which one would fill half."""
        block = work.block or self.lanes
        rows, vectors = work.rows, ceil(work.outputs / block)
        if 2 * block == self.lanes:
            rows = ceil(rows / 2)
        tile = register_tile(rows, vectors, self.target.vector_registers)
        pieces = [(r, v) for r in parts(rows, tile.rows) for v in parts(vectors, tile.vectors)]
        # two multiply-adds a cycle, two loads a cycle, and four cycles until a sum can go on
        steps = sum(max(r * v / 2, (r + v) / 2, 4.0) for r, v in pieces)
        arithmetic = work.count * (work.depth * steps + TILE_CYCLES * len(pieces))
        cycles = max(arithmetic / self.share(arithmetic), self.stream(work.data) + self.stream(work.weights))
        return cycles + self.start(arithmetic) + (self.copy(work.data) if work.padded else 0.0)

    def copy(self, elements: int, whole: bool = True) -> float:
        """Cycles of a movement of this many elements; not `whole` where it cuts up blocks of channels."""
        cycles = 8 * elements / (COPY_RATE if whole else REORDER_RATE)
        return cycles / self.share(cycles) + self.start(cycles)

    def stream(self, elements: int) -> float:
        """Cycles to read elements from where they lie; from L2, nothing beside the arithmetic."""
        size = 4 * elements
        if size <= self.target.l2_bytes / 2:
            return 0.0
        return size / (L3_RATE if size <= self.target.l3_bytes / 4 else MEMORY_RATE)

    def share(self, cycles: float) -> int:
        """The threads that a kernel is dealt out to."""
        return self.threads if worth_threads(cycles, self.threads) else 1

    def start(self, cycles: float) -> float:
        """Cycles to start a kernel."""
        return DISPATCH_CYCLES if worth_threads(cycles, self.threads) else CALL_CYCLES


def parts(total: int, size: int) -> list[int]:
    """A length in pieces of a size, the last one shorter: `11, 4 -> 4, 4, 3`."""
    return [min(size, total - start) for start in range(0, total, size)]
