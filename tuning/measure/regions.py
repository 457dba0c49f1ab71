"""
Memory of a kernel's arrays, between two pages that cannot be touched: what a kernel reads or writes there ends it.

    page that faults | pattern | array, at a multiple of 64 bytes | pattern, less than 64 bytes | page that faults

The bytes between the array and its pages' edges hold a pattern, which must be there after the call. Inputs can be made
read-only besides. Large arrays get huge pages, as those of numpy do.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, TypeAlias

import numpy as np

from mlc.support.alignment import ALIGNMENT
from mlc.support.dtypes import dtype_of
from mlc.tuning.measure.artefact import TensorInfo

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PAGE = mmap.PAGESIZE
PATTERN = 0x5A
"""The byte in front of and behind an array."""
POISON = 0xFF
"""The byte that outputs hold before a call: NaN in floating-point types."""
HUGE_BYTES = 1 << 22
"""Size from which numpy asks for huge pages (numpy/_core/src/multiarray/alloc.c)."""
_NO_ACCESS, _READ = 0, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), access):
        raise OSError(ctypes.get_errno(), "mprotect")


class GuardedRegion:
    """So many bytes of memory between guards; OSError if there is not as much."""

    def __init__(self, size: int, shared: bool = False) -> None:
        """`shared` memory is seen by processes that are forked later, and they write into it."""
        self.size = size
        self.length = max(1, -(-size // PAGE)) * PAGE
        flags = mmap.MAP_ANONYMOUS | (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE)
        self._map = mmap.mmap(-1, self.length + 2 * PAGE, flags=flags)
        if size >= HUGE_BYTES and not shared and hasattr(mmap, "MADV_HUGEPAGE"):
            self._map.madvise(mmap.MADV_HUGEPAGE)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self._map)) + PAGE
        start = (self.length - size) // ALIGNMENT * ALIGNMENT
        whole: Bytes = np.frombuffer(self._map, np.uint8)[PAGE : PAGE + self.length]
        self._around = whole[:start], whole[start + size :]
        for part in self._around:
            part[:] = PATTERN
        self.bytes = whole[start : start + size]
        self.address = self.first + start
        for guard in (self.first - PAGE, self.first + self.length):
            _protect(guard, PAGE, _NO_ACCESS)

    def intact(self) -> bool:
        """Whether the bytes around the array are as they were."""
        return all(bool((part == PATTERN).all()) for part in self._around)

    def freeze(self) -> None:
        """Let writes into the array end this process; forked processes keep that."""
        _protect(self.first, self.length, _READ)


class ArrayRegion(GuardedRegion):
    """The memory of an array of a kernel's call."""

    def __init__(self, info: TensorInfo, shared: bool = False) -> None:
        self.dtype = dtype_of(info.dtype)
        super().__init__(int(np.prod(info.shape, dtype=np.int64)) * self.dtype.itemsize, shared)
        self.array: Array = self.bytes.view(self.dtype).reshape(info.shape)


def scratch_region(bytes_each: int, threads: int) -> tuple[GuardedRegion, int]:
    """Scratch memory for all threads, and the bytes from one thread's part to the next one's."""
    stride = -(-max(bytes_each, 1) // ALIGNMENT) * ALIGNMENT
    return GuardedRegion(stride * threads), stride
