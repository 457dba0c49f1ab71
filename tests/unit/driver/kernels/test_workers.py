"""Jobs in forked workers: order, failures, a worker that dies; the timing tree."""

import os
import signal
import time

import pytest

from mlc.driver.kernels.workers import Job, KernelCrash, KernelError, run_jobs
from mlc.support.display.timing import PhaseTimer, table
from mlc.support.errors import UserError


def job(index: int, run: object = None) -> Job:
    return Job(f"k{index}", (f"node{index}",), run or (lambda: f"{index}:{os.getpid()}".encode()))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_results_come_in_order(workers: int):
    def slow(index: int) -> bytes:
        time.sleep(0.02 if index % 3 == 0 else 0)
        return f"{index}:{os.getpid()}".encode()

    results = run_jobs([job(i, lambda i=i: slow(i)) for i in range(9)], workers)
    assert [int(r.split(b":")[0]) for r in results] == list(range(9))
    pids = {int(r.split(b":")[1]) for r in results}
    assert (pids == {os.getpid()}) if workers < 2 else (len(pids) == workers and os.getpid() not in pids)


def test_no_jobs():
    assert run_jobs([]) == []


def test_big_results_come_whole():
    results = run_jobs([job(i, lambda i=i: bytes([i]) * 3_000_000) for i in range(4)], 2)
    assert all(r == bytes([i]) * 3_000_000 for i, r in enumerate(results))


def users() -> bytes:
    raise UserError("expected a conv2d of rank 4, but got 3")


def bug() -> bytes:
    raise KeyError("oops")


def die() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (users, KernelError, r"^kernel 'k1' \(from 'node1'\): expected a conv2d of rank 4, but got 3$"),
        (bug, KernelCrash, r"a bug in mlc: kernel 'k1' \(from 'node1'\) cannot be compiled: KeyError: 'oops'"),
    ],
)
def test_one_failure_names_kernel_and_source(workers: int, run: object, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        run_jobs([job(0), job(1, run), *(job(i) for i in range(2, 6))], workers)
    assert_no_children()


def test_the_traceback_of_a_worker_is_kept():
    with pytest.raises(KernelCrash) as caught:
        run_jobs([job(0), job(1, bug)], 2)
    assert caught.value.kernel == "k1"
    assert 'raise KeyError("oops")' in caught.value.detail


def test_a_worker_that_dies_is_named_with_its_signal():
    with pytest.raises(KernelCrash, match=r"kernel 'k1' .* ended its worker with SIGKILL"):
        run_jobs([job(0), job(1, die), job(2)], 2)
    assert_no_children()


def assert_no_children():
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_progress_is_reported():
    seen: list[tuple[int, int]] = []
    run_jobs([job(i) for i in range(5)], 2, lambda done, total: seen.append((done, total)))
    assert seen == [(i, 5) for i in range(1, 6)]


def test_the_timing_tree_lists_children_below_their_phase():
    timing = PhaseTimer()
    with timing.phase("load"):
        pass
    with timing.phase("graph"):
        timing.add("fuse", 0.25)
        timing.add("outline", 0.5)
        timing.add("fuse", 0.25)
    rows = timing.rows()
    assert [name for name, _ in rows] == ["load", "graph", "graph/fuse", "graph/outline"]
    assert dict(rows)["graph/fuse"] == 0.5
    lines = table(rows, 1.0).splitlines()
    assert lines[3] == "    0.5000   50.0    fuse"
