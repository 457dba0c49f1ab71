"""
The fork server: a process with mlc loaded and one thread, from which builders and runners are forked.

The tuner's own process may have threads, gigabytes of a model and an open database, none of which its children should
inherit. The fork server is started afresh, loads what they need once, and forks in milliseconds. It ends when the
tuner ends, and all that it has forked end with it.

    tuner -> fork server     ("fork", role), with one end of a pipe      the process id
                             ("end", process id)                         how it ended
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from mlc.support.errors import UserError
from mlc.tuning.measure.processes import end_with, settle

ROLES = {
    "builder": "mlc.tuning.measure.builder",
    "runner": "mlc.tuning.measure.runner",
    "session": "mlc.tuning.cluster.remote",
}
"""The modules whose `serve(connection)` a forked process runs; `warm()` of each is run before the first fork."""
_START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from mlc.tuning.measure.forkserver import main; main(int(sys.argv[2]), json.loads(sys.argv[3]))"
)
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""numpy's libraries must start no threads in a process that forks."""
_MESSAGE_BYTES = 1 << 16


class Worker:
    """A builder or runner, as the tuner sees it."""

    def __init__(self, pid: int, connection: Connection[Any, Any]) -> None:
        self.pid = pid
        self.connection = connection


class ForkServer:
    """Starts a fork server and asks it for processes; `preload` names modules that it imports besides."""

    def __init__(self, preload: tuple[str, ...] = ()) -> None:
        self._preload = preload
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self.start()

    def start(self) -> None:
        """Start the process; it is ready later."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno()), json.dumps(self._preload)]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if os.environ.get("MLC_FARM_STDERR") else subprocess.DEVNULL,
                env=os.environ | _ONE_THREAD,
            )
        self._socket, self._ready = ours, False

    def fork(self, role: str) -> Worker:
        """A new process of that role; a fork server that has died is started anew."""
        for attempt in range(2):
            pair = socket.socketpair()
            ours: Connection[Any, Any] = Connection(pair[0].detach())
            theirs = pair[1]
            try:
                return Worker(self._ask(("fork", role), theirs.fileno()), ours)
            except (EOFError, OSError):
                ours.close()
                if attempt:
                    raise
                self.close()
                self.start()
            finally:
                theirs.close()
        raise AssertionError("the second attempt returns or raises")

    def end(self, worker: Worker) -> int | None:
        """End a process; its wait status, which tells how it had ended if it had. None if the server is gone too."""
        worker.connection.close()
        try:
            return self._ask(("end", worker.pid))
        except (EOFError, OSError):
            return None

    def _ask(self, question: tuple[str, Any], handle: int | None = None) -> int:
        """The server's answer; EOFError or OSError if it is gone."""
        if self._socket is None:
            raise EOFError("the fork server is closed")
        if not self._ready:
            self._receive()
            self._ready = True
        handles = [] if handle is None else [handle]
        socket.send_fds(self._socket, [pickle.dumps(question)], handles)
        return self._receive()

    def _receive(self) -> Any:
        assert self._socket is not None
        data = self._socket.recv(_MESSAGE_BYTES)
        if not data:
            raise EOFError("the fork server has ended")
        good, value = pickle.loads(data)
        if not good:
            raise UserError(f"expected the processes of the farm to start, but got: {value}")
        return value

    @property
    def pid(self) -> int | None:
        """The process id of the server; None once it is closed."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the server, and with it all that it has forked."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def main(handle: int, preload: list[str]) -> None:
    """The fork server; never returns."""
    parent = os.getppid()
    settle()
    control = socket.socket(fileno=handle)
    try:
        for name in (*ROLES.values(), *preload):
            getattr(import_module(name), "warm", lambda: None)()
    except BaseException as error:
        control.send(pickle.dumps((False, f"{type(error).__name__}: {error}")))
        os._exit(1)
    control.send(pickle.dumps((True, 0)))
    gc.collect()
    gc.freeze()  # the collector must not touch, and so copy, the pages that all forked processes share
    children: set[int] = set()
    try:
        _serve(control, parent, children)
    finally:
        for child in children:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        os._exit(0)


def _serve(control: socket.socket, parent: int, children: set[int]) -> None:
    """Answer questions until the tuner is gone."""
    watched: list[Any] = [control]
    with suppress(AttributeError, OSError):  # without it, the end of the connection tells
        watched.append(os.pidfd_open(parent))
    while True:
        readable = select.select(watched, [], [], 5.0)[0]
        if os.getppid() != parent or len(readable) > (control in readable):
            return
        if not readable:
            continue
        data, handles, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 1)
        if not data:
            return
        kind, value = pickle.loads(data)
        if kind == "fork":
            answer = _fork(value, handles[0], control)
            children.add(answer)
        else:
            with suppress(OSError):
                os.kill(value, signal.SIGKILL)
            answer = os.waitpid(value, 0)[1] if value in children else 0
            children.discard(value)
        control.send(pickle.dumps((True, answer)))


def _fork(role: str, handle: int, control: socket.socket) -> int:
    """Fork a process of a role; its process id."""
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(handle)
        return child
    status = 1
    try:
        end_with(parent)
        control.close()
        import_module(ROLES[role]).serve(Connection(handle))
        status = 0
    finally:
        os._exit(status)
