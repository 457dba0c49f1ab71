"""graph-block-biases: attention with constant biases of all shapes computes what numpy does."""

from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

import mlc
from mlc.driver.pipeline.manager import make_context
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore

HEADS, WIDTH = 3, 16


def model_of(queries: int, keys: int, bias: np.ndarray[Any, Any], op: str) -> Model:
    """`softmax(q k^T op bias) v` for a constant bias."""
    scores, result = f"tensor<2x{HEADS}x{queries}x{keys}xf32>", f"tensor<2x{HEADS}x{queries}x{WIDTH}xf32>"
    other, type_ = f"tensor<2x{HEADS}x{keys}x{WIDTH}xf32>", f"tensor<{'x'.join(map(str, bias.shape))}xf32>"
    text = f"""
func.func @main(%q: {result}, %k: {other}, %v: {other}) -> {result} {{
  %bias = graph.param "bias" : {type_}
  %0 = graph.batch_matmul %q, %k {{transpose_b = true}} : ({result}, {other}) -> {scores}
  %1 = graph.{op} %0, %bias : ({scores}, {type_}) -> {scores}
  %2 = graph.softmax %1 {{axis = -1}} : {scores}
  %3 = graph.batch_matmul %2, %v : ({scores}, {other}) -> {result}
  return %3 : {result}
}}"""
    store = WeightStore()
    store.add("bias", bias)
    return Model(Parser(make_context(), text).parse_module(), store)


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize(
    ("queries", "keys", "lead", "op"),
    [
        (64, 80, (HEADS,), "add"),
        (93, 70, (HEADS,), "add"),
        (48, 49, (2, 1), "subtract"),
        (50, 49, (2, HEADS), "add"),
        (49, 49, (), "multiply"),
        (40, 33, (1, HEADS), "add"),
    ],
)
def test_values(queries: int, keys: int, lead: tuple[int, ...], op: str, target: str) -> None:
    rng = np.random.default_rng(3)
    bias = rng.standard_normal((*lead, queries, keys)).astype(np.float32)
    q = rng.standard_normal((2, HEADS, queries, WIDTH)).astype(np.float32)
    k, v = rng.standard_normal((2, 2, HEADS, keys, WIDTH)).astype(np.float32)
    exe = mlc.compile(model_of(queries, keys, bias, op), target=target, threads=2, cache=False)
    inputs = dict(zip((spec.name for spec in exe.inputs), (q, k, v), strict=True))
    (got,) = exe(inputs).values()
    scores = getattr(np, op)(q.astype(np.float64) @ k.transpose(0, 1, 3, 2), bias)
    np.testing.assert_allclose(got, softmax(scores) @ v, rtol=1e-4, atol=1e-5)
    assert [node.schedule.split(":")[0] for node in exe.profile(inputs).kernels] == ["attention"]


@pytest.mark.parametrize("queries", [31, 40])
def test_every_pass_keeps_the_values(queries: int) -> None:
    bias = np.random.default_rng(4).standard_normal((HEADS, queries, 40)).astype(np.float32)
    mlc.compile(model_of(queries, 40, bias, "add"), threads=1, validate_each=True)
