"""Places root buffers one after another, each in the tightest gap between those placed before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from mlc.lowering.memory.lifetimes import Lifetime, Timeline, align, lower_bound, pieces_of


class Problem:
    """The buffers to place: their roots, the pieces of each root, and which roots are alive together."""

    def __init__(self, buffers: Sequence[Lifetime]) -> None:
        self.buffers = buffers
        self.pieces = pieces_of(buffers)
        self.roots = list(self.pieces)
        self.bound = lower_bound(buffers)

    def bytes(self, root: int) -> int:
        """The aligned size of a root buffer."""
        return align(self.buffers[root].bytes)

    @cached_property
    def conflicts(self) -> dict[int, list[int]]:
        """For each root, the roots with a piece that is alive together with one of its own, in order."""
        times, owner = Timeline(), list[int]()
        for root in self.roots:
            for piece in self.pieces[root]:
                if piece.bytes:
                    times.add(piece)
                    owner.append(root)
        return {
            root: sorted(
                {owner[k] for piece in self.pieces[root] if piece.bytes for k in times.meeting(piece)} - {root}
            )
            for root in self.roots
        }

    def place(self, order: Iterable[int]) -> dict[int, int]:
        """The offset of each root, placed in this order."""
        placed, offsets = Timeline(), dict[int, int]()
        for root in order:
            own = self.pieces[root]
            offsets[root] = start = _best_fit(own, placed)
            for piece in own:
                placed.add(replace(piece, at=start + piece.at))
        return offsets

    def total(self, offsets: Mapping[int, int]) -> int:
        """The size of the arena that these offsets need."""
        return max((at + self.bytes(root) for root, at in offsets.items()), default=0)


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


__all__ = ["Problem"]
