"""`mlc diff`: what differs between two modules, models and compilations, in the text and in the values."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlc.driver.compare.interpret import load_module
from mlc.support.weights import WeightStore
from mlc.tools import cli
from mlc.validation.compare.structure_diff import compare_structure
from mlc.validation.compare.value_diff import compare_tensor

T = "tensor<2x8xf32>"
TEXT = f"""func.func @main(%x: {T}) -> {T} {{
  %w = graph.param "w" : tensor<8x8xf32>
  %v = graph.param "v" : tensor<8x8xf32>
  %0 = graph.dense %x, %w : ({T}, tensor<8x8xf32>) -> {T} loc("fc1")
  %1 = graph.relu %0 : {T} loc("act1")
  %2 = graph.dense %1, %v : ({T}, tensor<8x8xf32>) -> {T} loc("fc2")
  %3 = graph.relu %2 : {T} loc("act2")
  %4 = graph.subtract %3, %0 : {T} loc("sub")
  func.return %4 : {T}
}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def weights(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal((8, 8)).astype(np.float32) for name in "wv"}


def write(name: str, text: str = TEXT, arrays: dict[str, Any] | None = None) -> str:
    Path(name).write_text(text)
    store = WeightStore()
    for entry, array in (arrays or weights()).items():
        store.add(entry, array)
    store.save(Path(name).with_suffix(".safetensors"))
    return name


def mlc(*words: object) -> int:
    return cli.run([str(word) for word in words])


def table(text: str) -> dict[str, list[str]]:
    """The rows of a printed table: tensor -> shape, max |a-b|, relative, note."""
    rows = [line.strip().split("  ") for line in text[text.index("  tensor") :].splitlines()[1:]]
    return {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}


def structure(a: str, b: str) -> Any:
    return compare_structure(load_module(a).module, load_module(b).module)


# --- structure ---------------------------------------------------------------------------------------------------


def test_names_of_values_order_of_attributes_and_locations_are_no_difference():
    other = TEXT.replace("%0", "%first").replace("%x", "%input").replace("%3", "%17")
    other = other.replace(' loc("fc1")', "")
    assert structure(TEXT, other).functions == []
    one = 'func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> attributes {a = 1 : i64, b = "x"} {\n  func.return %x : '
    one += "tensor<2xf32>\n}"
    assert structure(one, one.replace('a = 1 : i64, b = "x"', 'b = "x", a = 1 : i64')).functions == []
    assert len(structure(one, one.replace("a = 1", "a = 2")).functions) == 1


def test_only_the_lines_that_differ_are_in_the_diff():
    other = TEXT.replace(f"%1 = graph.relu %0 : {T}", f"%n = graph.negative %0 : {T}\n  %1 = graph.relu %n : {T}")
    other = other.replace("graph.negative", "graph.neg")
    (found,) = structure(TEXT, other).functions
    assert found.counts == {"graph.neg": (0, 1)}
    changed = [line for line in found.lines if line[0] in "+-"]
    assert [line[0] for line in changed] == ["-", "+", "+"]
    assert "graph.neg" in changed[1]
    assert str(found) == "differs: @main (func.func): graph.neg 0 -> 1"


def test_swapped_operands_are_a_difference():
    (found,) = structure(TEXT, TEXT.replace("subtract %3, %0", "subtract %0, %3")).functions
    minus, plus = (line for line in found.lines if line[0] in "+-")
    assert minus.split("graph")[1] != plus.split("graph")[1]
    assert found.counts == {}


def kernel(name: str, op: str, size: int = 4) -> str:
    t = f"tensor<{size}xf32>"
    return f"func.func private @{name}(%x: {t}) -> {t} {{\n  %0 = graph.{op} %x : {t}\n  func.return %0 : {t}\n}}\n"


def calls(*names: str) -> str:
    t = "tensor<4xf32>"
    lines = [f'  %{k + 1} = graph.call @{n}(%{k}) : ({t}) -> {t} loc("n{k}")' for k, n in enumerate(names)]
    text = "\n".join(lines).replace("(%0)", "(%x)", 1)
    return f"func.func @main(%x: {t}) -> {t} {{\n{text}\n  func.return %{len(names)} : {t}\n}}\n"


def test_kernels_are_matched_by_node_structure_and_stem():
    a = calls("relu_0123abcd", "exp_0123abcd") + kernel("relu_0123abcd", "relu") + kernel("exp_0123abcd", "exp")
    same = calls("k0", "k1") + kernel("k0", "relu") + kernel("k1", "exp")
    assert structure(a, same).functions == []
    other = calls("relu_9999abcd", "exp_9999abcd") + kernel("relu_9999abcd", "tanh") + kernel("exp_9999abcd", "exp")
    (found,) = structure(a, other).functions
    assert (found.a, found.b) == ("relu_0123abcd", "relu_9999abcd")
    assert found.counts == {"graph.relu": (1, 0), "graph.tanh": (0, 1)}


def test_functions_of_one_side():
    one = kernel("f", "relu")
    found = structure(one, one + kernel("g", "exp", 5)).functions
    assert [str(f) for f in found] == ["only in the second: @g (func.func)"]
    found = structure(one + kernel("g", "exp", 5), one).functions
    assert [str(f) for f in found] == ["only in the first: @g (func.func)"]
    left, right = calls("f") + one, (calls("f") + one).replace('loc("n0")', 'loc("m0")')
    assert structure(left, right).nodes == (("n0",), ("m0",))


# --- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "error", "differs"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0, False),
        ([1.0, 2.0], [1.0, 2.0001], 1e-4, False),
        ([1.0, 2.0], [1.0, 2.001], 1e-3, True),
        ([1.0, np.nan], [1.0, np.nan], 0.0, False),
        ([1.0, np.nan], [1.0, 2.0], np.inf, True),
        ([1.0, np.inf], [1.0, np.inf], 0.0, False),
        ([1.0, np.inf], [1.0, -np.inf], np.inf, True),
        ([0.0, 0.0], [0.0, 1e-30], 1e-30, True),
        ([[1.0, 2.0]], [1.0, 2.0], 0.0, False),
        ([], [], 0.0, False),
    ],
)
def test_two_tensors(a: list[float], b: list[float], error: float, differs: bool):
    found = compare_tensor("t", np.array(a), np.array(b), 1e-4)
    assert found.error == pytest.approx(error, rel=1e-6)
    assert found.differs is differs


