"""Normalisation from ONNX: the values of the definition, also far from zero, where mean(x * x) - mean(x)^2 cancels."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import mlc


def run(op, opset, x, *vectors, **attributes):
    names = ["x", *(f"v{k}" for k in range(len(vectors)))]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [helper.make_tensor_value_info(n, kind, a.shape) for n, a in zip(names, (x, *vectors), strict=True)]
    output = helper.make_tensor_value_info("y", kind, x.shape)
    graph = helper.make_graph([helper.make_node(op, names, ["y"], **attributes)], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    exe = mlc.compile(model, threads=1, cache=False)
    return exe(dict(zip(names, (x, *vectors), strict=True)))["y"]


def normalized(x, axes, epsilon):
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
def test_mean_variance_normalization(offset, opset, axes):
    x = (np.random.default_rng(0).normal(offset, 1, (2, 3, 5, 4))).astype(np.float32)
    got = run("MeanVarianceNormalization", opset, x, **({} if axes is None else {"axes": axes}))
    np.testing.assert_allclose(got, normalized(x, tuple(axes or (0, 2, 3)), 0), rtol=0, atol=5e-3 if offset else 2e-6)


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(offset, opset):
    rng = np.random.default_rng(1)
    x = rng.normal(offset, 1, (2, 6, 5, 4)).astype(np.float32)
    count = 6 if opset >= 21 else 3
    scale, bias = rng.normal(size=(2, count)).astype(np.float32)
    got = run("GroupNormalization", opset, x, scale, bias, num_groups=3, epsilon=1e-3)
    flat = normalized(x.reshape(2, 3, -1), (2,), 1e-3).reshape(2, count, -1)
    expected = (flat * scale[:, None] + bias[:, None]).reshape(x.shape)
    np.testing.assert_allclose(got, expected, rtol=0, atol=5e-4 if offset else 5e-6)


def test_statistics_of_halves_are_floats():
    x = np.random.default_rng(2).normal(100, 1, (1, 4, 16, 16)).astype(np.float16)
    one, zero = np.ones(4, np.float16), np.zeros(4, np.float16)
    got = run("GroupNormalization", 21, x, one, zero, num_groups=2)
    expected = normalized(x.reshape(1, 2, -1), (2,), 1e-5).reshape(x.shape)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=2e-3)


def test_a_transposed_convolution_of_an_empty_batch():
    x, w = np.zeros((0, 1, 3), np.float32), np.ones((1, 3, 2), np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[3], pads=[1, 0])],
        "g",
        [value("x", TensorProto.FLOAT, x.shape), value("w", TensorProto.FLOAT, w.shape)],
        [value("y", TensorProto.FLOAT, (0, 3, 7))],
    )
    exe = mlc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), cache=False)
    assert exe({"x": x, "w": w})["y"].shape == (0, 3, 7)
