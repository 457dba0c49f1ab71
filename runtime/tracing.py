"""
A runtime that notes when each task of a parallel loop ran, and on which thread.

It is the rt struct of a kernel with another `parallel_for`, and two more fields behind it: the rt that does the work,
and the log. Each task is wrapped in one that reads the clock before and after.
"""

import ctypes
import time
from functools import cache
from typing import Any

from mlc.codegen.native import Library, emit_object
from mlc.runtime.abi import RT_BYTES, RT_PARALLEL_FOR, RuntimeStruct

CAPACITY = 1 << 14
"""How many tasks of one call are noted; those after them are not."""

_CODE = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %time = alloca [2 x i64]
  %ignored = call i32 @clock_gettime(i32 {CLOCK}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.p = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.p
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

; ctx = { fn, its ctx, log };  log = { i64 count, { i64 start, i64 end, i32 task, i32 thread } entries... }
define internal i32 @task(ptr %rt, ptr %ctx, i32 %task, i32 %thread) {
  %own.p = getelementptr ptr, ptr %ctx, i64 1
  %log.p = getelementptr ptr, ptr %ctx, i64 2
  %fn = load ptr, ptr %ctx
  %own = load ptr, ptr %own.p
  %log = load ptr, ptr %log.p
  %start = call i64 @now()
  %status = call i32 %fn(ptr %rt, ptr %own, i32 %task, i32 %thread)
  %end = call i64 @now()
  %slot = atomicrmw add ptr %log, i64 1 monotonic
  %room = icmp ult i64 %slot, {CAPACITY}
  br i1 %room, label %note, label %done
note:
  %entries = getelementptr i8, ptr %log, i64 8
  %entry = getelementptr {i64, i64, i32, i32}, ptr %entries, i64 %slot
  %end.p = getelementptr i8, ptr %entry, i64 8
  %task.p = getelementptr i8, ptr %entry, i64 16
  %thread.p = getelementptr i8, ptr %entry, i64 20
  store i64 %start, ptr %entry
  store i64 %end, ptr %end.p
  store i32 %task, ptr %task.p
  store i32 %thread, ptr %thread.p
  br label %done
done:
  ret i32 %status
}

define i32 @traced_for(ptr %rt, ptr %fn, ptr %ctx, i32 %tasks, i32 %threads) {
  %real.p = getelementptr i8, ptr %rt, i64 {REAL}
  %real = load ptr, ptr %real.p
  %log.p = getelementptr i8, ptr %rt, i64 {LOG}
  %log = load ptr, ptr %log.p
  %for.p = getelementptr i8, ptr %real, i64 {FOR}
  %for = load ptr, ptr %for.p
  %wrapped = alloca [3 x ptr]
  %own.p = getelementptr ptr, ptr %wrapped, i64 1
  %out.p = getelementptr ptr, ptr %wrapped, i64 2
  store ptr %fn, ptr %wrapped
  store ptr %ctx, ptr %own.p
  store ptr %log, ptr %out.p
  %status = call i32 %for(ptr %real, ptr @task, ptr %wrapped, i32 %tasks, i32 %threads)
  ret i32 %status
}
"""


class _Entry(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("task", ctypes.c_int32),
        ("thread", ctypes.c_int32),
    ]


class _Log(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("entries", _Entry * CAPACITY)]


class _TracedRuntime(ctypes.Structure):
    _fields_ = [("own", RuntimeStruct), ("real", ctypes.c_void_p), ("log", ctypes.c_void_p)]


def now() -> int:
    """The clock that the log is in: nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@cache
def _library() -> Library:
    values = {
        "CLOCK": time.CLOCK_MONOTONIC,
        "CAPACITY": CAPACITY,
        "REAL": RT_BYTES,
        "LOG": RT_BYTES + 8,
        "FOR": RT_PARALLEL_FOR,
    }
    code = _CODE
    for name, value in values.items():
        code = code.replace(f"{{{name}}}", str(value))
    return Library.load([emit_object(code)])


class Tracer:
    """An rt struct, at `address`, that does what another does and notes its tasks."""

    def __init__(self, rt: int) -> None:
        self._log = _Log()
        self._rt = _TracedRuntime(RuntimeStruct.from_address(rt), rt, ctypes.addressof(self._log))
        self._rt.own.parallel_for = _library().address("traced_for")
        self.address = ctypes.addressof(self._rt)

    def take(self) -> list[Any]:
        """The entries since the last time: start, end, task, thread."""
        count = min(self._log.count, CAPACITY)
        self._log.count = 0
        return [(e.start, e.end, e.task, e.thread) for e in self._log.entries[:count]]
