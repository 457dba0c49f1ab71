"""What a farm's processes do when others end: kill -9 of the tuner, of a builder, of the runner, of the fork server."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import tuning_candidates as candidates

from mlc.tuning.farm import Evaluation
from mlc.tuning.measure import LocalFarm, builder
from mlc.tuning.results import ErrorCode, MeasureInput

QUICK = Evaluation(number=1, repeat=1, min_repeat_ms=0, run_timeout_s=60, build_timeout_s=60)

TUNER = """
import os, sys, time
sys.path[:0] = [{helpers!r}]
import tuning_candidates as candidates
from mlc.tuning.measure import LocalFarm
from mlc.tuning.results import MeasureInput
from mlc.tuning.farm import Evaluation
farm = LocalFarm(2, candidates.candidate)
def inputs(*ways):
    return [MeasureInput(candidates.task(), candidates.values(way)) for way in ways]
list(farm.measure(inputs("default"), Evaluation()))
print(farm._builds.server.pid, farm._device.pid, *(one.pid for one in farm._builds.crew._idle), flush=True)
list(farm.measure(inputs({way!r}), Evaluation(run_timeout_s=600, build_timeout_s=600)))
"""


def alive(pid):
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def tuner_killed(way, is_at_work):
    """Kill a tuner while its candidate hangs, and see all its processes go."""
    text = TUNER.format(helpers=os.path.dirname(candidates.__file__), way=way)
    tuner = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    server, runner, *builders = map(int, tuner.stdout.readline().split())
    pids = [server, runner, *builders]
    assert all(map(alive, pids))
    assert until(lambda: is_at_work(runner))
    pids += children_of(runner)
    tuner.kill()
    tuner.wait()
    tuner.stdout.close()
    assert until(lambda: not any(map(alive, pids)))


def test_all_processes_end_with_the_tuner_while_a_kernel_runs():
    tuner_killed("hang", lambda runner: bool(children_of(runner)))


def test_all_processes_end_with_the_tuner_while_a_builder_works():
    tuner_killed("hang-build", lambda runner: True)


def measured(farm, way="loops"):
    return next(farm.measure([MeasureInput(candidates.task(), candidates.values(way))], QUICK))[1]


def test_a_farm_outlives_its_processes():
    with LocalFarm(1, candidates.candidate) as farm:
        assert measured(farm).error is ErrorCode.NO_ERROR
        for pid in (*(one.pid for one in farm._builds.crew._idle), farm._builds.server.pid):
            os.kill(pid, signal.SIGKILL)
            assert until(lambda pid=pid: not alive(pid))
            assert measured(farm).error is ErrorCode.NO_ERROR
        runner = farm._device.pid
        os.kill(runner, signal.SIGKILL)
        assert until(lambda: not alive(runner))
        assert measured(farm).error is ErrorCode.NO_ERROR
        server = farm._builds.server.pid
    assert until(lambda: not alive(server))


def test_nothing_is_built_while_something_is_timed():
    """The spans of building and of running in a batch do not overlap."""
    task = candidates.task()
    ways = ("default", "slow-build", "loops", "other")
    with LocalFarm(2, candidates.candidate) as farm:
        states = []
        for _ in farm.measure([MeasureInput(task, candidates.values(way)) for way in ways], QUICK):
            builders = set(children_of(farm._builds.server.pid)) - {farm._device.pid}
            states.append(all(_sleeps(pid) for pid in builders))
    assert states == [True] * len(ways)


def test_a_builder_collects_its_garbage_before_it_answers(monkeypatch):
    """What an answer releases is measured at once, while no builder may be at work."""
    events = []
    connection = SimpleNamespace(
        recv=iter([("maker", "candidate", False, 1), EOFError]).__next__, send=lambda answer: events.append("answer")
    )
    received = connection.recv
    connection.recv = lambda: _raised(received())
    monkeypatch.setattr(builder, "settle", lambda: None)
    monkeypatch.setattr(builder, "build", lambda *job: None)
    monkeypatch.setattr(builder, "GARBAGE", -1)
    monkeypatch.setattr(
        builder,
        "gc",
        SimpleNamespace(disable=int, get_count=lambda: (0, 0, 0), collect=lambda: events.append("collect")),
    )
    builder.serve(connection)
    assert events == ["collect", "answer"]


def _raised(message):
    if message is EOFError:
        raise EOFError
    return message


def _sleeps(pid):
    """Whether a process waits: its state is S, in a moment."""
    return until(lambda: open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "S")


def test_a_maker_that_cannot_be_imported_is_told():
    built = builder.build("mlc.no_such_module:candidate", MeasureInput(candidates.task(), {}), False, 1 << 30)
    assert built.error is ErrorCode.COMPILE_HOST
    assert built.message == "ModuleNotFoundError: No module named 'mlc.no_such_module'"
