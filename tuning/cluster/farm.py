"""The farm of a cluster: builds on the tuner's machine, runs on all devices of a key."""

from __future__ import annotations

import getpass
import logging
import platform
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from mlc.support.errors import UserError
from mlc.tuning.cluster.secret import address_of, need_distributed, security_of
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Built, RunOutcome
from mlc.tuning.measure.builder import CANDIDATE, CandidateMaker
from mlc.tuning.measure.builds import Builds
from mlc.tuning.measure.device import cannot_check
from mlc.tuning.measure.local import check_one_task, compared, failed_build, result_of
from mlc.tuning.results import ErrorCode, MeasureInput, MeasureResult

if TYPE_CHECKING:
    import os

    from mlc.tuning.cluster.server import Missing, RunAnswer

_LOOK_SECONDS = 1.0
"""How often the farm looks which devices there are."""
_ATTEMPTS = 3
"""Devices that may die under a candidate before it is given up."""


@dataclass
class _Sent:
    """Candidates that are at a device now."""

    job: int
    address: str
    future: Any


@dataclass
class _Job:
    """Candidates that run together: one of a batch, or all that are compared."""

    given: MeasureInput
    built: list[Built]
    rounds: int
    deaths: int = 0


def connected(address: str, secret: str | os.PathLike[str] | None, insecure: bool, timeout: float = 10.0) -> Any:
    """A client of the scheduler at that address; UserError where there is none, or it has another secret."""
    distributed = need_distributed()
    security = security_of(secret, insecure)
    address = address_of(address, security)
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is told in results and errors
    try:
        return distributed.Client(address, security=security, timeout=timeout, set_as_default=False)
    except (OSError, TimeoutError, RuntimeError, ValueError) as error:
        how = "with this secret " if security is not None else "without a secret "
        raise UserError(f"expected a scheduler at {address} {how}that answers, but got: {error}") from error


