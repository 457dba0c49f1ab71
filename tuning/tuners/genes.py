"""
Candidates as lists of digits, one for each choice: what genetic search crosses and simulated annealing changes.

With one part the digits are those of its knobs. With several parts the first digit chooses the part, and the digits of
all parts follow: those of the other parts do not matter, but are inherited.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlc.tuning.space import Space


class Genes:
    """The digits of a space's candidates."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._head = [len(space.parts)] if len(space.parts) > 1 else []
        knobs = [knob for part in space.parts for knob in part.knobs]
        self.dims = [*self._head, *(len(knob.candidates) for knob in knobs)]
        """How many values each digit has."""
        self._defaults = [*(0 for _ in self._head), *(knob.candidates.index(knob.default) for knob in knobs)]
        self.slices: list[slice] = []
        """Where the digits of each part stand."""
        start = len(self._head)
        for part in space.parts:
            self.slices.append(slice(start, start + len(part.knobs)))
            start += len(part.knobs)
        self.offsets: list[int] = []
        """The number of each part's first candidate."""
        offset = 0
        for part in space.parts:
            self.offsets.append(offset)
            offset += part.size

    def part_of(self, index: int) -> int:
        """The number of the part of a candidate."""
        return max(number for number, offset in enumerate(self.offsets) if offset <= index)

    def digits(self, index: int) -> list[int]:
        """The digits of a candidate; those of other parts are the defaults."""
        part, digits = self.part_of(index), list(self._defaults)
        if self._head:
            digits[0] = part
        index -= self.offsets[part]
        place = self.slices[part]
        for at in range(place.start, place.stop):
            index, digits[at] = divmod(index, self.dims[at])
        return digits

    def index(self, digits: Sequence[int]) -> int:
        """The candidate of these digits."""
        part = digits[0] if self._head else 0
        place, index, weight = self.slices[part], self.offsets[part], 1
        for at in range(place.start, place.stop):
            index += weight * digits[at]
            weight *= self.dims[at]
        return index
