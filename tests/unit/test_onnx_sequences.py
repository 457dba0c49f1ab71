"""Sequences whose lengths are known, and ops that no backend test has; compiled."""

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_graphs import model_of, one_node

import mlc


def run(proto, inputs):
    return next(iter(mlc.compile(proto, threads=1)(inputs).values()))


X = {"x": np.arange(12, dtype=np.float32).reshape(4, 3) - 5}


def test_sequences_of_known_length():
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
        helper.make_node("SequenceErase", ["parts", "one"], ["three"]),
        helper.make_node("SequenceInsert", ["three", "x0"], ["four"]),
        helper.make_node("ConcatFromSequence", ["four"], ["y"], axis=0),
    ]
    constants = {"one": np.array(1, np.int64), "x0": np.full((1, 3), 9, np.float32)}
    wanted = np.concatenate([X["x"][[0, 2, 3]], constants["x0"]])
    np.testing.assert_array_equal(run(model_of(nodes, X, constants), X), wanted)


def test_the_length_of_an_empty_sequence():
    nodes = [
        helper.make_node("SequenceEmpty", [], ["none"], dtype=TensorProto.FLOAT),
        helper.make_node("SequenceInsert", ["none", "x"], ["one"]),
        helper.make_node("SequenceLength", ["one"], ["n"]),
        helper.make_node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    np.testing.assert_array_equal(run(model_of(nodes, X), X), X["x"] + 1)


def test_global_lp_pool():
    x = {"x": np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)}
    wanted = (np.abs(x["x"]) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)
    np.testing.assert_allclose(run(one_node("GlobalLpPool", x, p=3), x), wanted, rtol=1e-5)


def test_transpose_matmul():
    a, b = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    inputs = {"a": a, "b": b}
    proto = one_node("TransposeMatMul", inputs, domain="com.microsoft", transA=1, alpha=0.5)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    np.testing.assert_allclose(run(proto, inputs), 0.5 * a.T @ b, rtol=1e-5, atol=1e-6)
