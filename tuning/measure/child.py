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
_HEAD = 8
"""Bytes in front of a message that say how long it is."""


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a forked process ended: with a value, at its time limit, or by `died` (a signal or an exit code)."""

    value: T | None = None
    timed_out: bool = False
    died: str = ""


def in_child(run: Callable[[], T], seconds: float, memory_bytes: int) -> Ended[T]:
    """What `run` returns in a forked process, which is killed after so many seconds."""
    _reap()
    reader, writer = os.pipe()
    parent, deadline = os.getpid(), time.monotonic() + seconds
    child = os.fork()
    if child == 0:
        _live(run, parent, writer, memory_bytes)
    os.close(writer)
    data: bytes | None = None
    try:
        data = _message(reader, deadline)
    finally:
        os.close(reader)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _dying.append(child)
    if data:
        return Ended(pickle.loads(data))
    status = _reap()
    return Ended(timed_out=True) if data is None else Ended(died=death(status))


_dying: list[int] = []
"""The last child, where it has given its value: its memory is torn down while its value is stored elsewhere."""


def _reap() -> int:
    """Wait for the end of the last child, whose wait status this is; 0 where there is none."""
    status = 0
    while _dying:
        _, status = os.waitpid(_dying.pop(), 0)
    return status


def _message(reader: int, deadline: float) -> bytes | None:
    """The whole message of a child; b"" where the child ended before its end, None where it is late."""
    data = b""
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (piece := os.read(reader, _PIECE)):
            return b""
        data += piece
        if len(data) >= _HEAD and len(data) - _HEAD == int.from_bytes(data[:_HEAD], "little"):
            return data[_HEAD:]
    return None


def _live(run: Callable[[], object], parent: int, writer: int, memory_bytes: int) -> None:
    """The forked process; never returns."""
    faulthandler.disable()  # the parent reports its death
    try:
        end_with(parent)
        limit_memory(memory_bytes)
        value = pickle.dumps(run())
        data = len(value).to_bytes(_HEAD, "little") + value
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)
