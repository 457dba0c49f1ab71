"""Tasks, results and databases of records for tests of tuning."""

from __future__ import annotations

import time
from pathlib import Path

from mlc.tuning.records.database import Database
from mlc.tuning.results import ErrorCode, MeasureResult
from mlc.tuning.space import Knob, Part, Space
from mlc.tuning.task import Task

SPACE = Space(
    (
        Part("matmul", (Knob("tile", tuple((2**a, 2**b) for a in range(6) for b in range(6)), (4, 8)),
                        Knob("unroll", (0, 1), 1))),
        Part("rows", (Knob("lanes", (4, 8, 16), 8),)),
    )
)  # fmt: skip
"""75 candidates of two made-up strategies."""


def some_task(name: str = "dense_1234", kernel: str = "te.func @kernel", target: str = "cpu l1=32K") -> Task:
    """A task of that text."""
    return Task(name, kernel, target, 2, SPACE, 4096, 3)


def ran(*seconds: float, at: float | None = None) -> MeasureResult:
    """A result without an error."""
    return MeasureResult(seconds, timestamp=time.time() if at is None else at, machine={"host": "here"})


def failed(error: ErrorCode = ErrorCode.RUN_TIMEOUT, at: float = 1.0) -> MeasureResult:
    """A result with an error."""
    return MeasureResult((), error, "it took too long", timestamp=at)


def versions(strategy: str) -> str:
    """The versions of the made-up strategies."""
    return {"matmul": "1", "rows": "3"}.get(strategy, "")


def opened(path: Path, **options: bool) -> Database:
    """A database that knows the made-up strategies."""
    return Database(path, version=versions, **options)
