"""Objects to shared libraries and archives on disk."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory


def has_compiler() -> bool:
    """Whether objects can be linked into a shared library here."""
    return shutil.which(os.environ.get("CC", "cc").split()[0]) is not None


def link_shared(objects: Iterable[bytes], path: str | Path, libraries: Iterable[str] = ("m", "pthread")) -> Path:
    """Link objects into a shared library with the system's C compiler (`$CC`, or cc); UserError if that fails."""
    path = Path(path)
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        raise UserError(f"expected a C compiler to link {path.name}, but got no '{compiler[0]}'; set CC")
    with scratch_directory() as directory:
        files = _write(objects, directory)
        flags = ["-shared", "-fPIC", "-Wl,-z,noexecstack", f"-Wl,-soname,{path.name}"]
        command = [*compiler, *flags, "-o", str(path), *files, *(f"-l{name}" for name in libraries)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"expected {path.name} to link, but got: {done.stderr.strip()}")
    return path


def archive(objects: Iterable[bytes], path: str | Path) -> Path:
    """Put objects into a static library with ar; the same objects give the same bytes. UserError if that fails."""
    path = Path(path)
    program = os.environ.get("AR", "ar")
    if shutil.which(program) is None:
        raise UserError(f"expected an archiver to write {path.name}, but got no '{program}'; set AR")
    path.unlink(missing_ok=True)
    with scratch_directory() as directory:
        files = _write(objects, directory)
        done = subprocess.run([program, "rcsD", str(path), *files], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"expected {path.name} to be archived, but got: {done.stderr.strip()}")
    return path


def _write(objects: Iterable[bytes], directory: Path) -> list[str]:
    files: list[str] = []
    for index, data in enumerate(objects):
        file = directory / f"{index:04}.o"
        file.write_bytes(data)
        files.append(str(file))
    return files
