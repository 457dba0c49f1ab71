"""The machine on which candidates run: one runner at a time, replaced when it dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, Built, RunOutcome
from mlc.tuning.measure.forkserver import ForkServer, Worker
from mlc.tuning.measure.processes import death
from mlc.tuning.results import ErrorCode

TaskKey: TypeAlias = tuple[str, str, int]
"""The key of a task: the kernel's hash, the target, the threads."""

_SLACK_SECONDS = 10.0
"""What the runner may take beyond the time limits of its candidates: filling arrays, linking, comparing."""
_DRAWS = 8
"""Runs of the default kernel at most, one for each draw of inputs that is tried, and one more."""
_ATTEMPTS = 2
"""Runners that are tried for a candidate: each one's process is apart from the runner, whose end it cannot cause."""


class RunnerLost(Exception):
    """The runner has ended, or does not answer; the argument is the outcome of what it was asked."""

    def __init__(self, outcome: RunOutcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


class RunnerHandle:
    """Runs candidates of tasks one after another, in processes of a fork server."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._runner: Worker | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the runner; None while there is none."""
        return None if self._runner is None else self._runner.pid

    def run(
        self, key: TaskKey, default: Built, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> list[list[RunOutcome]]:
        """
        The outcomes of candidates of a task, each one's in all rounds.

        They are compared with the default kernel's output; where there is none, each has the error UNKNOWN_ERROR.
        """
        outcome = RunOutcome()
        for _ in range(_ATTEMPTS):
            try:
                found = self._run(key, default, artefacts, evaluation, rounds)
            except RunnerLost as lost:
                outcome = lost.outcome
                if outcome.error is ErrorCode.RUN_TIMEOUT:
                    break
            else:
                if isinstance(found, list):
                    return found
                outcome = found
                break
        return [[outcome] * rounds for _ in artefacts]

    def _run(
        self, key: TaskKey, default: Built, artefacts: Sequence[Artefact], evaluation: Evaluation, rounds: int
    ) -> list[list[RunOutcome]] | RunOutcome:
        """The outcomes, or that of a default kernel which fails."""
        # one that ends its process lets the others run anew
        limit = evaluation.run_timeout_s * len(artefacts) ** 2 * rounds + _SLACK_SECONDS
        answer = self._ask(("run", key, artefacts, evaluation, rounds), limit)
        if answer is None:  # the runner has not seen the task, or no longer has its arrays
            outcome = self._refer(key, default, evaluation)
            if outcome.error is not ErrorCode.NO_ERROR:
                return RunOutcome((), ErrorCode.UNKNOWN_ERROR, cannot_check(outcome))
            answer = self._ask(("run", key, artefacts, evaluation, rounds), limit)
        assert answer is not None, "the runner keeps the task that it has seen last"
        return answer

    def _refer(self, key: TaskKey, default: Built, evaluation: Evaluation) -> RunOutcome:
        """Let the runner run a task's default kernel."""
        if default.artefact is None:
            return RunOutcome((), default.error, default.message)
        message = "reference", key, default.artefact, default.signature, evaluation
        return self._ask(message, evaluation.run_timeout_s * _DRAWS + _SLACK_SECONDS)

    def _ask(self, message: tuple[object, ...], seconds: float) -> Any:  # the answer's type is that of the message
        """The runner's answer; RunnerLost where it dies or does not answer in time."""
        runner = self._runner
        if runner is None:
            runner = self._runner = self._server.fork("runner")
        answered = False
        try:
            runner.connection.send(message)
            if not runner.connection.poll(seconds):
                late = f"the runner did not answer within {seconds:g} s"
                raise RunnerLost(RunOutcome((), ErrorCode.RUN_TIMEOUT, late))
            answer = runner.connection.recv()
            answered = True
            return answer
        except (EOFError, OSError) as error:
            status = self._server.end(runner)
            how = "an unknown signal" if status is None else death(status)
            lost = RunOutcome((), ErrorCode.UNKNOWN_ERROR, f"the runner was ended by {how}")
            raise RunnerLost(lost) from error
        finally:
            if not answered:
                self.end()

    def end(self) -> None:
        """End the runner, if there is one; the next candidate gets a new one."""
        runner, self._runner = self._runner, None
        if runner is not None:
            self._server.end(runner)


def cannot_check(outcome: RunOutcome) -> str:
    """Why the candidates of a task cannot be checked, where its default kernel fails."""
    return f"the candidate cannot be checked, as the default kernel fails: {outcome.error.name}: {outcome.message}"
