"""Objects to shared libraries on disk."""

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


LIBRARIES = ("m", "pthread")
"""What all code of mlc is linked with."""


def library_flags(libraries: Iterable[str]) -> list[str]:
    """The linker's flags for libraries: a name (`blas`), a file (`libblas.so.3`) or a path, kept for run time."""
    flags: list[str] = []
    for name in dict.fromkeys(libraries):
        if "/" in name:
            path = Path(name).resolve()
            flags += [str(path), f"-Wl,-rpath,{path.parent}"]
        else:
            flags.append(f"-l:{name}" if ".so" in name else f"-l{name}")
    return flags


def link_shared(objects: Iterable[bytes], path: str | Path, libraries: Iterable[str] = ()) -> Path:
    """
    Link objects into a shared library with the system's C compiler (`$CC`, or cc), and with libraries.

    `libraries` are names (`blas`, `libblas.so.3`) or paths. Raises UserError if the linker fails.
    """
    path = Path(path)
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        raise UserError(f"expected a C compiler to link {path.name}, but got no '{compiler[0]}'; set CC")
    with scratch_directory() as directory:
        files = _write(objects, directory)
        flags = ["-shared", "-fPIC", "-Wl,-z,noexecstack", f"-Wl,-soname,{path.name}"]
        command = [*compiler, *flags, "-o", str(path), *files, *library_flags([*libraries, *LIBRARIES])]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"expected {path.name} to link, but got: {done.stderr.strip()}")
    return path


def _write(objects: Iterable[bytes], directory: Path) -> list[str]:
    files: list[str] = []
    for index, data in enumerate(objects):
        file = directory / f"{index:04}.o"
        file.write_bytes(data)
        files.append(str(file))
    return files
