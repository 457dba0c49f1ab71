"""
A runtime that logs when each task of a parallel loop ran, and on which thread.

It is the rt struct of a kernel with another `parallel_for` (codegen/probes.py), and two more fields behind it: the rt
that does the work, and the log. Each task is wrapped in one that reads the clock before and after.
"""

import ctypes
import time
from typing import Any

from mlc.runtime.code import Code
from mlc.support.abi import TRACE_CAPACITY, RuntimeStruct


class _Entry(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("task", ctypes.c_int32),
        ("thread", ctypes.c_int32),
    ]


class _Log(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("entries", _Entry * TRACE_CAPACITY)]


class _FirstRuntimeStruct(ctypes.Structure):
    """The rt struct of version 1, in code that an older mlc saved."""

    _fields_ = RuntimeStruct._fields_[:6]


class _TracedRuntime(ctypes.Structure):
    _fields_ = [("own", RuntimeStruct), ("real", ctypes.c_void_p), ("log", ctypes.c_void_p)]


class _FirstTracedRuntime(ctypes.Structure):
    _fields_ = [("own", _FirstRuntimeStruct), ("real", ctypes.c_void_p), ("log", ctypes.c_void_p)]


def now() -> int:
    """The clock that the log is in: nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Tracer:
    """An rt struct, at `address`, that does what another does and notes its tasks."""

    def __init__(self, code: Code, rt: int) -> None:
        self._log = _Log()
        first = _FirstRuntimeStruct.from_address(rt)
        if first.version < 2:
            self._rt = _FirstTracedRuntime(first, rt, ctypes.addressof(self._log))
        else:
            self._rt = _TracedRuntime(RuntimeStruct.from_address(rt), rt, ctypes.addressof(self._log))
        self._rt.own.parallel_for = code.address("mlc_probe_traced_for")
        self.address = ctypes.addressof(self._rt)

    def take(self) -> list[Any]:
        """The entries since the last call: (start, end, task, thread), times in nanoseconds."""
        count = min(self._log.count, TRACE_CAPACITY)
        self._log.count = 0
        return [(e.start, e.end, e.task, e.thread) for e in self._log.entries[:count]]
