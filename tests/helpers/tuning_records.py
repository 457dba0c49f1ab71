"""Tasks, results and databases of records for tests of tuning."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from mlc.dialects import te
from mlc.dialects.syntax.source import parse_module
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.load import load as load_model
from mlc.driver.options import Options
from mlc.runtime.executable import Executable
from mlc.schedules.kernel_key import kernel_text
from mlc.targets.description import describe
from mlc.targets.target import Target
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.results import ErrorCode, MeasureResult
from mlc.tuning.space import STRATEGY, Knob, Part, Space
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


def dense_model(path: Path, sizes: tuple[int, ...] = (64, 96, 48), rows: int = 8) -> Path:
    """A model of dense layers, each of which is one kernel, on disk."""
    rng = np.random.default_rng(1)
    count = len(sizes) - 1
    arrays = [rng.standard_normal(sizes[n : n + 2]) / 8 for n in range(count)]
    weights = [helper.make_tensor(f"w{n}", TensorProto.FLOAT, a.shape, a.ravel()) for n, a in enumerate(arrays)]
    nodes = [helper.make_node("MatMul", [f"x{n}", f"w{n}"], [f"x{n + 1}"]) for n in range(count)]
    inputs = [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [rows, sizes[0]])]
    outputs = [helper.make_tensor_value_info(f"x{count}", TensorProto.FLOAT, [rows, sizes[-1]])]
    graph = helper.make_graph(nodes, "dense", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def tasks_of(path: Path, threads: int = 1) -> list[Task]:
    """The tasks of a model's kernels, whose spaces hold the strategies alone."""
    compilation = Compilation(load_model(path), Options(threads=threads, records=None))
    space = Space((Part("matmul", ()), Part("contraction", ())))
    tasks: list[Task] = []
    for name, text in compilation.schedule_texts().items():
        func = next(op for op in parse_module(text, name).body.block.ops if isinstance(op, te.FuncOp))
        tasks.append(Task(name, kernel_text(func), describe(Target("native")), threads, space, 1))
    return tasks


def keep(path: Path, task: Task, strategy: str = "contraction", version: str = "1") -> None:
    """Let a database hold a winner of a task."""
    with Database(path, version=lambda name: version) as database:
        database.keep(task, {STRATEGY: strategy}, Comparison(0.5, 1.0, 1.8, 2.2, 20))


def strategies_of(exe: Executable) -> list[str]:
    """The strategies of a program's kernels, in the order of its calls."""
    return [node["schedule"].partition(":")[0] for node in exe.artifact.model["nodes"]]
