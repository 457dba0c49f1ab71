"""Templates: the space, candidates, the schedule by records, and what is refused."""

import random

import numpy as np
import pytest
from tuning_templates import gemm, product_of, scaled

import mlc
from mlc import te
from mlc.dialects import sched
from mlc.schedules.selection import knobs_of
from mlc.support.errors import UserError
from mlc.tuning import SplitEntity
from mlc.tuning.extract import candidate_module
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.local import LocalFarm
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison, space_of, space_text
from mlc.tuning.results import ErrorCode, MeasureInput

N, M, K = 16, 48, 12
A, B = (np.random.default_rng(0).standard_normal(shape, np.float32) for shape in ((N, K), (K, M)))


@pytest.fixture(scope="module")
def task():
    return gemm.task(N, M, K, threads=1)


def schedule_of(module):
    return next(op for op in module.body.block.ops if isinstance(op, sched.ScheduleOp))


def test_the_space_is_what_the_function_defines(task):
    knobs = {knob.name: knob for knob in task.space.parts[0].knobs}
    assert list(knobs) == ["tile_i", "tile_j", "tile_k", "order", "inner", "parallel"]
    assert knobs["tile_i"].candidates == ((-1, 1), (-1, 2), (-1, 4), (-1, 8))
    assert knobs["tile_j"].default == (-1, 16), "the fallback"
    assert knobs["order"].candidates == ((0, 1, 2), (0, 2, 1))
    assert knobs["inner"].default == "unroll vec"
    assert knobs["parallel"].candidates == ("False", "True")
    assert task.flops == 2 * N * M * K
    assert (task.name, task.threads) == ("gemm", 1)
    assert space_of(space_text(task.space)) == task.space


def test_candidates_compute_the_product_and_replay_as_text(task):
    compiled = 0
    for index in random.Random(1).sample(range(task.space.size), 12):
        values = task.space[index]
        try:
            module = candidate_module(task, values)
        except UserError:  # a loop that is not the innermost one is no vector
            continue
        knobs = knobs_of(schedule_of(module))
        assert {name: op.value for name, op in knobs.items()} == {k: v for k, v in values.items() if k != "strategy"}
        text = "\n".join(map(str, module.body.block.ops))
        replayed = mlc.Schedule(text)
        assert str(replayed) == str(schedule_of(module))
        np.testing.assert_allclose(mlc.build(replayed, threads=1, cache=False)(A, B), A @ B, rtol=1e-4, atol=1e-5)
        compiled += 1
    assert compiled > 3


def test_values_outside_of_the_candidates_are_refused(task):
    with pytest.raises(UserError, match=r"expected knob 'tile_i' among .*, but got \(-1, 3\)"):
        candidate_module(task, {**task.space.default, "tile_i": (-1, 3)})
    text = "\n".join(map(str, candidate_module(task, task.space.default).body.block.ops))
    changed = text.replace("default [-1, 4]", "default [-1, 4] value [-1, 3]")
    assert changed != text
    with pytest.raises(UserError, match="expected the value of knob 'tile_i' among"):
        mlc.Schedule(changed)


def test_a_call_takes_the_record_in_force(task, tmp_path):
    values = {**task.space.default, "tile_i": (-1, 2), "order": (0, 2, 1), "inner": "none vec"}
    with Database(tmp_path / "r.db") as database:
        database.keep(task, values, Comparison(1e-6, 2e-6, 1.9, 2.1, 15))
    assert "[?, 4]" in str(gemm.schedule(N, M, K, threads=1))
    with mlc.records(tmp_path / "r.db"):
        s = gemm.schedule(N, M, K, threads=1)
        assert {name: op.value for name, op in knobs_of(s.op).items()} == {
            k: v for k, v in values.items() if k != "strategy"
        }
        assert "default [-1, 4] value [-1, 2]" in str(s)
        np.testing.assert_allclose(mlc.build(s, threads=1)(A, B), A @ B, rtol=1e-4, atol=1e-5)
        assert "value" not in str(gemm.schedule(N, M, 2 * K, threads=1)), "the record is of other sizes"
        assert "value" not in str(gemm.schedule(N, M, K, threads=2)), "the record is of 1 thread"
        plain = mlc.build(product_of(N, M, K), threads=1, cache=False)
        assert "tile_i" not in plain.text("te"), "the record is the template's alone"


