"""Calls of one executable from many threads: values are right, memory is bounded, futures give what calls give."""

import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc
from mlc.runtime.states import CallState, StatePool, most_states
from mlc.support.abi import RuntimeStruct

te = mlc.te
CALLERS, CALLS = 8, 40
OPEN_TEXT = small_model.ONE_TEXT.replace("<4x64xf32>", "<?x64xf32, #graph.dims<[n]>>").replace(
    "<4x32xf32>", "<?x32xf32, #graph.dims<[n]>>"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.write(tmp_path_factory.mktemp("concurrent"))


@pytest.mark.parametrize("threads", [1, 2])
def test_values_are_right_from_eight_threads(path: Path, threads: int):
    exe = mlc.compile(path, threads=threads)
    given = [small_model.inputs(seed) for seed in range(CALLERS)]
    wanted = [exe(one) for one in given]
    start, wrong = threading.Barrier(CALLERS), []

    def call(k: int) -> None:
        start.wait()
        for n in range(CALLS):
            got = exe(given[(k + n) % CALLERS])
            wrong.extend(
                name for name, array in got.items() if not np.array_equal(array, wanted[(k + n) % CALLERS][name])
            )

    with ThreadPoolExecutor(CALLERS) as pool:
        for future in [pool.submit(call, k) for k in range(CALLERS)]:
            future.result(60)
    assert not wrong
    assert len(exe._states.free) == exe._states.made <= most_states()


def test_sizes_may_differ_between_threads(tmp_path: Path):
    exe = mlc.compile(small_model.write(tmp_path, OPEN_TEXT), threads=1)
    w = small_model.weights()["w"]
    given = [np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32) for n in range(1, 9)]
    with ThreadPoolExecutor(CALLERS) as pool:
        for x, got in zip(given * 10, pool.map(lambda x: exe({"x": x})["out"], given * 10), strict=True):
            np.testing.assert_allclose(got, np.maximum(x @ w.T, 0), rtol=1e-5, atol=1e-5)


def test_operators_run_side_by_side():
    x = te.placeholder((64, 64), name="x")
    op = mlc.build(te.func("twice", [x], [te.compute((64, 64), lambda i, j: x[i, j] * 2.0, "y")]), threads=1)
    arrays = [np.full((64, 64), n, np.float32) for n in range(CALLERS)]
    with ThreadPoolExecutor(CALLERS) as pool:
        for n, got in enumerate(pool.map(op, arrays * 20)):
            assert np.array_equal(got, arrays[n % CALLERS] * 2)


def test_a_call_releases_the_gil():
    """While native code runs in one thread, another thread goes on."""
    x, w = te.placeholder((512, 2048), name="x"), te.placeholder((2048, 512), name="w")
    k = te.reduce_axis(2048, "k")
    op = mlc.build(te.compute((512, 512), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), "product"), threads=1)
    arrays = [np.ones(shape, np.float32) for shape in ((512, 2048), (2048, 512))]
    kernel, inside = op._kernel, []

    def timed(*arguments: int) -> int:
        inside.append(time.perf_counter())
        status = kernel(*arguments)
        inside.append(time.perf_counter())
        return status

    op._kernel = timed
    for _ in range(20):  # a busy machine may keep a thread waiting
        inside.clear()
        clock: list[float] = []
        thread = threading.Thread(target=op, args=arrays)
        thread.start()
        while len(inside) < 2:
            clock.append(time.perf_counter())
        thread.join()
        begin, end = inside  # a call that kept the GIL would give it to the other thread when it returns
        if any(0.05 < (now - begin) / (end - begin) < 0.25 for now in clock):
            return
    pytest.fail("no call let another thread run")


def test_calls_overlap(path: Path):
    """Two calls are inside at the same time, each in a workspace of its own."""
    exe = mlc.compile(path, threads=1)
    inside, seen = threading.Barrier(2), []
    main = exe._main

    def held(*arguments: int) -> int:
        inside.wait(20)  # broken if a second call waits for the first
        seen.append(arguments[2])
        return main(*arguments)

    exe._main = held
    futures = [exe.submit(small_model.inputs(seed)) for seed in range(2)]
    for future in futures:
        future.result(30)
    assert len(set(seen)) == 2, "two calls worked in one workspace"


