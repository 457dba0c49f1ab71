"""
Room for the last records when the disk is full: a file beside the database that is written in place.

A tuner that opens `r.db` makes `r.db-spare` of fixed size. A record that the database cannot take is written into it,
which needs no further block of the disk, and whoever opens the database next moves it over. The file is removed when
the last of its users closes it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path
from threading import Lock

SIZE = 256 << 10
"""Bytes: some 500 records, more than the batches of two tuners."""

_THREADS = Lock()
"""A lock of a file does not hold off other threads of its process."""


class Spare:
    """The file of spare room, shared by all processes that tune into one database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = _open(path)
        try:
            if os.fstat(self.handle).st_size < SIZE:
                _write(self.handle, b"\n" * SIZE, 0)
                os.fsync(self.handle)
        except OSError:
            os.close(self.handle)
            raise

    def write(self, lines: list[str]) -> bool:
        """Put lines into it, durably; False where they do not fit."""
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._locked():
            used = _used(self._read())
            if used + len(data) > SIZE:
                return False
            _write(self.handle, data, used)
            os.fsync(self.handle)
        return True

    def lines(self) -> list[str]:
        """What it holds; a line that was cut off is left out."""
        with self._locked():
            data = self._read()
        whole = data[: data.rfind(b"\n", 0, _used(data) + 1) + 1] if _used(data) else b""
        return [line for line in whole.decode(errors="replace").split("\n") if line.strip()]

    @contextmanager
    def taken(self) -> Generator[list[str]]:
        """Its lines, which are removed when the `with` statement ends without an exception."""
        lines = self.lines()
        yield lines
        if lines:
            with self._locked():
                data = self._read()
                rest = b"".join(
                    line + b"\n" for line in data.split(b"\n") if line.strip() and line.decode() not in lines
                )
                _write(self.handle, rest + b"\n" * (SIZE - len(rest)), 0)
                os.fsync(self.handle)

    def close(self) -> None:
        """Close it; the last user removes it unless it still holds lines."""
        try:
            flock(self.handle, LOCK_EX | LOCK_NB)
            if not _used(self._read()):
                self.path.unlink(missing_ok=True)
        except OSError:
            pass
        os.close(self.handle)

    def _read(self) -> bytes:
        return os.pread(self.handle, SIZE, 0)

    @contextmanager
    def _locked(self) -> Generator[None]:
        """Hold off other writers while bytes are read and written."""
        with _THREADS:
            guard = os.open(self.path, os.O_RDWR)
            try:
                os.lockf(guard, os.F_LOCK, 0)
                yield
            finally:
                os.close(guard)


def _open(path: Path) -> int:
    """The file, open and marked as used; one that its last user removes meanwhile is made again."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        flock(handle, LOCK_SH)
        try:
            if os.fstat(handle).st_ino == os.stat(path).st_ino:
                return handle
        except FileNotFoundError:
            pass
        flock(handle, LOCK_UN)
        os.close(handle)


def _write(handle: int, data: bytes, place: int) -> None:
    """Write all of the bytes at a place; on a full disk the first call writes a part only."""
    while data:
        count = os.pwrite(handle, data, place)
        data, place = data[count:], place + count


def _used(data: bytes) -> int:
    """The bytes up to the end of the last line."""
    text = data.rstrip(b"\n")
    return len(text) + 1 if text else 0
