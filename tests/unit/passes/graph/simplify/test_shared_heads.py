"""Products with matrices that several heads share: values before and after the rewrite, and compiled."""

import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.interp.graph import main_function, run_function
from mlc.support.weights import WeightStore


def shared(rows: int, transposed: bool) -> str:
    """Six heads over two matrices of 5 keys and 4 channels, two examples."""
    matrices = "2x2x1x5x4" if transposed else "2x2x1x4x5"
    wide, joined = matrices.replace("2x2x1", "2x2x3"), matrices.replace("2x2x1", "2x6")
    flag = " {transpose_b = true}" if transposed else ""
    return f"""
func.func @main(%a: tensor<2x6x{rows}x4xf32> {{graph.name = "a"}}, %b: tensor<{matrices}xf32> {{graph.name = "b"}})
    -> (tensor<2x6x{rows}x5xf32> {{graph.name = "y"}}) {{
  %0 = graph.broadcast_to %b : (tensor<{matrices}xf32>) -> tensor<{wide}xf32>
  %1 = graph.reshape %0 : (tensor<{wide}xf32>) -> tensor<{joined}xf32>
  %2 = graph.batch_matmul %a, %1{flag} : (tensor<2x6x{rows}x4xf32>, tensor<{joined}xf32>) -> tensor<2x6x{rows}x5xf32>
  func.return %2 : tensor<2x6x{rows}x5xf32>
}}"""


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 8])
def test_values(rows: int, transposed: bool):
    text, rng = shared(rows, transposed), np.random.default_rng(rows)
    a = rng.standard_normal((2, 6, rows, 4)).astype(np.float32)
    b = rng.standard_normal((2, 2, 1, 5, 4) if transposed else (2, 2, 1, 4, 5)).astype(np.float32)
    module = parse_module(text)
    (before,) = run_function(main_function(module), [a, b])
    np.testing.assert_allclose(
        before, a @ np.repeat(np.swapaxes(b, 3, 4) if transposed else b, 3, 2).reshape(2, 6, 4, 5), rtol=1e-5, atol=1e-6
    )
    run_passes(module, make_context(), ["graph-simplify-expr"], verify=True)
    assert ("graph.broadcast_to" in str(module)) == (rows == 8)
    (after,) = run_function(main_function(module), [a, b])
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    exe = mlc.compile(Model(parse_module(text), WeightStore()), threads=1, cache=False)
    np.testing.assert_allclose(exe({"a": a, "b": b})["y"], before, rtol=1e-5, atol=1e-6)
