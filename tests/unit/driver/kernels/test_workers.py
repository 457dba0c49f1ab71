"""Jobs in forked workers: order, failures, a worker that dies; the timing tree."""

import os
import signal
import threading
import time

import pytest

from mlc.driver.kernels.workers import Job, KernelCrash, KernelError, run_jobs, worth_sharing
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


def test_threads_may_have_workers_at_once():
    """A worker that kept a pipe of another thread's workers open would let both threads wait for ever."""
    results: dict[int, list[bytes]] = {}

    def compile_some(number: int) -> None:
        for _ in range(12):
            results[number] = run_jobs([job(i) for i in range(4)], 2)

    threads = [threading.Thread(target=compile_some, args=(n,), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [[r.split(b":")[0] for r in results[n]] for n in range(4)] == [[b"0", b"1", b"2", b"3"]] * 4


def test_a_forked_process_keeps_no_worker_alive():
    """A worker ends when its parent dies, also where another child of that parent lives on."""
    reader, writer = os.pipe()
    parent = os.fork()
    if parent == 0:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)  # what lives on would keep pytest's pipes open
        os.dup2(devnull, 2)

        def fork_another(finished: int, of: int) -> None:
            if os.fork() == 0:
                os.close(writer)
                time.sleep(8)
                os._exit(0)
            os.write(writer, b"go")

        tell = job(0, lambda: os.write(writer, b"%9d" % os.getpid()) and b"")
        run_jobs([tell, job(1, lambda: time.sleep(8) or b"")], 2, fork_another)
        os._exit(0)
    told = b""
    while len(told) < 11:
        told += os.read(reader, 64)
    worker = int(told[:9])
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    until = time.monotonic() + 6
    while _is_running(worker) and time.monotonic() < until:
        time.sleep(0.02)
    os.close(reader)
    os.close(writer)
    assert not _is_running(worker)


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_what_the_parent_does_meanwhile_is_done_before_the_results() -> None:
    seen: list[int] = []

    def meanwhile() -> None:
        time.sleep(0.2)
        seen.append(os.getpid())

    for workers in (1, 2):
        results = run_jobs([job(i) for i in range(3)], workers, meanwhile=meanwhile)
        assert [int(one.split(b":")[0]) for one in results] == [0, 1, 2]
        assert seen == [os.getpid()] * workers


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_meanwhile_is_raised(workers: int) -> None:
    def meanwhile() -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_jobs([job(i) for i in range(3)], workers, meanwhile=meanwhile)


def test_the_largest_jobs_begin_first() -> None:
    def begun() -> bytes:
        return f"{os.getpid()}:{time.monotonic()}".encode()

    efforts = (1, 3, 4, 2, 6, 5)
    results = run_jobs([Job(str(effort), (), begun, effort=effort) for effort in efforts], 2)
    began = {effort: one.decode().split(":") for effort, one in zip(efforts, results, strict=True)}
    for worker in {pid for pid, _ in began.values()}:
        mine = [effort for effort, (pid, _) in began.items() if pid == worker]
        assert sorted(mine, key=lambda effort: float(began[effort][1])) == sorted(mine, reverse=True)


@pytest.mark.parametrize(
    ("efforts", "workers", "shared"),
    [
        ([8, 3, 3, 10], 2, False),  # 12 less for this process is less than forking
        ([40, 3, 10], 2, False),  # the largest job takes as long in a worker
        ([12, 12, 10], 2, True),
        ([30, 8, 4, 10], 2, True),
        ([6] * 4, 1, False),
        ([0, 0, 0], 2, True),  # nothing is known of them
    ],
)
def test_small_jobs_are_not_worth_a_fork(efforts: list[int], workers: int, shared: bool) -> None:
    assert worth_sharing(efforts, workers) is shared


def test_small_jobs_run_in_this_process() -> None:
    here = str(os.getpid()).encode()
    jobs = [Job(str(n), (), lambda: str(os.getpid()).encode(), effort=n) for n in (1, 2, 3)]
    assert run_jobs(jobs) == [here] * 3
    assert here not in run_jobs(jobs, 2)
