"""Winograd's convolution: the matrices, the error that ERROR_GROWTH states, compiled values beside the direct sum."""

import numpy as np
import pytest
from xdsl.parser import Parser

import mlc
from mlc.dialects.graph.winograd import ERROR_GROWTH, MATRICES
from mlc.driver.model import Model
from mlc.driver.weights import WeightStore
from mlc.passes.manager import make_context

CONV = """
func.func @main(%x: tensor<{n}x{c}x{h}x{w}xf32> {{graph.name = "x"}})
    -> (tensor<{n}x{k}x{h}x{w}xf32> {{graph.name = "y"}}) {{
  %w = graph.param "w" : tensor<{k}x{c}x3x3xf32>
  %0 = graph.conv2d %x, %w {{padding = [1, 1, 1, 1]}}
      : (tensor<{n}x{c}x{h}x{w}xf32>, tensor<{k}x{c}x3x3xf32>) -> tensor<{n}x{k}x{h}x{w}xf32>
  %1 = graph.relu %0 : tensor<{n}x{k}x{h}x{w}xf32>
  return %1 : tensor<{n}x{k}x{h}x{w}xf32>
}}
"""


def direct(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution in the arrays' own precision, tap by tap."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    h, width = x.shape[2:]
    taps = [(i, j) for i in range(3) for j in range(3)]
    return sum(np.einsum("nchw,kc->nkhw", padded[:, :, i : i + h, j : j + width], w[:, :, i, j]) for i, j in taps)


@pytest.mark.parametrize("m", MATRICES)
def test_matrices_compute_the_correlation(m: int) -> None:
    bt, g, at = (np.array(matrix, np.float64) for matrix in MATRICES[m])
    rng = np.random.default_rng(m)
    d, w = rng.standard_normal(m + 2), rng.standard_normal(3)
    np.testing.assert_allclose(at @ ((g @ w) * (bt @ d)), np.correlate(d, w, "valid"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", MATRICES)
def test_error_growth_is_what_the_table_states(m: int) -> None:
    bt, g, at = (np.array(matrix, np.float32) for matrix in MATRICES[m])
    rng = np.random.default_rng(0)
    channels, t = 128, m + 2
    d = rng.standard_normal((200, channels, t, t)).astype(np.float32)
    w = rng.standard_normal((channels, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3), axis=(2, 3))
    exact = np.einsum("ncabij,cij->nab", windows.astype(np.float64), w.astype(np.float64))
    plain = np.float32(0) + sum(
        windows[:, c, :, :, i, j] * w[c, i, j] for c in range(channels) for i in range(3) for j in range(3)
    )
    u = np.einsum("ai,cij,bj->cab", g, w, g)
    v = np.einsum("ai,ncij,bj->ncab", bt, d, bt)
    product = np.float32(0) + sum(v[:, c] * u[c] for c in range(channels))
    fast = np.einsum("ra,nab,sb->nrs", at, product, at)
    growth = np.sqrt(np.mean((fast - exact) ** 2) / np.mean((plain - exact) ** 2))
    assert growth < ERROR_GROWTH[m]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "shape", [(1, 64, 64, 24, 20), (2, 32, 48, 17, 29), (1, 64, 32, 12, 41), (2, 128, 256, 13, 13)]
)
def test_compiled_winograd_agrees_with_the_direct_sum(shape: tuple[int, ...], threads: int) -> None:
    n, c, k, h, w = shape
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((k, c, 3, 3)) / np.sqrt(9 * c)).astype(np.float32)
    store = WeightStore()
    store.add("w", weight)
    module = Parser(make_context(), CONV.format(n=n, c=c, k=k, h=h, w=w)).parse_module()
    exe = mlc.compile(Model(module, store), threads=threads, cache=False)
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    assert any("winograd" in kernel.kernel for kernel in exe.profile({"x": x}))
    expected = np.maximum(direct(x.astype(np.float64), weight.astype(np.float64)), 0)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=6e-5)