def test_integers_must_be_equal():
    assert compare_tensor("t", np.array([1, 100000]), np.array([1, 100001]), 1e-4).differs
    assert compare_tensor("t", np.zeros((2, 3)), np.zeros((3, 2)), 1e-4).other_shape == (3, 2)


@pytest.mark.parametrize(("channels", "block", "other"), [(16, 8, 1), (12, 8, 1), (16, 4, 8), (12, 8, 4)])
def test_blocks_of_channels_are_no_difference(channels: int, block: int, other: int):
    x = np.random.default_rng(0).standard_normal((2, channels, 5, 3))

    def blocked(size: int, values: Any) -> Any:
        if size == 1:
            return values
        padded = np.pad(values, ((0, 0), (0, -channels % size), (0, 0), (0, 0)))
        return np.moveaxis(padded.reshape(2, -1, size, 5, 3), 2, -1)

    changed = x.copy()
    changed[1, channels - 1, 4, 2] += 1
    for a, b in ((block, other), (other, block)):
        assert compare_tensor("t", blocked(a, x), blocked(b, x), 1e-4).error == 0
        found = compare_tensor("t", blocked(a, x), blocked(b, changed), 1e-4)
        assert found.other_shape is None
        assert found.error == pytest.approx(1)
    assert compare_tensor("t", x, np.zeros((2, channels, 5, 4)), 1e-4).other_shape == (2, channels, 5, 4)
    assert compare_tensor("t", x, np.zeros((2, channels + 1, 5, 3)), 1e-4).other_shape is not None


