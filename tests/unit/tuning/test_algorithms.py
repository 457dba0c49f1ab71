"""The algorithm of a convolution as a choice of tuning: its candidates, its records, and what compiles with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.models.compilation import Compilation
from mlc.frontends.common.model import Model
from mlc.passes.graph.select_algorithm.forms import TILES, function_with_algorithm, question, site_of
from mlc.runtime.executable import Executable
from mlc.support.errors import collected_warnings
from mlc.support.weights import WeightStore
from mlc.targets.target import Target
from mlc.tuning import Database, Evaluation, LocalFarm, extract_tasks
from mlc.tuning.algorithms import keep_choice
from mlc.tuning.extract import options_of
from mlc.tuning.measure.trial import packed
from mlc.tuning.records.record import Comparison
from mlc.tuning.results import ErrorCode, MeasureInput
from mlc.tuning.task import PackedInput, Task

TARGET = "x86-64-v3"
FASTER = Comparison(1e-6, 2e-6, 1.9, 2.1, 15)


CONV = """
func.func @main(%x: tensor<1x16x17x14xf32>) -> tensor<1x24x17x14xf32> {
  %w = graph.param "w" : tensor<24x16x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]}
      : (tensor<1x16x17x14xf32>, tensor<24x16x3x3xf32>) -> tensor<1x24x17x14xf32>
  %1 = graph.relu %0 : tensor<1x24x17x14xf32>
  func.return %1 : tensor<1x24x17x14xf32>
}
"""


def conv_model() -> Model:
    """A convolution, and an epilogue that fuses with it."""
    weights = WeightStore()
    weights.add("w", np.random.default_rng(1).standard_normal((24, 16, 3, 3)).astype(np.float32) / 12)
    return Model(parse_module(CONV, "conv"), weights)


def conv_task(**options: float) -> Task:
    """The task of the convolution."""
    (task,) = [one for one in extract_tasks(conv_model(), TARGET, 1, **options) if one.name.startswith("conv2d")]
    return task


def candidates(task: Task) -> dict[str, dict[str, int | str | tuple[int, ...]]]:
    """What the compiler would choose by each algorithm, by the algorithm's name."""
    return {str(values["algorithm"]): values for values in task.space.choices}


def compiled(path: Path | None, **options: float) -> Executable:
    return mlc.compile(conv_model(), TARGET, threads=1, records=path or False, cache=False, **options)


def weights_of(exe: Executable) -> list[list[int]]:
    """The shapes of the weights that the kernels read."""
    return [value["shape"] for value in exe.artifact.model["values"] if value["storage"] == "weights"]


def test_a_convolution_has_the_parts_of_each_algorithm() -> None:
    task = conv_task()
    assert [one.algorithm for one in task.algorithms] == list(TILES)
    assert set(candidates(task)) == set(TILES)
    assert task.space.default["algorithm"] == task.space.parts[0].algorithm
    assert task.kernel == task.kernel_of(task.space.default)
    assert {part.strategy for part in task.space.parts if part.algorithm == "direct"} >= {"contraction"}
    assert task.space.index_of(task.space[task.space.size - 1]) == task.space.size - 1


def test_the_accuracy_budget_bounds_the_algorithms() -> None:
    assert set(candidates(conv_task(error_growth=4.0))) == {"direct", "winograd2"}
    exact = conv_task(error_growth=0.0)
    assert exact.algorithms == ()
    assert "algorithm" not in exact.space.default


def test_the_question_is_the_same_for_all_algorithms() -> None:
    compilation = Compilation(conv_model(), options_of(TARGET, 1, {}))
    (source,) = [
        one for one in compilation.plan()[1].values() if isinstance(one, FuncOp) and site_of(one.body.block) is not None
    ]
    questions = set[str]()
    for name in TILES:
        site = site_of(function_with_algorithm(source, name, Target.parse(TARGET).lanes("f32")).body.block)
        assert site is not None
        assert site.algorithm == name
        questions.add(question(site))
    assert questions == {conv_task().question}


def test_candidates_of_all_algorithms_compute_what_the_default_computes() -> None:
    task = conv_task()
    inputs = [MeasureInput(task, values) for values in task.space.choices]
    with LocalFarm(cores=1) as farm:
        found = dict(farm.measure(inputs, Evaluation(repeat=1, min_repeat_ms=0.1)))
    assert [found[k].error for k in range(len(inputs))] == [ErrorCode.NO_ERROR] * 3


@pytest.mark.parametrize("algorithm", TILES)
def test_a_record_of_an_algorithm_is_compiled(tmp_path: Path, algorithm: str) -> None:
    task, path = conv_task(), tmp_path / "r.db"
    with Database(path) as database:
        keep_choice(database, task, candidates(task)[algorithm], FASTER)
    exe = compiled(path)
    points = TILES[algorithm] + 2
    assert weights_of(exe)[0][:2] == ([points, points] if TILES[algorithm] else [3, 2]), weights_of(exe)
    answers = [row["values"] for row in exe.report["records"] if row["values"]]
    assert [one["algorithm"] for one in answers] == [algorithm] * 2, "the algorithm, and its schedule"
    given = {exe.inputs[0].name: np.random.default_rng(2).standard_normal((1, 16, 17, 14), np.float32)}
    (found,), (expected,) = exe(given).values(), compiled(None)(given).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)
    with mlc.records(path):
        again = conv_task()
    assert again == task, "tasks do not depend on what was tuned before"


def test_a_model_in_memory_is_as_it_was() -> None:
    model = conv_model()
    before = str(model.module)
    extract_tasks(model, TARGET, 1)
    assert str(model.module) == before
    assert list(model.weights) == ["w"]


def test_a_record_beyond_the_accuracy_budget_is_left(tmp_path: Path) -> None:
    task, path = conv_task(), tmp_path / "r.db"
    with Database(path) as database:
        keep_choice(database, task, candidates(task)["winograd4"], FASTER)
    with collected_warnings() as warned:
        exe = compiled(path, error_growth=3.0)
    assert any("expected one of direct, winograd2, but got 'winograd4'" in text for text in warned)
    assert weights_of(exe)[0][:2] != [6, 6]


def test_a_packed_weight_is_what_the_compiler_folds(tmp_path: Path) -> None:
    task, path = conv_task(), tmp_path / "r.db"
    with Database(path) as database:
        keep_choice(database, task, candidates(task)["winograd2"], FASTER)
    form = task.alternative(candidates(task)["winograd2"])
    assert form is not None
    assert isinstance(form.packed, PackedInput)
    plain = conv_model().weights.array("w").reshape(3, 8, 2, 8, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    made = packed(form.packed, np.ascontiguousarray(plain))
    assert list(made.shape) == weights_of(compiled(path))[0]
