"""Models of symbolic sizes on the command line: --shape with names, --symbol, --at, inspect and check."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mlc.tools import cli


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"], name="mm"), helper.make_node("Relu", ["h"], ["y"], name="r")]
    w = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], np.arange(32, dtype=np.float32))
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name="y")], [w])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), "m.onnx")
    return tmp_path


def mlc(*words):
    return cli.run([str(word) for word in words])


def test_ranges_and_names_of_sizes(capsys):
    assert mlc("compile", "m.onnx", "--emit", "graph", "--shape", "x=rowsx8", "--symbol", "rows=4:64:4") == 0
    assert "graph.symbols = {rows = #graph.symbol<1 to 16 like 1>}" in capsys.readouterr().out
    assert mlc("check", "m.onnx", "--symbol", "n=2:5") == 0
    assert "input x: tensor<?x8xf32, #graph.dims<[n]>>" in capsys.readouterr().out


def test_random_inputs_need_sizes(capsys):
    assert mlc("run", "m.onnx", "--random", "--at", "x=5,8", "--threads", 1, "--profile") == 0
    assert capsys.readouterr().out.startswith("y: 5x4 float32")
    assert mlc("bench", "m.onnx", "--at", "x=3x8", "--threads", 1, "--seconds", 0.01) == 0
    np.save("x.npy", np.ones((7, 8), np.float32))
    assert mlc("run", "m.onnx", "--input", "x=x.npy", "--random", "--threads", 1) == 0
    assert capsys.readouterr().out.endswith("y: 7x4 float32, 112 to 136\n")


def test_inspect_shows_the_symbols(capsys):
    assert mlc("inspect", "m.onnx", "--symbol", "n=1:100", "--threads", 1) == 0
    out = capsys.readouterr().out
    assert "  input x: (n, 8) float32\n  output y: (n, 4) float32\n  symbol n: 1 to 100\n" in out
    assert "planned" not in out


def test_what_is_compiled_says_what_its_workspace_follows_from(capsys):
    assert mlc("compile", "m.onnx", "-o", "saved", "--threads", 1) == 0
    assert "workspace sized by n, weights" in capsys.readouterr().out
    assert mlc("run", "saved", "--random", "--at", "x=2x8") == 0


def test_check_goes_on_with_symbols(capsys):
    model = onnx.load("m.onnx")
    model.graph.node.append(helper.make_node("Other", ["y"], ["z"], name="other"))
    model.graph.node.append(helper.make_node("Concat", ["y", "h"], ["both"], name="both", axis=1))
    model.graph.node.append(helper.make_node("Shrunk", ["both"], ["s"], name="last"))
    model.graph.node.append(helper.make_node("Relu", ["s"], ["t"], name="lost"))
    onnx.save(model, "bad.onnx")
    assert mlc("check", "bad.onnx") == 1
    out = capsys.readouterr().out
    assert "bad.onnx: 2 problems" in out
    assert "nx4xfloat32" in out
    assert "nx8xfloat32" in out
    assert "1 node more was not checked" in out


def test_check_finds_steps(capsys):
    pool = {"kernel_shape": [1, 1], "strides": [2, 2]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], name="a", **pool),
        helper.make_node("Reshape", ["a", "shape"], ["b"], name="b"),
        helper.make_node("Missing", ["b"], ["y"], name="c"),
    ]
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "H", 2])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 4])
    graph = helper.make_graph(nodes, "g", [info], [onnx.ValueInfoProto(name="y")], [shape])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), "step.onnx")
    assert mlc("check", "step.onnx") == 1
    assert "Hx4xfloat32" in capsys.readouterr().out  # (H + 1) floordiv 2 is a multiple of 4 for H in steps of 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "m.onnx", "--random"], "expected the sizes of input 'x' (n, 8) to be known for random values; give"),
        (["run", "m.onnx", "--random", "--at", "x=3x9"], "expected axis 1 of input 'x' to be 8, but got 9"),
        (["bench", "m.onnx", "--at", "x=3x9"], "expected axis 1 of input 'x' to be 8, but got 9"),
        (["bench", "m.onnx", "--at", "x"], "expected --at NAME=1x3x48x320, but got 'x'"),
        (["compile", "m.onnx", "--symbol", "n"], "expected --symbol NAME=LOW:HIGH or NAME=LOW:HIGH:STEP, but got 'n'"),
        (["compile", "m.onnx", "--symbol", "n=4"], "NAME=LOW:HIGH:STEP, but got 'n=4'"),
        (["compile", "m.onnx", "--symbol", "n=4:2"], "expected symbol 'n' as (low, high)"),
        (["compile", "m.onnx", "--symbol", "n=1:2", "--symbol", "n=1:3"], "expected one --symbol for 'n'"),
        (["compile", "m.onnx", "--symbol", "k=1:2"], "expected symbols of the inputs' sizes (n), but got 'k'"),
    ],
)
def test_what_is_refused(capsys, words, message):
    assert mlc(*words) == 1
    assert message in capsys.readouterr().err
