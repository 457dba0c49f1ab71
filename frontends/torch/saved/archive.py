"""The records of a .pt2 file: a zip archive of uncompressed records."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlc.support.errors import UserError
from mlc.support.files import open_file
from mlc.support.limits import limits

_LOCAL = struct.Struct("<4s22xHH")
"""The header before a record: its magic number, and at its end the lengths of the name and of the extra field."""
_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 1
"""The flag of a record that is encrypted."""


class Archive:
    """An open .pt2 file; records are named by their paths below the archive's one folder."""

    def __init__(self, path: Path):
        self.path = path
        self._file = open_file(path)
        try:
            with self._reading():
                self._zip = zipfile.ZipFile(self._file)
            self._records = self._named(self._zip.infolist())
        except BaseException:
            self._file.close()
            raise
        self.bytes = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()
        self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._records

    def fail(self, message: str) -> UserError:
        """An error about this file."""
        return UserError(f"{self.path}: {message}")

    def json(self, name: str) -> Any:
        """A record of JSON."""
        record = self._record(name)
        if record.file_size > limits.input_bytes:
            raise self.fail(f"expected a record '{name}' of at most {limits.input_bytes} bytes")
        with self._reading():
            data = self._zip.read(record)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.fail(f"expected JSON in '{name}', but got {error}") from error

    def place(self, name: str) -> tuple[int, int]:
        """Where the bytes of a record begin in the file, and how many there are."""
        record = self._record(name)
        with self._reading():
            self._file.seek(record.header_offset)
            magic, *lengths = _LOCAL.unpack(self._file.read(_LOCAL.size))
        start = record.header_offset + _LOCAL.size + sum(lengths)
        if magic != _MAGIC or start + record.file_size > self.bytes:
            raise self.fail(f"expected the record '{name}' inside the file")
        return start, record.file_size

    def program(self) -> str:
        """The name of the one program that the file holds."""
        models = [name[len("models/") : -len(".json")] for name in self._records if _is_program(name)]
        if len(models) == 1:
            return models[0]
        if models:
            raise self.fail(f"expected one program, but got {len(models)}: {', '.join(sorted(models))}")
        if any(name.startswith("data/aotinductor/") for name in self._records):
            raise self.fail("expected an exported program, but got one that AOTInductor compiled; export the module")
        raise self.fail("expected a file of torch.export.save, but found no program in it")

    def _named(self, records: Sequence[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        """The records by their names below the folder."""
        if any(record.filename == "serialized_exported_program.json" for record in records):
            raise self.fail("expected a file of torch 2.8 or newer; load this one with torch.export.load and save it")
        named = {record.filename.partition("/")[2]: record for record in records}
        if len(named) != len(records) or len({record.filename.partition("/")[0] for record in records}) > 1:
            raise self.fail("expected records of different names in one folder")
        return named

    def _record(self, name: str) -> zipfile.ZipInfo:
        record = self._records.get(name)
        if record is None:
            raise self.fail(f"expected a record '{name}', but found none")
        plain = record.compress_type == zipfile.ZIP_STORED and record.compress_size == record.file_size
        if not plain or record.flag_bits & _ENCRYPTED:
            raise self.fail(f"expected the record '{name}' as it is, but it is compressed or encrypted")
        return record

    @contextmanager
    def _reading(self) -> Generator[None]:
        """A context that turns zipfile's errors about a malformed archive into a UserError."""
        try:
            yield
        except UserError:
            raise
        except (zipfile.BadZipFile, struct.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise self.fail(f"expected a file of torch.export.save, but it is no such archive: {error}") from error


def _is_program(name: str) -> bool:
    return name.startswith("models/") and name.endswith(".json")


__all__ = ["Archive"]