def test_tuning_measures_candidates_and_the_record_applies(task, tmp_path):
    report = mlc.tune(task, tmp_path / "r.db", trials=6, tuner="random", seed=3)
    (row,) = report.tasks
    assert report.trials == 6
    assert row.default_seconds > 0
    with Database(tmp_path / "r.db") as database:
        measured = database.results(task)
        assert len(measured) == 6
        assert dict(task.space.default) in [dict(values) for values, _ in measured]
        assert {result.error for _, result in measured} <= {ErrorCode.NO_ERROR, ErrorCode.INSTANTIATION_ERROR}
        best = database.best(task) or database.fastest(task)
    with mlc.records(tmp_path / "r.db", unchecked=True):
        s = gemm.schedule(N, M, K, threads=1)
    assert {name: op.value for name, op in knobs_of(s.op).items()} == {
        k: v for k, v in best.values.items() if k != "strategy"
    }
    np.testing.assert_allclose(mlc.build(s, threads=1)(A, B), A @ B, rtol=1e-4, atol=1e-5)


def test_a_candidate_that_the_function_refuses_is_an_instantiation_error():
    task = scaled.task(16, threads=1)
    assert task.flops == 7 * 16
    assert "scaled(16, 2.0) version 2" in task.kernel
    inputs = [MeasureInput(task, {**task.space.default, "tile": tile}) for tile in (4, 3)]
    with LocalFarm(1) as farm:
        results = dict(farm.measure(inputs, Evaluation(number=1, repeat=1)))
    assert [results[k].error for k in (0, 1)] == [ErrorCode.NO_ERROR, ErrorCode.INSTANTIATION_ERROR]
    assert "expected an even tile" in results[1].message


def test_sizes_by_name_are_the_same_task():
    assert gemm.task(n=N, m=M, k=K, threads=1).key == gemm.task(N, M, k=K, threads=1).key
    assert scaled.task(16, threads=1).key == scaled.task(16, 2.0, threads=1).key
    assert scaled.task(16, 3.0, threads=1).key != scaled.task(16, threads=1).key


def vector(cfg, *define):
    x = te.placeholder((8,), name="x")
    s = mlc.Schedule([x, te.compute((8,), lambda i: x[i] + 1, name="y")], cfg.target)
    for one in define:
        one(cfg)
    return s


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (lambda cfg: cfg.define_split("t", te.var("n")), "expected an axis of a known extent"),
        (lambda cfg: cfg.define_reorder("o", ["a", "b"], "candidate", candidate=[["a", "c"]]), "got 'c'"),
        (lambda cfg: cfg.define_knob("k", []), "expected at least one candidate of knob 'k'"),
        (lambda cfg: cfg.define_knob("k", [1, [2]]), r"a tuple of integers in 'k', got \[2\]"),
        (lambda cfg: cfg.define_knob("k", [True, "True"]), "candidates of different texts"),
        (lambda cfg: cfg.define_knob("strategy", [1]), "expected another name for a knob"),
        (lambda cfg: cfg["t"], r"expected a knob that was defined \(none\), but got 't'"),
        (lambda cfg: (cfg.define_knob("k", [1]), cfg.fallback_split("k", [1])), "expected 'k' to be a split"),
        (lambda cfg: (cfg.define_split("t", 8), cfg.fallback_split("t", [1])), "expected 2 caps for split 't'"),
        (
            lambda cfg: (cfg.define_split("t", 8), cfg.__setitem__("t", SplitEntity((-1, 3)))),
            r"expected knob 't' among .*, but got \[-1, 3\]",
        ),
        (lambda cfg: cfg.raise_error("no"), "no"),
    ],
)
def test_wrong_definitions_are_refused(define, message):
    refused = mlc.tuning.template(lambda cfg: vector(cfg, define))
    with pytest.raises(UserError, match=message):
        refused()


def test_the_first_definition_of_a_name_counts():
    found = {}

    @mlc.tuning.template
    def twice(cfg):
        cfg.define_knob("k", [1, 2])
        cfg.define_knob("k", [3])
        found["k"] = cfg["k"].val
        return vector(cfg)

    assert "[1, 2] default 1" in str(twice())
    assert found == {"k": 1}


def test_wrong_templates_are_refused():
    with pytest.raises(
        UserError, match=r"template 'scaled': too many positional arguments; expected \(n, factor=2\.0\)"
    ):
        scaled(1, 2.0, 3)
    with pytest.raises(UserError, match="expected numbers, texts, None or tuples of them, got array"):
        scaled(np.ones(1))
    with pytest.raises(UserError, match="to take the configuration as its first parameter"):
        mlc.tuning.template(lambda: None)
    with pytest.raises(UserError, match=r"to return an mlc\.Schedule, but got 3"):
        mlc.tuning.template(lambda cfg: 3)()
    with pytest.raises(UserError, match="at the top of a module"):
        mlc.tuning.template(lambda cfg: vector(cfg)).task()
    with pytest.raises(UserError, match="expected sizes as parameters of template"):
        mlc.tuning.template(lambda cfg, *, n: vector(cfg))
