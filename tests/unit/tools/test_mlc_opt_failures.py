"""What mlc-opt says of passes that change results or never end, and that its reproducers reproduce it."""

import re
from pathlib import Path

import numpy as np
import pytest

from mlc.driver.pipeline.registry import USER_DIALECTS, USER_PASSES
from mlc.tools import mlc_opt

PASSES = """
from xdsl.dialects.builtin import UnitAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern
from mlc.dialects.graph import AddOp, MultiplyOp, ReluOp, SubtractOp
from mlc.passes.rewriting import Rules, apply_rules

WRONG, SWAP, CIRCLE = Rules(), Rules(), Rules()


@WRONG.on(SubtractOp)
def swap_subtract(op, rw):
    if op.attributes:
        return None
    value = rw.make(SubtractOp, *(reversed(op.operands) if op.operands[0].name_hint == "w" else op.operands))
    value.owner.attributes["my.seen"] = UnitAttr()
    return value


@SWAP.on(AddOp)
def swap_add(op, rw):
    return rw.make(AddOp, op.operands[1], op.operands[0])


@CIRCLE.on(AddOp)
def to_multiply(op, rw):
    return rw.make(MultiplyOp, *op.operands)


@CIRCLE.on(MultiplyOp)
def to_add(op, rw):
    return rw.make(AddOp, *op.operands)


class SwapAdds(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter):
        rewriter.replace(op, AddOp.make(op.operands[1], op.operands[0]))


class Touch(RewritePattern):
    def match_and_rewrite(self, op, rewriter):
        if isinstance(op, AddOp):
            rewriter.notify_op_modified(op)


def a_pass(name_, apply_):
    class Made(ModulePass):
        name = name_

        def apply(self, ctx, op):
            apply_(op)

    return Made


def drop_relu(op):
    for relu in [one for one in op.walk() if isinstance(one, ReluOp)]:
        relu.results[0].replace_all_uses_with(relu.operands[0])
        relu.detach()
        relu.erase()


Wrong = a_pass("my-wrong", lambda op: apply_rules(op, WRONG))
Drop = a_pass("my-drop", drop_relu)
Swap = a_pass("my-swap", lambda op: apply_rules(op, SWAP))
Circle = a_pass("my-circle", lambda op: apply_rules(op, CIRCLE))
Walker = a_pass("my-walker", lambda op: PatternRewriteWalker(SwapAdds()).rewrite_module(op))
Toucher = a_pass("my-touch", lambda op: PatternRewriteWalker(Touch()).rewrite_module(op))
"""

TEXT = """\
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %v = graph.relu %y : tensor<4xf32>
  %a = graph.subtract %x, %v : tensor<4xf32>
  %w = graph.subtract %v, %a : tensor<4xf32>
  %b = graph.subtract %w, %v : tensor<4xf32> loc("conv7/sub")
  %c = graph.add %b, %x : tensor<4xf32>
  return %c : tensor<4xf32>
}
"""


