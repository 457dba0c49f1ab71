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


def test_small_and_open_outputs_are_not_kept():
    assert OutputMemory.of(ROWS[1:]) is None
    assert OutputMemory.of([("y", np.dtype(np.float32), ("n", 1 << 20))]) is None
    assert OutputMemory.of([("y", np.dtype(np.uint8), (outputs.LARGEST + 1,))]) is None


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
