"""Two or three ONNX ops over open sizes whose kernels read by computed indices or merged axes: values as numpy's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mlc

SIZES = ({"N": 3, "V": 9, "H": 5, "W": 7}, {"N": 1, "V": 9, "H": 33, "W": 17}, {"N": 4, "V": 9, "H": 16, "W": 40})


def weights(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def depthwise(channels, dilation):
    return (
        [helper.make_node("Conv", ["x", "w"], ["y"], group=channels, dilations=[dilation] * 2, pads=[dilation] * 4)],
        {"x": [1, channels, "H", "W"]},
        {"w": weights(channels, 1, 3, 3)},
    )


def mean(shape, axes):
    return [helper.make_node("ReduceMean", ["x"], ["y"], axes=axes, keepdims=0)], {"x": shape}, {}


def looked_up(table, shape, perm, index):
    nodes = [
        helper.make_node("Gather", ["t", "i"], ["a"], axis=0),
        helper.make_node("Transpose", ["x"], ["b"], perm=perm),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    return nodes, {"t": table, "x": shape, "i": index}, {}


def reflected(shape, pads, perm):
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["a"], mode="reflect"),
        helper.make_node("Transpose", ["a"], ["y"], perm=perm),
    ]
    return nodes, {"x": shape}, {"p": np.array(pads, np.int64)}


PATTERNS = {
    "dilated depthwise window": depthwise(32, 6),
    "dilated window of 3 channels": depthwise(3, 6),
    "mean of merged axes beside one of them": mean(["N", "N", "W"], [1, 2]),
    "mean of the axes around another": mean(["N", "W", "N"], [0, 1]),
    "mean of the last two of four axes": mean([3, "N", "N", "W"], [2, 3]),
    "rows of a table and a transpose": looked_up([9, "W"], ["W", "H"], [1, 0], ["H"]),
    "rows of an open table and a transpose": looked_up(["V", "W"], ["W", "N", "H"], [1, 2, 0], ["N", "H"]),
    "reflected columns with channels last": reflected(["N", 3, "H", "W"], [0, 0, 2, 2, 0, 0, 2, 2], [3, 0, 2, 1]),
    "reflected pictures with channels last": reflected(["N", 3, "H", "W"], [0, 0, 2, 2, 0, 0, 2, 2], [0, 2, 3, 1]),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_open_sizes(name, tmp_path):
    nodes, inputs, constants = PATTERNS[name]
    types = {key: TensorProto.INT64 if key == "i" else TensorProto.FLOAT for key in inputs}
    graph = helper.make_graph(
        nodes,
        "pattern",
        [helper.make_tensor_value_info(key, types[key], shape) for key, shape in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "pattern.onnx")
    exe, rng = mlc.compile(tmp_path / "pattern.onnx", threads=1), np.random.default_rng(0)
    reference = ReferenceEvaluator(model)
    for sizes in SIZES:
        feeds = {}
        for key, shape in inputs.items():
            known = [sizes.get(size, size) for size in shape]
            feeds[key] = rng.integers(0, 9, known) if key == "i" else rng.standard_normal(known).astype(np.float32)
        np.testing.assert_allclose(exe(feeds)["y"], reference.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
