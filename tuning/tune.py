"""
`mlc.tune`: search the schedules of a model or an operator, and keep those that are surely faster.

    tasks (extract)  ->  search (session/search.py)  ->  paired check (session/confirm.py)  ->  whole model  ->  Report
                              |                               |
                              +---- every result ----> database of records <---- what is kept ----+

The search ends after `trials` candidates (by default 64 for each kernel, where no time is given), after `seconds`, or
when the estimate of the model's latency has fallen by `until` (0.05 or "5%"); `early_stopping` trials without a better
candidate end that of one kernel. Candidates that the database has are not measured again; with `resume` they count as
trials, so that a session that was killed goes on to its number. `tuner` is model, random, grid, ga or evolution, its
choices follow from `seed`. With `layouts`, those of the model's convolutions and dense layers are chosen first
(graph_tuner/tune.py), and the kernels are tuned in these.

`strategies` names those that are searched beside the compiler's choice: by default all of mlc's that accept a kernel,
with `sketch` also the generated schedules, with `all` everything, with an empty list the compiler's choice alone.

The default schedule of a kernel is measured first. At the end the best candidates are measured in turns with it, and
one is kept only where the confidence interval of the speed-up lies above 1; then the whole model is compared. Ctrl-C
ends the search; what was found is checked and reported, which a second Ctrl-C ends, too.

`cluster` is the address of a scheduler whose devices measure, of the key `device`, with the file of the cluster's
`secret` unless `insecure` (docs/tuning-farms.md); `farm` is another Farm; without them processes of this machine
measure. `watcher` hears of every trial. `cache` is that of mlc.compile.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mlc.support.errors import UserError, did_you_mean, located
from mlc.support.threads import thread_count
from mlc.targets.target import Target, TargetLike, target_text
from mlc.tuning.farm import Evaluation, Farm
from mlc.tuning.measure.local import LocalFarm
from mlc.tuning.records.context import records as records_in_force
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.arguments import plan_of
from mlc.tuning.session.confirm import Checked, Confirmation
from mlc.tuning.session.report import Report, TaskReport
from mlc.tuning.session.search import Plan, Search
from mlc.tuning.session.watch import Trail, Watcher
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from mlc.driver.models.load import Source
    from mlc.driver.operator.source import OperatorLike
    from mlc.tuning.extract import Extraction
    from mlc.tuning.graph_tuner.report import LayoutReport

    Tunable: TypeAlias = "Source | OperatorLike | Task | Sequence[Task]"

TRIALS_A_TASK = 64
"""Trials for each task where neither a number of trials nor a time is given."""

_NOT_OPTIONS = {"model", "target", "threads", "records", "executor", "cache", "validate_each", "specialize"}
"""Arguments of mlc.compile that mlc.tune has itself, or that change no kernel."""


@dataclass(frozen=True)
class _Subject:
    """What is tuned: its tasks, and the model, if it is one, with the options of mlc.compile for the last check."""

    tasks: Sequence[Task]
    model: Source | None
    options: Mapping[str, Any]
    left_out: str = ""
    """What is said of kernels that are not tuned."""


@located()
def tune(
    model: Tunable,
    records: str | os.PathLike[str],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    tuner: str = "model",
    target: TargetLike = "native",
    threads: int | None = None,
    seed: int = 0,
    resume: bool = False,
    until: float | str | None = None,
    early_stopping: int | None = None,
    cluster: str | None = None,
    device: str | None = None,
    secret: str | os.PathLike[str] | None = None,
    insecure: bool = False,
    farm: Farm | None = None,
    evaluation: Evaluation | None = None,
    watcher: Watcher | None = None,
    cache: bool = True,
    layouts: bool = False,
    strategies: Sequence[str] | None = None,
    **options: Any,
) -> Report:
    """
    Search for faster schedules of a model's kernels, or of an operator's; keep them in the database `records`.

    `model` is what mlc.compile takes, or what mlc.build takes without a schedule, or tasks (mlc.tuning.extract_tasks,
    a template's). `options` are those of mlc.compile that change kernels: opt_level, shapes, precision and so on. The
    module's docstring says what the other arguments mean.

    Raises UserError for a model that cannot be compiled, for an option out of range, for a strategy that there is not
    or that accepts no kernel, for a file that is no database of records, and for a cluster that does not answer.
    """
    plan = plan_of(trials, seconds, tuner, seed, resume, until, early_stopping, evaluation, device)
    if farm is not None and cluster is not None:
        raise UserError("expected farm= or cluster=, but got both")
    name, count = str(Target.parse(target_text(target))), thread_count(threads)
    request = _Request(model, records, options, name, count, cache, None if strategies is None else tuple(strategies))
    request.check(layouts, here=farm is None and cluster is None)
    start, watcher = time.monotonic(), watcher or Watcher()
    watcher.phase("extracting tasks", 0, 0)
    subject = request.subject()
    remote = None if cluster is None else (cluster, device, secret, insecure)
    with _farm(farm, remote) as measuring, Database(records) as database:
        found = request.tune_layouts(database, watcher) if layouts else None
        subject = subject if found is None else request.subject()
        return _Session(subject, database, measuring, plan, watcher, start, found).run()


@dataclass(frozen=True)
class _Request:
    """What is to be tuned, for which machine, and where records are."""

    model: Tunable
    records: str | os.PathLike[str]
    options: dict[str, Any]
    target: str
    threads: int
    cache: bool
    strategies: Sequence[str] | None

    def check(self, layouts: bool, here: bool) -> None:
        """UserError for an option that there is not, and where layouts cannot be tuned."""
        _checked(self.options)
        _check_strategies(self.strategies, self.model)
        if layouts and not here:
            raise UserError("expected layouts to be tuned on this machine, but got a cluster or another farm")
        if layouts and (_is_tasks(self.model) or is_operator(self.model)):
            raise UserError("expected a model to tune the layouts of, but got an operator or tasks")

    def subject(self) -> _Subject:
        """The tasks of the model, in the layouts that the database holds for it."""
        with _layouts_of(self.records):
            return _subject(self.model, self.target, self.threads, self.options, self.cache, self.strategies)

    def tune_layouts(self, database: Database, watcher: Watcher) -> LayoutReport:
        """Choose the layouts of the model."""
        from mlc.tuning.graph_tuner.tune import tune_layouts

        watcher.phase("measuring layouts", 0, 0)
        source = cast("Source", self.model)
        return tune_layouts(
            source, database, self.target, self.threads, watcher=watcher, cache=self.cache, **self.options
        )


class _Session:
    """One call of `tune`."""

    def __init__(
        self,
        subject: _Subject,
        database: Database,
        farm: Farm,
        plan: Plan,
        watcher: Watcher,
        start: float,
        layouts: LayoutReport | None = None,
    ) -> None:
        self.subject, self.database, self.farm, self.watcher = subject, database, farm, watcher
        self.start, self.layouts = start, layouts
        from mlc.tuning.extract import candidate_module

        tasks = subject.tasks
        if plan.trials is None and plan.seconds is None:
            plan = replace(plan, trials=sum(min(TRIALS_A_TASK, task.space.size) for task in tasks))
        self.search = Search(tasks, database, farm, plan, watcher, lower=candidate_module)
        self.confirmation = Confirmation(database, farm, plan.evaluation, plan.device)
        self.plan = plan

    def run(self) -> Report:
        """Search, check, compare the whole model."""
        begin = time.monotonic()
        self.search.run()
        searched = time.monotonic() - begin
        checked: list[Checked | None] = [None] * len(self.subject.tasks)
        whole: Comparison | None = None
        note = ""
        try:
            checked = self.confirmation.run(self.subject.tasks, self.watcher)
            whole, note = self.compare_whole()
        except KeyboardInterrupt:
            note = "the check was interrupted: what was not checked is not kept; --resume checks it"
        return Report(
            tuple(map(self.task_report, self.search.trails, checked)),
            str(self.database.path),
            self.search.trials,
            time.monotonic() - self.start,
            self.search.reason,
            whole,
            note,
            self.plan.seed,
            self.layouts,
            searched,
            self.subject.left_out,
        )

    def compare_whole(self) -> tuple[Comparison | None, str]:
        """The model with the records and without, and what there is to say about it."""
        model = self.subject.model
        if model is None or not self.subject.tasks:
            return None, ""
        if not isinstance(self.farm, LocalFarm):
            return None, "the whole model was not compared: its kernels were measured on other machines"
        from mlc.tuning.session.whole import compare_model

        self.watcher.phase("measuring the whole model", 0, 0)
        found = compare_model(model, self.database.path, self.subject.options)
        if not isinstance(found, str) and found.high < 1:  # once more, to be sure that it is slower
            found = compare_model(model, self.database.path, self.subject.options)
        if isinstance(found, str):
            return None, found
        if found.high >= 1:
            return found, ""
        self.confirmation.withdraw(self.subject.tasks)
        if self.layouts is not None:
            from mlc.tuning.graph_tuner.tune import withdraw

            withdraw(self.database, self.layouts)
        return found, "as a whole it was slower with the records: the default schedules are in force again"

    def task_report(self, trail: Trail, checked: Checked | None) -> TaskReport:
        """What was found for a task."""
        task, default_cost = trail.task, inf
        best, least, known = None, inf, 0
        for values, result in self.database.results(task):
            known += 1
            default_cost = min(default_cost, result.cost) if task.space.is_default(values) else default_cost
            if result.cost < least:
                best, least = values, result.cost
        record = self.database.best(task)
        kept = record.values if record is not None and not task.space.is_default(record.values) else None
        comparison = record.comparison if record is not None and kept is not None else None
        if comparison is None and checked is not None:
            comparison = checked.comparison
        return TaskReport(
            task, default_cost, least, best, known, trail.points, trail.errors, comparison, kept
        )  # fmt: skip


def tasks_of(
    model: Tunable, target: TargetLike = "native", threads: int | None = None, **options: Any
) -> Sequence[Task]:
    """The tasks of a model's kernels, or of one operator, with all strategies that accept them."""
    from mlc.tuning.extract import ALL

    name, count = str(Target.parse(target_text(target))), thread_count(threads)
    strategies = None if _is_tasks(model) else [ALL]
    return _subject(model, name, count, _checked(options), strategies=strategies).tasks


def _layouts_of(path: str | os.PathLike[str]) -> AbstractContextManager[object]:
    """Let the records of a database answer, those of layouts among them, if it is there."""
    is_there = Path(path).is_file() and Path(path).stat().st_size > 0
    return records_in_force(path) if is_there else nullcontext()


def _is_tasks(model: Tunable) -> bool:
    given = [model] if isinstance(model, Task) else model
    return isinstance(given, list | tuple) and bool(given) and all(isinstance(one, Task) for one in given)


def _check_strategies(strategies: Sequence[str] | None, model: Tunable) -> None:
    """UserError for a strategy that there is not, and for tasks, which have their strategies."""
    if strategies is None:
        return
    if _is_tasks(model):
        raise UserError("expected no strategies for tasks, which have theirs: mlc.tuning.extract_tasks(strategies=)")
    from mlc.tuning.extract import expect_strategies

    expect_strategies(strategies)


def _subject(
    model: Tunable,
    target: str,
    threads: int,
    options: dict[str, Any],
    cache: bool = True,
    strategies: Sequence[str] | None = None,
) -> _Subject:
    """The tasks of what is to be tuned; UserError where there is none."""
    extraction: Extraction | None = None
    if _is_tasks(model):
        tasks, source = cast("Sequence[Task]", [model] if isinstance(model, Task) else model), None
    elif is_operator(model):
        if options:
            raise UserError(f"expected no option '{next(iter(options))}' for an operator; it is one of models")
        from mlc.tuning.extract import task_of

        tasks, source = [task_of(cast("Any", _text(model)), target, threads, strategies)], None
    else:
        from mlc.tuning.extract import OPEN_SIZES, extraction_of

        source = cast("Source", model)
        extraction = extraction_of(source, target, threads, strategies, **options)
        tasks = extraction.tasks
        if not tasks and OPEN_SIZES in extraction.left_out:
            raise UserError("expected a model with kernels of fixed sizes to tune, but all are open: give --shape")
        if not tasks and extraction.left_out:
            raise UserError(f"expected a kernel whose schedule has a choice, but {_left_out(extraction)}")
    _expect_accepted(tasks, strategies)
    if not any(task.space.size > 1 for task in tasks):
        raise UserError("expected a kernel whose schedule has a choice, but no strategy of these kernels has a knob")
    given = {**options, "target": target, "threads": threads, "cache": cache}
    return _Subject(tasks, source, given, "" if extraction is None else _left_out(extraction))


def _expect_accepted(tasks: Sequence[Task], strategies: Sequence[str] | None) -> None:
    """UserError for a strategy that was asked for and accepts no kernel."""
    from mlc.tuning.extract import ALL

    known = {part.strategy for task in tasks for part in task.space.parts}
    for name in strategies or ():
        if name not in known and name != ALL:
            raise UserError(
                f"expected a strategy that accepts a kernel, one of {', '.join(sorted(known))}, but got '{name}'"
            )


def _left_out(extraction: Extraction) -> str:
    """What is said of kernels that are not tuned; empty where all are."""
    if not extraction.left_out:
        return ""
    number = sum(extraction.left_out.values())
    kinds = ", ".join(f"{count} {reason}" for reason, count in extraction.left_out.items())
    return f"{number} of {extraction.calls} calls of kernels are not tuned: {kinds}"


def is_operator(model: object) -> bool:
    """Whether mlc.build rather than mlc.compile takes it: te tensors, te ops, or their text or file."""
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from mlc.dialects import te
    from mlc.dialects.te_builder.builder import Tensor
    from mlc.frontends.te.schedule import Schedule

    if isinstance(model, str | os.PathLike):
        text = str(_text(model))
        return "te.func" in text and "func.func" not in text
    if isinstance(model, ModuleOp):
        return any(isinstance(op, te.FuncOp) for op in model.body.block.ops)
    if isinstance(model, list | tuple):
        items = cast("Sequence[object]", model)
        return bool(items) and all(isinstance(one, Tensor) for one in items)
    return isinstance(model, Operation | Tensor | Schedule)


def _text(model: object) -> object:
    """The content of an .mlir file; everything else as it is."""
    if isinstance(model, str | os.PathLike):
        path = Path(os.fsdecode(model))
        return path.read_text() if path.suffix == ".mlir" and path.is_file() else model
    return model


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The options for mlc.compile; UserError for one that it does not have."""
    from mlc.driver.models.compile import compile

    known = sorted(set(inspect.signature(compile).parameters) - _NOT_OPTIONS)
    for name in options:
        if name not in known:
            raise UserError(f"expected an option of mlc.tune, but got '{name}'{did_you_mean(name, known)}")
    return options


def _farm(
    farm: Farm | None, remote: tuple[str, str | None, str | os.PathLike[str] | None, bool] | None
) -> AbstractContextManager[Farm]:
    """The farm to measure on; one that the caller gave stays open."""
    if farm is not None:
        return nullcontext(farm)
    return LocalFarm() if remote is None else _cluster(*remote)


@contextmanager
def _cluster(
    address: str, device: str | None, secret: str | os.PathLike[str] | None, insecure: bool
) -> Generator[Farm]:
    """The farm of a cluster that has such a device."""
    from mlc.tuning.cluster.farm import ClusterFarm

    with ClusterFarm(address, device, secret=secret, insecure=insecure) as farm:
        farm.check_device()
        yield farm


__all__ = ["TRIALS_A_TASK", "is_operator", "tasks_of", "tune"]
