"""
Memory planning: an offset in one workspace for each intermediate buffer of a straight-line program.

A buffer is alive from the step that writes it to the last step that reads it, both included. Buffers that are alive at
the same step do not overlap; others may share memory. Offsets are multiples of 64 bytes.
A buffer may be a part of another one, at a fixed offset: a tensor that is written in parts and read as a whole needs no
copy. The bytes of a part are alive from the step that writes the part to the last use of the part or of its whole;
before that step other buffers may use them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlc.support.alignment import ALIGNMENT


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its size, the step that first writes it, the last step that uses it."""

    bytes: int
    first: int
    """Ignored for a buffer with parts, which is written through its parts."""
    last: int
    inside: int | None = None
    """The index of the buffer of which this one is a part."""
    at: int = 0
    """The offset of a part in that buffer, in bytes."""

    def meets(self, other: "Lifetime") -> bool:
        """Whether the two are alive at the same step."""
        return self.first <= other.last and other.first <= self.last


class Timeline:
    """Lifetimes, numbered in the order of addition, indexed by buckets of steps."""

    STEPS_PER_BUCKET = 16

    def __init__(self) -> None:
        self.lifetimes: list[Lifetime] = []
        self._buckets: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, lifetime: Lifetime) -> None:
        """Add a lifetime."""
        for k in self._bucket_range(lifetime):
            self._buckets[k].append(len(self.lifetimes))
        self.lifetimes.append(lifetime)

    def meeting(self, lifetime: Lifetime) -> list[int]:
        """The numbers of the lifetimes that overlap with `lifetime`, in order."""
        near = {number for k in self._bucket_range(lifetime) for number in self._buckets.get(k, ())}
        return sorted(number for number in near if self.lifetimes[number].meets(lifetime))

    def _bucket_range(self, lifetime: Lifetime) -> range:
        first, last = sorted((lifetime.first, lifetime.last))
        return range(first // self.STEPS_PER_BUCKET, last // self.STEPS_PER_BUCKET + 1)


@dataclass(frozen=True)
class MemoryPlan:
    """The offset of each buffer, and figures of the plan's quality."""

    offsets: tuple[int, ...]
    bytes: int
    """The size of the workspace in bytes."""
    sum_bytes: int
    """The total size without sharing; parts are counted with their wholes."""
    bound_bytes: int
    """The most bytes alive at one step: a lower bound of any plan."""


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Lifetime]) -> MemoryPlan:
    """Greedy by size: the largest buffer first, each in the tightest gap between buffers alive at the same time."""
    pieces = pieces_of(buffers)
    roots = [i for i, buffer in enumerate(buffers) if buffer.inside is None]
    offsets = [0] * len(buffers)
    placed = Timeline()
    for index in sorted(roots, key=lambda i: (-buffers[i].bytes, buffers[i].first, i)):
        own = pieces[index]
        offsets[index] = start = _best_fit(own, placed)
        for piece in own:
            placed.add(replace(piece, at=start + piece.at))
    for index, buffer in enumerate(buffers):
        offsets[index] = _offset(buffers, offsets, index) if buffer.inside is not None else offsets[index]
    total = max((offsets[i] + align(buffers[i].bytes) for i in roots), default=0)
    return MemoryPlan(tuple(offsets), total, sum(align(buffers[i].bytes) for i in roots), lower_bound(buffers))


def _offset(buffers: Sequence[Lifetime], roots: Sequence[int], index: int) -> int:
    """The offset of a part, once its root is placed."""
    start = 0
    while (outer := buffers[index].inside) is not None:
        start += buffers[index].at
        index = outer
    return roots[index] + start


def pieces_of(buffers: Sequence[Lifetime]) -> dict[int, list[Lifetime]]:
    """For each root buffer, its innermost parts (or itself) with their lifetimes; `at` is the offset in the root."""
    whole = {buffer.inside for buffer in buffers}
    pieces: dict[int, list[Lifetime]] = {i: [] for i, buffer in enumerate(buffers) if buffer.inside is None}
    for index, buffer in enumerate(buffers):
        if index in whole:
            continue
        size = align(buffer.bytes) if buffer.inside is None else buffer.bytes
        root, start, last = index, 0, buffer.last
        while (outer := buffers[root].inside) is not None:
            start += buffers[root].at
            root, last = outer, max(last, buffers[outer].last)
        pieces[root].append(Lifetime(size, buffer.first, last, at=start))
    return pieces


def _best_fit(own: Sequence[Lifetime], placed: Timeline) -> int:
    """The offset, for a buffer of these pieces, of the tightest gap that fits; without a gap, after all conflicts."""
    # Starting strictly between the two bounds would make two pieces overlap.
    pairs = ((piece, placed.lifetimes[k]) for piece in own for k in placed.meeting(piece))
    blocked = sorted(
        (other.at - piece.at - piece.bytes, other.at + other.bytes - piece.at)
        for piece, other in pairs
        if piece.bytes and other.bytes
    )
    best, best_room, start = -1, -1, 0
    for low, high in blocked:
        room = low - start
        if room >= 0 and (best < 0 or room < best_room):
            best, best_room = start, room
        start = max(start, align(high))
    return start if best < 0 else best


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """The most bytes alive at one step."""
    changes: list[tuple[int, int, int]] = []
    for pieces in pieces_of(buffers).values():
        for piece in pieces:
            changes += [(piece.first, 1, piece.bytes), (piece.last + 1, 0, -piece.bytes)]
    alive = most = 0
    for _, _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most
