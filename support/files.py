"""Opening files of models: regular ones only, since reading a pipe or a device may never end."""

from __future__ import annotations

import mmap
import os
import stat
from io import BufferedReader

from mlc.support.errors import UserError


def open_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> BufferedReader:
    """Open a regular file of at most `max_bytes` bytes; UserError if it is missing, larger or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise UserError(f"{path}: expected a regular file, but got {_kind(status.st_mode)}")
    if max_bytes is not None and status.st_size > max_bytes:
        os.close(handle)
        raise UserError(f"{path}: expected a file of at most {max_bytes} bytes, but got {status.st_size}")
    return os.fdopen(handle, "rb")


def read_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> bytes:
    """The content of a regular file; UserError as `open_file`."""
    with open_file(path, max_bytes) as file:
        return file.read()


def map_file(path: str | os.PathLike[str], max_bytes: int | None = None) -> memoryview:
    """The content of a regular file, mapped: its pages are read when they are looked at. UserError as `open_file`."""
    with open_file(path, max_bytes) as file:
        if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _kind(mode: int) -> str:
    kinds = {"a directory": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    return next((name for name, test in kinds.items() if test(mode)), "a device")