def test_equal_modules_are_equal(capsys: pytest.CaptureFixture[str]):
    assert mlc("diff", write("a.mlir"), write("b.mlir", TEXT.replace("%0", "%z"))) == 0
    out = capsys.readouterr().out
    assert "structure: equal" in out
    assert "outputs are equal" in out
    assert {row[1] for row in table(out).values()} == {"0"}


def test_the_first_node_that_differs(capsys: pytest.CaptureFixture[str]):
    dropped = TEXT.replace(f'  %1 = graph.relu %0 : {T} loc("act1")\n', "").replace("dense %1", "dense %0")
    assert mlc("diff", write("a.mlir"), write("b.mlir", dropped), "--values", "--random", 3) == 1
    rows = table(capsys.readouterr().out)
    assert rows["fc1 (graph.dense)"] == ["2x8", "0", "0"]
    assert rows["fc2 (graph.dense)"][-1] == "first that differs"
    assert rows["output output0"][-1] == "differs"
    x = np.random.default_rng(3).standard_normal((2, 8)).astype(np.float32)
    w, v = weights().values()
    gap = np.abs(np.maximum(x @ w.T, 0) @ v.T - (x @ w.T) @ v.T).max()
    assert float(rows["fc2 (graph.dense)"][1]) == pytest.approx(gap, rel=1e-2)
    assert mlc("diff", "a.mlir", "b.mlir", "--values", "--tolerance", 100) == 0
    assert mlc("diff", "a.mlir", "b.mlir", "--structure") == 1


def test_tensors_without_nodes_are_matched_by_what_they_are(capsys: pytest.CaptureFixture[str]):
    plain = "\n".join(line.partition(" loc(")[0] for line in TEXT.splitlines())
    more = plain.replace("graph.relu %2", "graph.relu %9").replace("%3 =", f"%9 = graph.neg %2 : {T}\n  %3 =")
    assert mlc("diff", write("a.mlir", plain), write("b.mlir", more), "--values") == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  graph.")]
    assert [line.split()[0] for line in lines] == [
        "graph.dense",
        "graph.relu",
        "graph.dense",
        "graph.relu",
        "graph.subtract",
    ]
    assert [line.endswith("differs") for line in lines] == [False, False, False, True, True]


def test_own_inputs_and_weights(capsys: pytest.CaptureFixture[str]):
    other = weights()
    other["v"] = other["v"].copy()
    other["v"][0, 0] += 1
    np.save("x.npy", np.zeros((2, 8), np.float32))
    assert mlc("diff", write("a.mlir"), write("b.mlir", TEXT, other), "--input", "x=x.npy") == 1
    out = capsys.readouterr().out
    assert "structure: 0 functions differ, 1 is equal, 1 weight differs" in out
    assert "differs: weight 'v': max |a-b| 1 (" in out
    assert "outputs are equal" in out
    assert mlc("diff", "a.mlir", "b.mlir", "--input", "x=x.npy", "--values") == 0


def test_two_pipelines(capsys: pytest.CaptureFixture[str]):
    write("a.mlir")
    assert mlc("diff", "a.mlir", "-p", "graph-O1", "-p", "graph-O1", "--random", 1) == 0
    assert mlc("diff", "a.mlir", "-p", "graph-O0", "-p", "graph-O3,main", "--values") == 0
    rows = table(capsys.readouterr().out.rpartition("values of @main")[2])
    assert float(rows["output output0"][2]) < 1e-5
    assert "act1 (graph.call)" in rows
    assert mlc("diff", "a.mlir", "-p", "graph-O0", "-p", "graph-O3", "--structure") == 1


