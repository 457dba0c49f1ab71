"""
Where each intermediate buffer of a straight-line program stands in one workspace.

A buffer lives from the step that writes it to the last step that reads it, both included. Buffers that live
at the same time do not overlap; the plan is small because the others do. Offsets are multiples of 64 bytes.
A buffer may be a part of another one, at a fixed place: what is written as parts and read as a whole is not copied.
The bytes of a part live from the part's writing to the last use of the part or of what it is in, so that those of
the parts that are not written yet are free for others.
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
    """Of a buffer with parts, this says nothing: it is written through its parts, which fill it."""
    last: int
    inside: int | None = None
    """The index of the buffer that this one is a part of."""
    at: int = 0
    """The offset of a part in that buffer, in bytes."""

    def meets(self, other: "Lifetime") -> bool:
        """Whether the two are alive at one step."""
        return self.first <= other.last and other.first <= self.last


class Timeline:
    """Lifetimes, numbered as they are added; those that meet another one are found without a look at all of them."""

    STEPS = 16
    """How many steps share a list."""

    def __init__(self) -> None:
        self.lifetimes: list[Lifetime] = []
        self._lists: defaultdict[int, list[int]] = defaultdict(list)

    def add(self, lifetime: Lifetime) -> None:
        """Add a lifetime."""
        for k in self._places(lifetime):
            self._lists[k].append(len(self.lifetimes))
        self.lifetimes.append(lifetime)

    def meeting(self, lifetime: Lifetime) -> list[int]:
        """The numbers of those that are alive at a step at which `lifetime` is, in order."""
        near = {number for k in self._places(lifetime) for number in self._lists.get(k, ())}
        return sorted(number for number in near if self.lifetimes[number].meets(lifetime))

    def _places(self, lifetime: Lifetime) -> range:
        first, last = sorted((lifetime.first, lifetime.last))
        return range(first // self.STEPS, last // self.STEPS + 1)


@dataclass(frozen=True)
class MemoryPlan:
    """The offset of each buffer, and the figures that say how good the plan is."""

    offsets: tuple[int, ...]
    bytes: int
    """The size of the workspace."""
    sum_bytes: int
    """What the buffers would take one after another; parts are counted in what they are in."""
    bound_bytes: int
    """The most that is alive at one step: no plan can be smaller."""


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def plan(buffers: Sequence[Lifetime]) -> MemoryPlan:
    """Place the buffers: by size, the largest first, each in the tightest gap that its neighbours in time leave."""
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
    """Where a part is, once its root is placed."""
    start = 0
    while (outer := buffers[index].inside) is not None:
        start += buffers[index].at
        index = outer
    return roots[index] + start


def pieces_of(buffers: Sequence[Lifetime]) -> dict[int, list[Lifetime]]:
    """For each buffer that is no part: what is written of it at a time, with its offset there as `at`."""
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
    """The start, for a buffer of these pieces, that leaves the least room up to what is placed; else behind it all."""
    # Starts between the two bounds would make two pieces overlap.
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
    """The most bytes that are alive at one step."""
    changes: list[tuple[int, int, int]] = []
    for pieces in pieces_of(buffers).values():
        for piece in pieces:
            changes += [(piece.first, 1, piece.bytes), (piece.last + 1, 0, -piece.bytes)]
    alive = most = 0
    for _, _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most
