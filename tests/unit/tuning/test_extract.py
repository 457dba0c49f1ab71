"""Tasks of models and operators, their spaces, and what a record changes when it is compiled with."""

import random

import numpy as np
import onnx_graphs
import pytest
import small_model
import symbolic_models
from onnx import helper
from xdsl.dialects.builtin import UnitAttr

import mlc
from mlc import te
from mlc.support.errors import UserError
from mlc.targets.description import describe
from mlc.targets.target import Target
from mlc.tools import cli
from mlc.tuning.extract import LOOPS, OPEN_SIZES, candidate_module, extract_tasks, extraction_of, task_of
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison

N = 48


def product():
    a, b = te.placeholder((N, N), name="A"), te.placeholder((N, N), name="B")
    k = te.reduce_axis(N, "k")
    return [a, b, te.compute((N, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return small_model.write(tmp_path_factory.mktemp("model"))


def test_each_kernel_of_a_model_is_a_task(model):
    tasks = extract_tasks(model, threads=1)
    artifact = mlc.compile(model, threads=1, cache=False).artifact.model
    called = [node["kernel"] for node in artifact["nodes"]]
    assert {task.name for task in tasks} == set(called)
    assert sum(task.weight for task in tasks) == len(called)
    assert any(task.space.size > 100 for task in tasks)
    assert {task.target for task in tasks} == {describe(Target.parse("native"))}


def test_options_change_the_kernels(model):
    bf16 = {task.kernel_hash for task in extract_tasks(model, threads=1, precision="bf16")}
    assert bf16 != {task.kernel_hash for task in extract_tasks(model, threads=1)}
    with pytest.raises(UserError, match="expected precision to be one of"):
        extract_tasks(model, precision="f8")


def test_the_default_candidate_is_what_the_compiler_chooses():
    task = task_of(product(), threads=1)
    chosen = mlc.build(product(), threads=1, cache=False).text("te")
    made = str(candidate_module(task, task.space.default))
    assert [line.strip() for line in made.splitlines() if "sched." in line][1:] == [
        line.strip() for line in chosen.splitlines() if "sched." in line
    ][1:]


def test_candidates_of_a_task_share_no_ir():
    task = task_of(product(), threads=1)
    before = str(candidate_module(task, task.space.default))
    module = candidate_module(task, task.space.default)
    for op in list(module.walk()):
        op.attributes["changed"] = UnitAttr()
    assert str(candidate_module(task, task.space.default)) == before


def test_any_candidate_computes_the_same():
    task = task_of(product(), threads=2)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, N, N), np.float32)
    compiled = 0
    for index in random.Random(1).sample(range(task.space.parts[0].size), 16):
        try:
            module = candidate_module(task, task.space[index])
        except UserError:  # more sums than registers
            continue
        c = mlc.build(module, threads=2, cache=False)(a, b)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4, err_msg=str(task.space[index]))
        compiled += 1
    assert compiled > 3


def test_values_outside_of_their_candidates_are_refused():
    task = task_of(product(), threads=1)
    with pytest.raises(UserError, match=r"expected knob 'tile_rows' among 1, .*, but got 37"):
        candidate_module(task, {**task.space.default, "tile_rows": 37})


def test_what_is_no_operator_without_a_schedule_is_refused():
    a, b, c = product()
    func = te.func("f", [a, b], [c])
    with pytest.raises(UserError, match=r"expected a te\.func without a schedule to tune"):
        task_of(mlc.Schedule(func))


def test_compiling_with_a_record_takes_its_values(tmp_path):
    task = task_of(product(), threads=1)
    values = {**task.space.default, "tile_rows": 4}
    with Database(tmp_path / "r.db") as database:
        database.keep(task, values, Comparison(1e-6, 2e-6, 1.9, 2.1, 15))
    before = mlc.build(product(), threads=1, cache=False).text("te")
    with mlc.records(tmp_path / "r.db"):
        assert task_of(product(), threads=1).key == task.key, "records in force change no task"
        operator = mlc.build(product(), threads=1, cache=False)
        assert "[?, 4]" in operator.text("te")
        assert "[?, 4]" not in before
        a, b = np.random.default_rng(0).standard_normal((2, N, N), np.float32)
        np.testing.assert_allclose(operator(a, b), a @ b, rtol=1e-4, atol=1e-4)
        assert mlc.build(product(), threads=2, cache=False).text("te") != operator.text("te"), "a record of 1 thread"


