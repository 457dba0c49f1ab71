"""Source nodes of operations and kernels, and the texts that show them."""

import re

import pytest

from mlc.dialects.syntax.source import parse_module
from mlc.dialects.syntax.source_nodes import ir_text, kernels_of, kernels_text, nodes_location, nodes_text, source_nodes

CALLS = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.call @k(%x) {origins = ["a", "b"]} : (tensor<4xf32>) -> tensor<4xf32> loc("b")
  %1 = graph.call @k(%0) {origins = ["c"]} : (tensor<4xf32>) -> tensor<4xf32> loc("c")
  return %1 : tensor<4xf32>
}
func.func private @k(%a0: tensor<4xf32>) -> tensor<4xf32> attributes {graph.kernel} {
  %0 = graph.relu %a0 : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def op_at(location):
    text = f"func.func @f(%x: tensor<4xf32>) {{\n%0 = graph.relu %x : tensor<4xf32> loc({location})\nreturn\n}}"
    return parse_module(text).body.block.first_op.body.block.first_op


@pytest.mark.parametrize(
    ("location", "nodes"),
    [
        ('"conv1"', ("conv1",)),
        ('fused["a", "b", "a"]', ("a", "b")),
        ('callsite("a" at "b")', ("a", "b")),
        ('"model.py":3:4', ()),
        ("unknown", ()),
        ('fused["a", "model.py":3:4]', ("a",)),
    ],
)
def test_nodes_are_the_names_of_a_location(location, nodes):
    assert source_nodes(op_at(location)) == nodes


def test_a_location_for_nodes():
    assert nodes_location([]) is None
    assert str(nodes_location(["a", "a"])) == 'loc("a")'
    assert str(nodes_location(["a", "b", "a"])) == 'loc(fused["a", "b"])'
    assert nodes_text(tuple("abcdefgh")) == "a, b, c, d, e, f, g, h"
    assert nodes_text(tuple("abcdefghi")) == "a, b, c, d, e, f, g, h and 1 more"


def test_a_kernel_has_the_nodes_of_its_calls():
    module = parse_module(CALLS)
    assert kernels_of(module) == {"k": ("a", "b", "c")}
    assert kernels_text(module) == "// kernel @k, nodes: a, b, c\n"
    assert kernels_text(parse_module("")) == ""


def test_a_header_names_some_of_many_kernels():
    kernel = CALLS[CALLS.index("func.func private") :]
    module = parse_module("".join(kernel.replace("@k", f"@k{n}") for n in range(18)))
    lines = kernels_text(module).splitlines()
    assert lines[0] == "// kernel @k0"
    assert lines[16:] == ["// and 2 more kernels"]


def test_text_with_nodes_reads_back_as_the_same_module():
    module = parse_module(CALLS)
    text = ir_text(module, nodes=True)
    assert re.sub(r"  // nodes?: .*", "", text) == str(module)
    assert [line.partition("  // ")[2] for line in text.splitlines() if "  // " in line] == ["nodes: a, b", "node: c"]
    assert str(parse_module(text)) == str(module)
    located = parse_module(ir_text(module, nodes=True, locations=True))
    assert ir_text(located, locations=True) == ir_text(module, locations=True)
