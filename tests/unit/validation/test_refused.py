"""--validate-each on passes after which an interpreter refuses a function that it ran before."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from mlc.dialects.graph.base import OPAQUE, GraphOp
from mlc.dialects.graph.types import Tensor
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.support.weights import WeightStore
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

GRAPH = """
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = graph.param "w" : tensor<4x6xf32>
  %0 = graph.add %x, %w : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""
TE = """
te.func @k(%x: tensor<8xf32>, %at: tensor<8xi64>) -> tensor<8xf32> {
  %y = te.compute "y" (%i : 8) {
    %0 = te.read %at[%i] : i64
    %1 = arith.index_cast %0 : i64 to index
    %2 = te.read %x[%1] : f32
    te.yield %2 : f32
  } : tensor<8xf32>
  te.return %y : tensor<8xf32>
}
"""
LOOP = """
loop.func @k(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 {
    %0 = loop.load %x[%i mod 9] : f32
    loop.store %0, %y[%i] : f32
  }
}
"""
WRONG = {
    # a layout that is changed, but the stored weight is not
    "graph": (GRAPH, GRAPH.replace("4x6", "6x4"), "expected weight 'w' of type tensor<6x4xf32>, but the store has"),
    # the argument has fewer elements than are read
    "te": (TE, TE.replace("%x: tensor<8", "%x: tensor<2"), "te.read of %x at [23] on axis 0, which has 2 elements"),
    "loop": (LOOP, LOOP.replace("%x: memref<8", "%x: memref<7"), r"'loop.load' reads %x\[7\], out of bounds"),
}
"""Level -> a program, what a wrong pass makes of it, and what its interpreter says then."""


class Becomes(ModulePass):
    """A pass that replaces the program."""

    name = "becomes"
    text: str

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made = parse_module(self.text, "<test>", ctx)
        op.detach_region(op.body)
        op.add_region(made.detach_region(made.body))


def validated(*texts: str, ctx: Context | None = None) -> ValidateInstrument:
    """The instrument that watched passes which make of the first text the others."""
    store = WeightStore()
    store.add("w", np.ones((4, 6), np.float32))
    watch = ValidateInstrument(weights=store)
    passes = [Becomes(text) for text in texts[1:]]
    run_passes(parse_module(texts[0], "<test>", ctx), ctx or make_context(), passes, verify=True, instruments=[watch])
    return watch


@pytest.mark.parametrize("level", WRONG)
def test_a_pass_that_changes_types_so_that_a_function_is_refused_is_blamed(level: str) -> None:
    before, after, why = WRONG[level]
    with pytest.raises(ResultChanged, match=rf"^pass 'becomes' changed @\w+ \({level}.*\): it no longer runs, .*{why}"):
        validated(before, after)


@pytest.mark.parametrize("level", ["te", "loop"])
def test_a_pass_that_makes_a_new_function_that_is_refused_is_blamed(level: str) -> None:
    before, after, why = WRONG[level]
    with pytest.raises(ResultChanged, match=rf"^pass 'becomes' changed @new \({level}.*\): it no longer runs: {why}"):
        validated(before, after.replace("@k", "@new"))


def test_a_function_that_was_refused_before_blames_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    bad = LOOP.replace("%x[%i mod 9]", "%x[(%i + 1) mod 9]")
    watch = validated(bad, bad.replace("memref<8xf32>", "memref<8xf64>").replace(": f32", ": f64"), bad)
    assert [line.count("reads %x[8]") for line in watch.unsure] == [1]
    assert capsys.readouterr().err.count("is not validated") == 1


def test_a_change_of_types_that_runs_is_told() -> None:
    watch = validated(TE, TE.replace("8", "9"))
    assert watch.unsure == ["@k (te) after 'becomes', which changed the types of its operands or results"]


class OpaqueOp(GraphOp):
    """An op of one's own without `evaluate`."""

    name = "refused.opaque"
    kind = OPAQUE

    def infer_types(self) -> list[Tensor]:
        return [self.input_types[0]]


def test_an_op_without_a_meaning_blames_no_pass_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    ctx = make_context()
    ctx.load_dialect(Dialect("refused", [OpaqueOp]))
    opaque = GRAPH.replace("graph.add %x, %w :", "refused.opaque %x :")
    watch = validated(GRAPH, opaque, opaque.replace('%w = graph.param "w" : tensor<4x6xf32>', ""), ctx=ctx)
    why = "whose interpreter says: expected class OpaqueOp of refused.opaque to have a method 'evaluate'"
    assert watch.unsure[0] == f"@main (graph), {why}"
    assert capsys.readouterr().err.count("is not validated") == 1


def test_what_becomes_known_again_is_compared_with_its_last_form() -> None:
    """The op without a meaning is replaced by one that computes something else than what stood there before."""
    ctx = make_context()
    ctx.load_dialect(Dialect("refused", [OpaqueOp]))
    opaque = GRAPH.replace("graph.add %x, %w :", "refused.opaque %x :")
    with pytest.raises(ResultChanged, match="pass 'becomes' changed @main"):
        validated(GRAPH, opaque, GRAPH.replace("graph.add", "graph.subtract"), ctx=ctx)


def test_a_form_that_no_interpreter_runs_is_told() -> None:
    """A shape that is open, without a symbol: there are no inputs to run the function on."""
    watch = validated(TE, TE.replace("%x: tensor<8", "%x: tensor<?"))
    assert watch.unsure == ["@k after 'becomes': no interpreter runs its form, te.func"]
