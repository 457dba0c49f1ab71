"""`--load`, `--insert`, `--disable`, `--require`, `--config` and the printing of IR: what mlc and mlc-opt share."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mlc.tools import cli, mlc_opt

MODEL = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  %1 = graph.tanh %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
PASS = '''
from dataclasses import dataclass

from mlc.dialects.graph import NegOp, ReluOp
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class DropReluPass(ModulePass):
    """Each relu becomes a negation, `times` times."""

    name = "my-drop-relu"
    times: int = 1

    def apply(self, ctx, op):
        rules = Rules()

        @rules.on(ReluOp)
        def change(op: ReluOp, rw: Rewriter) -> Replacement:
            """`relu(x) -> -x`."""
            value = op.operands[0]
            for _ in range(self.times):
                value = rw.make(NegOp, value)
            return value

        apply_rules(op, rules)


class BreakPass(ModulePass):
    """Takes each relu away from what reads it."""

    name = "my-break"

    def apply(self, ctx, op):
        for relu in [one for one in op.walk() if isinstance(one, ReluOp)]:
            relu.detach()
'''
X = np.array([-2.0, -0.5, 0.5, 2.0], np.float32)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mlc.driver.pipeline.registry.USER_PASSES", {})
    (tmp_path / "net.mlir").write_text(MODEL)
    (tmp_path / "mine.py").write_text(PASS)
    np.save("x.npy", X)
    return tmp_path


def run(*words: str) -> np.ndarray:
    """The output of the model, run with these options."""
    given = ("--input", "input0=x.npy", "--output-dir", "out", "--threads", "1", *words)
    assert cli.run(["run", "net.mlir", *given]) == 0
    return np.load("out/output0.npy")


def test_a_pass_of_a_file_runs_where_it_is_put(here: Path) -> None:
    np.testing.assert_allclose(run(), np.tanh(np.maximum(X, 0)), rtol=1e-5)
    load = ("--load", "mine.py", "--insert")
    np.testing.assert_allclose(run(*load, "before graph-fuse-ops=my-drop-relu"), np.tanh(-X), rtol=1e-5)
    twice = run(*load, "before graph-fuse-ops=my-drop-relu{times=2}")
    np.testing.assert_allclose(twice, np.tanh(X), rtol=1e-5)
    options = ("--insert", "before graph-fuse-ops=my-drop-relu", "--config", "my-drop-relu.times=2")
    np.testing.assert_allclose(run("--load", "mine.py", *options), np.tanh(X), rtol=1e-5)
    np.testing.assert_allclose(
        run(*load, "before graph-fuse-ops=my-drop-relu", "--disable", "my-drop-relu"), run(), rtol=0
    )


def test_every_command_takes_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--load", "mine.py", "--insert", "before graph-fuse-ops=my-drop-relu")
    assert cli.run(["compile", "net.mlir", "--emit", "graph", *options]) == 0
    text = capsys.readouterr().out
    assert "graph.neg" in text
    assert "graph.relu" not in text
    assert cli.run(["bench", "net.mlir", "--seconds", "0.01", "--threads", "1", *options]) == 0
    assert cli.run(["check", "net.mlir", *options]) == 0
    assert cli.run(["inspect", "net.mlir", "--json", *options]) == 0
    assert "neg_tanh" in capsys.readouterr().out
    assert cli.run(["check", "net.mlir", "--load", "mine.py", "--insert", "before graph-fuse-ops=my-break"]) == 1
    assert "pass 'my-break' left invalid IR" in capsys.readouterr().err


def test_passes_are_left_out_and_called_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def kernels(*options: str) -> int:
        assert cli.run(["compile", "net.mlir", "--emit", "graph", *options]) == 0
        return capsys.readouterr().out.count("graph.kernel")

    assert kernels() == 1
    assert kernels("--disable", "graph-fuse-ops") == 2
    assert kernels("-O", "0") == 2
    assert kernels("-O", "0", "--require", "graph-fuse-ops") == 1


def test_mlc_opt_applies_them_to_its_pipeline(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def text(*options: str) -> str:
        assert mlc_opt.run(["net.mlir", "-p", "graph-O3", "--load", "mine.py", *options]) == 0
        return capsys.readouterr().out

    assert "graph.neg" in text("--insert", "before graph-fuse-ops=my-drop-relu")
    assert text("--disable", "graph-fuse-ops").count("graph.kernel") == 2
    assert mlc_opt.run(["net.mlir", "-p", "my-drop-relu", "--load", "mine.py", "--config", "my-drop-relu.times=3"]) == 0
    assert capsys.readouterr().out.count("graph.neg") == 3


def test_ir_is_printed_around_passes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["compile", "net.mlir", "--mlir-print-ir-after", "graph-fuse-ops,loop-form-tiles"]) == 0
    printed = capsys.readouterr().err
    assert "IR Dump After FuseOpsPass (graph-fuse-ops)" in printed
    assert "graph.fused" in printed
    assert "IR Dump After FormTilesPass (loop-form-tiles)" in printed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--insert", "graph-fuse-ops"], "expected --insert 'before PASS=PIPELINE' or 'after PASS=PIPELINE'"),
        (["--insert", "in graph-fuse-ops=my-drop-relu"], "expected --insert 'before PASS=PIPELINE'"),
        (["--insert", "before graph-fuse-op=my-drop-relu"], "did you mean 'graph-fuse-ops'?"),
        (
            ["--insert", "before graph-fuse-ops=my-drop-rel"],
            "--insert 'before graph-fuse-ops=my-drop-rel': unknown pass 'my-drop-rel'; did you mean 'my-drop-relu'?",
        ),
        (["--insert", "before graph-fuse-ops=my-drop-relu{tims=2}"], "unknown option 'tims'"),
        (["--disable", "graph-fuse-op"], "which is no pass; did you mean 'graph-fuse-ops'?"),
        (["--disable", "cse"], "'cse', which does not run here"),
        (["--disable", "graph-simplify"], "is a pipeline; `mlc-opt --show-pipeline=graph-simplify` lists its passes"),
        (["--require", "my-drop-relu"], "but got 'my-drop-relu'"),
        (["--config", "graph-fuse-ops.max-dept=3"], "unknown option 'max-dept' of pass 'graph-fuse-ops'; did you mean"),
        (["--config", "graph-fuse-ops.max-depth=x"], "expected int, but got x"),
        (
            ["--config", "my-drop-relu.times=2"],
            "to name a pass that runs, but got 'my-drop-relu'",
        ),
        (["--config", "graph-fuse-ops"], "expected --config PASS.OPTION=VALUE, but got 'graph-fuse-ops'"),
        (["--mlir-print-ir-after", "graph-fuse-op"], "unknown pass 'graph-fuse-op'; did you mean 'graph-fuse-ops'?"),
    ],
)
def test_what_is_unknown_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    for tool in (cli.run, mlc_opt.run):
        words = ["check", "net.mlir"] if tool is cli.run else ["net.mlir", "-p", "graph-O3"]
        assert tool([*words, "--load", "mine.py", *options]) == 1
        printed = capsys.readouterr()
        assert message in printed.err
        assert printed.err.count("\n") == 1
        assert not printed.out


def test_a_pass_that_the_pipeline_lacks_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {
        "--insert": "before te-inline=my-drop-relu",
        "--disable": "te-inline",
        "--require": "te-inline",
        "--config": "te-add-schedule.threads=2",
    }
    for option in options.items():
        assert mlc_opt.run(["net.mlir", "-p", "graph-O3", "--load", "mine.py", *option]) == 1
        assert f"expected {option[0]} to name a pass that runs, but got 'te-" in capsys.readouterr().err


def test_passes_are_chosen_for_files_only(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["compile", "net.mlir", "-o", "saved"]) == 0
    assert cli.run(["run", "saved", "--random", "--disable", "graph-fuse-ops"]) == 1
    assert "expected a model file to choose the passes for, but got the directory saved" in capsys.readouterr().err


LOG = """
from xdsl.passes import ModulePass

log = open("log.txt", "w")


class LogPass(ModulePass):
    name = "my-log"

    def apply(self, ctx, op):
        log.write("seen")
"""


@pytest.mark.parametrize(
    "command",
    [
        ["mlc.tools.mlc_opt", "-p", "my-log"],
        ["mlc.tools.cli", "compile", "--insert", "before graph-canonicalize=my-log", "--no-cache", "-o", "net.so"],
    ],
    ids=["mlc-opt", "mlc"],
)
def test_a_file_that_a_users_pass_left_open_is_written(command: list[str], here: Path) -> None:
    """The commands skip the collections at the end of their process, but not those of users' objects."""
    (here / "log.py").write_text(LOG)
    subprocess.run([sys.executable, "-m", *command, "--load", "log.py", "net.mlir"], check=True, capture_output=True)
    assert (here / "log.txt").read_text() == "seen"
