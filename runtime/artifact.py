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
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlc.support.errors import UserError
from mlc.support.scratch import ending_in_order, make_scratch, remove_scratch, scratch_directory

FORMAT = 2
"""Version of the format: 2 lists the CPU features that the code needs; 1, without them, is still read."""
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
    if check and checksum(path) != facts["sha256"]:
        raise DamagedArtifact(f"{path}: the checksum is wrong")


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        facts = {n: {"bytes": (self.path / n).stat().st_size, "sha256": checksum(self.path / n)} for n in files}
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
