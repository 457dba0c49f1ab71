"""Kernels of symbolic heights, widths and lengths: pads, pools, rows and windows, at sizes whole and ragged."""

import numpy as np
import pytest

import mlc

CONV = """
func.func @main(%x: tensor<1x3x?x?xf32, #graph.dims<[H, W]>>, %w: tensor<32x3x3x3xf32>, %v: tensor<32x1x3x3xf32>)
    -> (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>, tensor<1x32x1x1xf32>) {
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x3x?x?xf32, #graph.dims<[H, W]>>,
    tensor<32x3x3x3xf32>) -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %1 = graph.relu %0 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %2 = graph.conv2d %1, %v {padding = [1, 1, 1, 1], groups = 32} : (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>,
    tensor<32x1x3x3xf32>) -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %3 = graph.mean %2 {axes = [2, 3], keepdims = true} : (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>)
    -> tensor<1x32x1x1xf32>
  return %2, %3 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>, tensor<1x32x1x1xf32>
}
"""


def windows(x, w, groups):
    """A convolution of 3x3 with a border of one."""
    _, c, h, wd = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.stack([padded[:, :, i : i + h, j : j + wd] for i in range(3) for j in range(3)], 2)
    if groups == 1:
        return np.einsum("nctyx,oct->noyx", taps, w.reshape(w.shape[0], c, 9))
    return np.einsum("nctyx,ct->ncyx", taps, w.reshape(c, 9))


@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_of_any_height_and_width(tmp_path, threads):
    (tmp_path / "model.mlir").write_text(CONV)
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(s).astype(np.float32) for s in ((32, 3, 3, 3), (32, 1, 3, 3)))
    for h, wd in [(1, 1), (2, 3), (5, 7), (13, 14), (29, 31), (64, 33)]:
        x = rng.standard_normal((1, 3, h, wd)).astype(np.float32)
        y, mean = exe({"input0": x, "input1": w, "input2": v}).values()
        wanted = windows(np.maximum(windows(x, w, 1), 0), v, 32)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mean[..., 0, 0], wanted.mean((2, 3)), rtol=1e-4, atol=1e-4)
