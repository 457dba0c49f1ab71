"""Weights that are bands of diagonals: found, and never anything else; what attention computes of them, compiled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.dialects import graph as g
from mlc.dialects.graph.types import tensor
from mlc.passes.graph.simplify.fold_constant.bands import band_of
from mlc.support.weights import WeightStore


def band(array: np.ndarray) -> g.BandOp | None:
    store = WeightStore()
    store.add("m", array)
    return band_of(g.ParamOp.make(result=tensor(array.shape, array.dtype.name), entry="m"), store)


@given(st.integers(16, 40), st.integers(16, 40), st.integers(-39, 39), st.integers(0, 60), st.sampled_from([1, 3]))
def test_a_band_is_found_with_its_values(rows: int, columns: int, lower: int, width: int, planes: int) -> None:
    distance = np.arange(columns) - np.arange(rows)[:, None]
    there = (lower <= distance) & (distance <= lower + width)
    array = np.broadcast_to(np.where(there, 0.5, -np.inf), (planes, rows, columns)).astype(np.float32)
    found = band(array)
    assert (found is None) == bool(there.all() or not there.any())
    if found is not None:
        assert np.array_equal(found.evaluate(np)[0], array)


def test_what_is_no_band_stays_a_weight() -> None:
    rng = np.random.default_rng(0)
    causal = np.tril(np.ones((20, 20), np.float32))
    for place in ((0, 3), (19, 0), (7, 7), (12, 2)):
        other = causal.copy()
        other[place] = 2
        assert band(other) is None
    assert band(rng.standard_normal((32, 32)).astype(np.float32)) is None
    assert band(np.stack([causal, causal.T])) is None
    assert band(np.where(causal > 0, 0, np.nan).astype(np.float32)) is None
    assert band(causal[:8, :8]) is None  # reading 64 numbers costs nothing


def attention(rows: int, keys: int, mask: np.ndarray):
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Where", ["m", "s", "low"], ["t"])
        if mask.dtype == np.bool_
        else helper.make_node("Add", ["s", "m"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["o"]),
    ]
    shapes = {"q": (2, 3, rows, 16), "k": (2, 3, 16, keys), "v": (2, 3, keys, 32)}
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    out = helper.make_tensor_value_info("o", TensorProto.FLOAT, (2, 3, rows, 32))
    constants = [numpy_helper.from_array(mask, "m"), numpy_helper.from_array(np.float32(-1e9), "low")]
    return helper.make_model(
        helper.make_graph(nodes, "attention", values, [out], constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    ), shapes


@pytest.mark.parametrize("kind", ["causal", "window", "where"])
@pytest.mark.parametrize(("rows", "keys"), [(48, 48), (37, 90)])
def test_masked_attention_compiled(kind: str, rows: int, keys: int) -> None:
    distance = np.arange(keys) - np.arange(rows)[:, None]
    there = (distance <= 5) & (distance >= -9) if kind == "window" else distance <= keys - rows
    added = np.where(there, 0, -1e9).astype(np.float32)
    model, shapes = attention(rows, keys, there if kind == "where" else added)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(s).astype(np.float32) for s in shapes.values())
    exe = mlc.compile(model, threads=2)
    assert len(exe.graph_json["nodes"]) == 1
    (result,) = exe({"q": q, "k": k, "v": v}).values()
    scores = np.where(there, q @ k, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    assert np.abs(result - weights / weights.sum(-1, keepdims=True) @ v).max() < 1e-5
