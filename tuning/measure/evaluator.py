"""
Timing of kernels as TVM's time_evaluator does it, by a loop of machine code (codegen/evaluator.py).

    one untimed call (the caller's)
    repeat times:  [cooldown]  [drive all arrays but the first from the caches]
                   time `number` calls; while they take less than min_repeat_ms together, time again with
                   number = max(min_repeat_ms / (milliseconds of a call) + 1, 1.618 number), which the next repeats keep
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cache

from mlc.codegen.evaluator import can_flush, evaluator_module
from mlc.codegen.native import Library, emit_object
from mlc.support.errors import UserError
from mlc.targets.target import native_target
from mlc.tuning.farm import Evaluation

_GOLDEN_RATIO = 1.618
"""The least growth of `number` from one timed loop to the next (tvm/src/runtime/profiling.cc)."""
_ZERO_READINGS = 100
"""Timed loops without a tick of the clock after which TVM gives up."""


class KernelFailed(Exception):
    """A kernel returned an error."""


class Timer:
    """Machine code that times kernels and drives arrays from the caches, loaded once in a process."""

    def __init__(self) -> None:
        target = native_target()
        self._library = Library.load([evaluator_object()])
        signature = ctypes.CFUNCTYPE(
            ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        self._time = signature(self._library.address("mlc_time_calls"))
        self._flush: Callable[[int, int], None] | None = None
        if can_flush(target):
            flush = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
            self._flush = flush(self._library.address("mlc_flush_cache"))
        self._ns = ctypes.c_int64()
        self.fault_handler = self._library.address("mlc_note_fault")
        self.fault_note = self._library.address("mlc_fault_note")

    def nanoseconds(self, kernel: int, args: int, rt: int, number: int) -> int:
        """The time of so many calls of a kernel; KernelFailed if one returns an error."""
        status = self._time(kernel, args, rt, number, ctypes.addressof(self._ns))
        if status:
            raise KernelFailed(f"the kernel returned error {status}")
        return self._ns.value

    def flush(self, arrays: Sequence[tuple[int, int]]) -> None:
        """Drive arrays, each an address and a size in bytes, from the caches; UserError where no program can."""
        if self._flush is None:
            raise UserError(f"expected a machine whose caches can be flushed, but got {native_target().architecture}")
        for address, size in arrays:
            if size:
                self._flush(address, size)


@cache
def evaluator_object() -> bytes:
    """The object file of the machine code that times."""
    return emit_object(evaluator_module(native_target()), native_target())


def time_evaluator(
    run: Callable[[int], int],
    evaluation: Evaluation,
    flush: Callable[[], None] | None = None,
    slower_than: float = float("inf"),
) -> tuple[float, ...]:
    """
    The seconds of a call, one number for each repeat.

    `run(number)` gives the nanoseconds of so many calls; `flush` is called before each repeat. Where the first repeat
    says more than `slower_than` seconds, no other follows.
    """
    number, least = max(1, evaluation.number), evaluation.min_repeat_ms * 1e6
    found: list[float] = []
    for repeat in range(max(1, evaluation.repeat)):
        if repeat and evaluation.cooldown_s:
            time.sleep(evaluation.cooldown_s)
        if flush is not None:
            flush()
        spent, zeros = run(number), 0
        while spent < least and zeros < _ZERO_READINGS:
            if spent:
                number = int(max(least / (spent / number) + 1, _GOLDEN_RATIO * number))
            else:
                zeros += 1
            spent = run(number)
        found.append(spent / number / 1e9)
        if found[0] > slower_than:
            break
    return tuple(found)
