"""What is a cluster's own: devices that die, uploads, secrets, who waits and who has what."""

import os
import signal
import threading

import clusters
import pytest
import tuning_candidates as candidates
from clusters import until

from mlc.support.errors import UserError
from mlc.tools.cli import run
from mlc.tuning.farm import Evaluation
from mlc.tuning.results import ErrorCode, MeasureInput

pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'mlc[cluster]'")
from mlc.tuning import cluster as mlc_cluster

QUICK = Evaluation(number=1, repeat=1, min_repeat_ms=0, run_timeout_s=60, build_timeout_s=60, stop_factor=0)


@pytest.fixture(scope="module")
def secret(tmp_path_factory):
    return tmp_path_factory.mktemp("secret") / "farm.pem"


@pytest.fixture(scope="module")
def servers(secret):
    with clusters.cluster(secret, "board", "board", "phone") as started:
        yield started


@pytest.fixture
def address(servers):
    return servers[0].address


def farm(address, secret, **how):
    return mlc_cluster.ClusterFarm(address, cores=2, candidate=candidates.candidate, secret=secret, **how)


def inputs(*ways, name="kernel"):
    return [MeasureInput(candidates.task(name), candidates.values(way)) for way in ways]


def devices(address, secret):
    return mlc_cluster.devices(address, secret=secret)


def test_both_boards_work(address, secret):
    with farm(address, secret, device="board") as one:
        results = dict(one.measure(inputs(*["default", "loops", "other", "wrong"] * 3), QUICK))
    assert len({result.machine["worker"] for result in results.values()}) == 2
    assert {result.machine["key"] for result in results.values()} == {"board"}


def uploads(client):
    """The artefacts that arrived at each device server."""

    def count(dask_worker):
        return dask_worker.plugins["mlc-device"].uploads

    return client.run(count)


def test_an_artefact_is_uploaded_once_to_a_device(address, secret):
    with farm(address, secret, device="phone") as one:
        (phone,) = [d.address for d in devices(address, secret) if d.key == "phone"]
        before = uploads(one._client)[phone]
        for _ in range(3):
            results = dict(one.measure(inputs("default", "loops"), QUICK))
            assert {result.error for result in results.values()} == {ErrorCode.NO_ERROR}
        assert uploads(one._client)[phone] - before == 3  # the default as a reference and as a candidate, and the other


def test_what_a_device_has_forgotten_is_sent_again(address, secret):
    with farm(address, secret, device="phone") as one:
        assert next(one.measure(inputs("loops"), QUICK))[1].error is ErrorCode.NO_ERROR
        one._client.run(lambda dask_worker: dask_worker.plugins["mlc-device"].artefacts.clear())
        assert next(one.measure(inputs("loops"), QUICK))[1].error is ErrorCode.NO_ERROR


def test_several_keys_need_a_choice(address, secret):
    with farm(address, secret) as one, pytest.raises(UserError, match=r"expected a device key, .*: 'board', 'phone'"):
        one.measure(inputs("default"), QUICK)


def test_who_has_a_device_and_who_waits(address, secret, capsys):
    with farm(address, secret, device="phone") as one, farm(address, secret, device="phone") as other:
        list(one.measure(inputs("default"), QUICK))
        slow = Evaluation(number=1, repeat=1, min_repeat_ms=0, run_timeout_s=6, build_timeout_s=60)
        work = [
            threading.Thread(target=lambda: list(one.measure(inputs("hang", name="conv2d"), slow))),
            threading.Thread(target=lambda: list(other.measure(inputs("default", name="dense"), QUICK))),
        ]
        work[0].start()
        assert until(lambda: "conv2d" in _phone(address, secret).holder)
        work[1].start()
        assert until(lambda: _phone(address, secret).queue == 1)
        assert main_said(capsys, "devices", address, "--secret", str(secret))[-1].split()[0] == "phone"
        for thread in work:
            thread.join()
    assert until(lambda: (_phone(address, secret).holder, _phone(address, secret).queue) == ("", 0))


def _phone(address, secret):
    return next(d for d in devices(address, secret) if d.key == "phone")


