"""`mlc bisect` and `mlc reduce`: what they print, write and return."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_graphs
import pytest
import small_model
from onnx import TensorProto, helper

from mlc.dialects import graph
from mlc.tools import cli
from mlc.tools.lit_test import check_line

WRONG = '''
from dataclasses import dataclass

from xdsl.passes import ModulePass

from mlc.dialects.graph import ClipOp, ReluOp, SoftmaxOp
from mlc.passes.rewriting import Rules, apply_rules, defining_op

RULES = Rules()


@RULES.on(ClipOp)
def clip_of_relu(op, rw):
    relu = defining_op(op.operands[0], ReluOp)
    return None if relu is None else rw.make(ClipOp, relu.operands[0], min=op.min, max=op.max)


@dataclass(frozen=True)
class MergePass(ModulePass):
    """Wrong where the least value is below 0."""

    name = "graph-merge"

    def apply(self, ctx, op):
        apply_rules(op, RULES)


@dataclass(frozen=True)
class DropPass(ModulePass):
    """Wrong: a softmax is no identity."""

    name = "graph-drop"

    def apply(self, ctx, op):
        for one in [o for o in op.walk() if isinstance(o, SoftmaxOp)]:
            one.results[0].replace_all_uses_with(one.operands[0])
            one.detach()
            one.erase()
'''
CLIPS = """
func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = graph.neg %x : tensor<8x16xf32>
  %1 = graph.relu %0 : tensor<8x16xf32>
  %2 = graph.clip %1 {min = -2.0, max = 6.0} : tensor<8x16xf32>
  %3 = graph.tanh %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "clips.mlir").write_text(CLIPS)
    return tmp_path


def mlc(*words: object) -> int:
    return cli.run([str(word) for word in words])


def opt(*words: object, cwd: Path) -> int:
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True).returncode


def test_a_wrong_pass_is_named_and_reduced(here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("bisect", "clips.mlir", "-p", "graph-merge", "--load", "wrong.py", "--lit-test", "lit/t.mlir") == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("wrong values: pass 'graph-merge' changed @main")
    assert lines[1:6] == [
        "  pass      graph-merge, number 1 of 1, which is your own",
        "  function  @main",
        "  rewrite   clip_of_relu, application 1 of 1",
        "  op        graph.clip at clips.mlir:5:8",
        "            %0 = graph.clip %1 {min = -2.0, max = 6.0} : tensor<8x16xf32>",
    ]
    assert lines[6] == "  reduced   to 2 operations, in bisect.mlir"
    assert lines[7] == "  run       mlc-opt bisect.mlir -p graph-merge --validate-each --load=wrong.py"
    assert opt("bisect.mlir", "-p", "graph-merge", "--validate-each", "--load=wrong.py", cwd=here) != 0


def test_the_lit_test_fails_while_the_bug_is_there(here: Path):
    mlc("bisect", "clips.mlir", "-p", "graph-merge", "--load", "wrong.py", "--lit-test", "lit/t.mlir")
    text = (here / "lit/t.mlir").read_text()
    first = text.splitlines()[0]
    assert first == "// RUN: mlc-opt %s -p graph-merge --validate-each --load=%S/../wrong.py"
    words = first.removeprefix("// RUN: mlc-opt ").replace("%S", str(here / "lit")).replace("%s", "t.mlir").split()
    assert opt(*words, cwd=here / "lit") != 0
    wrong = here / "wrong.py"
    wrong.write_text(wrong.read_text().replace("min=op.min", "min=max(op.min, 0.0)"))
    assert opt(*words, cwd=here / "lit") == 0


def test_passes_that_are_inserted_are_among_those_bisected(here: Path, capsys: pytest.CaptureFixture[str]):
    words = ("--load", "wrong.py", "--insert", "before graph-fuse-ops=graph-merge", "--no-reduce")
    assert mlc("bisect", "clips.mlir", "-O2", *words) == 2
    assert "pass      graph-merge, number" in capsys.readouterr().out


def test_right_models_are_right(here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("bisect", "clips.mlir", "-O2", "--threads", 1) == 0
    assert capsys.readouterr().out.endswith("each function before and after each: nothing is wrong\n")


def test_a_program_is_run_as_a_whole_at_last(here: Path, monkeypatch, capsys):
    """A bug behind the last pass, such as one of the runtime, has no pass to blame."""
    from mlc.runtime import executable

    original = executable.Executable.__call__
    monkeypatch.setattr(
        executable.Executable,
        "__call__",
        lambda self, *args, **kwargs: {n: a + 1 for n, a in original(self, *args, **kwargs).items()},
    )
    assert mlc("bisect", "clips.mlir", "-O1", "--threads", 1) == 2
    assert "but the compiled program is: output 0 at [0, 0]" in capsys.readouterr().out


def test_given_inputs_are_used(here: Path, capsys: pytest.CaptureFixture[str]):
    """The bug shows only where an input is negative."""
    for name, sign in (("good", -1), ("bad", 1)):
        np.save(here / f"{name}.npy", np.full((8, 16), sign, np.float32))
    words = ("bisect", "clips.mlir", "-p", "graph-merge", "--load", "wrong.py", "--no-reduce")
    assert mlc(*words, "--input", "input0=good.npy") == 0
    assert mlc(*words, "--input", "x=bad.npy") == 2
    assert "clip_of_relu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "y=x.npy"], "expected an input among input0, but got 'y'"),
        (
            ["--input", "x=wrong.npy"],
            "expected input 'input0' of shape (8, 16) and dtype float32, but got (3,) float32",
        ),
        (["-p", "graph-nothing"], "unknown pass 'graph-nothing'"),
        (["--reference", "onnxruntime"], "expected an .onnx file for --reference onnxruntime, but got 'clips.mlir'"),
        (["--schedules", "."], "expected no --schedules: mlc bisect runs with the schedules of the strategies"),
        (["-p", "graph-fuse-ops", "--disable", "graph-fuse-ops"], "expected either -p or options that change"),
        (["--seconds", "x"], "argument --seconds: invalid float value: 'x'"),
    ],
)
def test_wrong_arguments(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str):
    np.save(here / "x.npy", np.zeros((8, 16), np.float32))
    np.save(here / "wrong.npy", np.zeros(3, np.float32))
    assert mlc("bisect", "clips.mlir", *words) == 1
    assert message in capsys.readouterr().err


