"""Large windows as two, powers as square roots: the values of onnxruntime."""

import numpy as np
import onnxruntime
import pytest
from onnx_graphs import model_of, one_node

import mlc


def values(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(mlc.compile(model, threads=1)(inputs).values()), session.run(None, inputs)


POOLS = [
    {"kernel_shape": [13, 13], "pads": [6, 6, 6, 6]},
    {"kernel_shape": [5, 7], "pads": [1, 2, 3, 0], "strides": [1, 2]},
    {"kernel_shape": [5, 5], "dilations": [2, 3], "pads": [2, 2, 2, 2]},
    {"kernel_shape": [6, 9], "strides": [2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [5, 5], "strides": [3, 3], "pads": [2, 2, 2, 2], "ceil_mode": 1},
]


@pytest.mark.parametrize("attributes", POOLS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_the_maximum_over_a_window(attributes, dtype) -> None:
    x = (np.random.default_rng(0).standard_normal((1, 3, 29, 37)) * 40).astype(dtype)
    ours, theirs = values(one_node("MaxPool", {"x": x}, **attributes), {"x": x})
    np.testing.assert_array_equal(ours[0], theirs[0])


def test_a_large_window_is_two(tmp_path) -> None:
    x = np.zeros((1, 3, 29, 37), np.float32)
    for size, kernels in ((13, 2), (3, 1)):
        model = one_node("MaxPool", {"x": x}, kernel_shape=[size, size], pads=[size // 2] * 4)
        assert len(mlc.compile(model, threads=1).profile({"x": x})) == kernels


@pytest.mark.parametrize("exponent", [0.25, 0.75, 1.5, 3.0])
def test_powers(exponent: float) -> None:
    x = np.random.default_rng(0).uniform(0, 50, (7, 33)).astype(np.float32)
    x[0, :4] = [0.0, np.inf, 1.0, 1e-30]
    model = one_node("Pow", {"x": x}, {"e": np.float32(exponent)})
    ours, theirs = values(model, {"x": x})
    np.testing.assert_allclose(ours[0], theirs[0], rtol=5e-7, atol=0)
    assert [row.flops > 0 for row in mlc.compile(model, threads=1).profile({"x": x})] == [True]


def test_cubes_keep_their_sign_and_integers_wrap() -> None:
    x = np.linspace(-3, 3, 31, dtype=np.float32)
    np.testing.assert_allclose(
        mlc.compile(one_node("Pow", {"x": x}, {"e": np.float32(3)}))({"x": x})["y"], x**3, rtol=3e-7
    )
    n = np.arange(-5, 6, dtype=np.int64)
    (cube,), _ = values(one_node("Pow", {"n": n}, {"e": np.int64(3)}), {"n": n})
    np.testing.assert_array_equal(cube, n**3)


@pytest.mark.parametrize("beta", [0.75, 0.5, 0.6])
def test_local_response_norm(beta: float) -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 5, 23)).astype(np.float32)
    ours, theirs = values(one_node("LRN", {"x": x}, size=5, alpha=0.3, beta=beta), {"x": x})
    np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-6)


def test_a_window_beside_other_consumers() -> None:
    import onnx

    x = np.random.default_rng(0).standard_normal((1, 4, 20, 24)).astype(np.float32)
    pools = [
        onnx.helper.make_node("MaxPool", ["x"], [f"p{k}"], kernel_shape=[k, k], pads=[k // 2] * 4) for k in (5, 9, 13)
    ]
    join = onnx.helper.make_node("Concat", ["x", "p5", "p9", "p13"], ["y"], axis=1)
    ours, theirs = values(model_of([*pools, join], {"x": x}), {"x": x})
    np.testing.assert_array_equal(ours[0], theirs[0])
