"""The protocol of farms, which the local one and that of a cluster must both keep."""

import os
import time
from contextlib import contextmanager

import clusters
import pytest
import tuning_candidates as candidates

from mlc.support.errors import UserError
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure import LocalFarm
from mlc.tuning.results import ErrorCode, MeasureInput

QUICK = Evaluation(number=1, repeat=2, min_repeat_ms=0.01, run_timeout_s=30, build_timeout_s=60, stop_factor=0)
LIMITED = Evaluation(number=1, repeat=2, min_repeat_ms=0.01, run_timeout_s=3, build_timeout_s=3, memory_bytes=1 << 30)


@contextmanager
def local(folder):
    with LocalFarm(2, candidates.candidate) as farm:
        yield farm


@contextmanager
def on_cluster(folder):
    pytest.importorskip("distributed", reason="Dask distributed is not installed: pip install 'mlc[cluster]'")
    from mlc.tuning.cluster import ClusterFarm

    secret = folder / "farm.pem"
    with (
        clusters.cluster(secret, "board", "board") as (scheduler, *_),
        ClusterFarm(scheduler.address, cores=2, candidate=candidates.candidate, secret=secret) as farm,
    ):
        yield farm


@pytest.fixture(scope="module", params=[local, pytest.param(on_cluster, marks=pytest.mark.ci)])
def farm(request, tmp_path_factory):
    with request.param(tmp_path_factory.mktemp("farm")) as made:
        yield made


def inputs(*ways, task=None):
    task = task or candidates.task()
    return [MeasureInput(task, candidates.values(way)) for way in ways]


def measured(farm, *ways, evaluation=QUICK, task=None):
    """The results by way, each given once."""
    pairs = list(farm.measure(inputs(*ways, task=task), evaluation))
    assert sorted(number for number, _ in pairs) == list(range(len(ways)))
    return {ways[number]: result for number, result in pairs}


def test_right_candidates_have_times(farm):
    results = measured(farm, "other", "loops", "default")
    for result in results.values():
        assert (result.error, result.message) == (ErrorCode.NO_ERROR, "")
        assert len(result.seconds) == QUICK.repeat
        assert all(0 < seconds < 1 for seconds in result.seconds)
        assert result.cost > 0
        assert result.build_seconds > 0
        assert result.run_seconds > 0
        assert abs(result.timestamp - time.time()) < 600
        assert result.machine["key"]
        assert result.machine["host"]


@pytest.mark.parametrize(
    ("way", "error", "message"),
    [
        ("refused", ErrorCode.INSTANTIATION_ERROR, "expected a factor that divides 60, but got 7"),
        ("bug", ErrorCode.COMPILE_HOST, "KeyError"),
        ("crash-build", ErrorCode.COMPILE_HOST, "SIGSEGV"),
        ("memory-build", ErrorCode.COMPILE_HOST, "bytes of memory"),
        ("unlinked", ErrorCode.COMPILE_DEVICE, "expected objects that link"),
        ("crash", ErrorCode.RUNTIME_DEVICE, "SIGSEGV"),
        ("beyond", ErrorCode.RUNTIME_DEVICE, "16 bytes behind the end of output 0"),
        ("beside", ErrorCode.RUNTIME_DEVICE, "the kernel writes beside output 0"),
        ("input", ErrorCode.RUNTIME_DEVICE, "0 bytes into input 0, which it may only read"),
        ("memory", ErrorCode.RUNTIME_DEVICE, "expected memory for the kernel, but got none"),
        ("wrong", ErrorCode.WRONG_ANSWER, "output 0 at [0]: expected"),
    ],
)
def test_a_failing_candidate_costs_itself_only(farm, way, error, message):
    results = measured(farm, "other", way, "loops", evaluation=LIMITED)
    assert results[way].error is error
    assert message in results[way].message
    assert results[way].seconds == ()
    assert results[way].cost == float("inf")
    assert {results["other"].error, results["loops"].error} == {ErrorCode.NO_ERROR}


@pytest.mark.parametrize(
    ("way", "error", "message"),
    [("hang-build", ErrorCode.BUILD_TIMEOUT, "longer than 3 s"), ("hang", ErrorCode.RUN_TIMEOUT, "longer than 3 s")],
)
def test_a_hanging_candidate_costs_itself_only(farm, way, error, message):
    results = measured(farm, way, "other", "loops", evaluation=LIMITED)
    assert results[way].error is error
    assert message in results[way].message
    assert {results["other"].error, results["loops"].error} == {ErrorCode.NO_ERROR}


@pytest.mark.parametrize(
    ("default", "message"),
    [("crash", "RUNTIME_DEVICE: the kernel ended its process with SIGSEGV"), ("refused", "INSTANTIATION_ERROR")],
)
def test_nothing_is_timed_where_it_cannot_be_checked(farm, default, message):
    task = candidates.task(default=default, kernel=candidates.KERNEL + f"\n// {default}")
    result = measured(farm, "other", task=task)["other"]
    assert result.error is ErrorCode.UNKNOWN_ERROR
    assert message in result.message
    assert "the candidate cannot be checked, as the default kernel fails" in result.message


def test_closing_the_iterator_cancels(farm):
    iterator = farm.measure(inputs("refused", *["slow-build"] * 1, "hang-build"), QUICK)
    number, result = next(iterator)
    assert (number, result.error) == (0, ErrorCode.INSTANTIATION_ERROR)
    begin = time.monotonic()
    iterator.close()
    assert time.monotonic() - begin < 30  # the candidate that hangs would take 60
    assert measured(farm, "other")["other"].error is ErrorCode.NO_ERROR


def test_candidates_are_compared_in_turns(farm):
    rows = farm.compare(inputs("default", "wrong", "crash", "refused", "loops"), QUICK, 3)
    errors = [[result.error for result in row] for row in rows]
    assert errors[0] == errors[4] == [ErrorCode.NO_ERROR] * 3
    assert errors[1] == [ErrorCode.WRONG_ANSWER] * 3
    assert errors[2] == [ErrorCode.RUNTIME_DEVICE] * 3
    assert errors[3] == [ErrorCode.INSTANTIATION_ERROR] * 3
    assert all(len(result.seconds) == QUICK.repeat for row in (rows[0], rows[4]) for result in row)
    if len(os.sched_getaffinity(0)) > 1:
        assert all(float(result.machine["handover_ns"]) > 0 for result in rows[0])


def test_several_tasks_in_one_batch(farm):
    first, second = candidates.task(), candidates.task(kernel=candidates.KERNEL.replace("addf", "mulf"))
    batch = [*inputs("default", task=first), *inputs("wrong", "other", task=second), *inputs("wrong", task=first)]
    results = dict(farm.measure(batch, QUICK))
    expected = [ErrorCode.NO_ERROR, ErrorCode.NO_ERROR, ErrorCode.NO_ERROR, ErrorCode.WRONG_ANSWER]
    assert [results[k].error for k in range(4)] == expected


def test_no_candidates(farm):
    assert list(farm.measure([], QUICK)) == []


def test_several_tasks_cannot_be_compared(farm):
    other = candidates.task(kernel=candidates.KERNEL.replace("addf", "mulf"))
    with pytest.raises(UserError, match="expected candidates of one task to compare, but got several tasks"):
        farm.compare([*inputs("default"), *inputs("default", task=other)], QUICK, 2)


def test_an_unknown_device(farm):
    with pytest.raises(UserError, match=r"expected device .* but got 'phone'"):
        farm.measure(inputs("default"), QUICK, "phone")
