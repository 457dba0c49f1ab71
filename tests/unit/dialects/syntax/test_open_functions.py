"""Functions that differ in names, sizes, numbers and index expressions come out as xDSL makes them, right or wrong."""

import random
import re
from unittest import mock

import pytest
from scripts import script
from upstream_text import expected, outcome
from xdsl.parser import Parser
from xdsl.utils.lexer import Input

from mlc.dialects import graph as g
from mlc.dialects.syntax.input import InputError
from mlc.dialects.syntax.recipes.open_functions import OpenFunctions
from mlc.dialects.syntax.source import parse
from mlc.driver.pipeline.manager import make_context
from mlc.passes.verifier import verify
from mlc.support.limits import limits
from mlc.tools.opt.printing import Printing

LEVELS = script("benchmarks", "opt_speed").LEVELS

WORD = re.compile(r'%[\w#:]+|"[^"]*"|[A-Za-z_.]+|-?[0-9.]+|[^\s\w]')


def functions(level, *sizes):
    return [LEVELS[level](number, n)[0] for number, n in enumerate(sizes)]


def parsed_ops(text):
    """How many ops the parser takes token by token."""
    with mock.patch.object(Parser, "parse_operation", autospec=True, side_effect=Parser.parse_operation) as parsed:
        parse(make_context(), Input(text, "input"))
    return parsed.call_count


@pytest.mark.parametrize("level", LEVELS)
def test_distinct_functions_are_parsed_until_a_recipe_is_known(level):
    assert parsed_ops("".join(functions(level, *range(12, 18)))) == parsed_ops(
        "".join(functions(level, *range(12, 30)))
    )


@pytest.mark.parametrize("level", LEVELS)
def test_distinct_functions_come_out_as_upstream_makes_them(level):
    text = "".join(functions(level, *range(12, 22), 3, 1, 8, 8, 1000003))
    assert outcome(text) == expected(text)
    indented = "builtin.module {\n" + re.sub("^(?=.)", "    ", text, flags=re.MULTILINE) + "}\n"
    assert outcome(indented) == expected(indented)


@pytest.mark.parametrize("level", LEVELS)
def test_a_wrong_function_is_refused_as_upstream_refuses_it(level):
    """One word after the other of the last function is left out, or replaced by another one of it."""
    *right, last = functions(level, *range(12, 18))
    with mock.patch.object(OpenFunctions, "learn", autospec=True, side_effect=OpenFunctions.learn) as learned:
        assert outcome("".join([*right, last]))[0].startswith("builtin.module")
    assert learned.called
    words = [match.span() for match in WORD.finditer(last)]
    chance = random.Random(level)
    for start, end in chance.sample(words, 24):
        other = slice(*chance.choice(words))
        for new in ("", last[other]):
            text = "".join([*right, last[:start] + new + last[end:]])
            assert outcome(text) == expected(text)


STRANGE = [
    ("constant 17.5 : f32", "constant 1.0e+60 : f32"),
    ("constant 17.5 : f32", "constant 17 : f32"),
    ("constant 17.5 : f32", "constant 1.0e : f32"),
    ("%x17[-%i17 + 17]", "%x17[%i17 floordiv 17]"),
    ("%x17[-%i17 + 17]", "%x17[%i17 %b]"),
    ("%x17[-%i17 + 17]", "%x17[%i17, %i17]"),
    ("%x17[-%i17 + 17]", "%x17[%y17]"),
    ("tensor<19xf32>", "tensor<0xf32>"),
    ("tensor<19xf32>", "tensor<99999999999xf32>"),
    ("tensor<19xf32>", "tensor<?xf32>"),
    ("tensor<19xf32>", "tensor<19xxf32>"),
    ("tensor<19xf32>", "tensor<19xfxf32>"),
    ("tensor<19xf32>", "tensor<19xindex>"),
    ("tensor<19xf32>", "tensor<19xf33>"),
    ("tensor<19xf32>", "vector<19xf32>"),
    ("tensor<19xf32>", "tensor<19x1xf32>"),
    ("(%i17 : 17)", "(%i17 : 0)"),
    ("(%i17 : 17)", "(%i17 : -1)"),
    ("(%i17 : 17)", "(%i17 : 18)"),
    ("(%i17 : 17)", "(%x17 : 17)"),
    ('"window17"', '"win%dow"'),
    ('"window17"', '"sum17"'),
    ('"window17"', '""'),
    ('"window17"', r'"\22"'),
    ("%e = ", "%e17_2 = "),
    ("%e = ", "%5 = "),
    ("%e = ", "%d17 = "),
    ("%e = ", "%e:2 = "),
    ("%a17, %c", "%c, %c"),
    ("    te.yield %e", "    // %e : 5)\n    te.yield %e"),
    ("    te.yield %e", "    te.yield  %e"),
]


@pytest.mark.parametrize(("old", "new"), STRANGE)
def test_strange_parts(old, new):
    *right, last = functions("te", *range(12, 18))
    assert old in last
    text = "".join([*right, last.replace(old, new)])
    assert outcome(text) == expected(text)


def test_names_in_strings_and_comments_are_not_open():
    body = '// %x{0}\n  "test.op"() {{a = "%x{0}"}} : () -> ()\n  return %x : f32'
    function = f"func.func @f{{0}}(%x: f32) -> f32 {{{{\n  {body}\n}}}}\n"
    text = "".join(function.format(number) for number in range(8))
    assert outcome(text) == expected(text)


def test_the_limit_of_ops_counts_those_of_open_functions():
    text = "".join(functions("te", *range(12, 30)))
    for most in (14 * 18, 14 * 18 + 1):
        with mock.patch.object(limits, "ops", most):
            assert outcome(text) == expected(text)


class NamedOp(g.ReluOp):
    """An op whose text, and whose parser, read the name of its operand."""

    name = "graph.named"

    def print(self, printer):
        printer.print_string(f" {self.operands[0].name_hint}")
        super().print(printer)

    @classmethod
    def parse(cls, parser):
        name = parser.parse_identifier()
        op = super().parse(parser)
        if name != op.operands[0].name_hint:
            parser.raise_error("expected the name of the operand")
        return op


def test_names_that_an_op_reads_are_not_open():
    context = make_context()
    context.load_op(NamedOp)
    function = "func.func @f{0}(%x{0}: tensor<{1}xf32>) -> tensor<{1}xf32> {{\n"
    function += "  %y = graph.named x{0} %x{0} : tensor<{1}xf32>\n  return %y : tensor<{1}xf32>\n}}\n"
    text = "".join(function.format(number, number + 4) for number in range(8))
    module = parse(context, Input(text, "input"))[0]
    verify(module)
    assert Printing().text(module).count("graph.named") == 8
    for number in range(8):
        assert f"graph.named x{number} %x{number} :" in Printing().text(module)
    wrong = text.replace("graph.named x7", "graph.named x6")
    with pytest.raises(InputError, match="expected the name of the operand"):
        parse(context, Input(wrong, "input"))
