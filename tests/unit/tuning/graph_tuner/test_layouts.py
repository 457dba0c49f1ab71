"""The layouts of a model as a graph of choices, with made-up costs; and the graph tuner from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tuning_records import dense_model, opened, some_task

import mlc
from mlc.driver.options import Options
from mlc.passes.graph.layout.alter_op_layout.records import SiteBlocks
from mlc.support.errors import UserError
from mlc.support.records import KnobValues
from mlc.tools import cli
from mlc.tuning.graph_tuner.layouts import Site, layout_choices
from mlc.tuning.graph_tuner.tune import MeasuredCosts, function_of, keep_if_faster, one_op, tune_layouts
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.search import Search
from mlc.tuning.task import Task
from tests.unit.tuning.records.test_layouts import conv_model, weights_of


class MadeUp:
    """Kernels are fast in blocks of 8 channels in and few out; a transform costs what it is told to."""

    def __init__(self, transform: float) -> None:
        self.seconds = transform
        self.asked: set[tuple[str, str]] = set()

    def kernel(self, site: Site, blocks: SiteBlocks) -> float:
        return 1.0 + (blocks.inner not in (0, 8)) + blocks.outer / 64

    def transform(self, shape: tuple[int, ...], source: str, target: str) -> float:
        self.asked.add((source, target))
        return self.seconds


def test_the_choices_of_two_convolutions_and_a_sum(tmp_path: Path) -> None:
    function = function_of(conv_model(tmp_path / "m.onnx"), Options("x86-64-v4", threads=1, records=None))
    costs = MadeUp(0.25)
    choices = layout_choices(function, costs, 16)
    assert choices.alternatives[0] == [SiteBlocks(16, 8), SiteBlocks(8, 8)]
    assert ("NCHW", "NCHW8c") in costs.asked
    assert ("NCHW8c", "NCHW") in costs.asked
    assert set(choices.graph.between) == {(0, 1)}, "the second reads the first, and is added to it"
    found = choices.solve()
    values = choices.values(found.choices)
    assert values["in_blocks"] == (8, 8)
    assert values["out_blocks"] == (8, 8)
    assert found.cost <= choices.graph.total(choices.kernel_best())


def test_expensive_transforms_keep_one_layout(tmp_path: Path) -> None:
    function = function_of(conv_model(tmp_path / "m.onnx"), Options("x86-64-v4", threads=1, records=None))
    choices = layout_choices(function, MadeUp(100.0), 16)
    values = choices.values(choices.solve().choices)
    inner, outer = values["in_blocks"], values["out_blocks"]
    assert isinstance(inner, tuple)
    assert isinstance(outer, tuple)
    assert outer[0] == inner[1] == outer[1], "no transform inside of the model"


def test_costs_are_measured(tmp_path: Path) -> None:
    function = function_of(conv_model(tmp_path / "m.onnx"), Options(threads=1, records=None))
    costs = MeasuredCosts("native", 1)
    choices = layout_choices(function, costs, 16)
    assert all(seconds > 0 for own in choices.graph.own for seconds in own)
    assert len(costs.known) == len(set(costs.known))
    site = choices.sites[0]
    model = one_op(site)
    assert [str(op.name) for op in model.main.body.block.ops][-2:] == [site.name, "func.return"]


@pytest.mark.parametrize("low", [0.9, 1.1])
def test_what_is_surely_faster_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: float) -> None:
    path = dense_model(tmp_path / "m.onnx", (64, 96))
    checked = Comparison(1.0, 1.2, low, 1.5, 25)
    monkeypatch.setattr("mlc.tuning.graph_tuner.tune.compare_calls", lambda default, tuned: checked)
    with opened(tmp_path / "r.db") as database:
        report = tune_layouts(path, database, threads=1, costs=MadeUp(0.0))
    assert report.comparison == checked
    assert report.predicted > 0
    assert (report.values is not None) == (low > 1)
    plain = mlc.compile(path, threads=1, records=False)
    tuned = mlc.compile(path, threads=1, records=tmp_path / "r.db")
    x = np.random.default_rng(2).standard_normal((8, 64), np.float32)
    np.testing.assert_allclose(tuned({"x0": x})["x1"], plain({"x0": x})["x1"], rtol=1e-5, atol=1e-5)
    width = plain.artifact.model["values"][1]["shape"][-1]
    if low > 1:
        assert weights_of(tuned) != weights_of(plain)
    else:
        assert weights_of(tuned) == [[96 // width, 64, width]]


class Faked:
    """Comparisons by how fast each record of layouts is made to be; blocks name it."""

    def __init__(self, task: Task, speeds: dict[tuple[int, ...], float]) -> None:
        self.task, self.speeds = task, speeds

    def compare(self, before: KnobValues | None, after: KnobValues) -> Comparison:
        speed = self._speed(after) / (1.0 if before is None else self._speed(before))
        return Comparison(1.0, speed, 0.99 * speed, 1.01 * speed, 25)

    def _speed(self, values: KnobValues) -> float:
        blocks = values["in_blocks"]
        assert isinstance(blocks, tuple)
        return self.speeds[blocks]


@pytest.mark.parametrize(("graphs", "kernels", "kept"), [(1.2, 1.1, 0), (1.1, 1.2, 1), (0.9, 1.1, 1), (0.9, 0.8, None)])
def test_what_is_kept_is_never_slower_than_kernel_best(
    tmp_path: Path, graphs: float, kernels: float, kept: int | None
) -> None:
    path = conv_model(tmp_path / "m.onnx")
    function = function_of(path, Options("x86-64-v4", threads=1, records=None))
    choices = layout_choices(function, MadeUp(0.25), 8)
    proposed = (1, 0), (0, 1)
    blocks = [choices.values(one) for one in proposed]
    speeds = dict(zip([one["in_blocks"] for one in blocks], (graphs, kernels), strict=True))
    with opened(tmp_path / "r.db") as database:
        task = some_task("layouts", "text")
        values, _, is_kept = keep_if_faster(database, Faked(task, speeds), choices, proposed)  # pyright: ignore[reportArgumentType] what it uses
        record = database.best(task)
    assert is_kept == (kept is not None)
    if kept is None:
        assert record is None
    else:
        assert record is not None
        assert values == blocks[kept] == record.values


def test_tuning_works_in_the_layouts_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dense_model(tmp_path / "m.onnx", (64, 96))
    checked = Comparison(1.0, 1.2, 1.1, 1.5, 25)
    monkeypatch.setattr("mlc.tuning.graph_tuner.tune.compare_calls", lambda default, tuned: checked)
    monkeypatch.setattr("mlc.tuning.graph_tuner.tune.MeasuredCosts", lambda *given, **more: MadeUp(0.0))
    slower = Comparison(1.0, 0.9, 0.8, 0.95, 25)
    monkeypatch.setattr("mlc.tuning.session.whole.compare_model", lambda *given: slower)
    monkeypatch.setattr("mlc.tuning.session.confirm.Confirmation.withdraw", lambda *given: None)
    heard: list[set[str]] = []
    run = Search.run
    monkeypatch.setattr(Search, "run", lambda search: heard.append(called(path, tmp_path / "r.db")) or run(search))
    report = mlc.tune(path, tmp_path / "r.db", layouts=True, trials=2, threads=1, tuner="random")
    assert report.layouts is not None
    assert report.layouts.changed == report.layouts.sites == 1
    assert "layouts: 1 of 1 convolution and dense layers in other blocks" in " ".join(report.conclusion())
    assert heard == [{one.task.name for one in report.tasks}]
    assert heard != [called(path, None)]
    assert called(path, tmp_path / "r.db") == called(path, None), "as a whole it was slower, twice"


def called(path: Path, records: Path | None) -> set[str]:
    """The kernels of a program."""
    nodes = mlc.compile(path, threads=1, records=records or False, cache=False).artifact.model["nodes"]
    return {node["kernel"] for node in nodes}


def test_layouts_are_tuned_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    path = conv_model(tmp_path / "m.onnx")
    words = ["--records", str(tmp_path / "r.db"), "--threads", "1", "--trials", "8", "--tuner", "random"]
    assert cli.run(["tune", str(path), *words, "--layouts"]) == 0
    said = capsys.readouterr()
    assert "\nlayouts: " in said.out
    assert "warning" not in said.err
    x = np.random.default_rng(2).standard_normal((1, 16, 9, 9), np.float32)
    plain = mlc.compile(path, threads=1, records=False)
    tuned = mlc.compile(path, threads=1, records=tmp_path / "r.db")
    np.testing.assert_allclose(tuned({"x": x})["y"], plain({"x": x})["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("model", "more", "expected"),
    [
        ("m.onnx", {"cluster": "tcp://a:1"}, "expected layouts to be tuned on this machine, but got a cluster"),
        ([some_task("a", "text")], {}, "expected a model to tune the layouts of, but got an operator or tasks"),
    ],
)
def test_where_layouts_cannot_be_tuned(tmp_path: Path, model: Any, more: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        mlc.tune(model, tmp_path / "r.db", layouts=True, **more)
    assert not (tmp_path / "r.db").exists()


def test_what_has_no_layouts_is_refused(tmp_path: Path) -> None:
    path = dense_model(tmp_path / "m.onnx", (64, 96))
    with pytest.raises(UserError, match="expected an optimisation level that chooses layouts, -O 3 or more"):
        function_of(path, Options(opt_level=2, threads=1))
    text = """func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %0 = graph.relu %x : tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    }"""
    (tmp_path / "relu.mlir").write_text(text)
    with opened(tmp_path / "r.db") as database, pytest.raises(UserError, match="expected a model with convolutions"):
        tune_layouts(tmp_path / "relu.mlir", database, threads=1, costs=MadeUp(0.0))
