"""The index of an extreme value: the first of equal ones, a NaN before all numbers, in rows and along channels."""

import numpy as np
import pytest
from onnx import helper

import mlc

SHAPES = [((37, 519), 1), ((2, 21, 11, 19), 1), ((100,), 0), ((3, 5, 7), 0), ((4, 1), 1)]


def compiled(dtype: str, shape: tuple[int | str, ...], axis: int, name: str, keepdims: int = 1) -> mlc.Executable:
    node = helper.make_node(name, ["x"], ["y"], axis=axis, keepdims=keepdims)
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
    y = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(np.dtype("int64")), None)
    graph = helper.make_graph([node], "extremes", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return mlc.compile(model, threads=1, cache=False)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
def test_the_first_of_equal_values(dtype: str, shape: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(len(shape))
    for name, expected in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for keepdims in (0, 1):
            exe = compiled(dtype, shape, axis, name, keepdims)
            for spread in (3, 100):
                x = rng.integers(0, spread, shape).astype(dtype)
                np.testing.assert_array_equal(exe({"x": x})["y"], expected(x, axis, keepdims=bool(keepdims)))


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_infinities_and_not_a_number(shape: tuple[int, ...], axis: int) -> None:
    some = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    some.flat[:: some.size // 4] = np.nan
    for name, expected in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        exe = compiled("float32", shape, axis, name)
        for x in (some, *(np.full(shape, value, np.float32) for value in (np.nan, np.inf, -np.inf))):
            np.testing.assert_array_equal(exe({"x": x})["y"], expected(x, axis, keepdims=True))


def test_rows_of_an_open_size() -> None:
    exe = compiled("float32", (3, "N"), 1, "ArgMax")
    for size in (1, 7, 8, 500):
        x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        np.testing.assert_array_equal(exe({"x": x})["y"], x.argmax(1)[:, None])
