"""Every conversion fails, by one helper, where it leaves an operation of the level that it comes from."""

import pytest

from mlc.dialects.syntax.source import parse_module
from mlc.lowering.complete import expect_converted
from mlc.support.errors import UserError

LEFT = """
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def test_an_operation_that_is_left_is_named():
    (function,) = parse_module(LEFT).body.block.ops
    with pytest.raises(UserError, match=r"'convert-graph-to-te' left 'graph.relu'") as caught:
        expect_converted(function, "convert-graph-to-te", "graph")
    assert caught.value.op is not None
    assert caught.value.op.name == "graph.relu"


def test_other_dialects_may_stay():
    (function,) = parse_module(LEFT).body.block.ops
    expect_converted(function, "convert-te-to-loop", "te")
