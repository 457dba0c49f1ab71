"""A small model on disk for tests: two layers, a residual add, two outputs; and what it computes."""

from pathlib import Path
from typing import Any

import numpy as np

from mlc.support.weights import WeightStore

TEXT = """
func.func @main(%x: tensor<4x64xf32> {graph.name = "x"}, %y: tensor<4x32xf32> {graph.name = "y"})
    -> (tensor<4x32xf32> {graph.name = "hidden"}, tensor<2x64xf32> {graph.name = "sum"}) {
  %w = graph.param "w" : tensor<32x64xf32>
  %v = graph.param "v" : tensor<32x32xf32>
  %b = graph.param "b" : tensor<32xf32>
  %0 = graph.dense %x, %w : (tensor<4x64xf32>, tensor<32x64xf32>) -> tensor<4x32xf32>
  %1 = graph.bias_add %0, %b : (tensor<4x32xf32>, tensor<32xf32>) -> tensor<4x32xf32>
  %2 = graph.relu %1 : tensor<4x32xf32>
  %3 = graph.dense %2, %v : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32>
  %4 = graph.softmax %3 : tensor<4x32xf32>
  %5 = graph.add %4, %y : tensor<4x32xf32>
  %6 = graph.reshape %5 : (tensor<4x32xf32>) -> tensor<2x64xf32>
  return %2, %6 : tensor<4x32xf32>, tensor<2x64xf32>
}
"""

ONE_TEXT = """
func.func @main(%x: tensor<4x64xf32> {graph.name = "x"}) -> (tensor<4x32xf32> {graph.name = "out"}) {
  %w = graph.param "w" : tensor<32x64xf32>
  %0 = graph.dense %x, %w : (tensor<4x64xf32>, tensor<32x64xf32>) -> tensor<4x32xf32>
  %1 = graph.relu %0 : tensor<4x32xf32>
  return %1 : tensor<4x32xf32>
}
"""


def weights() -> dict[str, Any]:
    """The weights by name."""
    rng = np.random.default_rng(7)
    shapes = {"w": (32, 64), "v": (32, 32), "b": (32,)}
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def write(directory: Path, text: str = TEXT) -> Path:
    """model.mlir and its weights in a directory."""
    path = directory / "model.mlir"
    path.write_text(text)
    store = WeightStore()
    for name, array in weights().items():
        if f'"{name}"' in text:
            store.add(name, array)
    store.save(directory / "model.safetensors")
    return path


def inputs(seed: int = 1) -> dict[str, Any]:
    """Random inputs of the two-output model."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((4, 64)).astype(np.float32),
        "y": rng.standard_normal((4, 32)).astype(np.float32),
    }


def expected(given: dict[str, Any]) -> dict[str, Any]:
    """What the two-output model computes, in float64."""
    w = {name: array.astype(np.float64) for name, array in weights().items()}
    hidden = np.maximum(given["x"] @ w["w"].T + w["b"], 0)
    e = np.exp((z := hidden @ w["v"].T) - z.max(1, keepdims=True))
    return {"hidden": hidden, "sum": (e / e.sum(1, keepdims=True) + given["y"]).reshape(2, 64)}