def main_said(capsys, *arguments):
    """The lines that a command prints."""
    assert run(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


def test_higher_priorities_run_first(address, secret):
    finished = []

    def measure(name, one, way, evaluation):
        list(one.measure(inputs(way), evaluation))
        finished.append(name)

    slow = Evaluation(number=1, repeat=1, min_repeat_ms=0, run_timeout_s=6, build_timeout_s=60)
    with (
        farm(address, secret, device="phone") as first,
        farm(address, secret, device="phone", priority=-1) as low,
        farm(address, secret, device="phone", priority=5) as high,
    ):
        work = []
        for name, one, way, how in (
            ("first", first, "hang", slow),
            ("low", low, "loops", QUICK),
            ("high", high, "loops", QUICK),
        ):
            waiting = len(work)
            work.append(threading.Thread(target=measure, args=(name, one, way, how)))
            work[-1].start()
            assert until(
                lambda waiting=waiting: _phone(address, secret).holder and _phone(address, secret).queue == waiting
            )
        for thread in work:
            thread.join()
    assert finished == ["first", "high", "low"]


def test_no_secret_no_connection(address, tmp_path, secret, monkeypatch):
    monkeypatch.delenv("MLC_CLUSTER_SECRET", raising=False)
    with pytest.raises(UserError, match=r"expected the cluster's secret"):
        mlc_cluster.devices(address)
    with pytest.raises(UserError, match=r"expected a scheduler at tcp.* without a secret that answers"):
        mlc_cluster.devices(address, insecure=True)
    other = tmp_path / "other.pem"
    from mlc.tuning.cluster.secret import make_secret

    make_secret(other)
    assert other.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UserError, match=r"expected a scheduler at tls.* with this secret that answers"):
        mlc_cluster.devices(address, secret=other)
    other.chmod(0o644)
    with pytest.raises(UserError, match=r"only its owner can read"):
        mlc_cluster.devices(address, secret=other)


@pytest.mark.parametrize("wrong", ["host", "http://host:8786", "tcp://host"])
def test_addresses(wrong, secret, servers):
    with pytest.raises(UserError, match=r"expected an address such as tcp://host:8786"):
        mlc_cluster.devices(wrong, secret=secret)


def test_a_device_that_dies_loses_its_candidates_only(address, secret):
    extra = clusters.device(address, secret, "weak")
    others = [clusters.device(address, secret, "weak")]
    slow = Evaluation(number=1, repeat=1, min_repeat_ms=0, run_timeout_s=8, build_timeout_s=60)
    try:
        with farm(address, secret, device="weak") as one:
            assert len({r.machine["worker"] for _, r in one.measure(inputs(*["default", "loops"] * 3), QUICK)}) == 2
            iterator = one.measure(inputs("hang", "hang", "loops", "other", "default"), slow)
            found = []
            reader = threading.Thread(target=lambda: found.extend(iterator))
            reader.start()
            assert until(lambda: sum("kernel" in d.holder for d in devices(address, secret) if d.key == "weak") == 2)
            (child,) = _children(extra.process.pid)
            extra.end(signal.SIGKILL)
            reader.join()
            results = dict(found)
            assert sorted(results) == list(range(5))
            timeouts = {k for k, r in results.items() if r.error is ErrorCode.RUN_TIMEOUT}
            assert timeouts == {0, 1}
            assert {results[k].error for k in (2, 3, 4)} == {ErrorCode.NO_ERROR}
            assert {r.machine["worker"] for r in results.values()} == {others[0].address}
            assert until(lambda: not os.path.exists(f"/proc/{child}"))
            # the last device dies too: what waits is told so
            others.pop().end(signal.SIGKILL)
            with pytest.raises(UserError, match=r"expected device .* but got 'weak'"):
                until(lambda: one.measure(inputs("default"), QUICK) and False, 20)
    finally:
        for server in (extra, *others):
            if server.process.poll() is None:
                server.end()


def _children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found


def test_a_farm_without_devices_gives_up(address, secret):
    server = clusters.device(address, secret, "brief")
    try:
        with farm(address, secret, device="brief", patience=1) as one:
            assert next(one.measure(inputs("default"), QUICK))[1].error is ErrorCode.NO_ERROR
            iterator = one.measure(inputs("default", "refused"), QUICK)
            assert next(iterator)[1].error is ErrorCode.INSTANTIATION_ERROR
            server.end(signal.SIGKILL)
            (number, result) = next(iterator)
            assert (number, result.error) == (0, ErrorCode.UNKNOWN_ERROR)
            assert result.message == "no device 'brief' has been there for 1 s"
    finally:
        if server.process.poll() is None:
            server.end()
