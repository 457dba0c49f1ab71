"""Sequences whose lengths are known, optionals, and ops that no backend test has; compiled."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import model_of, one_node

import mlc
import mlc.onnx_backend as backend
from mlc.frontends.onnx import import_model
from mlc.frontends.onnx.check import check_onnx
from mlc.frontends.onnx.structured import structure_of
from mlc.support.errors import UserError


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


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
SEQUENCE = helper.make_sequence_type_proto(TENSOR)
MAYBE = helper.make_optional_type_proto(SEQUENCE)


def structured(nodes, inputs, outputs):
    """A model of inputs and outputs of these types."""
    infos = [[helper.make_value_info(name, kind) for name, kind in some.items()] for some in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def doubled():
    """A sequence and twice the first of its tensors, at its end."""
    nodes = [
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("SequenceAt", ["s", "zero"], ["first"]),
        helper.make_node("Add", ["first", "first"], ["twice"]),
        helper.make_node("SequenceInsert", ["s", "twice"], ["t"]),
    ]
    return structured(nodes, {"s": SEQUENCE}, {"t": SEQUENCE})


def test_inputs_and_outputs_that_are_sequences_are_taken_apart():
    model = mlc.load(doubled(), shapes={"s": [(2,), (1, 3)]})
    assert model.inputs == ("s.0", "s.1")
    assert model.outputs == ("t.0", "t.1", "t.2")
    assert structure_of(model.main.attributes) == {"s": ["s.0", "s.1"], "t": ["t.0", "t.1", "t.2"]}
    a, b = np.ones(2, np.float32), np.zeros((1, 3), np.float32)
    out = mlc.compile(model, threads=1)({"s.0": a, "s.1": b})
    for array, wanted in zip(out.values(), (a, b, a + a), strict=True):
        np.testing.assert_array_equal(array, wanted)


def test_the_backend_takes_and_gives_lists():
    prepared = backend.prepare(doubled())
    for length in (1, 3):
        items = [np.full(k + 1, k + 1, np.float32) for k in range(length)]
        (got,) = prepared.run([items])
        assert len(got) == length + 1
        for array, wanted in zip(got, [*items, np.full(1, 2)], strict=True):
            np.testing.assert_array_equal(array, wanted)


def test_an_optional_that_may_be_absent():
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("Cast", ["has"], ["h"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "h"], ["y"]),
        helper.make_node("Optional", [], ["none"], type=TENSOR),
    ]
    prepared = backend.prepare(structured(nodes, {"x": TENSOR, "o": MAYBE}, {"y": TENSOR, "none": MAYBE}))
    x = np.zeros(2, np.float32)
    for given, wanted in ((None, 0), ([x], 1)):
        y, none = prepared.run([x, given])
        np.testing.assert_array_equal(y, [wanted, wanted])
        assert none is None


def test_a_branch_says_how_long_a_sequence_is():
    def branch(name, *values):
        nodes = [helper.make_node("SequenceConstruct", list(values), [name])]
        return helper.make_graph(nodes, name, [], [helper.make_value_info(name, SEQUENCE)])

    node = helper.make_node("If", ["c"], ["t"], then_branch=branch("a", "x"), else_branch=branch("b", "x", "x"))
    truth = helper.make_tensor_type_proto(TensorProto.BOOL, ())
    prepared = backend.prepare(structured([node], {"c": truth, "x": TENSOR}, {"t": SEQUENCE}))
    x = np.arange(3, dtype=np.float32)
    for condition in (True, False):
        (got,) = prepared.run([np.array(condition), x])
        assert len(got) == (1 if condition else 2)
        np.testing.assert_array_equal(got[-1], x)


def test_sequences_and_optionals_that_are_refused():
    def refused(message, proto, **shapes):
        with pytest.raises(UserError, match=re.escape(message)):
            import_model(proto, shapes)

    refused("input 's': expected what it holds; pass shapes={\"s\": [(..), (..)], a shape for each", doubled())
    refused("input 's': expected a list of shapes, since it is a sequence, but got None", doubled(), s=None)
    refused("expected a position in [0, -1], but got 0", doubled(), s=[])
    relu = helper.make_node("Relu", ["s"], ["t"])
    refused("expected a tensor, but 's' is a sequence", structured([relu], {"s": SEQUENCE}, {"t": TENSOR}), s=[(2,)])
    get = helper.make_node("OptionalGetElement", ["s"], ["t"])
    proto = structured([get], {"s": MAYBE}, {"t": SEQUENCE})
    refused("expected an optional that holds something, but it is absent", proto, s=None)
    refused("or None where the optional is absent", proto)
    strange = helper.make_sequence_type_proto(SEQUENCE)
    refused("expected tensors, or sequences or optionals of tensors", structured([get], {"s": strange}, {"t": strange}))


def test_check_takes_sequences_apart():
    assert not check_onnx(doubled(), {"s": [(2,)]}).problems
    (problem, *_) = check_onnx(doubled()).problems
    assert "expected what it holds" in problem.message


def test_dropout_in_training_follows_its_seed():
    x = {"x": np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)}
    constants = {"ratio": np.array(0.25, np.float32), "training": np.array(True)}
    proto = one_node("Dropout", x, constants, outputs=("y", "mask"), seed=3)
    y, mask = mlc.compile(proto, threads=1)(x).values()
    assert 0.7 < mask.mean() < 0.8
    np.testing.assert_allclose(y, np.where(mask, x["x"] / 0.75, 0), rtol=1e-6)
    with pytest.raises(UserError, match="expected a seed and a known shape, from which the mask follows in training"):
        import_model(one_node("Dropout", x, constants))


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
