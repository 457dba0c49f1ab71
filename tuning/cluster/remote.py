"""The process of a remote session on the device's side: a work directory, and models that are loaded and run there."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from mlc.support.errors import UserError
from mlc.support.scratch import make_scratch, remove_scratch
from mlc.tuning.measure.forkserver import ForkServer
from mlc.tuning.measure.processes import death, limit_memory, settle

if TYPE_CHECKING:
    from mlc.runtime.executable import Executable


class RemoteProcess:
    """A forked process for the models of a session; files are kept beside it, and outlive it."""

    def __init__(self, server: ForkServer, memory_bytes: int) -> None:
        self._server, self._memory_bytes = server, memory_bytes
        self.folder = make_scratch()
        self._worker = server.fork("session")
        self._worker.connection.send((str(self.folder), memory_bytes))

    def ask(self, kind: str, arguments: Sequence[Any]) -> tuple[bool, Any]:
        """Whether an operation succeeded, and its value or why not. A crash costs the loaded models only."""
        try:
            self._worker.connection.send((kind, arguments))
            return self._worker.connection.recv()
        except (EOFError, OSError):
            status = self._server.end(self._worker)
            how = "an unknown signal" if status is None else death(status)
            self._worker = self._server.fork("session")
            self._worker.connection.send((str(self.folder), self._memory_bytes))
            return False, f"the session's process on the device was ended by {how}; load the models again"

    def close(self) -> None:
        """End the process and remove the files."""
        self._server.end(self._worker)
        remove_scratch(self.folder)


def packed(path: Path) -> bytes:
    """A file or folder as the bytes of a tar archive."""
    if not path.exists():
        raise UserError(f"{path}: expected a file or a folder to upload")
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(path, "content")
    return data.getvalue()


def unpack(data: bytes, path: Path) -> None:
    """Write what `packed` read; what stood there is replaced."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        folder = path.parent / f".{path.name}.new"
        archive.extractall(folder, filter="data")
        if path.is_dir():
            rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / "content", path)
        folder.rmdir()


class Operations:
    """The operations of a session, by name; each raises UserError where it is refused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models: list[Executable] = []

    def _place(self, name: str) -> Path:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise UserError(f"expected a name inside of the session's directory, but got '{name}'")
        return self._folder / path

    def _found(self, name: str) -> Path:
        path = self._place(name)
        if not path.exists():
            known = ", ".join(sorted(p.name for p in self._folder.iterdir())) or "nothing"
            raise UserError(f"expected an uploaded file, but got '{name}'; the session has {known}")
        return path

    def upload(self, name: str, data: bytes) -> None:
        """Write a file or folder."""
        unpack(data, self._place(name))

    def download(self, name: str) -> bytes:
        """A file or folder, packed."""
        return packed(self._found(name))

    def remove(self, name: str) -> None:
        """Delete a file or folder."""
        path = self._found(name)
        if path.is_dir():
            rmtree(path)
        else:
            path.unlink()

    def load(self, name: str, threads: int | None) -> tuple[int, list[Any], list[Any]]:
        """Load a saved model: its number, inputs and outputs."""
        from mlc.driver.toolchain import load_executable

        exe = load_executable(self._found(name), threads)
        self._models.append(exe)
        return len(self._models) - 1, list(exe.inputs), list(exe.outputs)

    def run(self, model: int, inputs: Any) -> Any:
        """The outputs of a model by name."""
        return dict(self._models[model](inputs))

    def time(self, model: int, inputs: Any, number: int, repeat: int, min_repeat_ms: float) -> tuple[float, ...]:
        """Seconds of a run, one number for each repeat."""
        from mlc.runtime.graph.benchmark import measure

        exe = self._models[model]
        return measure(lambda: exe(inputs), repeat, number, min_repeat_ms).results


def serve(connection: Connection[Any, Any]) -> None:
    """Do what is asked, until the connection ends."""
    settle()
    folder, memory_bytes = connection.recv()
    limit_memory(memory_bytes)
    operations = Operations(Path(folder))
    while True:
        try:
            kind, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(operations, kind)(*arguments)
        except (UserError, ValueError, OSError) as error:
            answer = False, str(error)
        except Exception as error:
            answer = False, f"{type(error).__name__}: {error}"
        connection.send(answer)
