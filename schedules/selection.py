"""
Which of the strategies that accept a kernel schedules it: the fastest on record, else the one of the highest priority.

Records answer how long the schedule of a strategy takes for a kernel; `with records(...)` puts them in force:

    def seconds(kernel, target, threads, strategy):
        return known.get((kernel.name, strategy))      # None: not measured

    with mlc.schedules.selection.records(seconds, key="2026-11"):
        exe = mlc.compile("model.onnx")
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr

from mlc.dialects import sched, te
from mlc.dialects.attributes import SCHEDULE_STRATEGY
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.externs import joined, parts_between_externs
from mlc.schedules.kernel_key import kernel_hash
from mlc.schedules.knobs import choosing
from mlc.schedules.registry import strategies
from mlc.support.records import in_force
from mlc.support.registered.registrations import REGISTERED, note
from mlc.targets.description import describe
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
    found = _on_record(func, kernel, target, threads) or select_implementation(kernel, target, threads)
    if found is None:
        return ScheduleBuilder(kernel.name).finish()
    found.schedule.attributes[SCHEDULE_STRATEGY] = StringAttr(found.strategy)
    return found.schedule


def _on_record(func: te.FuncOp, kernel: KernelInfo, target: Target, threads: int) -> Implementation | None:
    """The implementation by the strategy of the kernel's record in force; None where there is no such record."""
    provider = in_force()
    values = None if provider is None else provider.best(kernel_hash(func), describe(target), threads)
    if values is None:
        return None
    name = str(values.get("strategy", ""))
    with choosing({knob: value for knob, value in values.items() if knob != "strategy"}):
        schedule = next((one.schedule(kernel, target, threads) for one in strategies() if one.name == name), None)
    return None if schedule is None else Implementation(name, schedule)


__all__ = ["Implementation", "Seconds", "choose_schedule", "records", "select_implementation"]
