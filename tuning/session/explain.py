"""What a record changed: the schedule as a difference to the default's, and what differs by the model of the caches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING

from mlc.driver.operator.build import operator_passes
from mlc.driver.operator.source import operator_source
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.schedules.summary import summary_of
from mlc.support.errors import UserError, collected_warnings, did_you_mean
from mlc.targets.target import Target
from mlc.tuning.measure.builder import CANDIDATE, CandidateMaker, maker
from mlc.tuning.records.database import Database
from mlc.tuning.session.report import changes_of, duration, model_text
from mlc.tuning.session.traffic import LoopCosts, loop_costs
from mlc.tuning.space import Values
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from mlc.tuning.records.record import Record

_LAST = "loop-promote-tiles"
"""The pass after which the loops are those that become instructions."""


def explain(tasks: Sequence[Task], records: str | os.PathLike[str], kernel: str) -> str:
    """
    Explain what the record of a kernel changed; `kernel` is its name, or enough of its beginning.

    Raises UserError for a kernel that is not among the tasks, and for one without a record.
    """
    task = _named(tasks, kernel)
    with Database(records, readonly=True) as database:
        record = database.best(task) or database.fastest(task)
        if record is None:
            raise UserError(f"expected a record of kernel '{task.name}' in {records}, but it has none; tune it first")
        cost = next((r.cost for v, r in database.results(task) if dict(v) == task.space.default), float("inf"))
    return "\n".join([*_head(task, record, cost), *_changes(task, record.values)])


def schedule_difference(task: Task, values: Values, candidate: CandidateMaker | None = None) -> list[str]:
    """The schedule of a candidate as a unified diff against the default's; no line where they are the same."""
    make = candidate or maker(CANDIDATE)
    before, after = (_schedule_text(make(task, one)) for one in (task.space.default, values))
    return list(unified_diff(before, after, "default", "record", lineterm="", n=40))


def candidate_costs(task: Task, module: ModuleOp) -> LoopCosts:
    """The costs of a candidate by the model, at the loops of its last pass before LLVM."""
    source = operator_source(module.clone())
    passes = operator_passes(source.kernel, source.schedule, Options(task.compiled_for, threads=task.threads))
    names = [one.name for one in passes]
    lowered = _module(source.ops)
    with collected_warnings():
        run_passes(lowered, make_context(), passes[: names.index(_LAST) + 1])
    return loop_costs(lowered, Target.parse(task.compiled_for))


def _named(tasks: Sequence[Task], kernel: str) -> Task:
    exact = [task for task in tasks if task.name == kernel]
    found = exact or [task for task in tasks if task.name.startswith(kernel)]
    names = [task.name for task in tasks]
    if not found:
        hint = did_you_mean(kernel, names) or f" (kernels: {', '.join(names)})"
        raise UserError(f"expected the name of a kernel of the model, but got '{kernel}'{hint}")
    if len(found) > 1:
        raise UserError(f"expected one kernel, but '{kernel}' begins {', '.join(task.name for task in found)}")
    return found[0]


def _head(task: Task, record: Record, default: float) -> list[str]:
    threads = f"{task.threads} thread{'s' * (task.threads != 1)}"
    lines = [f"{task.name}: {task.weight} x {task.flops / 1e6:.4g} MFLOP, {threads}"]
    if record.comparison is not None:
        lines += [f"checked in {record.comparison.rounds} rounds:", f"  {model_text(record.comparison)}"]
    else:
        cost = record.result.cost
        lines.append(f"not checked: {duration(default)} by default, {duration(cost)} by the fastest candidate")
    return lines


def _changes(task: Task, values: Values) -> list[str]:
    """The knobs, the table of what they changed, and the difference of the schedules."""
    knobs = changes_of(task.space.default, values)
    if not knobs:
        return ["the record is the default schedule"]
    make = maker(CANDIDATE)
    modules = [make(task, one) for one in (task.space.default, values)]
    costs = [candidate_costs(task, module) for module in modules]
    rows = [
        ("", "default", "record"),
        *((f"knob {name}", *text.split(" -> ", 1)) for name, text in knobs.items()),
        ("tiles", *(summary_of(module) for module in modules)),
        ("vector registers", *(str(one.registers) for one in costs)),
        ("L1 misses (model)", *(f"{one.l1_misses:.4g}" for one in costs)),
        ("L2 misses (model)", *(f"{one.l2_misses:.4g}" for one in costs)),
    ]
    return [*_table(rows), "", *schedule_difference(task, values, make)]


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns where they fit 80 characters, else each long row as lines of its own."""
    names = max(len(row[0]) for row in rows)
    short = [row for row in rows if all(len(cell) <= 24 for cell in row[1:])]
    width = max(len(cell) for row in short for cell in row[1:])
    lines: list[str] = []
    for name, default, record in rows:
        if len(default) <= width and len(record) <= width:
            lines.append(f"{name.ljust(names)}  {default.rjust(width)}  {record.rjust(width)}")
        else:
            lines += [f"{name.ljust(names)}  {default}", f"{' ' * names}  -> {record}"]
    return lines


def _schedule_text(module: ModuleOp) -> list[str]:
    from mlc.dialects import sched

    ops = [op for op in module.body.block.ops if isinstance(op, sched.ScheduleOp)]
    return "\n".join(map(str, ops)).splitlines()


def _module(ops: Sequence[object]) -> ModuleOp:
    from typing import cast

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    kernels = cast("Sequence[Operation]", ops)
    for op in kernels:
        op.detach()
    return ModuleOp(list(kernels))


__all__ = ["candidate_costs", "explain", "schedule_difference"]
