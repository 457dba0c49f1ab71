"""
Remote sessions, as those of TVM's RPC: a device for oneself, files there, models that run there.

    with mlc.tuning.cluster.connect("tcp://host:8786", "rpi4", secret="farm.pem") as session:
        session.upload("model.mlcd")
        model = session.load("model.mlcd")
        outputs = model.run({"x": x})
        print(model.time_evaluator({"x": x}, repeat=10))
"""

from __future__ import annotations

import getpass
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from mlc.runtime.graph.benchmark import BenchmarkResult
from mlc.support.errors import UserError
from mlc.tuning.cluster.farm import connected
from mlc.tuning.cluster.inventory import keys_of
from mlc.tuning.cluster.remote import packed, unpack
from mlc.tuning.cluster.secret import need_distributed
from mlc.tuning.cluster.server import HOLD, RESOURCE, ask_session, hold

if TYPE_CHECKING:
    import os

    from mlc.runtime.arrays import Array, TensorSpec

Inputs = Mapping[str, Any] | Sequence[Any]
"""What an Executable takes: arrays by name, or in order."""


def connect(
    address: str,
    device: str,
    *,
    secret: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    priority: int = 0,
    timeout: float = 60.0,
    session_seconds: float = 3600.0,
    memory_bytes: int = 8 << 30,
) -> Session:
    """
    Have a device of that key for oneself, until the session is closed or `session_seconds` have passed.

    Sessions and batches of tuners are served by `priority`, then in the order in which they came. Models of the session
    may take `memory_bytes`. UserError where no such device becomes free within `timeout` seconds.
    """
    client = connected(address, secret, insecure)
    try:
        return Session(client, device, priority, timeout, session_seconds, memory_bytes)
    except BaseException:
        client.close()
        raise


class Session:
    """A device of a cluster that one has for oneself, with a directory of files; it ends with its `with` statement."""

    def __init__(
        self, client: Any, device: str, priority: int, timeout: float, session_seconds: float, memory_bytes: int
    ) -> None:
        known = keys_of(client)
        if device not in known:
            listed = ", ".join(f"'{key}'" for key in sorted(known)) or "none"
            raise UserError(f"expected device {listed}, but got '{device}'")
        self._client, self._name = client, uuid4().hex
        self._hold = client.submit(
            hold,
            self._name,
            session_seconds,
            memory_bytes,
            key=f"{HOLD}|{getpass.getuser()}@{platform.node()}|session|{self._name}",
            resources={RESOURCE + device: 1},
            priority=priority,
            retries=0,
            pure=False,
        )
        begin = need_distributed().Variable(f"{HOLD}-{self._name}", client=client)
        try:
            self.address: str = begin.get(timeout=timeout)
        except TimeoutError:
            self._hold.cancel()
            raise UserError(f"expected a device '{device}' to be free within {timeout:g} s, but got none") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the device back; its files are removed."""
        if self._client.status == "running":
            with suppress(UserError):
                self.ask("close")
            self._hold.release()
            self._client.close()

    def upload(self, source: str | os.PathLike[str], name: str | None = None) -> str:
        """Copy a file or folder to the device, under its own name or `name`; the name."""
        path = Path(source)
        data = packed(path)
        self.ask("upload", name or path.name, data)
        return name or path.name

    def download(self, name: str, target: str | os.PathLike[str]) -> None:
        """Copy a file or folder of the device here."""
        unpack(self.ask("download", name), Path(target))

    def remove(self, name: str) -> None:
        """Delete a file or folder of the device."""
        self.ask("remove", name)

    def load(self, name: str, threads: int | None = None) -> RemoteModel:
        """Load a model that `Executable.save` wrote; it runs on `threads`, or on as many as when it was saved."""
        number, inputs, outputs = self.ask("load", name, threads)
        return RemoteModel(self, number, inputs, outputs)

    def ask(self, kind: str, *arguments: Any) -> Any:  # each operation has a value of its own
        """The value of an operation (remote.py) on the device; UserError where it fails or the session is over."""
        task = f"{HOLD}-ask-{uuid4().hex}"
        future = self._client.submit(
            ask_session, self._name, (kind, arguments), key=task, workers=[self.address], retries=0, pure=False
        )
        while not future.done():
            if self._hold.done():
                raise UserError(f"expected an open session, but it has ended: {self._why()}")
            with suppress(TimeoutError):
                future.result(timeout=1.0)
        if future.status != "finished":
            raise UserError(f"expected an open session, but its device is gone: {future.exception()}")
        good, value = future.result()
        if not good:
            raise UserError(str(value))
        return value

    def _why(self) -> str:
        return str(self._hold.result()) if self._hold.status == "finished" else "its device is gone"


class RemoteModel:
    """A compiled model on a device."""

    def __init__(
        self, session: Session, number: int, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> None:
        self._session, self._number = session, number
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    def run(self, inputs: Inputs) -> dict[str, Array]:
        """The outputs by name, computed on the device."""
        return self._session.ask("run", self._number, inputs)

    def time_evaluator(
        self, inputs: Inputs, number: int = 1, repeat: int = 10, min_repeat_ms: float = 0.0
    ) -> BenchmarkResult:
        """Time runs on the device, by the arguments of TVM's time_evaluator; the way there and back does not count."""
        arguments = self._number, inputs, number, repeat, min_repeat_ms
        return BenchmarkResult(tuple(self._session.ask("time", *arguments)))
