"""The builders of a farm: processes, one a core, which build candidates beside each other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Built
from mlc.tuning.measure.forkserver import ForkServer, Worker
from mlc.tuning.measure.processes import death
from mlc.tuning.results import ErrorCode, MeasureInput


@dataclass(frozen=True)
class BuildJob:
    """A candidate to build; a task's default also gives the task's signature."""

    given: MeasureInput
    is_default: bool = False


class Crew:
    """At most `cores` builders, which are forked when they are needed, and anew where one was ended."""

    def __init__(self, server: ForkServer, cores: int, candidate: str) -> None:
        self._server, self._cores, self._candidate = server, cores, candidate
        self._idle: list[Worker] = []

    def build(self, jobs: Sequence[BuildJob], evaluation: Evaluation) -> Generator[tuple[int, Built]]:
        """Each job's number and outcome, as soon as it is known; closing the iterator ends the builders at work."""
        waiting = deque(range(len(jobs)))
        busy: dict[Connection[Any, Any], tuple[Worker, int, float]] = {}
        again: set[int] = set()
        try:
            while waiting or busy:
                while waiting and len(busy) < self._cores:
                    number = waiting.popleft()
                    worker = self._send(jobs[number], evaluation)
                    busy[worker.connection] = worker, number, time.monotonic() + evaluation.build_timeout_s
                first = min(deadline for _, _, deadline in busy.values())
                ready = wait(list(busy), max(0.0, first - time.monotonic()))
                now = time.monotonic()
                late = [c for c, (_, _, deadline) in busy.items() if deadline <= now and c not in ready]
                for connection in [*(c for c in busy if c in ready), *late]:
                    worker, number, _ = busy.pop(connection)
                    built = self._late(worker, evaluation) if connection in late else self._receive(worker)
                    if built is None and number not in again:
                        again.add(number)
                        waiting.appendleft(number)
                    else:
                        yield number, built or _ended("SIGKILL")
        finally:
            for worker, _, _ in busy.values():
                self._server.end(worker)

    def _send(self, job: BuildJob, evaluation: Evaluation) -> Worker:
        """Give a job to a builder, a new one if that which waited has died."""
        message = self._candidate, job.given, job.is_default, evaluation.memory_bytes
        while self._idle:
            worker = self._idle.pop()
            try:
                worker.connection.send(message)
                return worker
            except OSError:
                self._server.end(worker)
        worker = self._server.fork("builder")
        worker.connection.send(message)
        return worker

    def _receive(self, worker: Worker) -> Built | None:
        """The outcome of a job; None where somebody else has killed the builder, or the fork server."""
        try:
            built, is_worn = worker.connection.recv()
        except (EOFError, OSError):
            status = self._server.end(worker)
            how = "SIGKILL" if status is None else death(status)
            return None if how == "SIGKILL" else _ended(how)
        if is_worn:
            self._server.end(worker)
        else:
            self._idle.append(worker)
        return built

    def _late(self, worker: Worker, evaluation: Evaluation) -> Built:
        self._server.end(worker)
        seconds = evaluation.build_timeout_s
        message = f"the candidate took longer than {seconds:g} s to build"
        return Built(None, None, ErrorCode.BUILD_TIMEOUT, message, seconds)


def _ended(how: str) -> Built:
    return Built(None, None, ErrorCode.COMPILE_HOST, f"building the candidate ended its process with {how}")
