"""mlc.tune as a whole, on tasks that are given: the report, what is kept, and the diagnostics of wrong arguments."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tuning_farm import FakeFarm
from tuning_records import some_task

import mlc
from mlc.support.errors import UserError
from mlc.tuning.records.database import Database
from mlc.tuning.session.report import TaskReport, duration, shortened
from mlc.tuning.session.watch import Watcher

ROOT = Path(__file__).parents[4]
TASKS = [some_task("conv2d_add_relu_42313efc", "te.func @a"), replace(some_task("dense_77aa", "te.func @b"), weight=1)]
BEST = {"strategy": "matmul", "tile": (16, 16), "unroll": 0}


def seconds(task, values):
    if values == BEST and task.name.startswith("conv2d"):
        return 8e-6
    return 10e-6 if values == task.space.default else 12e-6


def test_the_report_says_what_was_found(tmp_path):
    farm = FakeFarm(seconds)
    report = mlc.tune(TASKS, tmp_path / "r.db", trials=150, tuner="grid", farm=farm)
    assert report.trials == 150
    conv, dense = report.tasks
    assert dict(conv.kept) == BEST
    assert conv.comparison.low == pytest.approx(1.25)
    assert conv.changes == {"tile": "4x8 -> 16x16", "unroll": "1 -> 0"}
    assert dense.kept is None
    assert report.kept == (conv,)
    assert report.model is None
    with Database(tmp_path / "r.db") as database:
        assert dict(database.best(TASKS[0]).values) == BEST
        assert database.best(TASKS[1]) is None
    assert not farm.is_closed, "a farm that was given stays open"


def test_the_table_fits_80_columns(tmp_path):
    task = replace(TASKS[0], name="conv2d_winograd_bias_add_leaky_relu_multiply_add_0123abcd")
    report = mlc.tune([task, TASKS[1]], tmp_path / "r.db", trials=150, tuner="grid", farm=FakeFarm(seconds))
    lines = str(report).splitlines()
    assert lines[0].split() == ["kernel", "trials", "default", "best", "GFLOP/s", "speed-up", "(95", "%)"]
    assert all(len(line) <= 80 for line in lines[:3])
    assert re.match(r"3 x conv2d\S*…_0123abcd +75 +10 us +8 us +0\.5 +1\.25 \[1\.25, 1\.25\]$", lines[1])
    assert "1 kernel faster than the default for sure" in str(report)


def test_a_second_session_reports_what_is_known(tmp_path):
    mlc.tune(TASKS, tmp_path / "r.db", trials=150, tuner="grid", farm=FakeFarm(seconds))
    farm = FakeFarm(seconds)
    report = mlc.tune(TASKS, tmp_path / "r.db", trials=150, tuner="grid", farm=farm, resume=True)
    assert not farm.measured
    assert dict(report.tasks[0].kept) == BEST
    assert report.tasks[0].known == 75


def test_failures_are_counted(tmp_path):
    from mlc.tuning.results import ErrorCode

    farm = FakeFarm(lambda task, values: 1e-5 if values == task.space.default else ErrorCode.WRONG_ANSWER)
    report = mlc.tune(TASKS, tmp_path / "r.db", trials=10, tuner="grid", farm=farm)
    assert report.errors() == {"WRONG_ANSWER": 8}
    assert "8 trials failed: 8 WRONG_ANSWER" in str(report)


def test_without_a_number_or_a_time_each_task_has_its_trials(tmp_path):
    farm = FakeFarm(seconds)
    mlc.tune(TASKS[0], tmp_path / "r.db", tuner="random", farm=farm)
    assert len(farm.measured) == 64


@pytest.mark.parametrize(
    ("high", "calls", "kept", "note"),
    [
        (0.9, 2, None, "the default schedules are in force again"),
        (1.1, 1, BEST, ""),
    ],
)
def test_a_model_that_is_surely_slower_as_a_whole_gets_its_defaults_back(
    tmp_path, monkeypatch, high, calls, kept, note
):
    """A kernel that is faster alone may disturb the others: such winners are not left in force."""
    from mlc.tuning import tune
    from mlc.tuning.records.record import Comparison

    asked = []
    monkeypatch.setattr(tune, "_subject", lambda *_: tune._Subject(TASKS, "model.onnx", {}))
    monkeypatch.setattr(tune, "LocalFarm", FakeFarm)
    found = Comparison(1.2e-3, 1e-3, 0.8, high, 25)
    compare = "mlc.tuning.session.whole.compare_model"
    monkeypatch.setattr(compare, lambda *given: asked.append(given) or found)
    report = mlc.tune("model.onnx", tmp_path / "r.db", trials=150, tuner="grid", farm=FakeFarm(seconds))
    assert len(asked) == calls
    assert report.model == found
    assert report.note.endswith(note)
    assert (report.tasks[0].kept and dict(report.tasks[0].kept)) == kept


class Impatient(Watcher):
    """Presses Ctrl-C at a trial, and again in the check."""

    def __init__(self, at, twice):
        self.at, self.twice = at, twice

    def trial(self, number, values, result, standing):
        if standing.trials == self.at:
            raise KeyboardInterrupt

    def phase(self, text, done, total):
        if self.twice and text.startswith("checking"):
            raise KeyboardInterrupt


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_gives_the_report(tmp_path, twice):
    watcher = Impatient(100, twice)
    report = mlc.tune(TASKS, tmp_path / "r.db", tuner="grid", trials=150, farm=FakeFarm(seconds), watcher=watcher)
    assert report.is_interrupted
    assert report.trials == 100
    assert (report.tasks[0].kept is None) == twice
    assert ("not kept" in str(report)) == twice


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trials": 0}, "expected trials to be a number of candidates, at least 1, but got 0"),
        ({"trials": 2.5}, "expected trials to be a number of candidates, at least 1, but got 2.5"),
        ({"seconds": -1}, "expected seconds to be above 0, but got -1"),
        ({"tuner": "xgb"}, "expected a tuner among model, random, grid, ga, evolution, but got 'xgb'"),
        ({"until": "much"}, "expected until to be a part of the latency such as '5%' or 0.05, but got 'much'"),
        ({"until": 5}, "expected until to be a part of the latency such as '5%' or 0.05, but got 5"),
        ({"opt_levl": 2}, "expected an option of mlc.tune, but got 'opt_levl'; did you mean 'opt_level'?"),
        ({"cluster": "tcp://a:1"}, "expected farm= or cluster=, but got both"),
        ({"threads": 0}, "expected threads"),
        ({"target": "no-such"}, "no-such"),
    ],
)
def test_wrong_arguments_have_one_diagnostic(tmp_path, wrong, message):
    with pytest.raises(UserError) as error:
        mlc.tune(TASKS, tmp_path / "r.db", farm=FakeFarm(seconds), **wrong)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "r.db").exists()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "r.db").write_text("not a database, but long enough to be taken for one\n" * 40)
    with pytest.raises(UserError, match=r"r\.db"):
        mlc.tune(TASKS, tmp_path / "r.db", farm=FakeFarm(seconds))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.5, "1.5 s"), (0.0123, "12.3 ms"), (123.4e-6, "123 us"), (1e-6, "1 us"), (4e-8, "40 ns"), (float("inf"), "-")],
)
def test_durations_have_three_digits(value, text):
    assert duration(value) == text


def test_a_short_name_keeps_its_hash():
    assert shortened("conv2d_add_relu_42313efc", 24) == "conv2d_add_relu_42313efc"
    assert shortened("conv2d_add_relu_42313efc", 16) == "conv2d…_42313efc"


def test_the_knobs_of_another_strategy_are_told():
    task = TASKS[0]
    one = TaskReport(task, 1.0, 1.0, None, 1, kept={"strategy": "rows", "lanes": 8})
    assert one.changes == {"strategy": "matmul -> rows", "tile": "4x8 -> -", "unroll": "1 -> -", "lanes": "- -> 8"}


SESSION = """
import sys
import mlc
from tuning_farm import FakeFarm
from tuning_records import some_task
from mlc.tuning.session.watch import Watcher

