"""mlc.tune with the farm of this machine: real candidates, real processes, a whole model."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc
from mlc import te
from mlc.tools import cli
from mlc.tuning.records.database import Database
from mlc.tuning.results import ErrorCode

ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))


def product(n=64):
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis(n, "k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")]


def test_an_operator_is_tuned_and_stays_right(tmp_path):
    report = mlc.tune(product(), tmp_path / "r.db", trials=10, threads=1, tuner="random", seed=3)
    (task,) = report.tasks
    assert len(task.points) == report.trials == 10
    assert task.default_seconds < float("inf")
    assert task.best_seconds <= task.default_seconds
    with Database(tmp_path / "r.db") as database:
        results = database.results(task.task)
    assert dict(results[0][0]) == task.task.space.default
    assert {result.error for _, result in results} <= {ErrorCode.NO_ERROR, ErrorCode.INSTANTIATION_ERROR}
    assert task.kept is None or task.comparison.low > 1
    with mlc.records(tmp_path / "r.db"):
        operator = mlc.build(product(), threads=1)
    a, b = np.random.default_rng(0).standard_normal((2, 64, 64), np.float32)
    np.testing.assert_allclose(operator(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_a_model_is_tuned_compared_and_compiled_with_its_records(tmp_path, capsys):
    model = small_model.write(tmp_path)
    words = [str(model), "--records", str(tmp_path / "r.db"), "--threads", "1"]
    assert cli.run(["tune", *words, "--trials", "12", "--tuner", "ga"]) == 0
    output = capsys.readouterr().out
    assert "12 trials of " in output
    assert "the whole model: " in output
    executable = mlc.compile(model, threads=1, records=tmp_path / "r.db")
    for name, wanted in small_model.expected(small_model.inputs()).items():
        np.testing.assert_allclose(executable(small_model.inputs())[name], wanted, rtol=1e-4, atol=1e-4)


SESSION = """
import sys
import mlc
from mlc.tuning.session.watch import Watcher
from tests.unit.tuning.session.test_end_to_end import product

class Telling(Watcher):
    def trial(self, number, values, result, standing):
        print(standing.trials, flush=True)

if __name__ == "__main__":
    report = mlc.tune(product(), sys.argv[1], trials=2000, threads=1, tuner="random", watcher=Telling())
    print(report)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_stopped_leaves_its_results_and_no_process(tmp_path, stop):
    """As a terminal does it: Ctrl-C goes to all processes of the group, those that build and measure, too."""
    process = subprocess.Popen(
        [sys.executable, "-c", SESSION, str(tmp_path / "r.db")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'helpers'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    told = 0
    while told < 3:
        told = int(process.stdout.readline())
    if stop == signal.SIGINT:
        os.killpg(process.pid, stop)
    else:
        process.send_signal(stop)
    output, errors = process.communicate(timeout=120)  # ends when no process holds the pipes any more
    if stop == signal.SIGINT:
        assert process.returncode == 0, errors
        assert "the search ended: it was interrupted" in output
        assert "Traceback" not in errors
    with Database(tmp_path / "r.db") as database:
        (task,) = database.tasks()
        assert len(database.results(task)) >= told
        assert all(r.error in (ErrorCode.NO_ERROR, ErrorCode.INSTANTIATION_ERROR) for _, r in database.results(task))
