"""The best elements of a row: every way of finding them gives those of a stable sort."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.lowering.graph_to_te.extern.best import HEAP_RATIO, RANKED


def _top(x: np.ndarray, wanted: int, largest: int, shape: object = None) -> tuple[np.ndarray, np.ndarray]:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=-1, largest=largest)],
        "top",
        [helper.make_tensor_value_info("x", kind, shape or x.shape)],
        [helper.make_tensor_value_info(*one, None) for one in (("values", kind), ("places", TensorProto.INT64))],
        [numpy_helper.from_array(np.array([wanted]), "k")],
    )
    exe = mlc.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), threads=1)
    results = exe({"x": x})
    return results["values"], results["places"]


def _expected(x: np.ndarray, wanted: int, largest: int) -> np.ndarray:
    """Places in a stable order, NaNs last of a rising order and first of a falling one, the lower place first."""
    order = np.argsort(x if not largest else _falling(x), axis=-1, kind="stable")
    return order[..., :wanted]


def _falling(x: np.ndarray) -> np.ndarray:
    ranks = np.unique(x, return_inverse=True, equal_nan=True)[1].reshape(x.shape)
    return -ranks


SIZES = (
    *((RANKED, 3), (RANKED + 1, 60), (1000, 33), (777, 300), (5 * HEAP_RATIO, 5), (3000, 1400), (20, 20), (90, 90)),
    *((1061, 140), (2000, 128), (1500, 129)),
    *((64, 8), (65, 1), (500, 5), (4097, 100), (16384, 40)),
)
"""(size, wanted): ranks, a bound and ranks, a bound and digits, a heap, digits, ranks in te, ranks of all; bounds from
the bests of several groups of lanes; tournaments."""


@pytest.mark.parametrize(
    ("dtype", "size", "wanted"),
    [
        *(("float32", *one) for one in SIZES),
        *((dtype, *one) for dtype in ("float64", "int32", "int64") for one in ((1000, 7), (777, 300), (40, 20))),
        ("int8", 300, 100),
    ],
)
def test_places_are_those_of_a_stable_sort(dtype: str, size: int, wanted: int) -> None:
    rng = np.random.default_rng(size + wanted)
    for spread in (1e4, 2):  # few ties, then almost nothing else
        x = (rng.standard_normal((3, size)) * spread).clip(-120, 120).round(1 if spread > 2 else 0).astype(dtype)
        for largest in (0, 1):
            values, places = _top(x, wanted, largest)
            np.testing.assert_array_equal(places, _expected(x, wanted, largest))
            np.testing.assert_array_equal(values, np.take_along_axis(x, places, -1))


def test_rows_of_one_value_and_of_nan_and_infinity() -> None:
    for size, wanted in ((20, 7), (100, 30), (500, 40), (500, 120), (500, 220)):
        x = np.zeros((4, size), np.float32)
        x[1] = np.nan
        x[2, ::2] = -0.0
        x[3, size // 4 :], x[3, size // 3 :], x[3, size // 2 :] = np.inf, -np.inf, np.nan
        for largest in (0, 1):
            values, places = _top(x, wanted, largest)
            np.testing.assert_array_equal(places, _expected(x, wanted, largest))
            np.testing.assert_array_equal(values, np.take_along_axis(x, places, -1))


@pytest.mark.parametrize(("size", "wanted"), [(1061, 140), (700, 40)])
def test_the_best_at_an_end_of_the_row(size: int, wanted: int) -> None:
    x = np.stack([np.arange(size), -np.arange(size)]).astype(np.float32)
    for largest in (0, 1):
        np.testing.assert_array_equal(_top(x, wanted, largest)[1], _expected(x, wanted, largest))


def test_rows_of_an_open_size() -> None:
    rng = np.random.default_rng(0)
    for size in (100, 129, 2000):
        x = rng.standard_normal((2, size)).astype(np.float32)
        _, places = _top(x, 90, 1, [2, "n"])
        np.testing.assert_array_equal(places, _expected(x, 90, 1))
