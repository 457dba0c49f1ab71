"""Memory of outputs that is used again: only what nobody holds, whatever holds it."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

import mlc
from mlc.runtime import outputs
from mlc.runtime.arrays import address_of
from mlc.runtime.outputs import OutputMemory
from mlc.support.alignment import ALIGNMENT

ROWS = [("y", np.dtype(np.float32), (128, 256)), ("small", np.dtype(np.int64), (3,))]


def memory(rows=ROWS) -> OutputMemory:
    found = OutputMemory.of(rows)
    assert found is not None
    return found


def test_memory_that_was_dropped_is_used_again():
    kept, places = memory(), set[int]()
    for _ in range(20):
        y, small = kept.arrays()
        assert (y.shape, y.dtype, small.shape) == ((128, 256), np.float32, (3,))
        assert y.flags.carray
        assert address_of(y) % 64 == 0
        places.add(address_of(y))
    assert len(places) == 2  # the one that `y` holds, and the other


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y,
        lambda y: y[3:, ::2],
        lambda y: y.T[1:],
        memoryview,
        lambda y: y.__dlpack__(),
        lambda y: {"deep": [y.ravel()]},
        lambda y: np.asarray(memoryview(y)),
    ],
)
def test_memory_that_is_held_is_not(hold):
    kept = memory()
    held, places = list[object](), set[int]()
    for k in range(8):
        y = kept.arrays()[0]
        y[:] = k
        assert address_of(y) not in places
        places.add(address_of(y))
        held.append(hold(y))
        del y
    assert len(held) == 8


def test_a_caller_may_change_the_array_that_it_got():
    kept = memory()
    for _ in range(4):
        y = kept.arrays()[0]
        assert y.shape == (128, 256)
        assert y.flags.writeable
        y.shape = (256, 128)
        y.flags.writeable = False
        del y


def test_small_and_large_outputs_are_not_kept():
    assert OutputMemory.of(ROWS[1:]) is None
    assert OutputMemory.of([("y", np.dtype(np.uint8), (outputs.LARGEST + 1,))]) is None


def test_outputs_of_open_sizes_are_kept_where_they_fit():
    kept = memory([("y", np.dtype(np.float32), ("n", 256)), ("z", np.dtype(np.int64), ("n",))])
    y, z = kept.arrays_of([(100, 256), (100,)])
    first = address_of(y)
    del y
    grown = kept.arrays_of([(101, 256), (101,)])[0]  # a cache that grows by a row
    assert (grown.shape, address_of(grown)) == ((101, 256), first)
    held = kept.arrays_of([(101, 256), (101,)])[0]
    assert address_of(held) != first
    del grown
    larger = kept.arrays_of([(1000, 256), (1,)])[0]
    assert address_of(larger) not in (first, address_of(held))
    assert not address_of(larger) % ALIGNMENT
    assert kept.arrays_of([(0, 256), (0,)])[0].shape == (0, 256)
    assert (z.shape, z.dtype) == ((100,), np.int64)


def test_a_cache_that_grows_in_a_loop(tmp_path: Path):
    path = tmp_path / "append.mlir"
    path.write_text("""
func.func @main(%past: tensor<1x?x64xf32, #graph.dims<[p]>> {graph.name = "past"}, %x: tensor<1x1x64xf32>
    {graph.name = "x"}) -> (tensor<1x?x64xf32, #graph.dims<[p + 1]>> {graph.name = "present"}) {
  %0 = graph.concatenate %past, %x {axis = 1} : (tensor<1x?x64xf32, #graph.dims<[p]>>, tensor<1x1x64xf32>)
    -> tensor<1x?x64xf32, #graph.dims<[p + 1]>>
  return %0 : tensor<1x?x64xf32, #graph.dims<[p + 1]>>
}
""")
    exe = mlc.compile(path, threads=1)
    past = wanted = np.zeros((1, 250, 64), np.float32)
    for step in range(40):
        x = np.full((1, 1, 64), step, np.float32)
        past, wanted = exe({"past": past, "x": x})["present"], np.concatenate([wanted, x], 1)
    np.testing.assert_array_equal(past, wanted)


def test_threads_do_not_get_the_same_memory():
    kept, wrong = memory(), list[int]()

    def work(number: int) -> None:
        for _ in range(2000):
            y = kept.arrays()[0]
            y[0, :8] = number
            y[-1, -8:] = number
            if not (y[0, :8] == number).all() or not (y[-1, -8:] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_results_of_calls_stay_as_they_were(tmp_path: Path):
    path = tmp_path / "double.mlir"
    path.write_text("""
func.func @main(%x: tensor<128x256xf32> {graph.name = "x"}) -> (tensor<128x256xf32> {graph.name = "y"}) {
  %0 = graph.add %x, %x : tensor<128x256xf32>
  return %0 : tensor<128x256xf32>
}
""")
    exe = mlc.compile(path, threads=1)
    xs = [np.full((128, 256), k, np.float32) for k in range(6)]
    kept = [exe({"x": x})["y"] for x in xs]
    parts = [exe({"x": x})["y"][5] for x in xs]
    chained = exe({"x": exe({"x": exe({"x": xs[1]})["y"]})["y"]})["y"]
    gc.collect()
    for k, (whole, part) in enumerate(zip(kept, parts, strict=True)):
        assert (whole == 2 * k).all()
        assert (part == 2 * k).all()
    assert (chained == 8).all()
