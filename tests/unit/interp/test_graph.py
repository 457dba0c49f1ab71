"""The graph interpreter: fused regions, calls, weights, and a float64 run."""

import numpy as np
import pytest

from mlc.dialects.syntax.source import parse_module
from mlc.interp.graph import main_function, run_function
from mlc.support.arithmetic import WIDE
from mlc.support.weights import WeightStore

TEXT = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = graph.param "w" : tensor<2x4xf32>
  %1 = graph.fused "dense_relu" (%a = %x : tensor<1x4xf32>, %b = %w : tensor<2x4xf32>) -> tensor<1x2xf32> {
    %d = graph.dense %a, %b : (tensor<1x4xf32>, tensor<2x4xf32>) -> tensor<1x2xf32>
    %r = graph.relu %d : tensor<1x2xf32>
    graph.yield %r : tensor<1x2xf32>
  }
  %2 = graph.call @twice(%1) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  return %1, %2 : tensor<1x2xf32>, tensor<1x2xf32>
}
func.func private @twice(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = graph.add %x, %x : tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}
"""
X = np.array([[1, 2, 3, 4]], np.float32)
W = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]], np.float32)


def store() -> WeightStore:
    weights = WeightStore()
    weights.add("w", W)
    return weights


def test_fused_regions_and_calls():
    first, second = run_function(main_function(parse_module(TEXT)), [X], store())
    np.testing.assert_array_equal(first, [[10, 0]])
    np.testing.assert_array_equal(second, [[20, 0]])
    assert first.dtype == np.float32


def test_a_wide_run_has_wide_results():
    first, _ = run_function(main_function(parse_module(TEXT)), [X + 0.1], store(), WIDE)
    assert first.dtype == np.float64
    np.testing.assert_allclose(first, [[10.4, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "expected 1 inputs of @main, but got 0"),
        ([X.T], r"expected input 0 of @main with shape \(1, 4\) and dtype float32, but got \(4, 1\) and float32"),
        ([X.astype(np.int32)], "but got .* and int32"),
    ],
)
def test_wrong_inputs(inputs, message):
    with pytest.raises(ValueError, match=message):
        run_function(main_function(parse_module(TEXT)), inputs, store())


def test_weights_that_are_missing_or_of_another_shape():
    main = main_function(parse_module(TEXT))
    with pytest.raises(ValueError, match=r"graph\.param 'w' needs a weight store"):
        run_function(main, [X])
    with pytest.raises(ValueError, match="expected a weight 'w' in the store"):
        run_function(main, [X], WeightStore())
    other = WeightStore()
    other.add("w", W.T)
    with pytest.raises(ValueError, match="expected weight 'w' of type tensor<2x4xf32>"):
        run_function(main, [X], other)


def test_a_function_without_a_body_cannot_be_called():
    text = TEXT[: TEXT.index("func.func private")] + "func.func private @twice(tensor<1x2xf32>) -> tensor<1x2xf32>"
    with pytest.raises(ValueError, match=r"expected a function with a body behind graph\.call"):
        run_function(main_function(parse_module(text)), [X], store())
