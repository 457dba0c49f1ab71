"""
The allocator of the vm: workspaces of segments from a pool, in whole pages.

A segment takes a workspace for the time that it runs, and its callers' stay taken. What is given back is kept for the
next segment, up to `KEPT_BYTES` together.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from mlc.runtime.arrays import aligned
from mlc.support.errors import UserError

PAGE = 4096
"""Bytes to whose multiples sizes are rounded up."""
KEPT_BYTES = 256 << 20
"""Bytes of free blocks that are kept; the largest ones go first."""
SLACK = 4
"""A free block more than this many times as large as what is asked for is left for others."""

Block = np.ndarray[Any, np.dtype[np.uint8]]


class WorkspaceBlocks:
    """
    Blocks of memory; `limit` bounds the bytes that are taken at once (None: no bound).

    `taken` and `most` are the bytes taken now, and the most so far. Several threads may use a pool.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit, self.taken, self.most, self.free_bytes = limit, 0, 0, 0
        self._free: list[Block] = []
        self._lock = threading.Lock()

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes, whose address is a multiple of 64; UserError beyond the limit."""
        size = -(-max(size, 1) // PAGE) * PAGE
        with self._lock:
            fitting = [k for k, block in enumerate(self._free) if size <= len(block) <= SLACK * size + (1 << 20)]
            if fitting:
                block = self._free.pop(min(fitting, key=lambda k: len(self._free[k])))
                self.free_bytes -= len(block)
            else:
                self._check(size)
                block = aligned(size)
            self.taken += len(block)
            self.most = max(self.most, self.taken)
        return block

    def _check(self, size: int) -> None:
        if self.limit is not None and self.taken + size > self.limit:
            raise UserError(
                f"expected the model to need at most {self.limit} bytes of memory at once, but it needs "
                f"{self.taken + size}; raise the limit, or give smaller inputs"
            )

    def give(self, block: Block) -> None:
        """Give a block back."""
        with self._lock:
            self.taken -= len(block)
            self._free.append(block)
            self.free_bytes += len(block)
            while self.free_bytes > KEPT_BYTES and len(self._free) > 1:
                largest = max(range(len(self._free)), key=lambda k: len(self._free[k]))
                self.free_bytes -= len(self._free.pop(largest))


__all__ = ["Block", "WorkspaceBlocks"]
