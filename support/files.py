"""Opening the files of models: regular ones only, for a pipe may never end, nor a device."""

from __future__ import annotations

import os
import stat
from io import BufferedReader

from mlc.support.errors import UserError


def open_file(path: str | os.PathLike[str], most: int | None = None) -> BufferedReader:
    """Open a regular file of at most `most` bytes; UserError where it is none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise UserError(f"{path}: expected a regular file, but got {_kind(status.st_mode)}")
    if most is not None and status.st_size > most:
        os.close(handle)
        raise UserError(f"{path}: expected a file of at most {most} bytes, but got {status.st_size}")
    return os.fdopen(handle, "rb")


def read_file(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The bytes of a regular file."""
    with open_file(path, most) as file:
        return file.read()


def _kind(mode: int) -> str:
    kinds = {"a directory": stat.S_ISDIR, "a pipe": stat.S_ISFIFO, "a socket": stat.S_ISSOCK}
    return next((name for name, test in kinds.items() if test(mode)), "a device")
