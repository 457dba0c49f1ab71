"""A random order of a range that may be too long to hold."""

from __future__ import annotations

from random import Random


class LazyShuffle:
    """
    The numbers 0 <= n < size in a random order, each once: Fisher-Yates on an array of which only the changes are held.

    Memory and time are in the numbers that were taken, not in `size`.
    """

    def __init__(self, size: int, random: Random) -> None:
        self.left = size
        """How many numbers were not taken."""
        self._random = random
        self._moved: dict[int, int] = {}

    def take(self) -> int:
        """Take the next number; IndexError where none is left."""
        if not self.left:
            raise IndexError("all numbers were taken")
        self.left -= 1
        place = self._random.randrange(self.left + 1)
        number = self._moved.get(place, place)
        self._moved[place] = self._moved.pop(self.left, self.left)
        return number
