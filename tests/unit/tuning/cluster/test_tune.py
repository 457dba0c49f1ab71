"""`mlc tune --cluster` from the command line, against a scheduler and two device servers with a secret."""

import builtins
import json
import signal
import sqlite3

import clusters
import numpy as np
import pytest
import small_model

import mlc
from mlc.support.errors import UserError
from mlc.tools.cli import run
from mlc.tuning.session.watch import Watcher

pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'mlc[cluster]'")


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    return tmp_path_factory.mktemp("secret") / "farm.pem"


@pytest.fixture(scope="module")
def scheduler(secret):
    with clusters.cluster(secret, "board", "board") as (first, *_):
        yield first.address.replace("tls://", "tcp://")


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return str(small_model.write(tmp_path))


def tune(model, *more):
    return run(["tune", model, "--records", "r.db", "--threads", "1", "--trials", "12", "--tuner", "random", *more])


def machines():
    """The device servers that measured what is in the database, without errors."""
    rows = sqlite3.connect("r.db").execute("SELECT result FROM results").fetchall()
    results = [json.loads(row[0]) for row in rows]
    return [result["machine"]["worker"] for result in results if "worker" in result["machine"]]


def test_a_model_is_tuned_on_two_devices(model, scheduler, secret, capsys):
    assert tune(model, "--cluster", scheduler, "--key", "board", "--secret", str(secret)) == 0
    said = capsys.readouterr()
    assert "12 trials of " in said.out
    assert "the whole model was not compared: its kernels were measured on other machines" in said.out
    assert "error" not in said.err
    assert len(set(machines())) == 2
    executable = mlc.compile(model, threads=1, records="r.db")
    for name, wanted in small_model.expected(small_model.inputs()).items():
        np.testing.assert_allclose(executable(small_model.inputs())[name], wanted, rtol=1e-4, atol=1e-4)


def refused(capsys, model, *more):
    """What the command says of these options; nothing is written."""
    assert tune(model, *more) == 1
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    return said


def test_what_is_wrong_with_a_cluster_is_told_and_no_file_is_made(
    model, scheduler, secret, capsys, tmp_path, monkeypatch
):
    from mlc.tuning.cluster.secret import make_secret

    make_secret(other := tmp_path / "other.pem")
    known = ("--secret", str(secret))
    assert "with this secret that answers, but got: TLS" in refused(
        capsys, model, "--cluster", scheduler, "--secret", str(other)
    )
    assert "expected the cluster's secret (--secret FILE" in refused(capsys, model, "--cluster", scheduler)
    assert "without a secret that answers" in refused(capsys, model, "--cluster", scheduler, "--insecure")
    assert "expected an address such as tcp://host:8786" in refused(capsys, model, "--cluster", "desk", *known)
    unknown = refused(capsys, model, "--cluster", scheduler, "--key", "phone", *known)
    assert "expected device 'board', but got 'phone'" in unknown
    real = builtins.__import__

    def without_dask(name, *rest):
        if name == "distributed":
            raise ImportError("No module named 'distributed'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_dask)
    assert "pip install 'mlc[cluster]'" in refused(capsys, model, "--cluster", scheduler, *known)
    assert not (tmp_path / "r.db").exists()


def test_no_scheduler(model, secret, scheduler, capsys, monkeypatch):
    from mlc.tuning.cluster import farm

    monkeypatch.setattr(farm.connected, "__defaults__", (0.5,))
    said = refused(capsys, model, "--cluster", "tcp://127.0.0.1:1", "--secret", str(secret))
    assert "expected a scheduler at tls://127.0.0.1:1 with this secret that answers, but got: Timed out" in said


class Killer(Watcher):
    """Ends a server by SIGKILL after three trials."""

    def __init__(self, server):
        self.server, self.trials = server, 0

    def trial(self, number, values, result, standing):
        self.trials += 1
        if self.trials == 3:
            self.server.end(signal.SIGKILL)


def test_servers_that_die(model, tmp_path):
    secret = tmp_path / "farm.pem"
    how = {"threads": 1, "tuner": "random", "secret": secret}
    with clusters.cluster(secret, "board", "board") as (first, board, _):
        report = mlc.tune(model, "r.db", trials=12, cluster=first.address, watcher=Killer(board), **how)
        assert report.trials == 12
        known = len(machines())
        with pytest.raises(
            UserError, match=r"expected the scheduler at tls://.* to answer, but it has ended; .*--resume"
        ):
            mlc.tune(model, "r.db", trials=100, cluster=first.address, watcher=Killer(first), **how)
        assert len(machines()) >= known + 3
