"""Run a function in a child process: what it changes is forgotten, and if it crashes, this process lives on."""

from __future__ import annotations

import faulthandler
import gc
import mmap
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")
_NOTE_BYTES = 4096
_IMPORTED = ("mlc", "xdsl", "llvmlite")


class Note:
    """A line of text that a child process writes, and its parent reads after the child's death."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NOTE_BYTES)

    def write(self, text: str) -> None:
        """Replace the text."""
        data = text.encode()[: _NOTE_BYTES - 1]
        self._memory[: len(data) + 1] = data + b"\0"

    def read(self) -> str:
        """The text that was written last."""
        return self._memory[:].partition(b"\0")[0].decode(errors="replace")


@dataclass
class ChildOutcome(Generic[T]):
    """What became of a function in a child process: its value, or how the process died."""

    value: T | None = None
    died: str = ""
    """The signal that ended the process, `timeout`, or an exit code; empty if it returned a value."""


class ProcessDied(RuntimeError):
    """Machine code ended the process that ran it, by a signal or for its time."""

    def __init__(self, died: str) -> None:
        super().__init__(f"its machine code ended the process: {died}")
        self.died = died


def isolated(run: Callable[[], T], seconds: float = 60.0) -> ChildOutcome[T]:
    """
    What `run` returns, computed in a forked child process; the value is pickled on the way.

    The child is ended after so many seconds of its own CPU time, or ten times as many by the clock. An exception that
    `run` raises is a RuntimeError here, with the text of the original.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # the collector must not touch, and so copy, the pages that both processes share
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the parent has threads: the child uses none of them
        child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(run, writer, seconds)
    gc.unfreeze()
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as file:
            data = file.read()
    except BaseException:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        late = number in (signal.SIGPROF, signal.SIGALRM)
        return ChildOutcome(died="timeout" if late else signal.Signals(number).name)
    try:
        good, value, imported = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError):
        return ChildOutcome(died=f"exit code {os.waitstatus_to_exitcode(status)}")
    _import(imported)
    if not good:
        raise RuntimeError(value)
    return ChildOutcome(value)


def _new_modules(before: set[str]) -> list[str]:
    """The modules of mlc and of what it stands on that were imported since."""
    return [name for name in sys.modules if name not in before and name.partition(".")[0] in _IMPORTED]


def _import(names: list[str]) -> None:
    """Import what a child imported, so that the next one need not."""
    for name in names:
        with suppress(Exception):
            import_module(name)


def _serve(run: Callable[[], object], writer: int, seconds: float) -> None:
    """The life of the child; never returns."""
    faulthandler.disable()  # the parent reports the death
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    with suppress(ValueError, OSError):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    before = set(sys.modules)
    try:
        data = pickle.dumps((True, run(), _new_modules(before)))
    except BaseException as error:  # whatever it is, the parent is told
        data = pickle.dumps((False, f"{type(error).__name__}: {error}", _new_modules(before)))
    try:
        with os.fdopen(writer, "wb") as file:
            file.write(data)
    finally:
        os._exit(0)


@contextmanager
def quiet() -> Generator[None]:
    """Discard what the code inside writes to stdout and stderr, and its warnings."""
    from mlc.support.errors import warnings_to

    with open(os.devnull, "w") as null, warnings_to(lambda op, message: None):
        kept = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = null, null
        try:
            yield
        finally:
            sys.stdout, sys.stderr = kept
