"""Building a batch of candidates on this machine: each once, and the default kernel of each task that is new."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlc.support.threads import available_cpus
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Built
from mlc.tuning.measure.builder import CandidateMaker, maker_name
from mlc.tuning.measure.crew import BuildJob, Crew
from mlc.tuning.measure.device import TaskKey
from mlc.tuning.measure.forkserver import ForkServer
from mlc.tuning.results import MeasureInput
from mlc.tuning.space import KnobValue, Values


class Builds:
    """Builders of candidates, `cores` beside each other (0: one for each CPU), and the default kernels they built."""

    def __init__(self, cores: int | None, candidate: CandidateMaker | str) -> None:
        name = maker_name(candidate)
        self.server = ForkServer((name.partition(":")[0],))
        self.crew = Crew(self.server, cores or available_cpus(), name)
        self.defaults: dict[TaskKey, Built] = {}
        """The default kernel of each task, with the task's signature."""

    def build(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, built: list[Built]
    ) -> Iterator[tuple[int, Built]]:
        """Build candidates, and the defaults of new tasks; gives those that failed, and fills `built` with all."""
        built += [Built(None)] * len(inputs)
        plan = _BuildPlan.of(inputs, self.defaults)
        for number, one in self.crew.build(plan.jobs, evaluation):
            if plan.jobs[number].is_default:
                self.defaults[plan.jobs[number].given.task.key] = one
            for place in plan.places[number]:
                built[place] = one
                if one.artefact is None:
                    yield place, one
        for place, key in plan.known.items():
            built[place] = self.defaults[key]
            if built[place].artefact is None:
                yield place, built[place]

    def close(self) -> None:
        """End all processes."""
        self.server.close()


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