@pytest.fixture
def onnx_path(here: Path) -> Path:
    """Softmax(relu(x @ w)) + y."""
    w = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "first_matmul"),
        helper.make_node("Relu", ["m"], ["r"], "the_relu"),
        helper.make_node("Softmax", ["r"], ["s"], "the_softmax", axis=1),
        helper.make_node("Add", ["s", "y"], ["z"], "last_add"),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 6]), ("y", [4, 5]))]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, [4, 5])
    weights = [helper.make_tensor("w", TensorProto.FLOAT, w.shape, w.tobytes(), raw=True)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", infos, [output], weights), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 10
    onnx.save(model, here / "m.onnx")
    return here / "m.onnx"


@pytest.mark.parametrize("reference", ["interpreter", "onnxruntime", "outputs"])
def test_the_node_of_an_onnx_model_is_named(onnx_path: Path, capsys: pytest.CaptureFixture[str], reference: str):
    if reference == "onnxruntime":
        pytest.importorskip("onnxruntime")
    words = ("-p", "graph-canonicalize,graph-drop,graph-fuse-ops", "--load", "wrong.py", "--reference", reference)
    assert mlc("bisect", onnx_path, *words) == 2
    out = capsys.readouterr().out
    assert "pass      graph-drop, number 2 of 3, which is your own" in out
    assert "op        graph.softmax, from node 'the_softmax'" in out
    assert "reduced   to 1 operation" in out


def test_a_node_that_is_imported_wrongly_is_named(onnx_path: Path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(graph.ReluOp, "evaluate", lambda self, np, x: (x,))
    assert mlc("bisect", onnx_path, "--reference", "onnxruntime") == 2
    assert "node 'the_relu' as imported does not compute what onnxruntime does" in capsys.readouterr().out


@pytest.mark.parametrize("reference", ["interpreter", "onnxruntime", "outputs"])
@pytest.mark.parametrize("kind", ["NonZero", "NonMaxSuppression"])
def test_outputs_of_a_data_dependent_length_are_compared_as_far_as_they_count(here: Path, capsys, kind, reference):
    if reference == "onnxruntime":
        pytest.importorskip("onnxruntime")
    boxes = {"b": np.ones((1, 6, 4), np.float32), "s": np.ones((1, 2, 6), np.float32)}
    limits = {"m": np.array([3]), "i": np.float32([0.3]), "t": np.float32([0.2])}
    x = {"x": np.ones((3, 4), bool)}  # random ones have both values
    given = (x, {}) if kind == "NonZero" else (boxes, limits)
    onnx.save(onnx_graphs.one_node(kind, *given), here / "m.onnx")
    words = ("--no-reduce", "--reference", reference, "-O1", "--threads", "1")
    assert mlc("bisect", "m.onnx", *words) == 0, capsys.readouterr()
    assert "each function before and after each: nothing is wrong" in capsys.readouterr().out


# --- reduce ----------------------------------------------------------------------------------------------------------


def test_reduce_keeps_what_a_command_looks_for(here: Path, capsys: pytest.CaptureFixture[str]):
    check = "grep -q graph.clip {} && mlc-opt {} > /dev/null"
    check = check.replace("mlc-opt", f"{sys.executable} -m mlc.tools.mlc_opt")
    assert mlc("reduce", "clips.mlir", "--check", check, "--lit-test", "t.mlir") == 0
    out = capsys.readouterr().out
    assert out.startswith("reduced 4 to 1 operations by ")
    text = (here / "clips.reduced.mlir").read_text()
    assert "graph.clip" in text
    assert "tensor<1x1xf32>" in text
    assert (here / "t.mlir").read_text().startswith("// RUN: not sh -c 'grep -q graph.clip %s && ")


def test_reduce_writes_the_weights_that_are_left(here: Path):
    small_model.write(here)
    assert mlc("reduce", small_model.write(here), "--check", "grep -q 'param \"v\"'", "-o", "small.mlir") == 0
    from mlc.support.weights import WeightStore

    assert list(WeightStore.load(here / "small.safetensors")) == ["v"]
    assert mlc("reduce", "small.mlir", "--test", "test -e", "-o", "again.mlir") == 0


def test_reduce_from_a_wrong_pass(here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("reduce", "clips.mlir", "-p", "graph-merge", "--load", "wrong.py") == 0
    assert "graph.relu" in (here / "clips.reduced.mlir").read_text()
    assert mlc("reduce", "clips.mlir", "-p", "graph-canonicalize") == 1
    assert "expected passes that are wrong on clips.mlir, or --check COMMAND" in capsys.readouterr().err


def test_reduce_an_onnx_model_as_onnx(onnx_path: Path, capsys: pytest.CaptureFixture[str]):
    code = "import onnx,sys; m=onnx.load(sys.argv[1]); onnx.checker.check_model(m); "
    code += "sys.exit(not any(n.op_type=='Softmax' for n in m.graph.node))"
    check = f'{sys.executable} -c "{code}"'
    assert mlc("reduce", onnx_path, "--as-onnx", "--check", check, "-o", "s.onnx") == 0
    assert capsys.readouterr().out.startswith("reduced 4 to 1 nodes: s.onnx\n")
    model = onnx.load(onnx_path.parent / "s.onnx")
    assert [node.op_type for node in model.graph.node] == ["Softmax"]
    assert [one.name for one in model.graph.input] == ["r"]
    assert not model.graph.initializer


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clips.mlir", "--check", "false"], "expected the check to hold for the input itself, but it does not"),
        (
            ["clips.mlir", "--check", "nosuchcmd {}"],
            "expected a --check COMMAND that can be run, but got 'nosuchcmd {}': bash: line 1: nosuchcmd: command",
        ),
        (["clips.mlir", "--check", "true", "--as-onnx"], "expected an .onnx file with --as-onnx, but got 'clips.mlir'"),
        (["none.mlir", "--check", "true"], "none.mlir"),
    ],
)
def test_wrong_arguments_of_reduce(here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str):
    assert mlc("reduce", *words) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("check", "line"),
    [
        ("! mlc-opt {} -p x", "// RUN: mlc-opt %s -p x"),
        ("not mlc-opt -p x", "// RUN: mlc-opt -p x %s"),
        ("./bug.sh", "// RUN: not ./bug.sh %s"),
        ("mlc-opt {} 2>&1 | grep bug", "// RUN: not sh -c 'mlc-opt %s 2>&1 | grep bug'"),
    ],
)
def test_the_run_line_of_a_check(check: str, line: str):
    assert check_line(check) == line
