"""
What a memory planner works on: when each buffer is alive, and the bytes that no plan can do without.

A buffer is alive from the step that writes it to the last step that reads it, both included. Buffers that are alive at
the same step do not overlap; others may share memory. Offsets are multiples of 64 bytes.
A buffer may be a part of another one, at a fixed offset: a tensor that is written in parts and read as a whole needs no
copy. The bytes of a part are alive from the step that writes the part to the last use of the part or of its whole;
before that step other buffers may use them.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mlc.support.alignment import ALIGNMENT


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its size, the step that first writes it, the last step that uses it."""

    bytes: int
    first: int
    """Ignored for a buffer with parts, which is written through its parts."""
    last: int
    inside: int | None = None
    """The index of the buffer that contains this one, if it is a part of another buffer."""
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


def align(size: int) -> int:
    """The next multiple of the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


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


def life_of(pieces: Sequence[Lifetime]) -> tuple[int, int]:
    """The first and the last step of a root buffer, from its pieces."""
    return min(piece.first for piece in pieces), max(piece.last for piece in pieces)


__all__ = ["Lifetime", "Timeline", "align", "life_of", "lower_bound", "pieces_of"]
