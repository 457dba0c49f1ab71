"""Splits tiles into native values: the last axis into vectors of the machine's width, the others into elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from xdsl.ir import Attribute, SSAValue

from mlc.lowering.loop_to_llvm.builder import Builder, vector_type


@dataclass(frozen=True, slots=True)
class Chunk:
    """Part of a tile's last axis: its first lane, the native width (0: a scalar) and the number of valid lanes."""

    start: int
    width: int
    valid: int

    @property
    def ragged(self) -> bool:
        """Whether the native vector has invalid lanes, beyond the tile."""
        return self.valid < self.width


SCALAR = Chunk(0, 0, 1)


@lru_cache(maxsize=1024)
def chunks(size: int, lanes: int) -> tuple[Chunk, ...]:
    """The native vectors of an axis of this size: full ones, and a narrower or masked one for the remainder."""
    if size == 1:
        return (Chunk(0, 0, 1),)
    whole = tuple(Chunk(s, lanes, lanes) for s in range(0, size - lanes + 1, lanes))
    rest = size % lanes
    if not rest:
        return whole
    width = 1 << (rest - 1).bit_length()
    return (*whole, Chunk(size - rest, max(width, 2), rest))


@lru_cache(maxsize=1024)
def positions(shape: tuple[int, ...], lanes: int) -> tuple[tuple[tuple[int, ...], Chunk], ...]:
    """(coordinates of the outer axes, chunk of the last) of every native value, in order."""
    return tuple(product(product(*(range(n) for n in shape[:-1])), chunks(shape[-1], lanes)))


def native_type(element: Attribute, chunk: Chunk) -> Attribute:
    """The type of one native value."""
    return vector_type(element, chunk.width) if chunk.width else element


Lazy = Callable[[], SSAValue]


class Tile:
    """The native values of one tile, each computed when first used."""

    __slots__ = ("element", "lanes", "shape", "values")

    def __init__(self, shape: Sequence[int], element: Attribute, lanes: int, values: Sequence[SSAValue | Lazy]) -> None:
        self.shape = tuple(shape)
        self.element = element
        self.lanes = lanes
        self.values = list(values)

    def at(self, number: int) -> SSAValue:
        """Native value by number."""
        v = self.values[number]
        if callable(v):
            v = self.values[number] = v()
        return v

    def all(self) -> list[SSAValue]:
        """Every native value."""
        return [self.at(k) for k in range(len(self.values))]

    def take(self, b: Builder, outer: Sequence[int], k: int, chunk: Chunk) -> SSAValue:
        """The value at a position of a tile to which this one broadcasts; k is the chunk's number."""
        number = 0
        for size, i in zip(self.shape, outer, strict=False):
            number = number * size + (i if size > 1 else 0)
        if self.shape[-1] == 1:
            v = self.at(number)
            return b.splat(v, chunk.width) if chunk.width else v
        return self.at(number * len(chunks(self.shape[-1], self.lanes)) + k)


def broadcast_values(b: Builder, tile: Tile, shape: tuple[int, ...]) -> list[SSAValue]:
    """The native values of `tile` broadcast to a shape."""
    per_row = len(chunks(shape[-1], tile.lanes))
    return [tile.take(b, outer, k % per_row, chunk) for k, (outer, chunk) in enumerate(positions(shape, tile.lanes))]
