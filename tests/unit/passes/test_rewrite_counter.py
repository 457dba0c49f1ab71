"""Rewrite applications are counted, named, and stopped at the n-th, in passes by rules and by xDSL patterns."""

import pytest

from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.passes.rewrite_counter import RewriteCounter
from mlc.passes.verifier import verify

CLIPS = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.clip %x {min = -1.0, max = 3.0} : tensor<4xf32>
  %1 = graph.clip %0 {min = 0.0, max = 6.0} : tensor<4xf32>
  %2 = graph.neg %1 : tensor<4xf32>
  %3 = graph.neg %2 : tensor<4xf32>
  %4 = graph.abs %3 : tensor<4xf32>
  %5 = graph.abs %4 : tensor<4xf32>
  return %5 : tensor<4xf32>
}"""
CONVOLUTIONS = """func.func @main(%x: tensor<1x32x8x8xf32>) -> tensor<1x32x8x8xf32> {
  %w = graph.param "w" : tensor<32x32x3x3xf32>
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]}
    : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  %1 = graph.relu %0 : tensor<1x32x8x8xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1]}
    : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  return %2 : tensor<1x32x8x8xf32>
}"""
DOUBLED = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = graph.add %x, %x : tensor<4xf32>
  %1 = graph.sqrt %0 : tensor<4xf32>
  %2 = graph.divide %y, %1 : tensor<4xf32>
  %3 = graph.add %y, %y : tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}"""


def counted(text, pipeline, limit=None):
    module, counter = parse_module(text, "a.mlir", make_context()), RewriteCounter(limit)
    with counter.watching():
        run_passes(module, make_context(), parse_pipeline(pipeline))
    verify(module)
    return str(module), counter.applied


@pytest.mark.parametrize(
    ("text", "pipeline"),
    [
        (CLIPS, "graph-canonicalize"),
        (CLIPS, "canonicalize"),
        (CONVOLUTIONS, "graph-alter-op-layout"),
        (CONVOLUTIONS, "graph-convert-layout{desired=conv2d:NHWC:HWIO}"),
        (DOUBLED, "graph-simplify-expr"),
    ],
)
def test_a_pass_stops_at_each_number(text, pipeline):
    final, applied = counted(text, pipeline)
    assert len(applied) >= 2
    assert [one.number for one in applied] == list(range(1, len(applied) + 1))
    texts = []
    for limit in range(len(applied) + 1):
        stopped, some = counted(text, pipeline, limit)
        assert [(one.rule, one.op_text) for one in some] == [(one.rule, one.op_text) for one in applied[:limit]]
        texts.append(stopped)
    assert texts[-1] == final
    assert texts[0] == str(parse_module(text)) != final


def test_an_application_is_named():
    _, applied = counted(CLIPS, "canonicalize")
    assert {(one.rule, one.op_name) for one in applied} >= {("ClipOfClip", "graph.clip"), ("Twice", "graph.neg")}
    assert "loc" not in applied[0].op_text
    assert str(applied[0].location).endswith(")")


def test_without_a_counter_everything_is_rewritten():
    counted(CLIPS, "canonicalize", 0)
    module = parse_module(CLIPS)
    run_passes(module, make_context(), parse_pipeline("canonicalize"))
    assert str(module).count("graph.clip") == 1
