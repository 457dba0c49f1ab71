"""Compiling with records: they beat strategies, contexts nest, and the cache knows which records answered."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from tuning_records import dense_model, keep, ran, some_task, strategies_of, tasks_of

import mlc
from mlc.schedules.selection import records as seconds_on_record
from mlc.support.errors import UserError, collected_warnings
from mlc.tuning.records.context import Snapshot, SnapshotEntry, opened, snapshot_json, snapshot_of_json
from mlc.tuning.records.database import Database
from mlc.tuning.task import Task


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Task]]:
    """A model of two kernels and their tasks."""
    path = dense_model(tmp_path_factory.mktemp("model") / "m.onnx")
    return path, tasks_of(path)


def test_records_beat_strategies_and_a_miss_is_the_analytic_schedule(
    tmp_path: Path, model: tuple[Path, list[Task]]
) -> None:
    path, tasks = model
    plain = mlc.compile(path, threads=1)
    assert strategies_of(plain) == ["matmul", "matmul"]
    assert plain.report["records"] == []
    keep(tmp_path / "r.db", tasks[1])
    with mlc.records(tmp_path / "r.db"):
        tuned = mlc.compile(path, threads=1)
    assert strategies_of(tuned) == ["matmul", "contraction"]
    rows = [row for row in tuned.report["records"] if row["kernel"]]  # one more asks for the layouts
    assert [(row["kernel"], row["hash"], row["threads"], row["values"]) for row in rows] == [
        (tasks[0].name, tasks[0].kernel_hash, 1, None),
        (tasks[1].name, tasks[1].kernel_hash, 1, {"strategy": "contraction"}),
    ]
    x = np.random.default_rng(2).standard_normal((8, 64), np.float32)
    np.testing.assert_allclose(tuned({"x0": x})["x2"], plain({"x0": x})["x2"], rtol=1e-5, atol=1e-5)
    assert strategies_of(mlc.compile(path, threads=1)) == ["matmul", "matmul"], "the context has ended"


def test_the_argument_is_a_context_of_one_call(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    keep(tmp_path / "r.db", tasks[0])
    assert strategies_of(mlc.compile(path, threads=1, records=tmp_path / "r.db")) == ["contraction", "matmul"]
    with mlc.records(tmp_path / "r.db"):
        assert strategies_of(mlc.compile(path, threads=1, records=False)) == ["matmul", "matmul"]


def test_other_threads_and_targets_are_other_tasks(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    keep(tmp_path / "r.db", tasks[0])
    with mlc.records(tmp_path / "r.db"):
        assert strategies_of(mlc.compile(path, threads=2)) == ["matmul", "matmul"]
        other = mlc.compile(path, threads=1, target="x86-64-v3")
    assert strategies_of(other) == ["matmul", "matmul"]
    assert {row["target"] for row in other.report["records"]} != {tasks[0].target}


def test_contexts_nest(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    keep(tmp_path / "outer.db", tasks[0])
    keep(tmp_path / "outer.db", tasks[1])
    keep(tmp_path / "inner.db", tasks[1], "matmul")
    with mlc.records(tmp_path / "outer.db"):
        with mlc.records(tmp_path / "inner.db"):
            both = mlc.compile(path, threads=1)
        outer = mlc.compile(path, threads=1)
    assert strategies_of(both) == ["contraction", "matmul"]
    assert strategies_of(outer) == ["contraction", "contraction"]
    with mlc.records(tmp_path / "inner.db", tmp_path / "outer.db"):
        assert strategies_of(mlc.compile(path, threads=1)) == ["contraction", "matmul"]


def test_threads_have_contexts_of_their_own(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    keep(tmp_path / "0.db", tasks[0])
    keep(tmp_path / "1.db", tasks[1])
    found: dict[int, list[str]] = {}
    entered, one_at_a_time = threading.Barrier(3), threading.Lock()

    def work(number: int) -> None:
        with mlc.records(tmp_path / f"{number}.db") if number < 2 else nullcontext():
            entered.wait()
            with one_at_a_time:  # all contexts are open, and one compilation forks its workers
                found[number] = strategies_of(mlc.compile(path, threads=1))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {0: ["contraction", "matmul"], 1: ["matmul", "contraction"], 2: ["matmul", "matmul"]}


def test_the_cache_knows_which_records_answered(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    plain = mlc.compile(path, threads=1).artifact.path
    keep(tmp_path / "r.db", tasks[0])
    with mlc.records(tmp_path / "r.db"):
        first = mlc.compile(path, threads=1).artifact.path
        assert mlc.compile(path, threads=1).artifact.path == first
    keep(tmp_path / "r.db", some_task())
    with mlc.records(tmp_path / "r.db"):
        assert mlc.compile(path, threads=1).artifact.path == first, "a record of another kernel changes nothing"
    keep(tmp_path / "r.db", tasks[1])
    with mlc.records(tmp_path / "r.db"):
        second = mlc.compile(path, threads=1)
    assert strategies_of(second) == ["contraction", "contraction"]
    with Database(tmp_path / "r.db") as database:
        database.prune()
    keep(tmp_path / "other.db", tasks[0])
    with mlc.records(tmp_path / "other.db"):
        assert mlc.compile(path, threads=1).artifact.path == first, "another file with the same answers"
    assert mlc.compile(path, threads=1).artifact.path == plain
    assert len({plain, first, second.artifact.path}) == 3


def test_an_operator_is_built_with_records(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    _, tasks = model
    keep(tmp_path / "r.db", tasks[0])
    kernel = tasks[0].kernel
    with mlc.records(tmp_path / "r.db"):
        assert "contraction" in mlc.build(kernel, threads=1).text("te")
    assert "matmul" in mlc.build(kernel, threads=1).text("te")


def test_a_record_of_an_older_strategy_is_ignored_with_a_note(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    keep(tmp_path / "r.db", tasks[0], version="0")
    with mlc.records(tmp_path / "r.db"), collected_warnings() as warned:
        exe = mlc.compile(path, threads=1)
    assert strategies_of(exe) == ["matmul", "matmul"]
    assert len(warned) == 1
    assert (
        f"the record of kernel '{tasks[0].name}' is ignored: it is of version 0 of strategy 'contraction'" in warned[0]
    )
    assert [row["note"] for row in exe.report["records"] if "note" in row] == warned


def test_a_record_of_another_te_text_is_ignored_with_a_note(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    old = Task(tasks[0].name, "te.func @kernel before", tasks[0].target, 1, tasks[0].space, 1)
    keep(tmp_path / "r.db", old)
    with mlc.records(tmp_path / "r.db"), collected_warnings() as warned:
        exe = mlc.compile(path, threads=1)
    assert strategies_of(exe) == ["matmul", "matmul"]
    assert len(warned) == 1
    assert f"the record of kernel '{tasks[0].name}' is ignored: its te text is another one now; tune again" in warned[0]


def test_unchecked_records_answer_only_where_asked_for(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    with Database(tmp_path / "r.db") as database:
        database.add(tasks[0], {"strategy": "contraction"}, ran(0.25))
        database.add(tasks[0], {"strategy": "matmul"}, ran(0.5))
        with mlc.records(database):
            assert strategies_of(mlc.compile(path, threads=1)) == ["matmul", "matmul"]
        with mlc.records(database, unchecked=True):
            assert strategies_of(mlc.compile(path, threads=1)) == ["contraction", "matmul"]


def test_what_is_no_database_is_refused(tmp_path: Path, model: tuple[Path, list[Task]]) -> None:
    path, _ = model
    with pytest.raises(UserError, match="expected a database of records"), mlc.records(tmp_path / "no.db"):
        pass
    with pytest.raises(UserError, match="expected at least one database"), mlc.records():
        pass
    with pytest.raises(UserError, match="expected the path of a database of records, but got 3"), mlc.records(3):  # pyright: ignore[reportArgumentType] a user's mistake
        pass
    with pytest.raises(UserError, match="expected records to be the path of a database, or False, but got 3"):
        mlc.compile(path, records=3)  # pyright: ignore[reportArgumentType]


def test_seconds_of_strategies_still_select(model: tuple[Path, list[Task]]) -> None:
    path, tasks = model
    known = {(tasks[1].name, "contraction"): 1.0, (tasks[1].name, "matmul"): 2.0}
    with seconds_on_record(lambda kernel, target, threads, strategy: known.get((kernel.name, strategy)), key="1"):
        assert strategies_of(mlc.compile(path, threads=1)) == ["matmul", "contraction"]


def test_a_snapshot_is_text_and_back(tmp_path: Path) -> None:
    values = {"strategy": "matmul", "tile": (4, 8), "order": "ij"}
    found = Snapshot("r", {("ab", "cpu", 2): SnapshotEntry(values, "1", "dense_1")})
    assert snapshot_of_json(snapshot_json(found), "r") == found
    keep(tmp_path / "r.db", some_task())
    assert opened(tmp_path / "r.db").table[some_task().key].name == "dense_1234"
    for text in ("", "[]", '{"format": 1}', '{"format": 1, "records": [[1]]}'):
        with pytest.raises(UserError, match="expected a package's records"):
            snapshot_of_json(text, "r")
    with pytest.raises(UserError, match="expected records of format 1, but got 7"):
        snapshot_of_json('{"format": 7, "records": []}', "r")
