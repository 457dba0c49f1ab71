"""
Tiles of depthwise windows.

Over pictures whose channels come last: a few pixels of several vectors of channels. Over planes: rows of pixels.
"""

from __future__ import annotations

from typing import NamedTuple

from mlc.targets.cost.caches import FLOAT_BYTES, streams
from mlc.targets.cost.thresholds import (
    PLANAR_ROWS,
    PLANAR_VECTORS,
    SLIDING_REGISTERS,
    SLIDING_REGISTERS_WIDE,
    SLIDING_STREAMS,
    SLIDING_VECTORS,
)
from mlc.targets.cost.tiles import even_split
from mlc.targets.target import Target


class WindowTile(NamedTuple):
    """Pixels of a row of the result, and vectors of channels of each; over planes, rows, and vectors of pixels."""

    rows: int
    vectors: int


class Row(NamedTuple):
    """A row of a window's result: its pixels, the steps between those it reads, and how far a window of it spans."""

    pixels: int
    step: int
    span: int


def window_tile(row: Row, channels: int, target: Target) -> WindowTile | None:
    """
    The tile of a window over `channels` channels that come last.

    The more channels a tile has, the fewer pixels: pixels that lie a multiple of a large power of two apart push each
    other out of L1. None where even those of the smallest tile do, and blocks of channels are faster.
    """
    held = streams(channels * FLOAT_BYTES, target)
    part, whole = SLIDING_REGISTERS_WIDE
    for vectors, times in zip(SLIDING_VECTORS, SLIDING_STREAMS, strict=True):
        rows = even_split(row.pixels, max(1, target.vector_registers * part // (whole * vectors)))
        if times * ((rows - 1) * row.step + row.span) <= held:
            return WindowTile(rows, vectors)
    return None


def planar_tile(rows: int, vectors: int, target: Target) -> WindowTile:
    """
    The tile of a window over planes, of a result of `rows` rows of `vectors` vectors of pixels.

    Rows of a tile share the rows that they read. The sums take a part of the registers, taps and shared rows the rest.
    """
    part, whole = SLIDING_REGISTERS
    sums = target.vector_registers * part // whole
    width = even_split(vectors, min(PLANAR_VECTORS, sums))
    return WindowTile(even_split(rows, max(1, min(PLANAR_ROWS, sums // width))), width)
