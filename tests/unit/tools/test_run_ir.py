"""`mlc run-ir`: a module of any level on one's own inputs, with what each op computes."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlc.support.weights import WeightStore
from mlc.tools import cli

TEXT = """func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  %s = graph.add %x, %y : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32> loc("Add_0")
  %l = graph.log %s : tensor<2x3xf32>
  %r = graph.relu %l : tensor<2x3xf32>
  func.return %r : tensor<2x3xf32>
}
"""
X, Y = np.array([[1, 2, 3], [4, -1, -3]], np.float32), np.array([0, 1, 2], np.float32)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    np.save("x.npy", X)
    np.save("y.npy", Y)
    np.savez("both.npz", x=X, y=Y)
    return tmp_path


def mlc(*words: object) -> int:
    return cli.run([str(word) for word in words])


def expected() -> Any:
    with np.errstate(all="ignore"):
        return np.maximum(np.log(X + Y), 0)


@pytest.mark.parametrize(
    "inputs",
    [
        ["--input", "x=x.npy", "--input", "y=y.npy"],
        ["--input", "both.npz"],
        ["--input", "x=both.npz", "--input", "input1=y.npy"],
    ],
)
def test_outputs_are_written(inputs: list[str], capsys: pytest.CaptureFixture[str]):
    assert mlc("run-ir", "m.mlir", *inputs, "-o", "out.npz") == 0
    np.testing.assert_allclose(np.load("out.npz")["output0"], expected(), rtol=1e-6)
    assert capsys.readouterr().out.startswith("output0: 2x3 float32")


def test_passes_run_first_and_fold_weights(capsys: pytest.CaptureFixture[str]):
    text = TEXT.replace(", %y: tensor<3xf32>)", ")").replace("  %s =", '  %y = graph.param "y" : tensor<3xf32>\n  %s =')
    Path("m.mlir").write_text(text)
    store = WeightStore()
    store.add("y", Y)
    store.save("m.safetensors")
    passes = "graph-O2,main,convert-graph-to-te,te-add-schedule"
    assert mlc("run-ir", "m.mlir", "--input", "x=x.npy", "-p", passes, "-o", "out.npz", "--trace") == 0
    np.testing.assert_allclose(np.load("out.npz")["output0"], expected(), rtol=1e-6)
    assert "runtime.call @add_log_relu" in capsys.readouterr().out
    assert mlc("run-ir", "m.mlir", "--input", "x=x.npy", "-p", "graph-O9") == 1
    assert "unknown pass 'graph-O9'" in capsys.readouterr().err


def test_trace_says_place_node_type_and_values(capsys: pytest.CaptureFixture[str]):
    assert mlc("run-ir", "m.mlir", "--input", "both.npz", "--trace") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        'm.mlir:2:8: %s = graph.add from "Add_0": tensor<2x3xf32>: min -1, max 5, mean 2; first 1 3 5 4 ...'
    )
    assert lines[1].startswith("m.mlir:3:8: %l = graph.log: tensor<2x3xf32>: min 0, max 1.60944, mean 1.02359, ")
    assert ", 1 NaN, 1 inf; first 0 1.09861 1.60944 1.38629 ..." in lines[1]
    assert len(lines) == 4


def test_trace_stands_even_if_the_run_ends_with_an_error(capsys: pytest.CaptureFixture[str]):
    text = TEXT.replace("func.return", '%w = graph.param "w" : tensor<3xf32>\n  func.return')
    Path("m.mlir").write_text(text)
    assert mlc("run-ir", "m.mlir", "--input", "both.npz", "--trace") == 1
    captured = capsys.readouterr()
    assert "graph.relu" in captured.out
    assert captured.err.count("\n") == 1
    assert "'w' needs a weight store, but none was given; give weights, or random ones by a seed" in captured.err
    assert mlc("run-ir", "m.mlir", "--input", "both.npz", "--random", 0) == 0


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert mlc("run-ir", "m.mlir", "--input", "both.npz", "--trace") == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    row = next(k for k, line in enumerate(lines) if "m.mlir:2:8" in line)
    assert "graph.add" in lines[row]
    assert "Add_0" in lines[row + 1]
    assert any("1 NaN" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected an array for each input of @main, but got none for x: 2x3 float32"),
        (["--input", "x"], "expected --input NAME=FILE.npy, NAME=FILE.npz or FILE.npz, but got 'x'"),
        (["--input", "x.npy"], "expected --input NAME=FILE.npy, NAME=FILE.npz or FILE.npz, but got 'x.npy'"),
        (["--input", "x=no.npy"], "no.npy: No such file or directory"),
        (["--input", "z=both.npz"], "both.npz: expected an array 'z', but the file has x, y"),
        (
            ["--input", "x=x.npy", "--input", "both.npz"],
            "expected one array for input 'x', but got a second: 'both.npz'",
        ),
        (["--input", "both.npz", "--function", "f"], "expected a function @f in the module; the module has @main"),
        (["--input", "both.npz", "-o", "out.txt"], "expected -o to end in .npz, but got 'out.txt'"),
        (["--random", "x"], "expected a seed, a number from 0 on, but got 'x'"),
        (["--input", "text.npy=m.mlir"], "expected --input NAME=FILE.npy"),
    ],
)
def test_wrong_input_is_one_diagnostic(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert mlc("run-ir", "m.mlir", *words) == 1
    error = capsys.readouterr().err
    assert error.startswith("mlc: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_damaged_and_object_arrays_are_refused(capsys: pytest.CaptureFixture[str]):
    np.save("objects.npy", np.array([{}], object), allow_pickle=True)
    np.savez("objects.npz", x=np.array([{}], object))
    Path("text.npy").write_text("hello")
    Path("text.npz").write_text("hello")
    for name in ("objects.npy", "objects.npz", "text.npy", "text.npz"):
        assert mlc("run-ir", "m.mlir", "--input", f"x={name}") == 1
        error = capsys.readouterr().err
        assert name in error
        assert error.count("\n") == 1
