"""Ops of a program's own: their te is held against their types, and IR text may use them."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.ir import Dialect

import mlc
from mlc import te
from mlc.dialects import graph as g
from mlc.dialects.graph.base import OPAQUE, GraphOp, Sample
from mlc.dialects.graph.types import tensor
from mlc.driver.cache import Cache
from mlc.driver.pipeline import pipelines
from mlc.driver.pipeline.manager import make_context
from mlc.driver.pipeline.registry import register_dialect
from mlc.frontends.onnx import register_op
from mlc.lowering.graph_to_te.table import LOWERINGS, lowering
from mlc.support.errors import UserError
from mlc.tools import cli, mlc_opt

PAIR_SUM = """
from xdsl.ir import Dialect

from mlc import te
from mlc.dialects.graph.base import OPAQUE, GraphOp, Sample
from mlc.dialects.graph.types import tensor
from mlc.frontends.onnx import register_op
from mlc.lowering.graph_to_te.table import lowering


class PairSumOp(GraphOp):
    '''`my.pair_sum %x : (tensor<2x8xf32>) -> tensor<2x4xf32>`: x[2i] + x[2i + 1]'''

    name = "my.pair_sum"
    kind = OPAQUE

    def infer_types(self):
        *rows, last = self.shapes[0]
        return [tensor((*rows, {inferred}))]

    def operand_types_from(self, result, count):
        return None

    @classmethod
    def samples(cls):
        return [{samples}]


