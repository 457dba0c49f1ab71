"""
The device server: a Dask worker that runs candidates and holds remote sessions, one at a time.

    resource  device:KEY = 1     what a batch or a session takes while it has the machine
    plugin    DeviceServer       the fork server, the runner, the artefacts that were uploaded, the sessions

Tasks are functions of this module, which Dask calls in a thread of the worker; what they do with candidates they do in
forked processes.
"""

from __future__ import annotations

import platform
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin
from distributed.worker import get_worker

from mlc.tuning.cluster.remote import RemoteProcess
from mlc.tuning.cluster.secret import need_distributed
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, Built, RunOutcome
from mlc.tuning.measure.device import RunnerHandle, TaskKey
from mlc.tuning.measure.forkserver import ForkServer

PLUGIN = "mlc-device"
RESOURCE = "device:"
"""What a device key is called among a worker's resources."""
RUN, HOLD = "mlc-run", "mlc-session"
"""What the keys of tasks begin with: candidates that run, and sessions that have a device."""
KEPT_ARTEFACTS = 4096
"""Artefacts that a worker keeps for when they are asked for again."""


@dataclass(frozen=True)
class Missing:
    """The digests of artefacts that a worker does not have."""

    digests: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """Candidates of one task, by the digests of artefacts that were uploaded now or before."""

    key: TaskKey
    default: str
    """The digest of the default kernel."""
    candidates: tuple[str, ...]
    evaluation: Evaluation
    rounds: int = 1


@dataclass(frozen=True)
class RunAnswer:
    """The outcomes of a batch, and the machine that it ran on."""

    outcomes: list[list[RunOutcome]]
    seconds: float
    machine: dict[str, str]


@dataclass
class HeldSession:
    """A session that has this device: its process, and the event that ends it."""

    process: RemoteProcess
    over: threading.Event = field(default_factory=threading.Event)


class DeviceServer(WorkerPlugin):
    """What a worker has while it serves a device."""

    name = PLUGIN

    def __init__(self, key: str) -> None:
        self.key = key
        self.uploads = 0
        """Artefacts that arrived."""
        self.artefacts: OrderedDict[str, Built] = OrderedDict()
        self.sessions: dict[str, HeldSession] = {}
        self._lock = threading.Lock()

    def setup(self, worker: Worker) -> None:
        """Start the fork server."""
        self.server = ForkServer()
        self.device = RunnerHandle(self.server)
        self.address = worker.address

    def teardown(self, worker: Worker) -> None:
        """End all processes."""
        for session in list(self.sessions.values()):
            session.over.set()
        self.server.close()

    @property
    def machine(self) -> dict[str, str]:
        """What results say of this machine."""
        return {"key": self.key, "host": platform.node(), "worker": self.address}

    def run(self, batch: Batch, uploads: Mapping[str, Built]) -> RunAnswer | Missing:
        """The outcomes of a batch; what is missing where an artefact was never uploaded, or is kept no longer."""
        self.uploads += len(uploads)
        self.artefacts.update(uploads)
        wanted = (batch.default, *batch.candidates)
        missing = tuple(digest for digest in wanted if digest not in self.artefacts)
        if missing:
            return Missing(missing)
        begin = time.perf_counter()
        with self._lock:
            candidates = [_artefact(self.artefacts[digest]) for digest in batch.candidates]
            default = self.artefacts[batch.default]
            outcomes = self.device.run(batch.key, default, candidates, batch.evaluation, batch.rounds)
        for digest in wanted:
            self.artefacts.move_to_end(digest)
        while len(self.artefacts) > KEPT_ARTEFACTS:
            self.artefacts.popitem(last=False)
        return RunAnswer(outcomes, time.perf_counter() - begin, self.machine)


def _artefact(built: Built) -> Artefact:
    assert built.artefact is not None, "only candidates that were built are sent"
    return built.artefact


def _served() -> DeviceServer:
    """The plugin of the worker that runs this task."""
    plugin = get_worker().plugins[PLUGIN]
    assert isinstance(plugin, DeviceServer)
    return plugin


# --- tasks ---------------------------------------------------------------------------------------------------------


def run_batch(batch: Batch, uploads: Mapping[str, Built]) -> RunAnswer | Missing:
    """Run candidates on the device of this worker."""
    return _served().run(batch, uploads)


def hold(session: str, seconds: float, memory_bytes: int) -> str:
    """Have the device until the session is closed, its owner is gone, or so many seconds have passed; why it ended."""
    worker, plugin = get_worker(), _served()
    task = worker.get_current_task()
    held = plugin.sessions[session] = HeldSession(RemoteProcess(plugin.server, memory_bytes))
    deadline = time.monotonic() + seconds
    try:
        need_distributed().Variable(f"{HOLD}-{session}").set(worker.address)
        while time.monotonic() < deadline:
            if held.over.wait(0.2):
                return "closed"
            state = worker.state.tasks.get(task)
            if state is None or state.state == "cancelled":
                return "its owner is gone"
        return f"it lasted {seconds:g} s"
    finally:
        del plugin.sessions[session]
        held.process.close()


def ask_session(session: str, question: tuple[str, Sequence[Any]]) -> tuple[bool, Any]:
    """An operation of a remote session: whether it succeeded, and its value or why it failed."""
    held = _served().sessions.get(session)
    if held is None:
        return False, "expected an open session, but it is closed or its time is over"
    if question[0] == "close":
        held.over.set()
        return True, None
    return held.process.ask(*question)