def test_concurrent_calls_share_the_threads(path: Path):
    exe = mlc.compile(path, threads=2)
    first = exe._states.take()
    second = exe._states.take()
    shares = [RuntimeStruct.from_address(state.rt).threads for state in (first, second)]
    assert shares == [2, 1]
    for state in (first, second):
        exe._states.give(state)
    again = exe._states.take()
    assert RuntimeStruct.from_address(again.rt).threads == 2
    exe._states.give(again)


class _Code:
    """A runtime that is nothing but its struct."""

    def runtime(self, threads: int, scratch: int) -> tuple[int, object]:
        import ctypes

        struct = RuntimeStruct(threads=threads)
        return ctypes.addressof(struct), struct


def test_no_more_states_than_the_limit():
    pool = StatePool(lambda: CallState(_Code(), 1, 0, 64, 1), limit=2)  # pyright: ignore[reportArgumentType]
    held = [pool.take(), pool.take()]
    got: list[CallState] = []
    waiting = threading.Thread(target=lambda: got.append(pool.take()))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    pool.give(held[0])
    waiting.join(20)
    assert got == [held[0]]
    assert pool.made == 2


def test_a_state_that_cannot_be_made_is_not_counted():
    made: list[int] = []

    def make() -> CallState:
        made.append(1)
        if len(made) == 2:
            raise MemoryError
        return CallState(_Code(), 1, 0, 64, 1)  # pyright: ignore[reportArgumentType]

    pool = StatePool(make, limit=2)
    pool.take()
    with pytest.raises(MemoryError):
        pool.take()
    assert pool.take() is not None


def test_submit_gives_what_a_call_gives(path: Path):
    exe = mlc.compile(path, threads=1)
    given = [small_model.inputs(seed) for seed in range(6)]
    out = {"hidden": np.empty((4, 32), np.float32)}
    futures = [exe.submit(one) for one in given]
    done, _ = wait([*futures, last := exe.submit(given[0], out)], timeout=60)
    assert len(done) == 7
    for one, future in zip(given, futures, strict=True):
        assert all(np.array_equal(array, future.result()[name]) for name, array in exe(one).items())
    assert last.result()["hidden"] is out["hidden"]
    with pytest.raises(ValueError, match="input 'x' is missing"):
        exe.submit({"y": given[0]["y"]}).result(60)


def test_a_clone_has_states_of_its_own(path: Path):
    exe = mlc.compile(path, threads=1)
    other = exe.clone()
    assert (other._code, other._weights_at) == (exe._code, exe._weights_at)
    assert other._states is not exe._states
    given = small_model.inputs()
    wanted = exe(given)
    ended = weakref.ref(exe)
    del exe
    gc.collect()
    assert ended() is not None  # it owns the files that the clone may save
    assert all(np.array_equal(array, wanted[name]) for name, array in other(given).items())


def test_an_executable_is_freed_when_nobody_holds_it(path: Path):
    exe = mlc.compile(path, threads=1)
    exe.submit(small_model.inputs()).result(60)
    ended = weakref.ref(exe)
    gc.collect()
    gc.disable()
    try:
        del exe
        assert ended() is None
    finally:
        gc.enable()


def test_specialized_models_are_cloned(tmp_path: Path):
    exe = mlc.compile(small_model.write(tmp_path, OPEN_TEXT), threads=1, specialize=True)
    x = {"x": np.ones((3, 64), np.float32)}
    wanted = exe(x)["out"]
    other = exe.clone()
    assert np.array_equal(other(x)["out"], wanted)
    assert other._kept is not exe._kept
    assert np.array_equal(other.submit(x).result(60)["out"], wanted)


def test_a_child_after_fork_has_states(path: Path):
    exe = mlc.compile(path, threads=1)
    given = small_model.inputs()
    wanted = exe(given)["sum"]
    held = [exe._states.take() for _ in range(most_states())]  # as if calls of other threads were running
    child = os.fork()
    if child == 0:
        same = np.array_equal(exe.submit(given).result(30)["sum"], wanted)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for state in held:
        exe._states.give(state)
