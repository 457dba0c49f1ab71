"""
The runner: keeps the arrays of the last tasks, and forks a process for each candidate that it is sent.

    ("reference", key, artefact, signature, evaluation)     a task's default kernel, which gives the outputs to compare
        -> RunOutcome of the default kernel
    ("run", key, artefacts, evaluation, rounds)             candidates of a task, to be timed in turns
        -> a list of RunOutcome for each of them, one for each round; None where the task's arrays are not here
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Sequence
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from mlc.codegen.pool.loaded import native
from mlc.driver.toolchain import host_probes
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, RunOutcome, Signature
from mlc.tuning.measure.child import Ended, in_child
from mlc.tuning.measure.device import TaskKey
from mlc.tuning.measure.evaluator import Timer, evaluator_object
from mlc.tuning.measure.processes import settle
from mlc.tuning.measure.reference import make_reference
from mlc.tuning.measure.trial import CrashNote, TaskArrays, Trials, outcome_of
from mlc.tuning.results import ErrorCode

KEPT_BYTES = 1 << 31
"""Arrays of tasks that a runner keeps; the task used last stays whatever it takes."""


class TaskRunner:
    """The state of a runner."""

    def __init__(self) -> None:
        self.timer, self.note = Timer(), CrashNote()
        native()  # links the pool's code, which starts no thread here
        self.probes = host_probes()
        self.tasks: OrderedDict[TaskKey, TaskArrays] = OrderedDict()

    def reference(self, key: TaskKey, artefact: Artefact, signature: Signature, evaluation: Evaluation) -> RunOutcome:
        """Run a task's default kernel, and keep its arrays."""
        self.tasks.pop(key, None)
        while self.tasks and sum(task.bytes for task in self.tasks.values()) > KEPT_BYTES:
            self.tasks.popitem(last=False)
        made = make_reference(artefact, signature, evaluation, self.timer, self.note)
        if isinstance(made, RunOutcome):
            return made
        self.tasks[key] = made
        return RunOutcome()

    def run(
        self, key: TaskKey, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> list[list[RunOutcome]] | None:
        """The outcomes of candidates, each one's in all rounds."""
        task = self.tasks.get(key)
        if task is None:
            return None
        self.tasks.move_to_end(key)
        for one in artefacts:
            task.inputs_of(one)  # once for all candidates: the forked processes share them
        found: dict[int, list[RunOutcome]] = {}
        while left := [k for k in range(len(artefacts)) if k not in found]:
            chosen = [artefacts[k] for k in left]
            ended = self._run_child(task, chosen, evaluation, rounds)
            if ended.value is not None:
                found |= dict(zip(left, ended.value, strict=True))
                break
            # the candidate that ended the process costs itself only: the others run again without it
            found[left[self.note.candidate]] = [outcome_of(ended, evaluation, self.note.place)] * rounds
        for outcomes in found.values():
            if outcomes and outcomes[0].error is ErrorCode.NO_ERROR:
                task.best = min(task.best, median(outcomes[0].seconds))
        return [found[k] for k in range(len(artefacts))]

    def _run_child(
        self, task: TaskArrays, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> Ended[list[list[RunOutcome]]]:
        probes = self.probes if rounds > 1 else None
        seconds = evaluation.run_timeout_s * len(artefacts) * rounds
        return in_child(
            lambda: Trials(task, self.timer, self.note, evaluation).run(artefacts, rounds, probes),
            seconds,
            evaluation.memory_bytes,
        )


def warm() -> None:
    """Make the machine code that runners load."""
    from mlc.driver.toolchain import probes_object
    from mlc.targets.target import native_target

    evaluator_object()
    probes_object(native_target(), None)


def serve(connection: Connection[Any, Any]) -> None:
    """Answer messages until the connection ends."""
    settle()
    runner = TaskRunner()
    gc.collect()
    gc.freeze()  # forked processes share these pages
    while True:
        try:
            kind, *arguments = connection.recv()
        except EOFError:
            return
        if kind == "reference":
            connection.send(runner.reference(*arguments))
        elif kind == "run":
            connection.send(runner.run(*arguments))
        gc.collect()