def test_two_levels(capsys: pytest.CaptureFixture[str]):
    write("a.mlir")
    assert mlc("diff", "a.mlir", "-O0", "-O3", "--values") == 0
    rows = table(capsys.readouterr().out)
    assert next(row for name, row in rows.items() if name.startswith("act1"))[0] == "2x8"
    assert float(rows["output output0"][2]) < 1e-5


def test_saved_models(capsys: pytest.CaptureFixture[str]):
    write("a.mlir")
    dropped = TEXT.replace(f'  %3 = graph.relu %2 : {T} loc("act2")\n', "").replace("subtract %3", "subtract %2")
    write("b.mlir", dropped)
    for name in "ab":
        assert mlc("compile", f"{name}.mlir", "-o", name, "-O0") == 0
    assert mlc("diff", "a", "a") == 0
    capsys.readouterr()
    assert mlc("diff", "a", "b") == 1
    out = capsys.readouterr().out
    assert "  -act2: relu(2x8xf32) -> 2x8xf32" in out
    assert next(row for name, row in table(out).items() if name.startswith("sub"))[-1] == "first that differs"
    assert mlc("diff", "a", "a.mlir", "--values") == 0


def test_two_targets(capsys: pytest.CaptureFixture[str]):
    write("a.mlir")
    words = ["--target", "x86-64-v2", "--target", "x86-64-v3"]
    assert mlc("diff", "a.mlir", *words, "--emit", "llvm", "--structure") == 1
    assert "differs: @" in capsys.readouterr().out


def test_modules_of_kernels_compare_each_function(capsys: pytest.CaptureFixture[str]):
    Path("a.mlir").write_text(kernel("f", "relu") + kernel("g", "exp"))
    Path("b.mlir").write_text(kernel("f", "relu") + kernel("g", "tanh"))
    assert mlc("diff", "a.mlir", "b.mlir", "--values") == 1
    out = capsys.readouterr().out
    assert (
        "values of @f: 1 tensor inside, 0 differ by more than 0.0001 of their largest value; outputs are equal" in out
    )
    assert "values of @g: 1 tensor inside, 1 differs by more than 0.0001 of their largest value; outputs differ" in out
    assert mlc("diff", "a.mlir", "b.mlir", "--values", "--function", "f") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.mlir"], "expected a second model, or two of --pipeline, -O or --target, but got neither"),
        (["a.mlir", "-O0"], "expected a second model, or two of --pipeline, -O or --target, but got -O0"),
        (
            ["a.mlir", "-O0", "-O1", "-O2"],
            "expected a second model, or two of --pipeline, -O or --target, but got -O0, ",
        ),
        (
            ["a.mlir", "-p", "graph-O0"],
            "expected --pipeline twice and neither -O nor --target, but got --pipeline graph-O0",
        ),
        (["a.mlir", "-p", "graph-O0", "-p", "graph-Q"], "unknown pass 'graph-Q'"),
        (["a.mlir", "a.mlir", "-O0"], "expected one model with two of --pipeline, -O or --target, but got two models"),
        (["a.mlir", "none.mlir"], "none.mlir: "),
        (["a.mlir", "a.mlir", "--structure", "--values"], "expected one of --structure and --values, but got both"),
        (["a.mlir", "other.mlir", "--values"], "expected the same inputs of @main, but got x and x, y"),
        (["a.mlir", "a.mlir", "--tolerance", "-1"], "expected --tolerance to be at least 0, but got -1"),
        (["a.mlir", "a.mlir", "--function", "f"], "expected a function @f in the module"),
    ],
)
def test_wrong_command_lines(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    write("a.mlir")
    Path("other.mlir").write_text(f"func.func @main(%x: {T}, %y: {T}) -> {T} {{\n  func.return %x : {T}\n}}\n")
    assert mlc("diff", *words) == 1
    error = capsys.readouterr().err
    assert error.startswith("mlc: error: ")
    assert message in error
    assert error.count("\n") == 1
