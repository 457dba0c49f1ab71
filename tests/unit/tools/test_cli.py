"""The command `mlc`: what it writes, prints and returns."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import small_model
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.parser import Parser

import mlc as public
from mlc.driver.pipeline.manager import make_context
from mlc.passes.verifier import verify
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.tools import cli, mlc_opt


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.write(tmp_path_factory.mktemp("model"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mlc(*words: object) -> int:
    return cli.run([str(word) for word in words])


def save_inputs(directory: Path) -> list[str]:
    words: list[str] = []
    for name, array in small_model.inputs().items():
        np.save(directory / f"{name}.npy", array)
        words += ["--input", f"{name}={directory / name}.npy"]
    return words


def test_run_writes_the_outputs(path: Path, here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("run", path, *save_inputs(here), "--output-dir", "out", "--threads", 1) == 0
    wanted = small_model.expected(small_model.inputs())
    for name, array in wanted.items():
        np.testing.assert_allclose(np.load(here / "out" / f"{name}.npy"), array, rtol=1e-5, atol=1e-5)
    assert capsys.readouterr().out.startswith("hidden: 4x32 float32, 0 to ")


def test_a_model_whose_data_decides_shapes_is_one_of_the_vm(here: Path, capsys: pytest.CaptureFixture[str]):
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("s", TensorProto.INT64, ["n"]),
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "m.onnx")
    np.save("x.npy", np.arange(6, dtype=np.float32))
    np.save("s.npy", np.array([2, 3]))
    assert mlc("compile", "m.onnx", "-o", "saved", "-O1") == 0
    out, err = capsys.readouterr()
    assert out == "m.onnx: a program of the vm, which compiles what the data decides when it is called\nwrote saved\n"
    assert err.startswith(
        "warning: the vm runs the model, since AOT code of it cannot be made: m.onnx: input 'x' has no"
    )
    assert mlc("run", "saved", "--input", "x=x.npy", "--input", "s=s.npy") == 0
    assert capsys.readouterr().out == "y: 2x3 float32, 0 to 5\n"
    assert mlc("inspect", "--vm", "saved") == 0
    assert "open function 0 'main'" in capsys.readouterr().out
    for words, message in (
        (("compile", "m.onnx", "-o", "m.so"), "expected -o to be a directory for a model of the vm, but got 'm.so'"),
        (("run", "m.onnx", "--executor", "aot", "--random"), "has no shape; pass shapes="),
        (("run", "m.onnx", "--random"), "expected the shape of input 'x' for random values; give it with --at x=1,2,3"),
        (("run", "saved", "--executor", "aot"), "expected --executor vm for saved, a program of the vm, but got aot"),
        (("inspect", "--vm", "--json", "saved"), "expected --vm alone, but got --json"),
    ):
        assert mlc(*words) == 1
        assert message in capsys.readouterr().err


def test_random_sequences_are_of_tensors_alike(here: Path, capsys: pytest.CaptureFixture[str]):
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    nodes = [helper.make_node("SequenceAt", ["s", "k"], ["y"])]
    last = [helper.make_tensor("k", TensorProto.INT64, [], [-1])]
    graph = helper.make_graph(nodes, "g", [helper.make_value_info("s", type_)], [onnx.ValueInfoProto(name="y")], last)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "m.onnx")
    assert mlc("run", "m.onnx", "--random", "--at", "s=1,2,3") == 0
    assert capsys.readouterr().out.startswith("y: 1x2x3 float32, ")
    assert mlc("run", "m.onnx", "--random") == 1
    assert "expected the shape of the tensors of input 's' for random values; give it with" in capsys.readouterr().err


def test_the_size_of_a_file_in_the_cache_is_checked(here: Path, capsys: pytest.CaptureFixture[str]):
    t = "tensor<4xf32>"
    text = f"func.func @main(%x: {t}) -> {t} {{\n  %0 = graph.relu %x : {t}\n  return %0 : {t}\n}}\n"
    (here / "m.mlir").write_text(text)
    assert mlc("compile", "m.mlir") == 0
    assert mlc("compile", "m.mlir", "--max-input-bytes", 10) == 1
    assert "m.mlir: expected a file of at most 10 bytes, but got " in capsys.readouterr().err


def test_a_saved_directory_runs(path: Path, here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("compile", path, "-o", "saved") == 0
    assert "wrote saved" in capsys.readouterr().out
    assert mlc("run", "saved", "--random", "--profile") == 0
    assert "GFLOP/s" in capsys.readouterr().out
    for words in ("--shape x=1x8", "--precision bf16", "--target x86-64-v2", "-O 1", "--memory-planner tokens"):
        assert mlc("run", "saved", "--random", *words.split()) == 1
        said = f"expected a model file to compile with {words.split()[0]}, but got the directory saved; a saved model"
        assert said in capsys.readouterr().err
    assert mlc("run", "saved", "--random", "--executor", "steps") == 0


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_compile_writes_libraries(path: Path, here: Path, capsys: pytest.CaptureFixture[str], suffix: str):
    assert mlc("compile", path, "-o", f"net{suffix}") == 0
    assert (here / f"net{suffix}").stat().st_size > 1000
    assert "mlc_net_run" in (here / "net.h").read_text()
    assert "kernels, compiled in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("level", "pieces"),
    [
        ("graph", ["func.func @main", "graph.call @", "graph.dense"]),
        ("te", ["runtime.call @", "te.compute", "sched.schedule @"]),
        ("loop", ["loop.func @", "loop.for", "vector<"]),
        ("llvm", ["llvm.func @mlc_main", "llvm.getelementptr"]),
        ("llvm-ir", ["define i32 @mlc_main(", "target triple"]),
        ("asm", ["mlc_main:", "ret"]),
    ],
)
def test_every_level_can_be_read(path: Path, capsys: pytest.CaptureFixture[str], level: str, pieces: list[str]):
    assert mlc("compile", path, "--emit", level, "--threads", 1) == 0
    text = capsys.readouterr().out
    assert all(piece in text for piece in pieces)


def test_the_text_of_a_level_parses_again(path: Path, here: Path):
    for level in ("graph", "te", "loop", "llvm"):
        assert mlc("compile", path, "--emit", level, "-o", "m.mlir") == 0
        module = Parser(make_context(), (here / "m.mlir").read_text()).parse_module()
        verify(module)


def test_another_machines_text(path: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("compile", path, "--emit", "asm", "--target", "aarch64", "--threads", 1) == 0
    assert "fmla" in capsys.readouterr().out


def test_timing_lists_passes(path: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("compile", path, "--timing", "--no-cache") == 0
    out = capsys.readouterr().out
    assert "graph-fuse-ops" in out
    assert "convert-loop-to-llvm (all workers)" in out


def test_bench_prints_and_writes_figures(path: Path, here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("bench", path, "--seconds", 0.02, "--threads", 1, "--json", "f.json") == 0
    figures = json.loads((here / "f.json").read_text())["latency_ms"]["mlc"]
    assert 0 < figures["min"] <= figures["q1"] <= figures["median"] <= figures["q3"]
    assert "median" in capsys.readouterr().out


def dense_onnx(path: Path, op: str = "Relu") -> Path:
    w = helper.make_tensor("w", TensorProto.FLOAT, [8, 4], np.arange(32, dtype=np.float32))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="fc"),
        helper.make_node(op, ["h"], ["y"], name="act", domain="" if op == "Relu" else "com.example"),
        helper.make_node("NoSuchOp", ["y"], ["z"], name="last", domain="com.example"),
    ][: 2 if op == "Relu" else 3]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    out = helper.make_tensor_value_info("y" if op == "Relu" else "z", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [x], [out], [w])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=10), path)
    return path


def test_bench_beside_onnxruntime(here: Path, capsys: pytest.CaptureFixture[str]):
    model = dense_onnx(here / "m.onnx")
    words = ("--seconds", 0.02, "--threads", 1, "--json", "f.json", "--compare", "onnxruntime")
    assert mlc("bench", model, "--shape", "x=3x8", *words) == 0
    record = json.loads((here / "f.json").read_text())
    assert set(record["latency_ms"]) == {"mlc", "onnxruntime"}
    assert record["max_error"] < 1e-6


def test_what_onnxruntime_refuses(here: Path, capsys: pytest.CaptureFixture[str]):
    model = onnx.load(dense_onnx(here / "m.onnx"))
    model.ir_version = 14
    onnx.save(model, here / "new.onnx")
    if mlc("bench", "new.onnx", "--shape", "x=3x8", "--seconds", 0.01, "--compare", "onnxruntime"):
        assert "mlc: error: onnxruntime refuses the model" in capsys.readouterr().err


def test_check_accepts_what_is_supported(here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("check", dense_onnx(here / "m.onnx"), "--shape", "x=3x8") == 0
    assert "operations are supported" in capsys.readouterr().out


def test_check_lists_every_unsupported_op(here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("check", dense_onnx(here / "m.onnx", "OtherOp"), "--shape", "x=3x8") == 1
    out = capsys.readouterr().out
    assert "m.onnx: 2 problems" in out
    assert "act" in out
    assert "OtherOp" in out
    assert "last" in out


def test_inspect_shows_levels_and_memory(path: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("inspect", path, "--threads", 1) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("operations by level", "intermediates, planned", "MFLOP a call"))
    assert mlc("inspect", path, "--threads", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out)["nodes"]


def test_version_and_help(capsys: pytest.CaptureFixture[str]):
    assert mlc("--version") == 0
    assert mlc() == 0
    out = capsys.readouterr().out
    assert out.startswith("mlc 0.")
    assert all(command in out for command in cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nowhere.onnx"], "nowhere.onnx: No such file or directory"),
        (["run", "MODEL"], "input 'x' is missing; give it with --input NAME=FILE.npy"),
        (["run", "MODEL", "--input", "x"], "expected --input NAME=FILE.npy, but got 'x'"),
        (["run", "MODEL", "--input", "x=gone.npy"], "gone.npy: No such file"),
        (["run", "MODEL", "--input", "x=MODEL"], "expected an array in numpy's .npy format"),
        (["compile", "MODEL", "-o", "x.dll"], "expected -o to end in .so, .a, .o, .h"),
        (["compile", "MODEL", "--emit", "so"], "expected -o PATH to write --emit so to"),
        (["compile", "MODEL", "--emit", "so", "-o", "x.a"], "expected -o to end in .so for --emit so"),
        (["compile", "MODEL", "-o", "no/where.so"], "no: no such directory"),
        (["compile", "MODEL", "--emit", "loops"], "invalid choice: 'loops'"),
        (["run", "MODEL", "--input", "x=junk.txt"], "expected an array in numpy's .npy format, but"),
        (["run", "MODEL", "--input", "x=empty.npy"], "empty.npy: expected an array in numpy's .npy format, but"),
        (["run", "MODEL", "--input", "x=pairs.npz"], "pairs.npz: expected an array in numpy's .npy format, but"),
        (["run", "MODEL", "--input", "x=objects.npy"], "objects.npy: expected an array in numpy's .npy format, but"),
        (["compile", "MODEL", "-o", "/proc/x.so"], "error: /proc/x.so: "),
        (["compile", "MODEL", "-o", "/proc/x"], "error: /proc/x: "),
        (["compile", "MODEL", "-o", "junk.txt/x"], "error: junk.txt: File exists"),
        (["compile", "."], "."),
        (
            ["compile", "MODEL", "--shape", "x=1x8", "--shape", "x=2x8"],
            "expected one --shape for 'x', but got a second",
        ),
        (["bench", "MODEL", "--seconds", "-1"], "expected seconds above 0 and up to 3600, but got '-1'"),
        (["bench", "MODEL", "--seconds", "nan"], "expected seconds above 0 and up to 3600, but got 'nan'"),
        (["compile", "MODEL", "--shape", "x"], "expected --shape NAME=1x3x48x320, but got 'x'"),
        (["compile", "MODEL", "--target", "vax"], "expected target to be one of"),
        (["compile", "MODEL", "--threads", "0"], "expected threads to be 1 to 256"),
        (["compile", "junk.mlir"], "junk.mlir"),
        (["compile", "junk.onnx"], "junk.onnx"),
        (["compile", "junk.txt"], "expected a file that ends in .onnx, .mlir or .pt2"),
        (["check", "junk.onnx"], "junk.onnx"),
        (["check", "MODEL", "--load", "gone.py"], "gone.py: error: cannot load the file: no such file"),
        (
            ["run", "MODEL", "--load", "junk.txt"],
            "junk.txt: error: cannot load the file: expected a Python file",
        ),
        (["bench", "MODEL", "--compare", "onnxruntime"], "expected an .onnx file for --compare"),
        (["bench", "gone.onnx", "--json", "no/b.json"], "a FILE in a directory that exists, but got 'no/b.json'"),
        (["bench", "gone.onnx", "--trace", "/proc"], "expected a FILE that can be written, but got '/proc'"),
        (["tune", "gone.onnx", "--records", "r.db", "--plot", "no/p.svg"], "a FILE in a directory that exists, but"),
        (["run", "gone.onnx", "--output-dir", "junk.txt/out"], "junk.txt/out: Not a directory"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["compile"], "the following arguments are required: model"),
    ],
)
def test_wrong_input_is_one_diagnostic(
    path: Path, here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
):
    for name in ("junk.mlir", "junk.onnx", "junk.txt"):
        (here / name).write_bytes(b"\x08\xff junk \x00\xfe")
    (here / "empty.npy").touch()
    np.savez(here / "pairs.npz", x=np.zeros(2))
    np.save(here / "objects.npy", np.array([{}], object))
    code = mlc(*(word.replace("MODEL", str(path)) for word in words))
    err = capsys.readouterr().err
    assert code == 1
    assert message in err
    assert err.startswith("mlc: error: ") or err.startswith(message)
    assert "Traceback" not in err
    assert not list(here.glob("mlc.*"))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  %0 = graph.relu %x {a = 1} : T\n", "2:23", "unknown attribute 'a' of graph.relu; it has none"),
        ("  %0 = graph.softmax %x {axis = 3} : T\n", "2:8", "'graph.softmax' op expected axis in"),
        ("  %0 = graph.call @f(%x) : (T) -> T\n", "2:8", "'runtime.call' op expected a function @f in the module, "),
        ("  %0 = arith.addf %x, %x : T\n", "2:8", "'arith.addf' op expected only kernel calls, .* write graph.add"),
    ],
)
def test_an_error_in_text_has_its_place_and_its_operation(
    here: Path, capsys: pytest.CaptureFixture[str], text: str, line: str, message: str
):
    body = re.sub(r"\bT\b", "tensor<4xf32>", f"func.func @main(%x: T) -> T {{\n{text}  return %0 : T\n}}\n")
    (here / "m.mlir").write_text(body)
    assert mlc("compile", "m.mlir", "--no-cache") == 1
    err = capsys.readouterr().err
    assert re.match(rf"m\.mlir:{line}: error: {message}", err)
    assert err.splitlines()[1:] == [body.splitlines()[1], " " * (int(line[2:]) - 1) + "^"]
    with pytest.raises(UserError, match=rf"^m\.mlir:{line}: {message}"):
        public.compile("m.mlir", cache=False)


def test_an_error_in_a_kernel_has_the_place_of_its_operation():
    kernel = """te.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = te.compute "y" (%i : 4) {
    %1 = te.read %x[%i] : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  te.return %0 : tensor<4xf32>
}
sched.schedule @f {
  %b = sched.block "y" : !sched.block
  %i = sched.loops %b : 1
  sched.bind %i to "blockIdx.x"
}"""
    with pytest.raises(UserError, match=r"2:8: 'loop.for' op is bound to the GPU axis 'blockIdx.x', which a CPU does"):
        public.build(kernel)


def test_a_pass_without_a_name_is_refused_at_its_class(path: Path, here: Path, capsys: pytest.CaptureFixture[str]):
    text = "from xdsl.passes import ModulePass\n\n\nclass SwapReluPass(ModulePass):\n    pass\n"
    (here / "mine.py").write_text(text + "    def apply(self, ctx, op):\n        pass\n")
    assert mlc("check", path, "--load", "mine.py") == 1
    message = 'expected a pass to have a name for pipelines, but class SwapReluPass has none; add name = "swap-relu"'
    assert capsys.readouterr().err.startswith(f"mine.py:4:1: error: {message}\nclass SwapReluPass")


def test_a_pass_of_mlc_that_changes_a_result_writes_what_replays_it(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def wrong(_self: object, _ctx: object, op: ModuleOp) -> None:
        for one in op.walk():
            if one.name == "graph.subtract" and "my.seen" not in one.attributes:
                one.operands = one.operands[::-1]
                one.attributes["my.seen"] = UnitAttr()

    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.subtract %x, %y : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    (here / "m.mlir").write_text(text)
    monkeypatch.setattr("mlc.passes.graph.simplify.simplify_expr.SimplifyExprPass.apply", wrong)
    assert mlc("compile", "m.mlir", "-o", "m", "--validate-each") == 2
    err = capsys.readouterr().err
    assert err.startswith("m.mlir:1:1: error: a bug in mlc: pass 'graph-simplify-expr' changed @main (graph): out")
    assert "mlc: note: replay it with: mlc-opt --run-reproducer mlc.reproducer.mlir" in err
    assert mlc_opt.run(["--run-reproducer", "mlc.reproducer.mlir"]) == 2
    assert "a bug in mlc: pass 'graph-simplify-expr' changed @main" in capsys.readouterr().err


def test_a_wrong_value_is_replayed_with_the_weights_that_showed_it(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def wrong(_self: object, _ctx: object, op: ModuleOp) -> None:
        for one in list(op.walk()):
            if one.name == "graph.clip":  # wrong where the sum is above 100, as random weights never make it
                one.results[0].replace_all_uses_with(one.operands[0])
                one.detach()
                one.erase()

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = graph.param "w" : tensor<4xf32>
  %0 = graph.add %x, %w : tensor<4xf32>
  %1 = graph.clip %0 {min = -100.0, max = 100.0} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
    (here / "m.mlir").write_text(text)
    store = WeightStore()
    store.add("w", np.full(4, 200, np.float32))
    store.save(here / "m.safetensors")
    monkeypatch.setattr("mlc.passes.graph.simplify.simplify_expr.SimplifyExprPass.apply", wrong)
    assert mlc("compile", "m.mlir", "-o", "m", "--validate-each") == 2
    changed = "a bug in mlc: pass 'graph-simplify-expr' changed @main (graph): output 0 at [0]: expected 100.0"
    err = capsys.readouterr().err
    assert changed in err
    (here / "m.safetensors").unlink()
    assert mlc_opt.run(["--run-reproducer", "mlc.reproducer.mlir"]) == 2
    replayed = capsys.readouterr().err
    assert err.split("error: ")[1].split(";")[0] == replayed.split("error: ")[1].split(";")[0], "the same values"


def test_a_bug_writes_what_replays_it(
    path: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr("mlc.lowering.loop_to_llvm.convert.ConvertLoopToLLVMPass.apply", broken)
    assert mlc("compile", path, "--no-cache") == 2
    err = capsys.readouterr().err
    assert "a bug in mlc: kernel '" in err
    assert "KeyError: 'oops'" in err
    text = (here / "mlc.reproducer.mlir").read_text()
    assert "// configuration: '--pass-pipeline=builtin.module(convert-graph-to-te" in text
    assert "func.func" in text
    from mlc.tools.mlc_opt import run

    assert run(["--run-reproducer", "mlc.reproducer.mlir"]) == 2


def test_a_bug_elsewhere_keeps_its_traceback(
    path: Path, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("x / 0")

    monkeypatch.setattr("mlc.driver.models.compilation.check_plan", broken)
    assert mlc("compile", path, "--no-cache") == 2
    assert "a bug in mlc: ZeroDivisionError: x / 0" in capsys.readouterr().err
    assert "check_plan" in (here / "mlc.crash.txt").read_text()


def test_run_as_a_module_it_knows_its_own_errors(path: Path, here: Path):
    command = [sys.executable, "-m", "mlc.tools.cli", "run", str(path), "--input", "x"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "mlc: error: expected --input NAME=FILE.npy, but got 'x'\n"


def test_a_closed_pipe_is_no_error(path: Path, here: Path):
    command = f"{sys.executable} -m mlc.tools.cli compile {path} --emit llvm-ir --threads 1 | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=dict(os.environ))
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


NAMED = """\
func.func @main(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>) -> tensor<2x4xf32> {
  %0 = graph.dense %x, %w : (tensor<2x8xf32>, tensor<4x8xf32>) -> tensor<2x4xf32> loc("fc1")
  %1 = graph.relu %0 : tensor<2x4xf32> loc("act1")
  return %1 : tensor<2x4xf32>
}
"""


@pytest.mark.parametrize("level", ["graph", "te", "loop", "llvm"])
def test_source_nodes_are_shown_on_request(here: Path, capsys: pytest.CaptureFixture[str], level: str):
    Path("named.mlir").write_text(NAMED)
    command = ["compile", "named.mlir", "--emit", level, "--threads", 1]
    assert mlc(*command) == 0
    plain = capsys.readouterr().out
    assert mlc(*command, "--mlir-print-source-nodes") == 0
    nodes = capsys.readouterr().out
    assert mlc(*command, "--mlir-print-debuginfo") == 0
    located = capsys.readouterr().out
    assert re.search(r"^ *\}  // nodes: fc1, act1$", nodes, re.MULTILINE), "the kernel's"
    assert re.sub(r"  // nodes?: .*", "", nodes) == plain
    assert '} loc(fused["fc1", "act1"])\n' in located
    assert re.sub(r" loc\((?:\w+\[[^]]*\]|[^()]*)\)", "", located) == plain


def test_source_nodes_are_of_ir_only(path: Path, here: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("compile", path, "--emit", "asm", "--mlir-print-source-nodes") == 1
    message = "expected --emit graph|te|loop|llvm with --mlir-print-source-nodes, but got asm"
    assert message in capsys.readouterr().err