@pytest.fixture
def opt(tmp_path, capsys, monkeypatch):
    """Run mlc-opt in a folder with mine.py and in.mlir; the exit code and stderr."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(PASSES)
    Path("in.mlir").write_text(TEXT)

    def run(*words):
        USER_PASSES.clear()
        USER_DIALECTS.clear()
        code = mlc_opt.run(["--load=mine.py", *words])
        return code, capsys.readouterr().err

    yield run
    USER_PASSES.clear()


def test_a_wrong_result_names_pass_rewrite_op_values_and_inputs(opt):
    code, err = opt("in.mlir", "-p", "canonicalize,my-wrong,cse", "--validate-each")
    assert code == 1
    first = r"in\.mlir:1:1: error: your pass 'my-wrong' changed @main \(graph, from conv7/sub\): output 0 at \[\d\]: "
    assert re.match(first + r"expected \S+, but got \S+ .*; before the pass it was", err)
    rewrite = "its rewrite 'swap_subtract' did, application 3 of 3, on 'graph.subtract' from \"conv7/sub\""
    assert f"in.mlir:5:8: note: {rewrite}\n  %b = graph.subtract %w, %v" in err
    assert "in.reproducer.npz: note: the inputs of the functions" in err
    assert "note: replay it with: mlc-opt --run-reproducer in.reproducer.mlir --load=mine.py" in err
    with np.load("in.reproducer.npz") as inputs:
        assert sorted(inputs) == ["@main/0", "@main/1"]


def test_the_reproducer_of_a_wrong_result_reproduces_it_on_its_inputs(opt):
    opt("in.mlir", "-p", "canonicalize,my-wrong,cse", "--validate-each")
    text = Path("in.reproducer.mlir").read_text()
    assert "(my-wrong)" in text
    assert "--validate-each --validate-inputs=in.reproducer.npz" in text
    code, err = opt("--run-reproducer", "in.reproducer.mlir")
    assert code == 1
    assert "your pass 'my-wrong' changed @main (graph): output 0" in err
    assert "its rewrite 'swap_subtract' did, application 3 of 3" in err
    with np.load("in.reproducer.npz") as inputs:
        np.savez("in.reproducer.npz", **{name: np.zeros(4, np.float32) for name in inputs})
    assert opt("--run-reproducer", "in.reproducer.mlir") == (0, "")  # 0 - 0 is 0 - 0


def test_a_pass_without_rewrites_names_the_ops_that_it_changed(opt):
    code, err = opt("in.mlir", "-p", "my-drop", "--validate-each")
    assert code == 1
    assert "in.mlir:2:8: note: it changed 'graph.relu'" in err


def test_the_ir_around_a_wrong_pass_is_printed(opt):
    _, err = opt("in.mlir", "-p", "my-wrong", "--validate-each", "--mlir-print-ir-after-failure")
    before, after = err.split("// -----// IR Dump After Made Failed (my-wrong) //----- //")
    assert before.startswith("// -----// IR Dump Before Made (my-wrong) //----- //")
    assert "graph.subtract %w, %v" in before
    assert "graph.subtract %v, %w {my.seen}" in after
    _, err = opt("in.mlir", "-p", "my-wrong", "--validate-each", "--mlir-print-ir-after-change")
    assert "graph.subtract %v, %w {my.seen}" in err.partition("error: ")[0]


def test_a_wrong_pass_of_mlc_is_a_bug_in_mlc(opt, monkeypatch):
    from mlc.dialects.graph import ReluOp

    def drop(self, ctx, op):
        for relu in [one for one in op.walk() if isinstance(one, ReluOp)]:
            relu.results[0].replace_all_uses_with(relu.operands[0])

    monkeypatch.setattr("mlc.passes.graph.precision.fast_math.FastMathPass.apply", drop)
    code, err = opt("in.mlir", "-p", "graph-fast-math", "--validate-each")
    assert code == 2
    assert err.startswith("in.mlir:1:1: error: a bug in mlc: pass 'graph-fast-math' changed @main (graph")
    assert opt("--run-reproducer", "in.reproducer.mlir")[0] == 2


def test_inputs_of_ones_own_are_validated_with(opt):
    np.savez("mine.npz", **{"@main/0": np.ones(4, np.float32), "@main/1": np.full(4, -1, np.float32)})
    code, err = opt("in.mlir", "-p", "my-drop", "--validate-each", "--validate-inputs=mine.npz")
    assert code == 1
    assert "expected 0.0, but got -1.0" in err
    Path("junk.npz").write_bytes(b"junk")
    assert opt("in.mlir", "-p", "my-drop", "--validate-each", "--validate-inputs=junk.npz") == (
        1,
        "mlc-opt: error: junk.npz: expected arrays '@function/0', '@function/1', .. in numpy's .npz format: "
        "This file contains pickled (object) data. If you trust the file you can load it unsafely using the "
        "`allow_pickle=` keyword argument or `pickle.load()`.\n",
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("my-swap", "rewrite 'swap_add' applies to its own result"),
        ("my-circle", "rewrites 'to_multiply', 'to_add' undo each other"),
        ("my-walker", "rewrite 'SwapAdds' applies to its own result"),
        ("my-touch", "rewrite 'Touch' applies to its own result"),
    ],
)
def test_a_rewrite_that_never_ends_is_stopped_and_named(opt, name, what):
    code, err = opt("in.mlir", "-p", name)
    assert code == 1
    start = f"in.mlir:6:8: error: your pass '{name}' does not end: {what}; stopped after 10"
    assert err.startswith(start)
    assert "at 'graph.add' at in.mlir:6:8" in err
