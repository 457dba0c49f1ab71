"""The database of records: what goes in comes out, candidates are leased once, old versions are ignored."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from tuning_records import SPACE, failed, opened, ran, some_task

from mlc.support.errors import UserError
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.space import STRATEGY

TASK, OTHER = some_task(), some_task("dense_5678", "te.func @kernel other")


def test_results_come_back_in_order(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as database:
        for index in (0, 3, 74):
            database.add(TASK, SPACE[index], ran(0.5, 0.25, 0.75))
        database.add(TASK, SPACE[5], failed())
        database.add(OTHER, SPACE[1], ran(1.0))
    with opened(tmp_path / "r.db", readonly=True) as database:
        found = database.results(TASK)
        assert [SPACE.index_of(values) for values, _ in found] == [0, 3, 74, 5]
        assert [result.cost for _, result in found] == [0.5, 0.5, 0.5, float("inf")]
        assert found[3][1] == failed()
        assert database.tasks() == [TASK, OTHER]
        assert [(task, len(rows)) for task, rows in database.history(TASK)] == [(OTHER, 1)]


def test_a_task_is_found_by_kernel_target_and_threads(tmp_path: Path) -> None:
    smaller = some_task(target="cpu l1=48K")
    with opened(tmp_path / "r.db") as database:
        database.add(TASK, SPACE[0], ran(1.0))
        assert database.results(smaller) == []
        assert database.history(smaller) == []


def test_best_is_what_passed_the_paired_check(tmp_path: Path) -> None:
    checked = Comparison(0.5, 1.0, 1.8, 2.2, 20)
    with opened(tmp_path / "r.db") as database:
        database.add(TASK, SPACE[0], ran(0.1))
        database.add(TASK, SPACE[1], ran(0.5))
        assert database.best(TASK) is None
        fastest = database.fastest(TASK)
        assert fastest is not None
        assert fastest.values == SPACE[0]
        assert fastest.comparison is None
        database.keep(TASK, SPACE[1], checked)
    with opened(tmp_path / "r.db", readonly=True) as database:
        best = database.best(TASK)
        assert best is not None
        assert best.values == SPACE[1]
        assert best.comparison == checked
        assert best.result.cost == 0.5
        assert best.strategy_version == "1"
        assert checked.speedup == 2


def test_records_of_another_version_are_ignored_with_a_note(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as database:
        database.add(TASK, SPACE[0], ran(0.5))
        database.keep(TASK, SPACE[0], Comparison(0.5, 1.0, 1.8, 2.2, 20))
        database.add(TASK, SPACE[73], ran(0.75))
    raised = {"matmul": "2", "rows": "3"}
    with Database(tmp_path / "r.db", readonly=True, version=lambda name: raised[name]) as database:
        assert [values[STRATEGY] for values, _ in database.results(TASK)] == ["rows"]
        assert database.best(TASK) is None
        fastest = database.fastest(TASK)
        assert fastest is not None
        assert fastest.strategy == "rows"
        assert len(database.notes) == 1
        assert "records of strategy 'matmul' version 1 are ignored: it is version 2 now" in database.notes[0]


def test_a_candidate_is_leased_once(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as first, opened(tmp_path / "r.db") as second:
        assert first.lease(TASK, 7, 60)
        assert first.lease(TASK, 7, 60), "one's own lease is renewed"
        assert not second.lease(TASK, SPACE[7], 60)
        assert second.lease(TASK, 8, 60)
        assert second.lease(OTHER, 7, 60)
        first.add(TASK, SPACE[7], ran(0.5))
        assert not second.lease(TASK, 7, 60), "what was measured is not measured again"


def test_a_lease_expires_and_is_given_back(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as second:
        with opened(tmp_path / "r.db") as first:
            assert first.lease(TASK, 1, 0.0)
            assert second.lease(TASK, 1, 60)
            assert first.lease(TASK, 2, 60)
        assert second.lease(TASK, 2, 60), "a tuner that ends gives back its leases"


def test_threads_share_a_database(tmp_path: Path) -> None:
    taken: list[int] = []
    with opened(tmp_path / "r.db") as database:

        def work(number: int) -> None:
            with opened(tmp_path / "r.db") as own:
                for index in range(20):
                    if own.lease(TASK, index, 60):
                        taken.append(index)
                        database.add(TASK, SPACE[index], ran(float(number + 1)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert sorted(taken) == list(range(20))
        assert len(database.results(TASK)) == 20


def test_merge_takes_each_record_once(tmp_path: Path) -> None:
    sure, unsure = Comparison(0.5, 1.0, 1.8, 2.2, 20), Comparison(0.4, 1.0, 0.9, 9.0, 20)
    with opened(tmp_path / "a.db") as database:
        database.add(TASK, SPACE[0], ran(0.5, at=1.0))
        database.add(TASK, SPACE[1], ran(0.5, at=2.0))
        database.keep(TASK, SPACE[0], sure)
    with opened(tmp_path / "b.db") as database:
        database.add(TASK, SPACE[1], ran(0.5, at=2.0))
        database.add(OTHER, SPACE[2], ran(0.25, at=3.0))
        database.keep(TASK, SPACE[1], unsure)
        database.keep(OTHER, SPACE[2], unsure)
    with opened(tmp_path / "a.db") as database:
        assert database.merge(tmp_path / "b.db") == 2
        assert database.merge(tmp_path / "b.db") == 0
        assert [SPACE.index_of(one.values) for one in database.records()] == [0, 1, 2]
        best, other = database.best(TASK), database.best(OTHER)
        assert best is not None
        assert best.values == SPACE[0], "the surer winner stays"
        assert other is not None
        assert other.comparison == unsure


def test_export_and_import_are_inverse(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as database:
        database.add(TASK, SPACE[0], ran(0.5, 0.25, at=1.0))
        database.add(TASK, SPACE[73], failed(at=2.0))
        database.keep(TASK, SPACE[0], Comparison(0.5, 1.0, 1.8, 2.2, 20))
        lines = list(database.lines())
    with opened(tmp_path / "b.db") as database:
        assert database.add_lines(["# a comment", "", *lines], "r.jsonl") == 3
        assert list(database.lines()) == lines
        assert database.tasks() == [TASK]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "expected a JSON line of a record"),
        ("[1]", "expected a record with its format"),
        ('{"format": 9}', "expected records of format 1, but got 9, which a newer mlc wrote"),
        ('{"format": 1, "of": ["a", "b", 2]}', "expected a whole record, but got one with no 'result'"),
        (
            '{"format": 1, "of": ["a", "b", 2], "values": {}, "strategy_version": "1", "compiler": "0", "result": '
            '{"seconds": [1.0], "error": 0, "message": "", "build_seconds": 0, "run_seconds": 0, "timestamp": 0, '
            '"machine": {}}}',
            "expected the task of a record in front of it",
        ),
    ],
)
def test_a_wrong_line_is_refused_and_nothing_is_stored(tmp_path: Path, line: str, message: str) -> None:
    with opened(tmp_path / "a.db") as database:
        database.add(TASK, SPACE[0], ran(0.5))
        good = list(database.lines())
    with opened(tmp_path / "b.db") as database:
        with pytest.raises(UserError, match=message):
            database.add_lines([*good, line], "r.jsonl")
        assert database.records() == []


def test_prune(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as database:
        for index, seconds in enumerate((5.0, 1.0, 2.0, 4.0, 3.0)):
            database.add(TASK, SPACE[index], ran(seconds))
        database.add(TASK, SPACE[6], failed())
        database.keep(TASK, SPACE[3], Comparison(4.0, 5.0, 1.1, 1.3, 20))
        assert database.prune(errors=True) == 1
        assert database.prune(keep=2) == 2
        assert sorted(one.result.cost for one in database.records()) == [1.0, 2.0, 4.0]
    with Database(tmp_path / "r.db", version=lambda name: "2") as database:
        assert database.prune() == 3
        assert database.tasks() == []
        assert database.best(TASK) is None


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"r\.db: expected a database of records; `mlc tune MODEL --records r\.db`"):
        opened(tmp_path / "r.db", readonly=True)
    with pytest.raises(UserError, match=r"expected the folder .* to exist"):
        opened(tmp_path / "no" / "r.db")
    (tmp_path / "text.db").write_text("this is text, and rather more of it than fits a header of sqlite" * 9)
    with pytest.raises(UserError, match="expected a database of records, but got another file or a damaged one"):
        opened(tmp_path / "text.db")
    sqlite3.connect(tmp_path / "own.db").execute("CREATE TABLE mine(a)").connection.close()
    with pytest.raises(UserError, match="it is another program's"):
        opened(tmp_path / "own.db")
    with pytest.raises(UserError, match="it has none of its tables"):
        opened(tmp_path / "own.db", readonly=True)
    opened(tmp_path / "new.db").close()
    sqlite3.connect(tmp_path / "new.db").execute("PRAGMA user_version=99").connection.close()
    with pytest.raises(UserError, match="expected records of format 1, but got 99, which a newer mlc wrote"):
        opened(tmp_path / "new.db", readonly=True)


def test_nothing_is_left_beside_a_closed_database(tmp_path: Path) -> None:
    with opened(tmp_path / "r.db") as database:
        database.add(TASK, SPACE[0], ran(time.time()))
    assert [path.name for path in tmp_path.iterdir()] == ["r.db"]
