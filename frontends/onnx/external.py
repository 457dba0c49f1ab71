"""
The bytes of tensors that lie outside of their TensorProto: external data, and raw data that stays in the mapped model.

External data is only ever read from a regular, unlinked file in the model's own directory.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import onnx

from mlc.support.errors import UserError


@dataclass(frozen=True)
class ExternalData:
    """Where to look for a model's bytes outside of its tensors."""

    directory: Path | None = None
    """The model's directory; None of a model in memory, which cannot have external data."""
    model: memoryview = field(default=memoryview(b""), repr=False)
    """The mapped model file; empty where protobuf has read all of it."""
    location: str = ""
    """The location that stands for the model file itself, which only mlc's own records name."""

    def array(self, tensor: onnx.TensorProto, place: str, size: int) -> Any:
        """The bytes of a tensor of external data, of which it needs `size`: a view of a mapped file."""
        record = {entry.key: entry.value for entry in tensor.external_data}
        location = record.get("location", "")
        if self.location and location == self.location:
            return self._in_model(tensor, place, size, int(record["offset"]), int(record["length"]))
        if self.directory is None:
            raise UserError(f"{place}: its data is in the file '{location}': load the model from its path")
        try:
            offset, length = int(record.get("offset", 0)), int(record.get("length", size))
        except ValueError as error:
            raise UserError(f"{place}: expected integers for offset and length of external data: {error}") from error
        with _open_external(self.directory, location, place) as file:
            available = os.fstat(file.fileno()).st_size
            if length != size or offset < 0 or offset + length > available:
                found = f"{length} at {offset} of {available}"
                raise UserError(f"{place}: expected {size} bytes in '{location}', but got {found}")
            return np.asarray(np.memmap(file, np.uint8, "r", offset, (size,))) if size else np.zeros(0, np.uint8)

    def _in_model(self, tensor: onnx.TensorProto, place: str, size: int, offset: int, length: int) -> Any:
        check_raw_size(tensor, place, size, length)
        return np.frombuffer(self.model[offset : offset + length], np.uint8)


def check_raw_size(tensor: onnx.TensorProto, place: str, size: int, found: int) -> None:
    """UserError unless the raw data of a tensor has as many bytes as its shape needs."""
    if found != size:
        raise UserError(f"{place}: expected {size} bytes for {list(tensor.dims)}, but got {found}")


def _open_external(directory: Path, location: str, place: str) -> IO[bytes]:
    """
    Open external data, which must be a regular file without links below the model's directory.

    Each part of its path is opened relative to the one before, so that nothing can be replaced between check and use.
    """
    parts = PurePosixPath(location).parts
    if not parts or location.startswith(("/", "\\")) or "\\" in location or ".." in parts or "\0" in location:
        raise UserError(f"{place}: expected external data below the model's directory, but got '{location}'")
    handle = os.open(directory, os.O_RDONLY)
    try:
        for part in parts:
            outer, handle = handle, _open_part(handle, part, location, place)
            os.close(outer)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise UserError(f"{place}: expected external data in a regular file without links, but got '{location}'")
        return os.fdopen(os.dup(handle), "rb")
    finally:
        os.close(handle)


def _open_part(directory: int, part: str, location: str, place: str) -> int:
    """Open one part of a path relative to its directory, without following links or waiting for pipes."""
    try:
        return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(
                f"{place}: expected external data in a file without links, but '{location}' is one"
            ) from error
        raise UserError(f"{place}: external data '{location}': {error.strerror}") from error