class Telling(Watcher):
    def trial(self, number, values, result, standing):
        print(standing.trials, flush=True)

task = some_task()
farm = FakeFarm(lambda task, values: 1e-5, delay_s=float(sys.argv[2]))
report = mlc.tune(task, sys.argv[1], tuner="random", trials=60, resume=True, farm=farm, watcher=Telling())
print("done", report.tasks[0].known)
print(report)
"""


def started(path, delay="0.02"):
    return subprocess.Popen(
        [sys.executable, "-c", SESSION, str(path), delay],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests/helpers")},
        stdout=subprocess.PIPE,
        text=True,
    )


def rows(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT vals FROM results").fetchall()


def read_until(process, count):
    told = 0
    while told < count:
        told = int(process.stdout.readline())
    return told


def test_kill_9_loses_nothing_that_was_measured(tmp_path):
    """Killed again and again at any moment, a session reaches its number without measuring a candidate twice."""
    path, before = tmp_path / "r.db", 0
    for count in (1, 9, 5):
        process = started(path)
        told = read_until(process, count)
        process.send_signal(signal.SIGKILL)
        process.wait()
        told = max([told, *(int(line) for line in process.stdout)])
        assert len(rows(path)) >= before + told, "a result that was told is in the database"
        before = len(rows(path))
    process = started(path, "0")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "done 60" in output
    stored = rows(path)
    assert len(stored) == len(set(stored)) == 60


def test_ctrl_c_in_a_real_process_prints_the_report(tmp_path):
    process = started(tmp_path / "r.db")
    read_until(process, 3)
    process.send_signal(signal.SIGINT)
    start = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert time.monotonic() - start < 30
    assert "the search ended: it was interrupted" in output
