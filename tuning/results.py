"""The outcome of measuring one candidate, with TVM's error numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from statistics import median

from mlc.tuning.space import Values
from mlc.tuning.task import Task

FOREIGN = "tvm"
"""The device of results that come from a log of TVM's."""


class ErrorCode(IntEnum):
    """Why a candidate has no time: the numbers of AutoTVM's MeasureErrorNo."""

    NO_ERROR = 0
    INSTANTIATION_ERROR = 1
    """The strategy or a directive refuses the values."""
    COMPILE_HOST = 2
    COMPILE_DEVICE = 3
    RUNTIME_DEVICE = 4
    """The candidate crashed, ran out of memory or wrote out of bounds."""
    WRONG_ANSWER = 5
    BUILD_TIMEOUT = 6
    RUN_TIMEOUT = 7
    UNKNOWN_ERROR = 8


@dataclass(frozen=True)
class MeasureInput:
    """A candidate of a task."""

    task: Task
    values: Values


@dataclass(frozen=True)
class MeasureResult:
    """The outcome for one candidate."""

    seconds: tuple[float, ...]
    """The seconds of a call, one number for each repeat; empty where `error` is not NO_ERROR."""
    error: ErrorCode = ErrorCode.NO_ERROR
    message: str = ""
    """The diagnostic of an error, in one sentence."""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    timestamp: float = 0.0
    """Seconds since the epoch at which the measurement ended."""
    machine: dict[str, str] = field(default_factory=dict[str, str])
    """The device key and host that measured it."""

    @property
    def is_foreign(self) -> bool:
        """Whether another compiler measured its own kernel: no time of mlc's, but a hint which candidate is good."""
        return self.machine.get("device") == FOREIGN

    @property
    def cost(self) -> float:
        """The median of `seconds`; infinite where there is none."""
        return median(self.seconds) if self.seconds and self.error is ErrorCode.NO_ERROR else float("inf")
