"""Arrays of other libraries, by DLPack: read and written where they lie."""

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.runtime.arrays import address_of
from mlc.runtime.dlpack import from_dlpack

te = mlc.te
X = np.arange(15, dtype=np.float32).reshape(3, 5)
TEXT = """
func.func @main(%x: tensor<3x5xf32> {graph.name = "x"}) -> (tensor<3x5xf32> {graph.name = "y"}) {
  %0 = graph.add %x, %x : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
"""


class Foreign:
    """An array of another library: nothing but DLPack; `old` is one before versions of DLPack."""

    def __init__(self, array: np.ndarray, device: int = 1, old: bool = False) -> None:
        self.array, self.device, self.old = array, device, old
        self.exported = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.exported += 1
        return self.array.__dlpack__(**options)


@pytest.fixture(scope="module")
def exe(tmp_path_factory: pytest.TempPathFactory) -> mlc.Executable:
    path = tmp_path_factory.mktemp("dlpack") / "model.mlir"
    path.write_text(TEXT)
    return mlc.compile(path, threads=1)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i8", "u2", "?", "c8"])
def test_a_view_of_the_same_memory(dtype: str, old: bool):
    array = np.arange(24).astype(dtype).reshape(4, 6)
    for one in (array, array[1:, ::2], array.T, np.empty((0, 3), dtype), np.array(1).astype(dtype)):
        view = from_dlpack("it", Foreign(one, old=old))
        assert (view.shape, view.dtype) == (one.shape, one.dtype)
        assert np.array_equal(view, one)
        assert not one.size or address_of(view) == address_of(one)


def test_memory_stays_as_long_as_the_view():
    class Noted(np.ndarray):
        ended = False

        def __del__(self) -> None:
            Noted.ended = True

    view = from_dlpack("it", Foreign(np.full(3, 7.0).view(Noted)))
    assert not Noted.ended
    assert np.array_equal(view, [7, 7, 7])
    del view
    assert Noted.ended


def test_inputs_and_outputs_of_a_model(exe: mlc.Executable):
    given, result = Foreign(X), Foreign(np.empty_like(X))
    got = exe({"x": given}, {"y": result})
    assert got["y"] is result
    assert np.array_equal(result.array, X * 2)
    assert (given.exported, result.exported) == (1, 1)
    assert np.array_equal(np.from_dlpack(exe({"x": X})["y"]), X * 2)


def test_buffers_are_used_in_place(exe: mlc.Executable):
    frozen = X.copy()
    frozen.flags.writeable = False
    assert address_of(exe._check_inputs({"x": frozen})[0]) == address_of(frozen)
    assert exe._check_inputs({"x": X})[0] is X
    out = np.empty_like(X)
    assert exe({"x": frozen}, {"y": out})["y"] is out
    assert np.array_equal(out, X * 2)


def test_an_operator_takes_them_too():
    x = te.placeholder((3, 5), name="x")
    op = mlc.build(te.func("twice", [x], [te.compute((3, 5), lambda i, j: x[i, j] * 2.0, "y")]), threads=1)
    assert np.array_equal(op(Foreign(X)), X * 2)
    out = Foreign(np.empty_like(X))
    assert op(Foreign(X), out=out) is out
    assert np.array_equal(out.array, X * 2)


def test_what_is_refused(exe: mlc.Executable):
    with pytest.raises(
        ValueError, match="input 'x' in memory of the CPU, but got an array on CUDA; copy it to the CPU"
    ):
        exe({"x": Foreign(X, device=2)})
    with pytest.raises(ValueError, match="input 'x' of dtype float32, but got float64"):
        exe({"x": Foreign(X.astype("f8"))})
    frozen = X.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="output 'y' to be a contiguous array that can be written"):
        exe({"x": X}, {"y": Foreign(frozen)})
    with pytest.raises(ValueError, match="output 'y' to be a contiguous array that can be written"):
        exe({"x": X}, {"y": Foreign(np.empty((5, 3), np.float32).T)})
    with pytest.raises(ValueError, match="input 'x' to export its memory by DLPack, but got: "):
        exe({"x": Foreign(frozen, old=True)})  # unversioned DLPack has no word for read-only
