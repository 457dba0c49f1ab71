"""
The memory of outputs that the caller has dropped, kept for the next outputs.

Memory that malloc returns to the system is mapped again page by page, which for an output of a megabyte can take longer
than a small model runs. So an executable keeps the memory of its last outputs, and uses it again once the caller has
dropped the arrays and every view of them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from mlc.runtime.arrays import Array
from mlc.support.alignment import ALIGNMENT

Row = tuple[str, Any, tuple[int, ...]]
"""Name, dtype and shape of an output."""
Piece = tuple[Array, int, int]
"""Memory, the offset of its first aligned byte, and the bytes from there on."""
SMALLEST: Final = 1 << 16
"""Bytes from which memory is kept: malloc keeps smaller pieces itself."""
LARGEST: Final = 1 << 25
"""Bytes up to which memory is kept: beyond, holding it costs more than the time is worth."""
_KEPT: Final = 2
"""Pieces that are kept of each output: in a loop, the caller drops an output when the next one is there."""


def _references_when_free() -> int:
    """The references to a piece that nobody uses, counted as `_array` counts them: some Pythons count fewer."""
    for piece, _ in [(np.empty(1, np.uint8), 0)]:
        return sys.getrefcount(piece)
    raise AssertionError("unreachable: the list has one piece")


_FREE: Final = _references_when_free()
"""References to a piece that nobody uses. In CPython 3.11 to 3.13 there are 3: from the tuple that keeps it, from a
variable, and from an argument."""


class OutputMemory:
    """New arrays for the outputs of an executable; calls from several threads never get the same memory."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._kept: list[list[Piece] | None] = [[] if _is_kept(row) else None for row in rows]

    @staticmethod
    def of(rows: Sequence[Row]) -> OutputMemory | None:
        """The memory for outputs; None where none is kept, or Python is not CPython, which counts references."""
        counts = sys.implementation.name == "cpython"
        return OutputMemory(rows) if counts and any(map(_is_kept, rows)) else None

    def arrays(self) -> list[Array]:
        """An array for each output, with any content."""
        return [
            np.empty(shape, dtype) if kept is None else _array(kept, shape, dtype)
            for (_, dtype, shape), kept in zip(self._rows, self._kept, strict=True)
        ]

    def arrays_of(self, shapes: Iterable[tuple[int, ...]]) -> list[Array]:
        """An array for each output, of shapes that are known now."""
        return [
            np.empty(shape, dtype) if kept is None or not _is_kept_size(shape, dtype) else _array(kept, shape, dtype)
            for shape, (_, dtype, _), kept in zip(shapes, self._rows, self._kept, strict=True)
        ]


def _is_kept(row: Row) -> bool:
    _, dtype, shape = row
    if not all(isinstance(size, int) for size in shape):  # pyright: ignore[reportUnnecessaryIsInstance] an open size is text
        return True  # each call decides
    return _is_kept_size(shape, dtype)


def _is_kept_size(shape: tuple[int, ...], dtype: Any) -> bool:
    return SMALLEST <= math.prod(shape) * dtype.itemsize <= LARGEST


def _array(kept: list[Piece], shape: tuple[int, ...], dtype: Any) -> Array:
    """
    An array in a kept piece of memory that is free and large enough, else in a new piece.

    Two threads never both find a piece free: the variable `piece` of each thread is one more reference to it.
    """
    size = math.prod(shape) * dtype.itemsize
    for piece, offset, room in kept:
        if size <= room and sys.getrefcount(piece) == _FREE:
            return np.ndarray(shape, dtype, piece, offset)
    room = _room(size)
    piece = np.empty(room + ALIGNMENT, np.uint8)
    offset = -piece.ctypes.data % ALIGNMENT
    kept.append((piece, offset, room))
    if len(kept) > _KEPT:
        del kept[0]
    return np.ndarray(shape, dtype, piece, offset)


def _room(size: int) -> int:
    """The bytes of a new piece: up to an eighth more than asked for, so that outputs that grow fit again."""
    step = 1 << max(0, size.bit_length() - 4)
    return -(-size // step) * step
