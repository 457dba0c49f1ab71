"""Gathers whose rows are longer than the tensor under a mask: lanes beyond its end are no addresses."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc


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