@lowering(PairSumOp)
def pair_sum(op, x):
    shape = (*x.shape[:-1], x.shape[-1] // 2)
    return te.compute(shape, lambda *i: x[*i[:-1], i[-1] * 2] + x[*i[:-1], i[-1] * 2 + 1], "pair_sum")


MY = Dialect("my", [PairSumOp])
register_op("PairSum", lambda node: node.emit(PairSumOp, node.input(0)), domain="my.ops")
"""
SAMPLE = "Sample((tensor((2, 8)),))"
TEXT = """
func.func @main(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %0 = graph.tanh %x : tensor<3x8xf32>
  %1 = my.pair_sum %0 : (tensor<3x8xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}
"""
X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
PAIR_SUMS = np.tanh(X)[:, ::2] + np.tanh(X)[:, 1::2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(here: Path) -> Path:
    """An op in pair_sum.py, a model of its op in m.mlir, an input in x.npy."""
    (here / "pair_sum.py").write_text(PAIR_SUM.format(inferred="last // 2", samples=SAMPLE))
    (here / "m.mlir").write_text(TEXT)
    np.save("x.npy", X)
    return here


def own_op(inferred, compute, result_count=1, name="my.own"):
    """A new op class whose types are `inferred(operand type)`, with its te."""

    class OwnOp(GraphOp):
        kind = OPAQUE

        def infer_types(self):
            return [inferred(self.input_types[0])] * result_count

    OwnOp.name = name
    lowering(OwnOp)(lambda op, x: compute(x))
    register_op("Own", lambda node: node.emit_all(OwnOp, node.input(0)), domain="my.ops")
    return OwnOp


def onnx_model(shape, outputs=("y",)):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Own", ["a"], list(outputs), name="the_node", domain="my.ops"),
    ]
    graph = helper.make_graph(nodes, "net", [x], [onnx.ValueInfoProto(name=name) for name in outputs])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my.ops", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def refusal(model):
    with pytest.raises(UserError) as caught:
        mlc.compile(model, threads=1)
    return str(caught.value)


def copied(shape):
    """A te of the operand's first elements, of another shape."""
    return lambda x: te.compute(shape(x.shape), lambda *i: x[*(0 for _ in x.shape)] * 2.0, "own")


def test_te_of_another_size_is_refused():
    own_op(lambda t: t, copied(lambda s: (s[0], s[1] + 1000)))
    place, kernel, said = refusal(onnx_model([3, 8])).split(": ", 2)
    assert place == '"the_node"'
    assert re.fullmatch(r"kernel 'my\.own_\w+' \(from 'the_node'\)", kernel)
    assert said == (
        "'my.own' op expected the te of my.own to compute type tensor<3x8xf32>, as its infer_types says, "
        "but it computes tensor<3x1008xf32>"
    )


def test_te_of_another_rank_or_element_type_is_refused():
    own_op(lambda t: t, copied(lambda s: s[:1]))
    assert "tensor<3x8xf32>, as its infer_types says, but it computes tensor<3xf32>" in refusal(onnx_model([3, 8]))
    own_op(lambda t: tensor(t.get_shape(), "uint8"), lambda x: te.compute(x.shape, lambda *i: te.cast(x[i], "int8")))
    assert "tensor<3x8xui8>, as its infer_types says, but it computes tensor<3x8xi8>" in refusal(onnx_model([3, 8]))
    own_op(lambda t: tensor(t.get_shape(), "float16"), lambda x: te.compute(x.shape, lambda *i: x[i] * 2.0))
    assert "tensor<3x8xf16>, as its infer_types says, but it computes tensor<3x8xf32>" in refusal(onnx_model([3, 8]))


def test_te_of_another_number_of_results_is_refused():
    own_op(lambda t: t, copied(lambda s: s), result_count=2)
    assert refusal(onnx_model([3, 8], ["y", "z"])).endswith(
        "to compute 2 results (tensor<3x8xf32>, tensor<3x8xf32>), as its infer_types says, "
        "but it computes 1 result (tensor<3x8xf32>)"
    )
    own_op(lambda t: t, lambda x: None)
    assert "expected the te of my.own to return a te tensor for each result, but got None" in (
        refusal(onnx_model([3, 8]))
    )


@pytest.mark.parametrize(
    ("shape", "found"),
    [
        (lambda s: (s[0], s[1] * 1000), r"the sizes (\w+) and \1 \* 1000 differ at \1 = 1$"),
        (lambda s: (s[0], s[1] // 2 * 2), r"the sizes (\w+) and \(\1 floordiv 2\) \* 2 differ at \1 = 1$"),
        (lambda s: (s[0], s[1] + 1), r"computes tensor<3x\?xf32, #graph.dims<\[\w+ \+ 1\]>>$"),
        (lambda s: (s[0], 8), r"the sizes (\w+) and 8 differ at \1 = 1$"),
        (lambda s: (s[1], s[0]), r"differ at (\w+) = 1$"),
    ],
)
def test_te_of_another_open_size_is_refused(shape, found):
    own_op(lambda t: t, copied(shape))
    assert re.search(found, message := refusal(onnx_model([3, "N"]))), message


def test_open_sizes_may_be_written_in_two_ways():
    own_op(
        lambda t: tensor([-(-t.encoding.data[0] // 2)]), lambda x: te.compute(((x.shape[0] + 1) // 2,), lambda i: x[i])
    )
    exe = mlc.compile(onnx_model(["N"]), threads=1)
    for n in (1, 2, 7, 100):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(exe({"x": x})["y"], x[: -(-n // 2)])


def test_a_built_in_op_is_held_to_its_types(monkeypatch):
    node = helper.make_node("Tanh", ["x"], ["y"], name="squash")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 8])
    graph = helper.make_graph([node], "net", [x], [onnx.ValueInfoProto(name="y")])
    monkeypatch.setitem(LOWERINGS, g.TanhOp, lambda op, x: te.compute((1000,), lambda i: x[0, 0] * 2.0))
    with pytest.raises(
        UserError,
        match=r"\(from 'squash'\): 'graph.tanh' op expected the te of graph\.tanh to compute type tensor<3x8xf32>",
    ):
        mlc.compile(helper.make_model(graph, ir_version=10), threads=1, cache=False)


def test_mlc_opt_refuses_at_the_op(files, capsys):
    (files / "pair_sum.py").write_text(PAIR_SUM.format(inferred="last // 4", samples=""))
    (files / "m.mlir").write_text(TEXT.replace("3x4", "3x2"))
    assert mlc_opt.run(["m.mlir", "--load", "pair_sum.py", "-p", "graph-O3,convert-graph-to-te"]) == 1
    assert (
        "'my.pair_sum' op expected the te of my.pair_sum to compute type tensor<3x2xf32>, as its infer_types says, "
        "but it computes tensor<3x4xf32>" in capsys.readouterr().err
    )


def test_a_sample_is_held_to_its_types_when_the_op_is_registered(files, capsys):
    (files / "pair_sum.py").write_text(PAIR_SUM.format(inferred="last", samples=SAMPLE))
    assert cli.run(["check", "m.mlir", "--load", "pair_sum.py"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("pair_sum.py:")
    assert (
        ": error: sample 0 of my.pair_sum: expected the te of my.pair_sum to compute type tensor<2x8xf32>, "
        "as its infer_types says, but it computes tensor<2x4xf32>\n" in error
    )


def test_a_sample_may_have_open_sizes():
    class OpenOp(GraphOp):
        name = "my.open"

        def infer_types(self):
            return [self.input_types[0]]

        @classmethod
        def samples(cls):
            return [Sample((tensor((g.DimExpr.symbol("N"), 4)),))]

    with pytest.raises(UserError, match=r"sample 0 of my.open: .*; the sizes N and N \* 2 differ at N = 1$"):
        lowering(OpenOp)(lambda op, x: te.compute((x.shape[0] * 2, 4), lambda i, j: x[0, j]))
    assert OpenOp not in LOWERINGS
    assert make_context().get_optional_op("my.open") is None


def test_a_lowering_that_a_sample_refutes_leaves_the_one_before():
    before = LOWERINGS[g.TanhOp]
    with pytest.raises(UserError, match=r"sample \d of graph\.tanh: .*, but it computes tensor<7xf32>"):
        lowering(g.TanhOp)(lambda op, x: te.compute((7,), lambda i: x[*(0 for _ in x.shape)] * 2.0))
    assert LOWERINGS[g.TanhOp] is before


def test_te_may_call_what_its_file_defines_further_down(files):
    text = PAIR_SUM.format(inferred="last // 2", samples=SAMPLE).replace("shape = (", "shape = twice_less(")
    text = text.replace("x.shape[-1] // 2)", "x.shape[-1])")
    (files / "pair_sum.py").write_text(text + "\n\ndef twice_less(*shape):\n    return *shape[:-1], shape[-1] // 2\n")
    words = ["--input", "input0=x.npy", "--output-dir", "out", "--threads", "1"]
    assert cli.run(["run", "m.mlir", "--load", "pair_sum.py", *words]) == 0
    (out,) = (files / "out").glob("*.npy")
    np.testing.assert_allclose(np.load(out), PAIR_SUMS, rtol=1e-5, atol=1e-6)


def test_run_takes_text_with_ops_of_a_loaded_file(files):
    words = ["--input", "input0=x.npy", "--output-dir", "out", "--threads", "1"]
    assert cli.run(["run", "m.mlir", "--load", "pair_sum.py", *words]) == 0
    (out,) = (files / "out").glob("*.npy")
    np.testing.assert_allclose(np.load(out), PAIR_SUMS, rtol=1e-5, atol=1e-6)


def test_compile_takes_text_with_ops_of_a_loaded_file(files):
    assert cli.run(["compile", "m.mlir", "--load", "pair_sum.py", "-o", "saved", "--threads", "1"]) == 0
    (y,) = mlc.load_executable("saved", 1)({"input0": X}).values()
    np.testing.assert_allclose(y, PAIR_SUMS, rtol=1e-5, atol=1e-6)


def test_check_bench_and_inspect_take_text_with_ops_of_a_loaded_file(files, capsys):
    assert cli.run(["check", "m.mlir", "--load", "pair_sum.py"]) == 0
    assert capsys.readouterr().out.startswith("m.mlir: all 2 operations are supported\n")
    assert cli.run(["inspect", "m.mlir", "--load", "pair_sum.py", "--json"]) == 0
    assert "my.pair_sum" in json.loads(capsys.readouterr().out)["nodes"][-1]["kernel"]
    assert cli.run(["bench", "m.mlir", "--load", "pair_sum.py", "--seconds", "0.01", "--threads", "1"]) == 0
    assert "mlc" in capsys.readouterr().out


def test_a_changed_op_of_a_text_is_compiled_again(files, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)  # bytecode of the first version must not be run
    given = ["--input", "input0=x.npy", "--threads", "1"]
    assert cli.run(["run", "m.mlir", "--load", "pair_sum.py", *given]) == 0
    assert Cache.default() is None
    source, saved = files / "pair_sum.py", (files / "pair_sum.py").stat()
    source.write_text(source.read_text().replace("i[-1] * 2] + x", "i[-1] * 2] - x"))
    os.utime(source, ns=(saved.st_atime_ns, saved.st_mtime_ns))  # the same size and the same second
    assert cli.run(["run", "m.mlir", "--load", "pair_sum.py", *given, "--output-dir", "out"]) == 0
    (out,) = (files / "out").glob("*.npy")
    np.testing.assert_allclose(np.load(out), np.tanh(X)[:, ::2] - np.tanh(X)[:, 1::2], rtol=1e-5, atol=1e-6)


def test_text_with_ops_that_nobody_defines_is_refused(files, capsys):
    assert cli.run(["check", "m.mlir"]) == 1
    assert capsys.readouterr().err.startswith("m.mlir:4:8: error: operation 'my.pair_sum' is not registered\n")


def test_a_program_loads_text_with_an_op_that_has_a_te(here):
    own_op(lambda t: t, lambda x: te.compute(x.shape, lambda *i: x[i] * 3.0, "own"))
    Path("m.mlir").write_text(
        "func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {\n  %0 = my.own %x : tensor<3x8xf32>\n"
        "  return %0 : tensor<3x8xf32>\n}\n"
    )
    model = mlc.load("m.mlir")
    (y,) = mlc.compile(model, threads=1)({"input0": X}).values()
    np.testing.assert_array_equal(y, X * np.float32(3))
    model.save("again.mlir")
    assert str(mlc.load("again.mlir").module) == str(model.module)


def test_a_program_loads_text_with_an_op_of_a_registered_dialect(here):
    class MarkOp(GraphOp):
        name = "mine.mark"

        def infer_types(self):
            return [self.input_types[0]]

    Path("m.mlir").write_text(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %0 = mine.mark %x : tensor<8xf32>\n"
        "  return %0 : tensor<8xf32>\n}\n"
    )
    with pytest.raises(UserError, match=r"operation 'mine\.mark' is not registered"):
        mlc.load("m.mlir")
    register_dialect(Dialect("mine", [MarkOp]))
    assert any(isinstance(op, MarkOp) for op in mlc.load("m.mlir").module.walk())


TWICE = """
from dataclasses import dataclass

from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from mlc.dialects.graph import AddOp, GraphOp
from mlc.driver.pipeline.pipelines import PIPELINES


class TwiceOp(GraphOp):
    name = "mine.twice"

    def infer_types(self):
        return [self.input_types[0]]


class AsSum(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TwiceOp, rewriter):
        rewriter.replace(op, AddOp.make(op.operands[0], op.operands[0]))


@dataclass(frozen=True)
class ExpandTwicePass(ModulePass):
    name = "graph-expand-twice"

    def apply(self, ctx, op):
        PatternRewriteWalker(AsSum()).rewrite_module(op)


MINE = Dialect("mine", [TwiceOp])
PIPELINES["graph-O3"] = ["graph-expand-twice", *PIPELINES["graph-O3"]]
"""


def test_run_takes_text_that_a_pass_of_a_loaded_file_expands(files, monkeypatch):
    monkeypatch.setitem(pipelines.PIPELINES, "graph-O3", pipelines.PIPELINES["graph-O3"])
    Path("twice.py").write_text(TWICE)
    Path("twice.mlir").write_text(
        "func.func @main(%x: tensor<3x8xf32>) -> tensor<3x8xf32> {\n  %0 = mine.twice %x : tensor<3x8xf32>\n"
        "  return %0 : tensor<3x8xf32>\n}\n"
    )
    words = ["--input", "input0=x.npy", "--output-dir", "out", "--threads", "1"]
    assert cli.run(["run", "twice.mlir", "--load", "twice.py", *words]) == 0
    (out,) = (files / "out").glob("*.npy")
    np.testing.assert_array_equal(np.load(out), X + X)
