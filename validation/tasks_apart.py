"""
A runtime that runs the tasks of parallel loops one by one, so that what two of them share shows.

Tasks run in reverse order, on alternating threads: that of a loop of one task on the second. Before each task the
scratch memory of all threads is filled with a pattern; the task must leave that of other threads as it is, since it
belongs to a task that may run at the same time.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from mlc.support.abi import ABI_VERSION, PARALLEL_FOR, TASK, RuntimeStruct

PATTERN = 0xFF
"""The byte that fills scratch memory: NaN in floats of every width."""
SHARED_SCRATCH = 77
"""The status of a kernel whose task writes the scratch memory of another thread."""
THREADS = 2
"""The number of threads that the runtime claims to have."""
GAP = 64
"""Bytes between the scratch memories of two threads, and the alignment of each."""


class TasksApart:
    """An rt struct whose address goes to a kernel as its last argument; `shared` says whether tasks shared scratch."""

    def __init__(self, scratch_bytes: int) -> None:
        self.shared = False
        stride = (scratch_bytes + 2 * GAP - 1) // GAP * GAP
        self._memory = np.full(stride * THREADS + GAP, PATTERN, np.uint8)
        begin = -self._memory.ctypes.data % GAP
        self.scratch = self._memory[begin : begin + stride * THREADS].reshape(THREADS, stride)
        self._parallel_for = PARALLEL_FOR(self._run)
        self.struct = RuntimeStruct(
            version=ABI_VERSION,
            threads=THREADS,
            parallel_for=ctypes.cast(self._parallel_for, ctypes.c_void_p).value,
            scratch=self.scratch.ctypes.data,
            scratch_stride=stride,
        )
        self.address = ctypes.addressof(self.struct)

    def _run(self, rt: Any, function: Any, context: Any, tasks: int, threads: int) -> int:
        call = TASK(function)
        for task in reversed(range(tasks)):
            # a loop of one task does not run on the first thread; nor does one thread do all tasks of little work
            thread = (task + 1) % THREADS
            self.scratch[...] = PATTERN
            if status := call(rt, context, task, thread):
                return status
            others = np.delete(self.scratch, thread, axis=0)
            if (others != PATTERN).any():
                self.shared = True
                return SHARED_SCRATCH
        return 0


__all__ = ["TasksApart"]
