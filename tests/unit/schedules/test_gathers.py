"""Gathers whose rows are longer than the tensor under a mask: lanes beyond its end are no addresses."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc import te


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0, 0, 31), (0, 7, 1, 0), (0, 3, 0, 70), (2, 0, 0, 0)])
def test_rows_of_a_table_are_padded(pads, threads):
    table = np.random.default_rng(0).standard_normal((9, 33)).astype(np.float32)
    rows = np.array([1, 0, 8, -3, 3])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["a"]), helper.make_node("Pad", ["a", "p"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", "N"])],
        [numpy_helper.from_array(table, "t"), numpy_helper.from_array(np.array(pads, np.int64), "p")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    result = mlc.compile(model, threads=threads, cache=False)({"i": rows})["y"]
    np.testing.assert_array_equal(result, np.pad(table[rows], ((pads[0], pads[2]), (pads[1], pads[3]))))


def test_what_is_behind_a_sum_may_read_where_data_says():
    x, y = te.placeholder((20, 64), name="x"), te.placeholder((70,), name="y")
    at, r = te.placeholder((64,), name="at", dtype="int64"), te.reduce_axis(20, "r")
    total = te.compute((64,), lambda j: te.sum(x[r, j], axis=r), "total")
    chosen = te.compute(
        (64,), lambda j: total[j] + te.if_then_else((at[j] >= 0) & (at[j] < 70), y[at[j]], 0.0), "chosen"
    )
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((20, 64), np.float32), rng.standard_normal(70, np.float32)
    places = rng.integers(-9, 79, 64)
    found = mlc.build(te.func("total_and_chosen", [x, y, at], [chosen]))(a, b, places)
    wanted = a.sum(0) + np.where((places >= 0) & (places < 70), b[np.clip(places, 0, 69)], 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
