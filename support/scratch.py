"""
Temporary directories of one process, removed when its work ends, also when a signal ends it.

    mlc.<pid>.<start>.<random>      the process that owns it, and when that started; locked while the owner lives

A directory is removed when its work is done, and on an exception, SIGINT, SIGTERM or SIGHUP. What SIGKILL leaves is
removed by the next process of the same user that makes a directory in the same place. It finds out by the process id
whether the owner lives and, as the number may be that of another container, by the lock, which the kernel releases
when the owner and all that it forked have ended.
"""

import fcntl
import os
import re
import signal
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from shutil import rmtree

PREFIX = "mlc."
_NAME = re.compile(r"mlc\.(\d+)\.(\d+)\.\w+")
_UNKNOWN = "0"
"""The start time of a process where the system does not report it."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_held: dict[Path, int] = {}
"""The directories of this process -> the file descriptors that hold their locks."""


class Terminated(BaseException):
    """Raised by a signal that ends this process, so that the directories are removed on the way out."""


@contextmanager
def scratch_directory(parent: Path | None = None) -> Generator[Path]:
    """A directory inside `parent` (else where temporary files are), removed when it is left."""
    with ending_in_order():
        path = make_scratch(parent)
        try:
            yield path
        finally:
            remove_scratch(path)


def make_scratch(parent: Path | None = None) -> Path:
    """A new directory, until `remove_scratch`, or `release_scratch` once it has another name or another owner."""
    parent = Path(tempfile.gettempdir()) if parent is None else parent
    sweep(parent.absolute())
    owner = os.getpid()
    path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{owner}.{_started(owner)}.", dir=parent))
    _held[path] = os.open(path, os.O_RDONLY)
    with suppress(OSError):  # a file system without locks: the directory is then never taken for abandoned
        fcntl.flock(_held[path], fcntl.LOCK_EX | fcntl.LOCK_NB)
    return path


def remove_scratch(path: Path) -> None:
    """Remove a directory; that of a parent process is left to the parent."""
    if path not in _held or path.name.startswith(f"{PREFIX}{os.getpid()}."):
        rmtree(path, ignore_errors=True)
    release_scratch(path)


def release_scratch(path: Path) -> None:
    """Forget a directory, which stays."""
    if (handle := _held.pop(path, None)) is not None:
        os.close(handle)


@contextmanager
def ending_in_order() -> Generator[None]:
    """
    SIGTERM and SIGHUP end this process only after the `with` statements and `finally` clauses inside have run.

    Signals that the program handles or ignores are left alone, and all of them outside the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in _SIGNALS if main and signal.getsignal(number) is signal.SIG_DFL]
    received: list[int] = []
    owner = os.getpid()

    def handler(number: int, frame: object) -> None:
        received.append(number)
        if len(received) == 1:  # a second one must not stop the removal
            raise Terminated(signal.Signals(number).name)

    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is handler:
                signal.signal(number, signal.SIG_DFL)
        if received and os.getpid() == owner:
            for path in list(_held):  # also what outlives this block otherwise
                remove_scratch(path)
            os.kill(owner, received[0])


@cache
def sweep(parent: Path) -> None:
    """Remove the directories inside `parent` whose owners have ended; once a process."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            match = _NAME.fullmatch(entry.name)
            if match and not _is_alive(*match.groups()):
                with suppress(OSError):
                    _remove_abandoned(Path(entry.path))


def _remove_abandoned(path: Path) -> None:
    """Remove a directory of this user unless its lock is held (OSError)."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)


def _is_alive(pid: str, start: str) -> bool:
    """Whether a process runs here that has this number and started then; only the lock tells if that is unknown."""
    return start != _UNKNOWN and _started(int(pid)) == start


def _started(pid: int) -> str:
    """The start time of a process in clock ticks since boot; `_UNKNOWN` if it has ended or never was."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return _UNKNOWN
    return _UNKNOWN if state in "ZX" else rest[18]