MIXED = """
func.func @main(%x: tensor<?x70xf32, #graph.dims<[N]>> {graph.name = "x"}, %y: tensor<8x70xf32> {graph.name = "y"})
    -> (tensor<?x70xf32, #graph.dims<[N]>>, tensor<8x70xf32>) {
  %0 = graph.softmax %x {axis = 1} : tensor<?x70xf32, #graph.dims<[N]>>
  %1 = graph.softmax %y {axis = 1} : tensor<8x70xf32>
  return %0, %1 : tensor<?x70xf32, #graph.dims<[N]>>, tensor<8x70xf32>
}
"""


def test_kernels_of_open_sizes_are_counted_and_told(tmp_path, capsys):
    (path := tmp_path / "mixed.mlir").write_text(MIXED)
    extraction = extraction_of(path, threads=1)
    assert (len(extraction.tasks), extraction.left_out, extraction.calls) == (1, {OPEN_SIZES: 1}, 2)
    fixed = extraction_of(path, threads=1, shapes={"x": (16, 70)})
    assert (len(fixed.tasks), fixed.left_out) == (2, {})
    words = ["tune", str(path), "--records", str(tmp_path / "r.db"), "--trials", "1", "--threads", "1"]
    assert cli.run([*words, "--tuner", "random"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 calls of kernels are not tuned: 1 of open sizes, which shapes= or --shape fixes" in said


def test_a_model_of_open_sizes_alone_is_refused(tmp_path):
    (path := tmp_path / "open.mlir").write_text(symbolic_models.SOFTMAX)
    with pytest.raises(UserError, match="expected a model with kernels of fixed sizes to tune, but all are open"):
        mlc.tune(path, tmp_path / "r.db", threads=1)
    assert not (tmp_path / "r.db").exists()


def test_kernels_of_loops_are_counted_and_told(tmp_path, capsys):
    x, w = np.ones((16, 70), np.float32), np.ones((70, 300), np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("CumSum", ["m", "axis"], ["y"])]
    model = onnx_graphs.model_of(nodes, {"x": x}, {"w": w, "axis": np.int64(1)})
    extraction = extraction_of(model, threads=1)
    assert (len(extraction.tasks), extraction.left_out, extraction.calls) == (1, {LOOPS: 1}, 2)
    (path := tmp_path / "sums.onnx").write_bytes(model.SerializeToString())
    words = ["tune", str(path), "--records", str(tmp_path / "r.db"), "--trials", "1", "--threads", "1"]
    assert cli.run([*words, "--tuner", "random"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"1 of 2 calls of kernels are not tuned: 1 {LOOPS}" in said


@pytest.mark.parametrize("kind", ["NonZero", "CumSum"])
def test_a_model_of_loops_alone_is_refused(kind, tmp_path):
    constants = {"axis": np.int64(1)} if kind == "CumSum" else {}
    model = onnx_graphs.one_node(kind, {"x": np.ones((3, 300), np.float32)}, constants)
    assert not extract_tasks(model, threads=1)
    with pytest.raises(UserError, match=f"expected a kernel whose schedule has a choice, but .* {LOOPS}"):
        mlc.tune(model, tmp_path / "r.db", threads=1)


def test_an_option_that_changes_no_kernel_is_refused():
    for wrong, message in [("precison", "; did you mean 'precision'\\?"), ("executor", "$")]:
        with pytest.raises(UserError, match=f"expected an option that changes kernels, but got '{wrong}'{message}"):
            extract_tasks(product(), threads=1, **{wrong: "bf16"})


def test_strategies_are_added_and_left_out():
    def parts(strategies):
        return [part.strategy for part in task_of(product(), threads=1, strategies=strategies).space.parts]

    default = parts(None)
    assert "sketch" not in default
    assert parts([]) == default[:1]
    assert parts(["sketch"]) == [default[0], "sketch"]
    assert parts(["all"]) == [*default, "sketch"]
    for wrong, message in [(["sketches"], r"did you mean 'sketch'\?"), ("sketch", "expected a list of strategies")]:
        with pytest.raises(UserError, match=message):
            parts(wrong)


def test_tuning_searches_the_strategies_it_is_given(tmp_path):
    report = mlc.tune(product(), tmp_path / "r.db", trials=5, tuner="random", threads=1, strategies=["sketch"])
    default = report.tasks[0].task.space.parts[0].strategy
    with Database(tmp_path / "r.db") as database:
        measured = [values["strategy"] for values, _ in database.results(report.tasks[0].task)]
    assert set(measured) == {default, "sketch"}
    with pytest.raises(UserError, match=r"expected a strategy that accepts a kernel, one of .*, but got 'winograd'"):
        mlc.tune(product(), tmp_path / "r.db", trials=5, threads=1, strategies=["winograd"])
    with pytest.raises(UserError, match="expected no strategies for tasks"):
        mlc.tune(task_of(product(), threads=1), tmp_path / "r.db", trials=5, strategies=["sketch"])
