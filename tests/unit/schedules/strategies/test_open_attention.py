"""Attention of open numbers of queries and keys: one kernel, right at every length, and when lengths change."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc

CHANNELS, HEADS = 8, 3


def model(form):
    """
    An attention of arrays [batch, length, heads, channels].

    Words of the form: `cross` (keys of another length), `batch` (open), `add` (a mask that is added), `bool` (one that
    chooses).
    """
    batch, n, m = ("B" if "batch" in form else 1), "N", ("M" if "cross" in form else "N")
    sizes = {"q": n, "k": m, "v": m}
    inputs = [helper.make_tensor_value_info(a, 1, [batch, sizes[a], HEADS, CHANNELS]) for a in "qkv"]
    orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    nodes = [helper.make_node("Transpose", [a], [f"{a}t"], perm=orders[a]) for a in "qkv"]
    nodes += [helper.make_node("MatMul", ["qt", "kt"], ["s"]), helper.make_node("Mul", ["s", "c"], ["scores"])]
    last = "scores"
    if "bool" in form:
        inputs.append(helper.make_tensor_value_info("b", TensorProto.BOOL, [1, 1, n, m]))
        nodes.append(helper.make_node("Where", ["b", last, "low"], ["chosen"]))
        last = "chosen"
    if "add" in form:
        inputs.append(helper.make_tensor_value_info("a", 1, [1, HEADS, n, m]))
        nodes.append(helper.make_node("Add", [last, "a"], ["added"]))
        last = "added"
    nodes += [helper.make_node("Softmax", [last], ["p"], axis=-1), helper.make_node("MatMul", ["p", "vt"], ["mixed"])]
    nodes.append(helper.make_node("Transpose", ["mixed"], ["o"], perm=[0, 2, 1, 3]))
    constants = [numpy_helper.from_array(np.float32(x), name) for name, x in (("c", 0.5), ("low", -1e9))]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("o", 1, None)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def arrays(form, batch, n, m):
    rng = np.random.default_rng(n * 1000 + m)
    sizes = {"q": n, "k": m, "v": m}
    found = {a: rng.standard_normal((batch, sizes[a], HEADS, CHANNELS)).astype(np.float32) for a in "qkv"}
    if "bool" in form:
        found["b"] = rng.uniform(size=(1, 1, n, m)) < 0.7
        found["b"][..., 0] = True
    if "add" in form:
        found["a"] = rng.standard_normal((1, HEADS, n, m)).astype(np.float32)
    return found


def value(x):
    scores = np.einsum("bihd,bjhd->bhij", x["q"].astype(np.float64), x["k"]) / 2
    scores = np.where(x["b"], scores, -1e9) if "b" in x else scores
    scores = scores + x.get("a", 0)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhij,bjhe->bihe", p / p.sum(-1, keepdims=True), x["v"])


def check(executable, form, sizes):
    for batch, n, m in sizes:
        x = arrays(form, batch, n, m)
        (found,) = executable(x).values()
        expected = value(x)
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() <= 3e-6 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("form", "sizes", "threads"),
    [
        ("self", [(1, n, n) for n in (7, 1, 64, 33, 1100, 5, 1500)], 2),
        ("self bool", [(1, n, n) for n in (64, 7, 1, 300)], 1),
        ("cross add", [(1, 7, 300), (1, 64, 1), (1, 33, 14), (1, 300, 65)], 2),
        ("batch cross", [(2, 33, 20), (1, 1, 7), (3, 64, 65)], 1),
    ],
)
def test_one_kernel_with_the_right_values_at_each_length(form, sizes, threads):
    executable = mlc.compile(model(form), threads=threads, cache=False)
    (node,) = executable.graph_json["nodes"]
    assert node["kernel"].count("batch_matmul") == 2
    check(executable, form, sizes)


def test_every_pass_keeps_the_values():
    form = "cross bool add"
    check(mlc.compile(model(form), threads=1, validate_each=True), form, [(1, 3, 5), (1, 1, 2)])
