"""Tensors of PyTorch as inputs and outputs of compiled models, by DLPack."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

import mlc  # noqa: E402
from mlc.runtime.arrays import as_array  # noqa: E402

X = np.arange(15, dtype=np.float32).reshape(3, 5)
TEXT = """
func.func @main(%x: tensor<3x5xf32> {graph.name = "x"}) -> (tensor<3x5xf32> {graph.name = "y"}) {
  %0 = graph.add %x, %x : tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
"""


@pytest.fixture
def exe(tmp_path: Path) -> mlc.Executable:
    (tmp_path / "model.mlir").write_text(TEXT)
    return mlc.compile(tmp_path / "model.mlir", threads=1)


def test_tensors_of_pytorch(exe: mlc.Executable):
    x, y = torch.from_numpy(X.copy()), torch.empty(3, 5)
    assert exe({"x": x}, {"y": y})["y"] is y
    assert torch.equal(y, x * 2)
    assert torch.equal(torch.from_dlpack(exe({"x": x})["y"]), y)
    halves = torch.arange(6, dtype=torch.bfloat16)
    view = as_array("it", halves)
    assert view.dtype == ml_dtypes.bfloat16
    halves += 1
    assert view.astype(int).tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(ValueError, match=r"input 'x' to export its memory by DLPack, but got: .*require"):
        exe({"x": x.clone().requires_grad_()})
