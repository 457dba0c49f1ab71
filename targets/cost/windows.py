"""
Tiles of depthwise windows.

Over pictures whose channels come last: a few pixels of several vectors of channels. Over planes: rows of pixels.
"""

from __future__ import annotations

from typing import NamedTuple

from mlc.targets.cost.caches import FLOAT_BYTES, streams
from mlc.targets.cost.thresholds import (
    CLIPPED_LEAST_TAPS,
    CLIPPED_SHARE,
    PLANAR_ROWS,
    PLANAR_VECTORS,
    SLIDING_REGISTERS,
    SLIDING_REGISTERS_WIDE,
    SLIDING_STREAMS,
    SLIDING_VECTORS,
)
from mlc.targets.cost.tiles import even_split
from mlc.targets.target import Target

BLOCKED_RANK = 5
"""The axes of pictures in blocks of channels, [N, C / b, H, W, b]."""
BLOCKED_PIXELS = (2, 3)
"""The axes of their pixels."""


class WindowTile(NamedTuple):
    """Pixels of a row of the result, and vectors of channels of each; over planes, rows, and vectors of pixels."""

    rows: int
    vectors: int


class Row(NamedTuple):
    """A row of a window's result: its pixels, the steps between those it reads, and how far a window of it spans."""

    pixels: int
    step: int
    span: int


def leaves_out_rows(size: int, count: int, taps: int, stride: int, dilation: int, before: int) -> bool:
    """
    Whether a depthwise convolution leaves out the rows of its windows that lie beyond the picture.

    The picture has `size` rows, the result `count`, a window `taps`; `before` rows of padding are in front.
    """
    if taps < CLIPPED_LEAST_TAPS:
        return False
    rows = [o * stride + k * dilation - before for o in range(count) for k in range(taps)]
    return sum(0 <= row < size for row in rows) <= CLIPPED_SHARE * len(rows)


def window_tile(row: Row, channels: int, target: Target) -> WindowTile | None:
    """
    The tile of a window over `channels` channels that come last.

    The more channels a tile has, the fewer pixels: pixels whose distance is a multiple of a large power of two evict
    each other from L1. None if even the pixels of the smallest tile do; then blocks of channels are faster.
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
