"""
Where each intermediate buffer of a straight-line program stands in one workspace.

A buffer lives from the step that writes it to the last step that reads it, both included. Buffers that live
at the same time do not overlap; the plan is small because the others do. Offsets are multiples of 64 bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its size, the step that first writes it, the last step that uses it."""

    bytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether the two are alive at one step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class MemoryPlan:
    """The offset of each buffer, and the figures that say how good the plan is."""

    offsets: tuple[int, ...]
    bytes: int
    """The size of the workspace."""
    sum_bytes: int
    """What the buffers would take one after another."""
    bound_bytes: int
    """The most that is alive at one step: no plan can be smaller."""


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Lifetime]) -> MemoryPlan:
    """Place the buffers: by size, the largest first, each in the tightest gap that its neighbours in time leave."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].bytes, buffers[i].first, i)):
        buffer = buffers[index]
        taken = sorted((offsets[i], align(buffers[i].bytes)) for i in placed if buffer.meets(buffers[i]))
        offsets[index] = _best_fit(taken, align(buffer.bytes))
        placed.append(index)
    total = max((offset + align(b.bytes) for offset, b in zip(offsets, buffers, strict=True)), default=0)
    return MemoryPlan(tuple(offsets), total, sum(align(b.bytes) for b in buffers), lower_bound(buffers))


def _best_fit(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the tightest gap between the taken (offset, size) ranges that holds `size`; else their end."""
    best, best_gap, end = -1, -1, 0
    for offset, length in taken:
        gap = offset - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, offset + length)
    return end if best < 0 else best


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one step."""
    changes: list[tuple[int, int, int]] = []
    for buffer in buffers:
        changes += [(buffer.first, 1, align(buffer.bytes)), (buffer.last + 1, 0, -align(buffer.bytes))]
    alive = most = 0
    for _, _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most
