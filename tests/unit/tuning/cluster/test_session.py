"""Remote sessions: files, models and times on a device of a cluster."""

import os
import signal
import threading

import clusters
import numpy as np
import pytest
from clusters import until

import mlc
from mlc.support.errors import UserError

pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'mlc[cluster]'")
from mlc.tuning import cluster as mlc_cluster

MODEL = """func.func @main(%x: tensor<4x8xf32> {graph.name = "x"}) -> (tensor<4x8xf32> {graph.name = "y"}) {
  %y = graph.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    secret = tmp_path_factory.mktemp("secret") / "farm.pem"
    with clusters.cluster(secret, "board") as (scheduler, _):
        yield scheduler.address, secret


def connect(server, **how):
    return mlc_cluster.connect(server[0], "board", secret=server[1], **how)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "model.mlir").write_text(MODEL)
    mlc.compile(folder / "model.mlir", threads=1).save(folder / "relu")
    return folder / "relu"


def test_a_model_runs_and_is_timed_there(server, saved):
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    with connect(server) as session:
        model = session.load(session.upload(saved))
        assert [spec.name for spec in model.inputs] == ["x"]
        assert np.array_equal(model.run({"x": x})["y"], np.maximum(x, 0))
        timed = model.time_evaluator({"x": x}, number=5, repeat=4)
        assert len(timed.results) == 4
        assert timed.min > 0
        with pytest.raises(UserError, match=r"expected input 'x'"):
            model.run({"x": x[:2]})


def test_a_crash_costs_the_loaded_models_only(server, saved):
    x = np.ones((4, 8), np.float32)
    with connect(server) as session:
        model = session.load(session.upload(saved))

        def kill(dask_worker):
            for held in dask_worker.plugins["mlc-device"].sessions.values():
                os.kill(held.process._worker.pid, signal.SIGSEGV)

        session._client.run(kill, workers=[session.address])
        with pytest.raises(UserError, match=r"was ended by SIGSEGV; load the models again"):
            model.run({"x": x})
        assert np.array_equal(session.load(saved.name).run({"x": x})["y"], x)


def test_files(server, tmp_path):
    (tmp_path / "notes.txt").write_text("one")
    with connect(server) as session:
        assert session.upload(tmp_path / "notes.txt") == "notes.txt"
        session.upload(tmp_path / "notes.txt", "folder/other.txt")
        session.download("folder/other.txt", tmp_path / "back.txt")
        assert (tmp_path / "back.txt").read_text() == "one"
        session.remove("folder")
        with pytest.raises(UserError, match=r"expected an uploaded file, but got 'folder'; the session has notes.txt"):
            session.download("folder", tmp_path / "no")
        for name in ("../up", "/etc/passwd", ""):
            with pytest.raises(UserError, match=r"expected a name inside of the session's directory"):
                session.remove(name)
        with pytest.raises(UserError, match=r"expected a file or a folder to upload"):
            session.upload(tmp_path / "nothing")


def test_a_device_has_one_session_at_a_time(server):
    first = connect(server)
    with pytest.raises(UserError, match=r"expected a device 'board' to be free within 1 s"):
        connect(server, timeout=1)
    opened = []
    thread = threading.Thread(target=lambda: opened.append(connect(server)))
    thread.start()
    assert until(lambda: [d.queue for d in mlc_cluster.devices(server[0], secret=server[1])] == [1])
    (device,) = mlc_cluster.devices(server[0], secret=server[1])
    assert device.holder.endswith(": session")
    first.close()
    thread.join()
    opened[0].close()


def test_a_session_ends_when_its_time_is_over(server, tmp_path):
    with connect(server, session_seconds=0.5) as session:
        assert until(session._hold.done)
        with pytest.raises(UserError, match=r"expected an open session"):
            session.remove("x")
    with connect(server) as again:
        assert again.address == session.address


def test_an_unknown_device(server):
    with pytest.raises(UserError, match=r"expected device 'board', but got 'phone'"):
        mlc_cluster.connect(server[0], "phone", secret=server[1])
