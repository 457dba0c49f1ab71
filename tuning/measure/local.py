"""The farm of this machine: builders, then one runner, and never both at work at the same time."""

from __future__ import annotations

import platform
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from mlc.support.errors import UserError
from mlc.support.threads import available_cpus
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, Built, Outcome
from mlc.tuning.measure.builder import CANDIDATE, CandidateMaker, maker_name
from mlc.tuning.measure.crew import BuildJob, Crew
from mlc.tuning.measure.forkserver import ForkServer, Worker
from mlc.tuning.measure.processes import death
from mlc.tuning.measure.reference import cannot_check
from mlc.tuning.measure.runner import TaskKey
from mlc.tuning.results import ErrorCode, MeasureInput, MeasureResult
from mlc.tuning.space import KnobValue, Values

LOCAL = "local"
"""The device key of this machine."""
_SLACK_SECONDS = 10.0
"""What the runner may take beyond the time limits of its candidates: filling arrays, linking, comparing."""
_DRAWS = 8
"""Runs of the default kernel at most, one for each draw of inputs that is tried, and one more."""


class LocalFarm:
    """
    Builds and measures on this machine: implements `mlc.tuning.farm.Farm`.

    `cores` builders work beside each other (by default one for each CPU); `candidate` makes the IR of a candidate, a
    function of a module. The processes start with the farm, and end with it or with the process that made it. One
    iterator at a time may be open.
    """

    def __init__(self, cores: int | None = None, candidate: CandidateMaker | str = CANDIDATE) -> None:
        name = maker_name(candidate)
        self._server = ForkServer((name.partition(":")[0],))
        self._crew = Crew(self._server, cores or available_cpus(), name)
        self._runner: Worker | None = None
        self._defaults: dict[TaskKey, Built] = {}
        """The default kernel of each task, built once."""
        self._machine = {"key": LOCAL, "host": platform.node()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes."""
        self._server.close()
        self._runner = None

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
        for number, one in self._build(inputs, evaluation, built):
            yield number, self._result(one, Outcome((), one.error, one.message), 0.0)
        for number, one in enumerate(built):
            if one.artefact is not None:
                begin = time.perf_counter()
                outcome = self._run(inputs[number], [one.artefact], evaluation, 1)[0][0]
                yield number, self._result(one, outcome, time.perf_counter() - begin)

    def compare(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, rounds: int, device: str | None = None
    ) -> list[list[MeasureResult]]:
        """
        Measure candidates of one task in turns, `rounds` times, in one process and on the same arrays.

        For each candidate its result in each round; `machine["handover_ns"]` says how long a cache line took between
        two CPUs in that round. UserError for candidates of several tasks.
        """
        _check_device(device)
        if len({given.task.key for given in inputs}) > 1:
            raise UserError("expected candidates of one task to compare, but got several tasks")
        built: list[Built] = []
        failed = dict(self._build(inputs, evaluation, built))
        begin = time.perf_counter()
        runnable = [k for k, one in enumerate(built) if one.artefact is not None]
        artefacts = [one.artefact for one in built if one.artefact is not None]
        found = self._run(inputs[0], artefacts, evaluation, rounds) if artefacts else []
        seconds = (time.perf_counter() - begin) / max(1, len(artefacts) * rounds)
        outcomes = dict(zip(runnable, found, strict=True))
        for number, one in failed.items():
            outcomes[number] = [Outcome((), one.error, one.message)] * rounds
        return [[self._result(built[k], outcome, seconds) for outcome in outcomes[k]] for k in range(len(inputs))]

    # --- building ------------------------------------------------------------------------------------------------

    def _build(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, built: list[Built]
    ) -> Iterator[tuple[int, Built]]:
        """Build candidates, and the defaults of new tasks; gives those that failed, and fills `built` with all."""
        built += [Built(None)] * len(inputs)
        plan = _BuildPlan.of(inputs, self._defaults)
        for number, one in self._crew.build(plan.jobs, evaluation):
            for place in plan.places[number]:
                built[place] = one
                if one.artefact is None:
                    yield place, one
            if plan.jobs[number].is_default:
                self._defaults[plan.jobs[number].given.task.key] = one
        for place, key in plan.known.items():
            built[place] = self._defaults[key]
            if built[place].artefact is None:
                yield place, built[place]

    # --- running -------------------------------------------------------------------------------------------------

    def _run(
        self, given: MeasureInput, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> list[list[Outcome]]:
        """The outcomes of candidates of a task, from the runner; a new one is made where it dies."""
        key = given.task.key
        limit = evaluation.run_timeout_s * len(artefacts) * rounds * len(artefacts) + _SLACK_SECONDS
        for _ in range(2):
            answer = self._ask(("run", key, artefacts, evaluation, rounds), limit)
            if isinstance(answer, list):
                return answer
            outcome = self._refer(key, evaluation) if answer is None else answer
            if outcome.error is not ErrorCode.NO_ERROR:
                return [[outcome] * rounds for _ in artefacts]
        raise AssertionError("the runner keeps the task that it has seen last")

    def _refer(self, key: TaskKey, evaluation: Evaluation) -> Outcome:
        """Let the runner run a task's default kernel."""
        default = self._defaults[key]
        if default.artefact is None:
            outcome = Outcome((), default.error, default.message)
        else:
            message = "reference", key, default.artefact, default.signature, evaluation
            outcome = self._ask(message, evaluation.run_timeout_s * _DRAWS + _SLACK_SECONDS)
        if outcome.error is ErrorCode.NO_ERROR:
            return outcome
        return Outcome((), ErrorCode.UNKNOWN_ERROR, cannot_check(outcome))

    def _ask(self, message: tuple[object, ...], seconds: float) -> list[list[Outcome]] | Outcome | None:
        """The runner's answer; an outcome where it dies or does not answer in time."""
        runner = self._runner
        if runner is None:
            runner = self._runner = self._server.fork("runner")
        done = False
        try:
            runner.connection.send(message)
            if not runner.connection.poll(seconds):
                return Outcome((), ErrorCode.RUN_TIMEOUT, f"the runner did not answer within {seconds:g} s")
            answer = runner.connection.recv()
            done = True
            return answer
        except (EOFError, OSError):
            status = self._server.end(runner)
            how = "an unknown signal" if status is None else death(status)
            return Outcome((), ErrorCode.UNKNOWN_ERROR, f"the runner was ended by {how}")
        finally:
            if not done:
                self._server.end(runner)
                self._runner = None

    def _result(self, built: Built, outcome: Outcome, seconds: float) -> MeasureResult:
        machine = dict(self._machine)
        if outcome.handover_ns is not None:
            machine["handover_ns"] = f"{outcome.handover_ns:.0f}"
        return MeasureResult(
            outcome.seconds, outcome.error, outcome.message, built.seconds, seconds, time.time(), machine
        )


@dataclass(frozen=True)
class _BuildPlan:
    """What is to be built for a batch, each candidate once, the defaults of new tasks first."""

    jobs: list[BuildJob]
    places: list[list[int]]
    """For each job the numbers of the inputs that it builds."""
    known: dict[int, TaskKey]
    """The inputs that are the default of a task, which is built already."""

    @staticmethod
    def of(inputs: Sequence[MeasureInput], defaults: Mapping[TaskKey, Built]) -> _BuildPlan:
        """The plan for these inputs."""
        numbers: dict[tuple[TaskKey, object], int] = {}
        plan = _BuildPlan([], [], {})

        def add(given: MeasureInput, is_default: bool) -> int:
            name = given.task.key, _frozen(given.values)
            if name not in numbers:
                numbers[name] = len(plan.jobs)
                plan.jobs.append(BuildJob(given, is_default))
                plan.places.append([])
            return numbers[name]

        for given in inputs:
            if given.task.key not in defaults:
                add(MeasureInput(given.task, given.task.space.default), True)
        for place, given in enumerate(inputs):
            if given.task.key in defaults and _frozen(given.values) == _frozen(given.task.space.default):
                plan.known[place] = given.task.key
            else:
                plan.places[add(given, False)].append(place)
        return plan


def _frozen(values: Values) -> frozenset[tuple[str, KnobValue]]:
    return frozenset(values.items())


def _check_device(device: str | None) -> None:
    if device not in (None, LOCAL):
        raise UserError(f"expected device '{LOCAL}', but got '{device}'; other devices belong to a cluster (--cluster)")
