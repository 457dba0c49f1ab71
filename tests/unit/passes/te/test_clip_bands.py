"""Masked blocks of an attention are not computed: which masks count, the bounds of the loops, and the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.dialects import loop
from mlc.dialects.index import at_least, const, dim
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.partitioning.clip_bands import clamp
from mlc.passes.te.clip_bands import Band
from mlc.targets.cost.attention import band_block, query_block, score_rows
from mlc.targets.target import Target

NEVER = 10_000


def attention(rows, keys, lower, upper, outside=-1e9, heads=2):
    """A model of heads of 16 with a band, its inputs, and its result of float64."""
    distance = np.arange(keys) - np.arange(rows)[:, None]
    added = np.where((lower <= distance) & (distance <= upper), 0, outside).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["t"]),
        helper.make_node("Softmax", ["t"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["o"]),
    ]
    shapes = {"q": (rows, 16), "k": (16, keys), "v": (keys, 16), "o": (rows, 16)}
    shapes = {n: (1, heads, *shape) for n, shape in shapes.items()}
    *inputs, out = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "attention", inputs, [out], [numpy_helper.from_array(added, "m")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    rng = np.random.default_rng(rows + keys)
    q, k, v = (rng.standard_normal(shapes[n]).astype(np.float32) for n in "qkv")
    scores = q.astype(np.float64) @ k + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return model, {"q": q, "k": k, "v": v}, weights / weights.sum(-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("rows", "keys", "lower", "upper"),
    [
        (130, 130, -NEVER, 0),  # causal
        (64, 200, -NEVER, 136),  # the last rows of a causal one
        (160, 160, -40, 0),  # a window to the left
        (96, 96, -16, 20),  # on both sides
        (50, 300, 3, NEVER),  # what comes later
    ],
)
@pytest.mark.parametrize(("threads", "target"), [(1, "native"), (2, "x86-64-v3")])
def test_values(rows, keys, lower, upper, threads, target):
    model, arrays, expected = attention(rows, keys, lower, upper)
    exe = mlc.compile(model, threads=threads, target=target, cache=False)
    assert len(exe.graph_json["nodes"]) == 1
    (found,) = exe(arrays).values()
    assert np.abs(found - expected).max() <= 3e-5


def test_every_pass_keeps_the_values():
    model, arrays, expected = attention(70, 130, -NEVER, 60, outside=-np.inf)
    (found,) = mlc.compile(model, threads=1, validate_each=True)(arrays).values()
    assert np.abs(found - expected).max() <= 3e-5


def test_one_head_on_two_threads_is_dealt_out_in_turn():
    model, arrays, expected = attention(256, 256, -NEVER, 0, heads=1)
    exe = mlc.compile(model, threads=2, cache=False)
    (found,) = exe(arrays).values()
    assert np.abs(found - expected).max() <= 3e-5


@given(st.integers(1, 12), st.integers(1, 12), st.integers(-14, 14), st.integers(-14, 14))
def test_whether_each_query_sees_a_key(queries, keys, lower, upper):
    for low, high in ((lower, upper), (None, upper), (lower, None)):
        band = Band(low, high)
        seen = [
            any((low is None or k - i >= low) and (high is None or k - i <= high) for k in range(keys))
            for i in range(queries)
        ]
        assert band.sees_some(queries, keys) == all(seen)


@given(st.integers(1, 9), st.sampled_from([1, 4, -3]), st.integers(-20, 20), st.integers(0, 10), st.integers(0, 12))
def test_a_clamped_expression(extent, step, more, low, length):
    f = loop.ForOp.make(const(extent))
    space = IndexSpace()
    x = space.dim(f.iv) * step + more
    found = clamp(x, low, low + length, space)
    assert found is not None
    for i in range(extent):
        assert found.evaluate([i]) == min(max(step * i + more, low), low + length)


def test_too_many_values_to_compare_are_refused():
    f = loop.ForOp.make(const(1000))
    space = IndexSpace()
    assert clamp(space.dim(f.iv), 400, 500, space) is None
    assert clamp(space.dim(f.iv), 0, 990, space) is not None
    assert at_least(dim(0) - 3).evaluate([2]) == 0


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "znver4", "neoverse-n1"])
@pytest.mark.parametrize("keys", [40, 128, 1139, 4096, 100_000])
def test_blocks_are_whole_vectors_and_tiles(name, keys):
    target = Target.parse(name)
    for band in (False, True):
        block = query_block(500, keys, target, band=band)
        assert block % target.lanes("f32") == 0
    assert query_block(3, keys, target) == 3
    assert query_block(500, keys, target, band=True) <= query_block(500, keys, target)
    assert band_block(keys, block, target) % score_rows(keys, block, target) == 0
