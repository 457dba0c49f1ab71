"""Editing an imported model from Python, and compiling what comes out."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.dialects.graph import AddOp, DenseOp, MultiplyOp, ReluOp, SiluOp, SoftmaxOp, TransposeOp
from mlc.support.errors import UserError

W = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)


@pytest.fixture
def model():
    """y = relu(x @ w) @ v + b, with v given at the call."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"], name="activation"),
        helper.make_node("MatMul", ["r", "v"], ["p"], name="second"),
        helper.make_node("Add", ["p", "b"], ["y"], name="bias"),
    ]
    values = {"x": (3, 5), "v": (7, 4), "y": (3, 4)}
    x, v, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in values.items())
    b = np.arange(4, dtype=np.float32)
    graph = helper.make_graph(
        nodes, "g", [x, v], [y], [numpy_helper.from_array(W, "w"), numpy_helper.from_array(b, "b")]
    )
    return mlc.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))


V = np.random.default_rng(2).standard_normal((7, 4)).astype(np.float32)


def reference(activation):
    return activation(X.astype(np.float64) @ W) @ V + np.arange(4)


def relu(h):
    return np.maximum(h, 0)


def run(model, **inputs):
    return mlc.compile(model, threads=1, cache=False)(inputs or {"x": X, "v": V})


def test_append_a_softmax(model):
    with model.edit() as graph:
        graph.output("y", graph.add(SoftmaxOp, graph.outputs["y"], axis=-1))
    e = np.exp(reference(relu))
    np.testing.assert_allclose(run(model)["y"], e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_change_an_op(model):
    with model.edit() as graph:
        for op in graph.find(ReluOp):
            graph.replace(op, graph.add(SiluOp, op.operands[0]))
    np.testing.assert_allclose(run(model)["y"], reference(lambda h: h / (1 + np.exp(-h))), rtol=1e-4, atol=1e-5)
    with model.edit() as graph:
        assert not graph.find(ReluOp)


def test_one_output_more_and_numbers_as_operands(model):
    with model.edit() as graph:
        (node,) = graph.find("activation")
        graph.output("twice", graph.add(MultiplyOp, node.results[0], 2.0))
    out = run(model)
    assert list(out) == ["y", "twice"]
    np.testing.assert_allclose(out["twice"], 2 * relu(X @ W), rtol=1e-5)


def test_a_value_is_wrapped_where_it_is_read(model):
    with model.edit() as graph:
        h = graph.find("first")[0].results[0]
        graph.replace(h, graph.add(AddOp, h, np.ones((3, 7), np.float32)))
    np.testing.assert_allclose(run(model)["y"], reference(lambda h: relu(h + 1)), rtol=1e-4, atol=1e-5)


def test_large_constants_are_weights_and_types_follow(model):
    more = np.random.default_rng(3).standard_normal((90, 4)).astype(np.float32)
    with model.edit() as graph:
        graph.output("y", graph.add(DenseOp, graph.outputs["y"], graph.constant(more)))
    np.testing.assert_allclose(run(model)["y"], reference(relu) @ more.T, rtol=1e-4, atol=1e-4)
    assert mlc.compile(model, threads=1, cache=False).outputs[0].shape == (3, 90)


def test_bound_inputs_are_no_longer_asked_for(model):
    model.bind({"v": V})
    assert model.inputs == ("x",)
    np.testing.assert_allclose(run(model, x=X)["y"], reference(relu), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"w": V}, "expected the name of an input, but got 'w'"),
        ({"v": V[:3]}, r"expected a value of input 'v' of shape \(7, 4\) and dtype float32, but got \(3, 4\) float32"),
        ({"v": V.astype("f8")}, "but got .* float64"),
    ],
)
def test_wrong_bindings(model, values, message):
    with pytest.raises(UserError, match=message):
        model.bind(values)


def test_wrong_edits(model):
    with model.edit() as graph:
        with pytest.raises(UserError, match="the name of a node, but got 'activatio'; did you mean 'activation'"):
            graph.find("activatio")
        with pytest.raises(UserError, match=r"graph\.dense: expected"):
            graph.add(DenseOp, graph.inputs["x"], np.zeros((2, 2), np.float32))
        with pytest.raises(UserError, match=r"graph\.softmax has no attribute axes"):
            graph.add(SoftmaxOp, graph.inputs["x"], axes=1)


def test_what_no_longer_fits_is_told_at_the_end(model):
    graph = model.edit()
    h = graph.find("activation")[0].results[0]
    graph.replace(h, graph.add(TransposeOp, h, axes=(1, 0)))
    with pytest.raises(UserError, match="not valid: second: expected inner sizes that agree"):
        graph.__exit__(None, None, None)
