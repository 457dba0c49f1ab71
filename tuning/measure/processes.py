"""Processes that end with their parents, and limits on what they may take."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """
    Let this process be killed when the thread that forked it ends; where the system has no such signal, it must notice
    the end of its connection. Ends at once if the parent, of this process id, is gone already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def settle() -> None:
    """What each process of a farm does first: no core files, the interrupt key is the tuner's, SIGTERM ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def address_space() -> int:
    """The bytes of virtual memory that this process has; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def limit_memory(more: int) -> None:
    """Let this process take so many bytes of virtual memory beyond those that it has."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = address_space() + more
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


@contextmanager
def limited_memory(more: int) -> Generator[None]:
    """`limit_memory` inside a `with` statement."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit_memory(more)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def death(status: int) -> str:
    """How a process ended, from its wait status: `SIGSEGV`, or `exit code 1`."""
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
