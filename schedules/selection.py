"""
Which of the strategies that accept a kernel schedules it: the fastest on record, else the one of the highest priority.

Records answer how long the schedule of a strategy takes for a kernel; `with records(...)` puts them in force:

    def seconds(kernel, target, threads, strategy):
        return known.get((kernel.name, strategy))      # None: not measured

    with mlc.schedules.selection.records(seconds, key="2026-11"):
        exe = mlc.compile("model.onnx")
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from mlc.dialects import sched, te
from mlc.dialects.attributes import KERNEL_KNOBS, SCHEDULE_STRATEGY
from mlc.dialects.sched import KnobValue
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.externs import joined, parts_between_externs
from mlc.schedules.knobs import STRATEGY, expect_known, given, values_of
from mlc.schedules.registry import find_strategy, strategies
from mlc.support.errors import UserError
from mlc.support.records import ALGORITHM
from mlc.support.registered.registrations import REGISTERED, note
from mlc.targets.target import Target

Seconds = Callable[[KernelInfo, Target, int, str], float | None]
"""(kernel, target, threads, strategy) -> the seconds that its schedule takes; None where it was not measured."""

_RECORDS: ContextVar[Seconds | None] = ContextVar("mlc_records", default=None)


@dataclass(frozen=True)
class Implementation:
    """A strategy's schedule for a kernel, and the seconds that records know of it."""

    strategy: str
    schedule: sched.ScheduleOp
    seconds: float | None = None


@contextmanager
def records(seconds: Seconds, key: str | None = None) -> Generator[None]:
    """
    Select by these records inside a `with` statement.

    `key` is a text that changes whenever the records do: it goes into the caches' keys; without one the caches are off.
    """
    name = ("records", getattr(seconds, "__name__", "records"))
    before = REGISTERED.get(name, "")
    note(*name, key)
    token = _RECORDS.set(seconds)
    try:
        yield
    finally:
        _RECORDS.reset(token)
        REGISTERED.pop(name, None)
        if before != "":
            REGISTERED[name] = before


def select_implementation(kernel: KernelInfo, target: Target, threads: int) -> Implementation | None:
    """
    The implementation of a kernel that the program uses; None where no strategy accepts the kernel.

    The fastest on record wins, whatever its priority; without records, the highest priority whose condition holds.
    """
    seconds = _RECORDS.get()
    first: Implementation | None = None
    measured: list[tuple[float, int, Implementation]] = []
    for number, one in enumerate(strategies()):
        schedule = one.schedule(kernel, target, threads)
        if schedule is None:
            continue
        known = seconds(kernel, target, threads, one.name) if seconds is not None else None
        found = Implementation(one.name, schedule, known)
        if seconds is None:
            return found
        first = first or found
        if known is not None:
            measured.append((known, number, found))
    return min(measured)[2] if measured else first


def choose_schedule(func: te.FuncOp, target: Target, threads: int) -> sched.ScheduleOp:
    """
    The schedule of the selected strategy; an empty one where none accepts the kernel.

    The stages between te.extern ops are scheduled apart, as if they were kernels of their own.
    """
    parts = parts_between_externs(func)
    if parts is not None:
        return joined(func.sym_name.data, [choose_schedule(part, target, threads) for part in parts])
    kernel = KernelInfo(func)
    values = func.attributes.get(KERNEL_KNOBS)
    if isinstance(values, DictionaryAttr):
        found = implementation_of(kernel, target, threads, values_of(values))
    else:
        found = select_implementation(kernel, target, threads)
    if found is None:
        return ScheduleBuilder(kernel.name).finish()
    found.schedule.attributes[SCHEDULE_STRATEGY] = StringAttr(found.strategy)
    return found.schedule


def implementation_of(
    kernel: KernelInfo, target: Target, threads: int, values: Mapping[str, KnobValue]
) -> Implementation | None:
    """
    The schedule of the strategy that the values name, with these values of its knobs; without a name, of the first one.

    None where no strategy accepts the kernel. Raises UserError for a strategy that is unknown or does not accept the
    kernel, for a knob that it does not have, and for a value outside of the knob's candidates.
    """
    name = values.get(STRATEGY)
    if name is None:
        first = select_implementation(kernel, target, threads)
        if first is None:
            return None
        name = first.strategy
    one = find_strategy(str(name))
    with given(values):
        schedule = one.schedule(kernel, target, threads)
    if schedule is None:
        raise UserError(f"strategy '{name}' does not accept kernel '{kernel.name}'")
    if set(values) - {STRATEGY, ALGORITHM} - set(knobs_of(schedule)):
        default = one.schedule(kernel, target, threads)
        known = [*knobs_of(schedule), *(knobs_of(default) if default is not None else ())]
        expect_known(str(name), values, known)
    return Implementation(str(name), schedule)


def knobs_of(schedule: sched.ScheduleOp) -> dict[str, sched.KnobOp]:
    """The knobs of a schedule by name."""
    return {op.knob.data: op for op in schedule.body.block.ops if isinstance(op, sched.KnobOp)}


__all__ = [
    "Implementation",
    "Seconds",
    "choose_schedule",
    "implementation_of",
    "knobs_of",
    "records",
    "select_implementation",
]
