"""Functions that repeat are parsed, verified and printed once, and come out as xDSL makes them."""

import io
import re
from unittest import mock

import pytest
from upstream_text import expected, outcome
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.lexer import Input

from mlc.dialects import te
from mlc.dialects.syntax.source import parse, parse_module
from mlc.driver.pipeline.manager import make_context
from mlc.passes.verifier import InvalidIR, verify
from mlc.support.diagnostics import place_of_op
from mlc.support.limits import limits
from mlc.tools.opt.printing import Printing

KERNEL = """te.func @{name}(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %y = te.compute "double" (%i : {size}) {{
    %a = te.read %x[%i] : f32
    %b = arith.addf %a, {value} : f32
    te.yield %b : f32
  }} : tensor<{size}xf32>
  te.return %y : tensor<{size}xf32>
}}"""


def kernels(*names, size=4, value="%a"):
    return "\n".join(KERNEL.format(name=name, size=size, value=value) for name in names)


def test_a_function_is_parsed_until_a_copy_of_it_is_known_to_be_the_same():
    with mock.patch.object(Parser, "parse_operation", autospec=True, side_effect=Parser.parse_operation) as parsed:
        parse_module(kernels(*(f"f{n}" for n in range(5))))
        few = parsed.call_count
        parsed.reset_mock()
        parse_module(kernels(*(f"f{n}" for n in range(20))))
        assert parsed.call_count == few


@pytest.mark.parametrize(
    "text",
    [
        kernels("a", "b", "c", "d"),
        kernels("a", "b", "c", "d") + "\n" + kernels("e", "f", "g", size=5) + "\n" + kernels("h"),
        kernels("a", "b", "c", "a"),  # the symbol is defined twice
        kernels("a", "b", "c", "d", value="%c"),
        "%c = arith.constant 1.0 : f32\n" + kernels("a", "b", "c", "d", value="%c"),
        kernels("a", "b", "c") + "\n%c = arith.constant 1.0 : f32\n" + kernels("d", value="%c"),
        kernels("a", "b", "c", "d") + ' loc("here")',
        kernels("a", "b", "c", "d") + " attributes",
        kernels("a", "b", "c", "d").replace("addf", "addi"),
        "\n".join(f"func.func @{n}() {{\n  func.call @f() : () -> ()\n  func.return\n}}" for n in "abcfg"),
        "\n".join(f"func.func @{n}(%x: f32) {{\n  %y = arith.addf %x, %z : f32\n  func.return\n}}" for n in "abcd"),
    ],
    ids=range(11),
)
def test_functions_of_one_text(text):
    for indented in (text, "builtin.module {\n" + re.sub("^", "  ", text, flags=re.MULTILINE) + "\n}"):
        assert outcome(indented) == expected(indented)


def test_a_copied_function_has_its_own_places():
    text = kernels("a", "b", "c") + "\n\n" + kernels("d")
    module, parser = parse(make_context(), Input(text, "k.mlir"))
    *_, last = module.walk()
    stage = module.body.block.last_op.stages[0]
    assert (str(place_of_op(stage, parser.place(0), parser.positions)), last.name) == ("k.mlir:27:8", "te.return")


def test_the_limit_of_ops_counts_those_of_copied_functions():
    text = kernels(*(f"f{n}" for n in range(9)))
    with mock.patch.object(limits, "ops", 52):
        assert outcome(text) == expected(text)
        assert "expected at most 52 operations" in outcome(text)[1]


def test_a_function_is_verified_and_printed_once_for_all_of_its_form():
    counts = []
    for number in (5, 20):
        module = parse_module(kernels(*(f"f{n}" for n in range(number))))
        with (
            mock.patch.object(te.ReadOp, "verify_around", autospec=True, side_effect=te.ReadOp.verify_around) as read,
            mock.patch.object(te.ComputeOp, "write", autospec=True, side_effect=te.ComputeOp.write) as written,
        ):
            verify(module)
            text = Printing().text(module)
        counts.append((read.call_count, written.call_count))
        assert text == expected_text(module)
    assert counts[0] == counts[1]


def expected_text(module):
    stream = io.StringIO()
    Printer(stream=stream).print_op(module)
    return stream.getvalue()


def test_a_changed_function_is_verified_again():
    module = parse_module(kernels(*(f"f{n}" for n in range(5))))
    verify(module)
    stage = module.body.block.last_op.stages[0]
    stage.properties["extents"] = te.ComputeOp.make("s", [5], [], None, [], Region(Block())).extents
    with pytest.raises(InvalidIR, match="expected a"):
        verify(module)
    assert Printing().text(module) == expected_text(module)
