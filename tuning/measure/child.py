"""Run a function in a forked process that may crash, hang or take too much memory, and tell what became of it."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlc.tuning.measure.processes import death, end_with, limit_memory

T = TypeVar("T")
_PIECE = 1 << 20


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a forked process ended: with a value, at its time limit, or by `died` (a signal or an exit code)."""

    value: T | None = None
    timed_out: bool = False
    died: str = ""


def in_child(run: Callable[[], T], seconds: float, memory_bytes: int) -> Ended[T]:
    """What `run` returns in a forked process, which is killed after so many seconds."""
    reader, writer = os.pipe()
    parent, deadline = os.getpid(), time.monotonic() + seconds
    child = os.fork()
    if child == 0:
        _live(run, parent, writer, memory_bytes)
    os.close(writer)
    data, late = b"", False
    try:
        while True:
            if not select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
                late = True
                break
            if not (piece := os.read(reader, _PIECE)):
                break
            data += piece
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if late:
        return Ended(timed_out=True)
    try:
        return Ended(pickle.loads(data))
    except (EOFError, pickle.UnpicklingError):
        return Ended(died=death(status))


def _live(run: Callable[[], object], parent: int, writer: int, memory_bytes: int) -> None:
    """The forked process; never returns."""
    faulthandler.disable()  # the parent reports its death
    try:
        end_with(parent)
        limit_memory(memory_bytes)
        data = pickle.dumps(run())
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)
