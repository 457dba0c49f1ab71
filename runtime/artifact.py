"""
A compiled model on disk: one directory, whole and checksummed, that runs without the compiler.

    model.json    inputs, outputs, the plan, the calls and their buffers, the objects, sizes and checksums of the rest
    model.sum     the checksum of model.json
    objects.bin   the object files, one after another
    weights.bin   the weights, each at a multiple of 64 bytes; mapped, not read
    code.so       the objects, linked, where there was a C compiler; otherwise they are linked when they are loaded
"""

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlc.support.errors import UserError
from mlc.support.scratch import ending_in_order, make_scratch, remove_scratch, scratch_directory

FORMAT = 3
"""Version of the format: 2 lists the CPU features that the code needs, 3 has other checksums of large files."""
LARGE = 1 << 22
"""Bytes from which on a file has `sums_of` for a checksum: SHA-256 reads 1.7 GB/s here, that one 9 GB/s."""
_ROW, _ROWS = 512, 512
MODEL, SUM, OBJECTS, WEIGHTS, CODE = "model.json", "model.sum", "objects.bin", "weights.bin", "code.so"


class DamagedArtifact(Exception):
    """A file of an artifact is not what was written."""


@dataclass(frozen=True)
class Artifact:
    """A directory with a compiled model, and its model.json."""

    path: Path
    model: dict[str, Any]

    @staticmethod
    def open(path: "str | os.PathLike[str]", *, check: bool = True) -> "Artifact":
        """Read model.json, and compare the other files with it; DamagedArtifact if they differ."""
        path = Path(path)
        try:
            text = (path / MODEL).read_bytes()
            if hashlib.sha256(text).hexdigest() != (path / SUM).read_text().strip():
                raise DamagedArtifact(f"{path / MODEL}: the checksum is wrong")
            model = json.loads(text)
            check_format(path, model.get("format"))
            for name, facts in model["files"].items():
                _compare(path / name, facts, check)
        except (OSError, ValueError) as error:
            raise DamagedArtifact(f"{path}: {error}") from error
        return Artifact(path, model)

    def objects(self) -> dict[str, bytes]:
        """The object files by name."""
        data = (self.path / OBJECTS).read_bytes()
        return {name: data[start : start + size] for name, start, size in self.model["objects"]}

    @property
    def code(self) -> Path | None:
        """The linked library, where there is one."""
        return self.path / CODE if CODE in self.model["files"] else None


def check_format(path: Path, got: object) -> None:
    """DamagedArtifact if an artefact is of a newer format, or of none."""
    if not isinstance(got, int) or got < 1:
        raise DamagedArtifact(f"{path}: expected format 1 to {FORMAT}, but got {got}; compile the model again")
    if got > FORMAT:
        raise DamagedArtifact(
            f"{path}: expected format 1 to {FORMAT}, but got {got}, which a newer mlc wrote; "
            "update mlc or compile the model again"
        )


def _compare(path: Path, facts: Mapping[str, Any], check: bool) -> None:
    size = path.stat().st_size
    if size != facts["bytes"]:
        raise DamagedArtifact(f"{path}: expected {facts['bytes']} bytes, but got {size}")
    if not check:
        return
    kind = "sums" if "sums" in facts else "sha256"
    if (sums_of(path) if kind == "sums" else checksum(path)) != facts[kind]:
        raise DamagedArtifact(f"{path}: the checksum is wrong")


def file_facts(path: Path) -> dict[str, Any]:
    """The bytes and the checksum of a file."""
    size = path.stat().st_size
    return {"bytes": size, **({"sums": sums_of(path)} if size >= LARGE else {"sha256": checksum(path)})}


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_of(path: Path) -> str:
    """
    The SHA-256 of the sums of the rows and of the columns of a file, as a matrix of 512 words of 64 bits a row.

    It finds damage (bits that flipped, blocks that are missing, zero, or at another place) as fast as memory is read,
    but not a forgery: code is run from the same directory.
    """
    import numpy as np

    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        whole = len(data) // (8 * _ROW) * _ROW
        words = np.frombuffer(data, "<u8", whole).reshape(-1, _ROW)
        columns = np.zeros(_ROW, "<u8")
        digest = hashlib.sha256(data[8 * whole :])
        for start in range(0, len(words), _ROWS):
            part = words[start : start + _ROWS]  # it stays in the cache for the second sum
            columns += part.sum(axis=0, dtype="<u8")
            digest.update(part.sum(axis=1, dtype="<u8").tobytes())
            del part
        digest.update(columns.tobytes())
        del words  # the map is closed
    return digest.hexdigest()


@dataclass
class Draft:
    """An artifact that is being written; `finish` makes it whole."""

    path: Path
    model: dict[str, Any] = field(default_factory=dict)

    def write_objects(
        self, objects: Mapping[str, bytes], link: Callable[[Iterable[bytes], Path], object] | None = None
    ) -> None:
        """Write the object files, and link them into a shared library where there is a linker."""
        start = 0
        index: list[tuple[str, int, int]] = []
        for name, data in objects.items():
            index.append((name, start, len(data)))
            start += len(data)
        (self.path / OBJECTS).write_bytes(b"".join(objects.values()))
        self.model["objects"] = index
        if link is not None:
            link(objects.values(), self.path / CODE)

    def finish(self) -> Artifact:
        """Write model.json and the checksums."""
        files = [name for name in (OBJECTS, WEIGHTS, CODE) if (self.path / name).exists()]
        facts = {name: file_facts(self.path / name) for name in files}
        model = {"format": FORMAT, **self.model, "files": facts}
        text = json.dumps(model, separators=(",", ":")).encode()
        (self.path / MODEL).write_bytes(text)
        (self.path / SUM).write_text(hashlib.sha256(text).hexdigest())
        return Artifact(self.path, model)


@contextmanager
def drafted(parent: "Path | None") -> Generator[Draft]:
    """A draft in a new scratch directory, which is removed if it is not finished in good order."""
    with ending_in_order():
        path = make_scratch(parent)
        try:
            yield Draft(path)
        except BaseException:
            remove_scratch(path)
            raise


@contextmanager
def written(path: Path) -> Generator[None]:
    """Report an OSError as a UserError about `path`, not about the temporary files beside it."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def copy_to(artifact: Artifact, directory: "str | os.PathLike[str]") -> Path:
    """Copy an artifact into `directory`, which is made, or replaced if it holds one."""
    from shutil import copytree

    target = Path(directory)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / MODEL).exists())):
        raise UserError(f"expected {target} to be empty or a saved executable, but it holds something else")
    target.parent.mkdir(parents=True, exist_ok=True)
    with written(target), scratch_directory(target.parent) as scratch:
        fresh = scratch / "new"
        copytree(artifact.path, fresh)
        fresh.chmod(0o755)
        if target.exists():
            target.rename(scratch / "old")
        fresh.rename(target)
    return target
