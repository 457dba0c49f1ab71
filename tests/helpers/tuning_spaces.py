"""Small spaces and a made-up landscape for tests of tuners, which need no compiler."""

from __future__ import annotations

from collections.abc import Callable

from mlc.tuning.results import ErrorCode, MeasureResult
from mlc.tuning.space import STRATEGY, Knob, Part, Space, Values
from mlc.tuning.task import Task


def made_up_task(space: Space, name: str = "dense_1", flops: int = 1_000_000) -> Task:
    """A task of that space whose kernel is only a name."""
    return Task(name, f"kernel {name}", "test", 1, space, flops)


def tiles(sizes: int = 6, strategy: str = "tiled") -> Part:
    """A part of `sizes` x `sizes` tiles, unrolled or not, in one of two orders; the default is the smallest tile."""
    powers = tuple(2**power for power in range(sizes))
    return Part(
        strategy,
        (
            Knob("rows", powers, 1),
            Knob("columns", tuple((64 // power, power) for power in powers), (64, 1)),
            Knob("unroll", ("off", "on"), "off"),
            Knob("order", ((0, 1), (1, 0)), (0, 1)),
        ),
    )


def smooth_cost(values: Values) -> float:
    """Seconds of a candidate of `tiles`: least at rows 8, columns 16, unrolled, order (1, 0)."""
    rows, columns = values["rows"], values["columns"]
    assert isinstance(rows, int)
    assert isinstance(columns, tuple)
    cost = 1.0 + 0.3 * abs(rows.bit_length() - 4) + 0.5 * abs(columns[1].bit_length() - 5)
    cost += 0.2 * (values["unroll"] == "off") + 0.1 * (values["order"] == (0, 1))
    return cost * (2.0 if values[STRATEGY] != "tiled" else 1.0) * 1e-6


def ran(seconds: float) -> MeasureResult:
    """A candidate that took so long."""
    return MeasureResult((seconds,))


def failed(error: ErrorCode = ErrorCode.RUNTIME_DEVICE) -> MeasureResult:
    """A candidate that failed."""
    return MeasureResult((), error, "it crashed")


def measured(task: Task, indices: list[int], cost: Callable[[Values], float]) -> list[tuple[int, MeasureResult]]:
    """What a farm would answer for these candidates, where an infinite cost is an error."""
    answers: list[tuple[int, MeasureResult]] = []
    for index in indices:
        seconds = cost(task.space[index])
        answers.append((index, failed() if seconds == float("inf") else ran(seconds)))
    return answers
