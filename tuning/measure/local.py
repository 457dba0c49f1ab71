"""The farm of this machine: builders, then one runner, and never both at work at the same time."""

from __future__ import annotations

import platform
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Self

from mlc.support.errors import UserError
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, Built, RunOutcome
from mlc.tuning.measure.builder import CANDIDATE, CandidateMaker
from mlc.tuning.measure.builds import Builds
from mlc.tuning.measure.device import RunnerHandle
from mlc.tuning.results import MeasureInput, MeasureResult

LOCAL = "local"
"""The device key of this machine."""


class LocalFarm:
    """
    Builds and measures on this machine: implements `mlc.tuning.farm.Farm`.

    `cores` builders work beside each other (by default one for each CPU); `candidate` makes the IR of a candidate, a
    function of a module. The processes start with the farm, and end with it or with the process that made it. One
    iterator at a time may be open.
    """

    def __init__(self, cores: int | None = None, candidate: CandidateMaker | str = CANDIDATE) -> None:
        self._builds = Builds(cores, candidate)
        self._device = RunnerHandle(self._builds.server)
        self._machine = {"key": LOCAL, "host": platform.node()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self._builds.close()

    def measure(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, device: str | None = None
    ) -> Generator[tuple[int, MeasureResult]]:
        """
        Build all candidates, then run them one after another; each one's number and result as soon as it is known.

        Closing the iterator ends what is at work. UserError for another device than this machine.
        """
        _check_device(device)
        return self._measure(inputs, evaluation)

    def _measure(self, inputs: Sequence[MeasureInput], evaluation: Evaluation) -> Generator[tuple[int, MeasureResult]]:
        built: list[Built] = []
        for number, one in self._builds.build(inputs, evaluation, built):
            yield number, failed_build(one, self._machine)
        for number, one in enumerate(built):
            if one.artefact is not None:
                begin = time.perf_counter()
                outcome = self._run(inputs[number], [one.artefact], evaluation, 1)[0][0]
                yield number, result_of(one, outcome, time.perf_counter() - begin, self._machine)

    def compare(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, rounds: int, device: str | None = None
    ) -> list[list[MeasureResult]]:
        """
        Measure candidates of one task in turns, `rounds` times, in one process and on the same arrays.

        For each candidate its result in each round; `machine["handover_ns"]` says how long a cache line took between
        two CPUs in that round. UserError for candidates of several tasks.
        """
        _check_device(device)
        check_one_task(inputs)
        built: list[Built] = []
        list(self._builds.build(inputs, evaluation, built))
        begin = time.perf_counter()
        artefacts = [one.artefact for one in built if one.artefact is not None]
        found = self._run(inputs[0], artefacts, evaluation, rounds) if artefacts else []
        return compared(built, found, rounds, time.perf_counter() - begin, self._machine)

    def _run(
        self, given: MeasureInput, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> list[list[RunOutcome]]:
        key = given.task.key
        return self._device.run(key, self._builds.defaults[key], artefacts, evaluation, rounds)


# --- what the farm of a cluster does too ------------------------------------------------------------------------


def check_one_task(inputs: Sequence[MeasureInput]) -> None:
    """UserError unless all candidates are of one task."""
    if len({given.task.key for given in inputs}) > 1:
        raise UserError("expected candidates of one task to compare, but got several tasks")


def result_of(built: Built, outcome: RunOutcome, seconds: float, machine: Mapping[str, str]) -> MeasureResult:
    """The result of a candidate that was built and run."""
    facts = dict(machine)
    if outcome.handover_ns is not None:
        facts["handover_ns"] = f"{outcome.handover_ns:.0f}"
    return MeasureResult(outcome.seconds, outcome.error, outcome.message, built.seconds, seconds, time.time(), facts)


def failed_build(built: Built, machine: Mapping[str, str]) -> MeasureResult:
    """The result of a candidate that could not be built."""
    return result_of(built, RunOutcome((), built.error, built.message), 0.0, machine)


def compared(
    built: Sequence[Built],
    found: Sequence[Sequence[RunOutcome]],
    rounds: int,
    seconds: float,
    machine: Mapping[str, str],
) -> list[list[MeasureResult]]:
    """For each candidate its result in each round, from the outcomes of those that were built."""
    outcomes = iter(found)
    share = seconds / max(1, len(found) * rounds)
    return [
        [failed_build(one, machine)] * rounds
        if one.artefact is None
        else [result_of(one, outcome, share, machine) for outcome in next(outcomes)]
        for one in built
    ]


def _check_device(device: str | None) -> None:
    if device not in (None, LOCAL):
        raise UserError(f"expected device '{LOCAL}', but got '{device}'; other devices belong to a cluster (--cluster)")
