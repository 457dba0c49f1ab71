"""
A runtime that runs the tasks of parallel loops one by one, so that what two of them share shows.

Tasks run in reverse order, on alternating threads: that of a loop of one task on the second. Before each task the
scratch memory of all threads is filled with a pattern; the task must leave that of other threads as it is, since it
belongs to a task that may run at the same time. So are the threads' parts of the workspace, where buffers of symbolic
sizes lie.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.runtime.sizes import evaluate
from mlc.support.abi import ABI_VERSION, PARALLEL_FOR, TASK, RuntimeStruct

PATTERN = 0xFF
"""The byte that fills scratch memory: NaN in floats of every width."""
SHARED_SCRATCH = 77
"""The status of a kernel whose task writes the scratch memory of another thread."""
THREADS = 2
"""The number of threads that the runtime claims to have."""
GAP = 64
"""Bytes between the scratch memories of two threads, and the alignment of each."""


def symbolic_parts(rows: Sequence[Sequence[Any]], sizes: Sequence[int]) -> tuple[int, int]:
    """
    The bytes of a kernel's buffers of symbolic sizes that all threads share, and of each thread's own, which follow.

    The rows are those of `mlc.symbolic_bytes`; as in the machine code (lowering/memory/kernel_buffers.py), each buffer
    is aligned and has a line behind it.
    """
    threads = str(len(sizes))
    values = {str(number): size for number, size in enumerate((*sizes, 1))}
    bytes_of = [0, 0]
    for row in rows:
        size = 1
        for factor in row:
            size *= evaluate(factor, values)
        is_own = bool(row) and row[-1] == [[1, [threads]]]
        bytes_of[is_own] += (size + 2 * GAP - 1) // GAP * GAP
    return bytes_of[0], bytes_of[1]


class TasksApart:
    """An rt struct whose address goes to a kernel as its last argument; `shared` says whether tasks shared scratch."""

    def __init__(self, scratch_bytes: int) -> None:
        self.shared = False
        self._parts: list[np.ndarray[Any, np.dtype[np.uint8]]] = []
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
        self._parts.append(self.scratch)

    def add_parts(self, memory: np.ndarray[Any, np.dtype[np.uint8]], part: int) -> None:
        """Watch further memory, which begins with `part` bytes of each thread."""
        if part:
            self._parts.append(memory[: part * THREADS].reshape(THREADS, part))

    def _run(self, rt: Any, function: Any, context: Any, tasks: int, threads: int) -> int:
        call = TASK(function)
        for task in reversed(range(tasks)):
            # a loop of one task does not run on the first thread; nor does one thread do all tasks of little work
            thread = (task + 1) % THREADS
            for parts in self._parts:
                parts[...] = PATTERN
            if status := call(rt, context, task, thread):
                return status
            if any((np.delete(parts, thread, axis=0) != PATTERN).any() for parts in self._parts):
                self.shared = True
                return SHARED_SCRATCH
        return 0


__all__ = ["TasksApart", "symbolic_parts"]
