"""`mlc check`: everything that is wrong with a model, at once."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlc.tools import cli


def node(kind, inputs, outputs, name, **attrs):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=name, **attrs)


def write(folder, nodes, shape=(3, 4), outputs=("y",), constants=None):
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    weights = [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs], weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


WRONG = [
    node("Softmax", "x", "a", "soft", axis=7),
    node("MatMull", "a x", "b", "typo"),
    node("Relu", "x", "c", "fine"),
    node("Reshape", "c shape", "d", "flat"),
    node("Gelu", "b", "e", "other", domain="my"),
    node("Exp", "e", "f", "after"),
    node("Add", "nowhere x", "y", "sum"),
]


def check(*words):
    return cli.run(["check", *map(str, words)])


def test_everything_is_listed_at_once(tmp_path, capsys):
    path = write(tmp_path, WRONG, outputs=("y", "d", "z"), constants={"shape": np.array([5, 5])})
    assert check(path, "--json") == 1
    record = json.loads(capsys.readouterr().out)
    found = {p["node"]: p for p in record["problems"]}
    assert list(found) == ["soft", "typo", "flat", "other", "sum", "output 'z'"]
    assert found["soft"]["message"] == "expected axis in [-2, 2) for a tensor of rank 2, but got 7"
    assert found["soft"]["inputs"] == ["3x4xfloat32"]
    assert found["typo"]["instead"] == "did you mean 'MatMul'?"
    assert found["flat"]["inputs"] == ["3x4xfloat32", "2xint64"]
    assert found["sum"]["message"] == "no node before it gives its input 'nowhere'"
    assert found["output 'z'"]["message"] == "no node gives it"
    assert (record["checked"], record["not_checked"]) == (6, 1)


def test_each_problem_names_its_node_shapes_and_what_would_work(tmp_path, capsys):
    path = write(tmp_path, [*WRONG[:2], WRONG[4], WRONG[5], node("Add", "x xx", "y", "near")], outputs=("y",))
    assert check(path) == 1
    out = capsys.readouterr().out
    assert out.splitlines() == [
        f"{path}: 4 problems",
        "  soft: Softmax(3x4xfloat32)",
        "      expected axis in [-2, 2) for a tensor of rank 2, but got 7",
        "  typo: MatMull(?, 3x4xfloat32)",
        "      not an op that mlc has",
        "      instead: did you mean 'MatMul'?",
        "  other: my.Gelu(?)",
        "      not an op that mlc has (another domain)",
        "      instead: the op Gelu of ai.onnx",
        "  near: Add(3x4xfloat32, ?)",
        "      no node before it gives its input 'xx'",
        "      instead: did you mean 'x'?",
        "  1 node more was not checked: it reads what has no known shape",
    ]


def test_shapes_of_inputs_that_the_model_lacks(tmp_path, capsys):
    path = write(tmp_path, WRONG[:1], outputs=("a",))
    assert check(path, "--shape", "y=3x4") == 1
    out = capsys.readouterr().out
    assert "2 problems" in out
    assert "  input 'y'\n      the model has no such input\n      instead: its inputs are x\n" in out


def test_an_op_of_another_domain_names_the_one_of_onnx(tmp_path, capsys):
    assert check(write(tmp_path, [node("Gelu", "x", "y", "act", domain="my")]), "--json") == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["op"] == "my.Gelu"
    assert "another domain" in problem["message"]


def test_what_is_inferred_behind_a_wrong_node_is_checked_too(tmp_path, capsys):
    nodes = [node("Softmax", "x", "a", "first", axis=9), node("Softmax", "x", "b", "second", axis=-9)]
    path = write(tmp_path, [*nodes, node("Add", "a b", "y", "sum")])
    assert check(path) == 1
    out = capsys.readouterr().out
    assert "first" in out
    assert "second" in out


def test_a_supported_model_as_json(tmp_path, capsys):
    assert check(write(tmp_path, [node("Relu", "x", "y", "act")]), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["problems"] == []
    assert record["inputs"] == {"x": "tensor<3x4xf32>"}


@pytest.mark.parametrize("data", [b"", b"\xff junk"])
def test_what_is_no_model_is_one_diagnostic(data, tmp_path, capsys):
    (tmp_path / "m.onnx").write_bytes(data)
    assert check(tmp_path / "m.onnx") == 1
    assert capsys.readouterr().err.count("\n") == 1