class ClusterFarm:
    """
    Builds here, and measures on the devices of a cluster: implements `mlc.tuning.farm.Farm`.

    `address` is that of the scheduler; `device` the key of the devices (needed where the cluster has several);
    `secret` the file of the cluster's secret, unless `insecure`; candidates of a higher `priority` run first. A device
    has one candidate at a time. Where a device dies, its candidate goes to another one; where none is left for
    `patience` seconds, candidates have the error UNKNOWN_ERROR.
    """

    def __init__(
        self,
        address: str,
        device: str | None = None,
        cores: int | None = None,
        candidate: CandidateMaker | str = CANDIDATE,
        *,
        secret: str | os.PathLike[str] | None = None,
        insecure: bool = False,
        priority: int = 0,
        patience: float = 60.0,
    ) -> None:
        self._address = address
        self._client = connected(address, secret, insecure)
        self._device, self._priority, self._patience = device, priority, patience
        self._builds = Builds(cores, candidate)
        self._sent: dict[str, set[str]] = {}
        """The digests of the artefacts that each device server has."""
        self._owner = f"{getpass.getuser()}@{platform.node()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster, and end all processes here."""
        self._builds.close()
        self._client.close()

    def measure(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, device: str | None = None
    ) -> Generator[tuple[int, MeasureResult]]:
        """
        Build all candidates, then run them, one on each device; each one's number and result as soon as it is known.

        Closing the iterator cancels those that no device has begun. UserError for a key that no device has.
        """
        return self._measure(inputs, evaluation, self._key(device))

    def _measure(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, key: str
    ) -> Generator[tuple[int, MeasureResult]]:
        built: list[Built] = []
        for number, one in self._builds.build(inputs, evaluation, built):
            yield number, failed_build(one, {"key": key})
        numbers = [k for k, one in enumerate(built) if one.artefact is not None]
        jobs = [_Job(inputs[k], [built[k]], 1) for k in numbers]
        for job, answer in self._run(jobs, evaluation, key):
            number = numbers[job]
            yield number, result_of(built[number], answer.outcomes[0][0], answer.seconds, answer.machine)

    def compare(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, rounds: int, device: str | None = None
    ) -> list[list[MeasureResult]]:
        """Measure candidates of one task in turns, `rounds` times, all on one device: see LocalFarm.compare."""
        key = self._key(device)
        check_one_task(inputs)
        built: list[Built] = []
        list(self._builds.build(inputs, evaluation, built))
        chosen = [one for one in built if one.artefact is not None]
        if not chosen:
            return compared(built, [], rounds, 0.0, {"key": key})
        ((_, answer),) = self._run([_Job(inputs[0], chosen, rounds)], evaluation, key)
        return compared(built, answer.outcomes, rounds, answer.seconds, answer.machine)

    def check_device(self) -> None:
        """UserError for a key that no device has, before anything is measured."""
        self._key(None)

    # --- devices -------------------------------------------------------------------------------------------------

    def _key(self, device: str | None) -> str:
        """The key that was asked for, or the only one; UserError where there are none or several."""
        from mlc.tuning.cluster.inventory import keys_of

        known = keys_of(self._client)
        wanted = device or self._device
        listed = ", ".join(f"'{key}'" for key in sorted(known)) or "none"
        if wanted is None and len(known) == 1:
            return next(iter(known))
        if wanted is None:
            raise UserError(
                f"expected a device key, as the cluster has several or no devices: {listed}; see mlc devices"
            )
        if wanted not in known:
            raise UserError(f"expected device {listed}, but got '{wanted}'; `mlc device-server --key` adds one")
        return wanted

    # --- running -------------------------------------------------------------------------------------------------

    def _run(self, jobs: Sequence[_Job], evaluation: Evaluation, key: str) -> Generator[tuple[int, RunAnswer]]:
        """Each job's number and answer; UserError where the scheduler ends."""
        try:
            yield from self._dispatch(jobs, evaluation, key)
        except Exception as error:  # of Dask, asyncio or the system, whichever notices first
            if self._client.status == "running":
                raise
            raise UserError(
                f"expected the scheduler at {self._address} to answer, but it has ended; results that came are kept, "
                "and the same command with --resume goes on"
            ) from error

    def _dispatch(self, jobs: Sequence[_Job], evaluation: Evaluation, key: str) -> Generator[tuple[int, RunAnswer]]:
        """Each job's number and answer, in the order in which devices give them."""
        from mlc.tuning.cluster.inventory import workers_of
        from mlc.tuning.cluster.server import Missing, RunAnswer

        waiting, sent = deque(range(len(jobs))), dict[str, _Sent]()
        failed = {k: self._unreferenced(job) for k, job in enumerate(jobs)}
        alone_since = time.monotonic()
        try:
            while waiting or sent:
                workers = workers_of(self._client, key)
                if workers:
                    alone_since = time.monotonic()
                for lost in [one for one in sent.values() if one.address not in workers]:
                    yield from self._lost(sent.pop(lost.address), jobs, waiting, key)
                for address in [a for a in workers if a not in sent]:
                    while waiting and (answer := failed[waiting[0]]) is not None:
                        yield waiting.popleft(), answer
                    if waiting:
                        job = waiting.popleft()
                        sent[address] = _Sent(job, address, self._submit(jobs[job], evaluation, address, key))
                if not workers and time.monotonic() - alone_since > self._patience:
                    message = f"no device '{key}' has been there for {self._patience:g} s"
                    while waiting:
                        job = waiting.popleft()
                        yield job, self._no_answer(jobs[job], message, key)
                for one in self._finished(sent):
                    del sent[one.address]
                    answer = self._answer(one, jobs[one.job], key)
                    if isinstance(answer, RunAnswer):
                        yield one.job, answer
                    elif isinstance(answer, Missing):
                        self._sent[one.address] -= set(answer.digests)
                        waiting.appendleft(one.job)
                    else:
                        yield from self._lost(one, jobs, waiting, key)
        finally:
            if self._client.status == "running":
                for one in sent.values():
                    one.future.cancel()

    def _finished(self, sent: dict[str, _Sent]) -> list[_Sent]:
        """Those at devices that have an answer, after some time at most."""
        if not sent:
            time.sleep(_LOOK_SECONDS / 10)
            return []
        try:
            with self._client.as_current():
                need_distributed().wait(
                    [one.future for one in sent.values()], timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED"
                )
        except TimeoutError:
            return []
        return [one for one in sent.values() if one.future.done()]

    def _answer(self, one: _Sent, job: _Job, key: str) -> RunAnswer | Missing | None:
        """What the device said; None where it died, or the task was taken from it."""
        if one.future.status == "finished":
            return one.future.result()
        error = one.future.exception() if one.future.status == "error" else None
        if error is None or isinstance(error, need_distributed().KilledWorker):
            return None
        return self._no_answer(job, f"{type(error).__name__}: {error}", key)

    def _lost(
        self, one: _Sent, jobs: Sequence[_Job], waiting: deque[int], key: str
    ) -> Generator[tuple[int, RunAnswer]]:
        """A device has died: its candidates go to another one, unless that happened too often."""
        one.future.cancel()
        self._sent.pop(one.address, None)
        job = jobs[one.job]
        job.deaths += 1
        if job.deaths < _ATTEMPTS:
            waiting.appendleft(one.job)
        else:
            message = f"{_ATTEMPTS} device servers have died while the candidate was there"
            yield one.job, self._no_answer(job, message, key)

    def _submit(self, job: _Job, evaluation: Evaluation, address: str, key: str) -> Any:
        """Send candidates to a device, with the artefacts that were not sent there before."""
        from mlc.tuning.cluster.server import RESOURCE, RUN, Batch, run_batch

        default = self._builds.defaults[job.given.task.key]
        artefacts = {_digest(default, "default"): default} | {
            _digest(one): replace(one, signature=None) for one in job.built
        }
        batch = Batch(
            job.given.task.key, _digest(default, "default"), tuple(map(_digest, job.built)), evaluation, job.rounds
        )
        known = self._sent.setdefault(address, set())
        uploads = {digest: one for digest, one in artefacts.items() if digest not in known}
        known.update(uploads)
        return self._client.submit(
            run_batch,
            batch,
            uploads,
            key=f"{RUN}|{self._owner}|{job.given.task.name}|{uuid4().hex}",
            workers=[address],
            resources={RESOURCE + key: 1},
            priority=self._priority,
            retries=0,
            pure=False,
        )

    def _unreferenced(self, job: _Job) -> RunAnswer | None:
        """The answer for candidates of a task whose default kernel cannot be built."""
        default = self._builds.defaults[job.given.task.key]
        if default.artefact is not None:
            return None
        return self._no_answer(job, cannot_check(RunOutcome((), default.error, default.message)), "")

    def _no_answer(self, job: _Job, message: str, key: str) -> RunAnswer:
        from mlc.tuning.cluster.server import RunAnswer

        outcome = RunOutcome((), ErrorCode.UNKNOWN_ERROR, message)
        return RunAnswer([[outcome] * job.rounds for _ in job.built], 0.0, {"key": key, "host": platform.node()})


def _digest(built: Built, prefix: str = "") -> str:
    assert built.artefact is not None, "only candidates that were built are sent"
    return prefix + built.artefact.digest
