"""The fast ways to parse, verify and print do what xDSL's own do: the same IR, names, text, errors and places."""

import gc
import random
import re
import sys
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from upstream_text import expected, outcome
from xdsl.dialects.builtin import SymbolRefAttr, UnitAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from mlc.dialects import graph as g
from mlc.dialects import symbol_lookup, te
from mlc.dialects.symbol_lookup import _table as table
from mlc.dialects.syntax.input import allow_nesting, split_source
from mlc.dialects.syntax.lexer import SourceLexer
from mlc.dialects.syntax.printer import SourcePrinter
from mlc.dialects.syntax.source import parse, parse_module
from mlc.driver.pipeline.manager import make_context
from mlc.passes.verifier import InvalidIR, verify
from mlc.support.errors import UserError
from mlc.support.limits import limits
from mlc.tools.opt.printing import Printing

CHAIN = "\n".join(f"  %{i + 1} = graph.relu %{i} : tensor<4xf32>" for i in range(50))
TEXT = f"func.func @main(%0: tensor<4xf32>) {{\n{CHAIN}\n  return\n}}"

FILES = sorted(Path("tests/filecheck").rglob("*.mlir"))
FOLDERS = sorted({file.parent.name for file in FILES})
PIECES = [piece.content.strip("\n") for file in FILES for piece in split_source(Input(file.read_text(), file.name))]
SETTINGS = settings(database=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module", autouse=True)
def _nesting():
    """The recursion limit that parsing needs, which hypothesis would say is changed by a test."""
    before = sys.getrecursionlimit()
    allow_nesting(limits.nesting)
    yield
    sys.setrecursionlimit(before)


def tokens(lexer_class, text):
    lexer, found = lexer_class(Input(text, "input")), []
    try:
        while True:
            token = lexer.lex()
            found.append((token.kind, token.span, type(token.span), token.text, lexer.pos))
            if token.kind is MLIRTokenKind.EOF:
                return found
    except ParseError as error:
        return [*found, (error.msg, error.span)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_tokens_of_all_files(folder):
    for file in FILES:
        if file.parent.name == folder:
            assert tokens(SourceLexer, file.read_text()) == tokens(MLIRLexer, file.read_text())


@settings(SETTINGS, max_examples=300)
@given(st.text('%a0_.-$#!^@"\\\n /(){}<>:=1xe+é²…|,', max_size=16))
def test_tokens_of_random_texts(text):
    assert tokens(SourceLexer, text) == tokens(MLIRLexer, text)


def thrice(text):
    """The text three times: ops are remembered when they come the second time, and made from memory the third."""
    return f"builtin.module {{\n{text}\n}}\n" * 3


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_all_files(file):
    for piece in split_source(Input(file.read_text(), file.name)):
        text = thrice(piece.content)
        assert outcome(text) == expected(text)


def mutated(text, chance):
    """The text with some tokens left out, put in another's place, or written twice; or with a character changed."""
    words = re.findall(r"\s+|[\w.$%@^!#]+|.", text)
    for _ in range(chance.randint(1, 3)):
        at, other = (chance.randrange(len(words)) for _ in range(2))
        new = ["", words[other], words[at] * 2, words[at] + " ", chance.choice('%:,<>(){}"#!^0/\\\n\x00é')]
        words[at] = chance.choice(new)
    return "".join(words)


@settings(SETTINGS, max_examples=40)
@given(st.integers(0, 2**32))
def test_mutated_texts(seed):
    chance = random.Random(seed)
    piece = chance.choice([piece for piece in PIECES if 0 < len(piece) < 3000])
    last = mutated(piece, chance) if chance.random() < 0.5 else ""
    text = mutated(f"{thrice(piece)}builtin.module {{\n{last}\n}}\n", chance)
    assert outcome(text) == expected(text)


def calls(cls, name):
    """Counts the calls of a method."""
    return mock.patch.object(cls, name, autospec=True, side_effect=getattr(cls, name))


def test_an_op_is_parsed_until_it_is_known():
    """The first two of a kind by the parser, the second by a probe as well; the first after a block's arguments too."""
    with calls(Parser, "parse_operation") as parsed:
        module = parse_module(TEXT)
    assert len([*module.walk()]) == 53
    assert parsed.call_count < 12


def test_an_op_is_verified_and_printed_once_for_all_of_its_signature():
    module = parse_module(TEXT)
    with calls(g.ReluOp, "verify_") as verified, calls(g.ReluOp, "print") as printed:
        verify(module)
        Printing().text(module)
    assert verified.call_count < 6
    assert printed.call_count < 8


def test_what_an_op_reads_around_it_is_not_remembered():
    """A verifier that looks at the op before, and a printer that prints the name of another value."""

    class Strange(g.ReluOp):
        name = "graph.strange"

        def verify_(self):
            if self.operands[0].owner is self.prev_op and self.parent_op().attributes:
                raise VerifyException("not here")

        def print(self, printer):
            printer.print_string(f" {self.operands[0].name_hint} of {self.parent_op().sym_name.data}")

    module = parse_module(TEXT + TEXT.replace("main", "other"))
    for op in [*module.walk()]:
        if isinstance(op, g.ReluOp):
            op.__class__ = Strange
            op.operands[0].name_hint = f"n{id(op) % 7}"
    second = module.body.block.last_op
    verify(module)
    with mock.patch.object(SourcePrinter, "print_op", Printer.print_op):
        text = Printing().text(module)
    assert Printing().text(module) == text
    second.attributes["strict"] = UnitAttr()
    with pytest.raises(InvalidIR, match="not here") as error:
        verify(module)
    assert error.value.op.parent_op() is second


def test_names_of_a_region_end_with_it():
    inside = "func.func @f() {\n  %a = graph.full {value = 1.0} : tensor<2xf32>\n  return\n}\n"
    assert len([*parse_module(inside + inside.replace("@f", "@g")).walk()]) == 7
    with pytest.raises(UserError, match="undeclared value %a"):
        parse_module(inside + "func.func @g() -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}")


def test_a_symbol_table_is_walked_once_while_a_module_is_verified():
    call = "  graph.call @main(%0) : (tensor<4xf32>) -> ()\n"
    module = parse_module(TEXT + "func.func @calls(%0: tensor<4xf32>) {\n" + call * 20 + "  return\n}")
    with calls(SymbolTable, "lookup_symbol") as walked, mock.patch.object(symbol_lookup, "_table", wraps=table) as made:
        verify(module)
    assert (walked.call_count, made.call_count) == (0, 1)
    call_op = next(op for op in module.walk() if isinstance(op, g.CallOp))
    with symbol_lookup.unchanged_symbols():
        assert symbol_lookup.lookup_symbol(call_op, call_op.callee) is module.body.block.first_op
        assert symbol_lookup.lookup_symbol(call_op, SymbolRefAttr("none")) is None


def test_garbage_collection_goes_on_after_an_error():
    with pytest.raises(UserError):
        parse_module("func.func")
    assert gc.isenabled()


NUMBERS = ("0.0", "-0.0", "1", "-3", "1.5", "2.5e-3", "1e5", "01", "0x7FC00000", "3.4e+39", "300", "true", "1.", "- 1")
ELEMENTS = ("f32", "f64", "f16", "i8", "i32", "i64", "i1", "ui8", "index")


def dense(chance):
    """A dense literal, mostly right."""
    element, shape = chance.choice(ELEMENTS[:4] * 3 + ELEMENTS), chance.choice([(), (3,), (2, 2), (1, 1, 2), (0,)])
    numbers = NUMBERS[:6] if chance.random() < 0.8 else NUMBERS

    def literal(sizes):
        if not sizes:
            return chance.choice(numbers)
        count = sizes[0] + (chance.random() < 0.03)
        return "[" + ", ".join(literal(sizes[1:]) for _ in range(count)) + "]"

    text = chance.choice(numbers) if chance.random() < 0.2 else literal(shape)
    return f"dense<{text}> : tensor<{''.join(f'{size}x' for size in shape)}{element}>"


@settings(SETTINGS, max_examples=60)
@given(st.integers(0, 2**32))
def test_dense_attributes(seed):
    """Constants of a few types many times, with other elements, as attributes of ops and inside other attributes."""
    chance = random.Random(seed)
    lines = []
    for number in range(chance.randint(3, 14)):
        value = dense(chance)
        op = chance.choice(["graph.constant {}", "arith.constant {}", '"graph.constant"() <{{value = {}}}> : () -> ()'])
        lines.append(f"  %{number} = {op.format(value)}")
    for value in [dense(chance)] * 3:
        lines.append(f'  "test.op"() {{a = [{value}], b = {value}}} : () -> ()')
    text = "func.func @f() {\n" + "\n".join(lines) + "\n  return\n}"
    assert outcome(text) == expected(text)


def test_constants_are_parsed_verified_and_printed_once_for_all_elements():
    lines = "\n".join(f"  %{i} = graph.constant dense<[{i}.0, {i}.5]> : tensor<2xf32>" for i in range(50))
    with calls(Parser, "parse_operation") as parsed, calls(g.ConstantOp, "verify_") as verified:
        module = parse_module(f"func.func @f() {{\n{lines}\n  return\n}}")
        verify(module)
    assert parsed.call_count < 12
    assert [op.array().tolist() for op in module.walk() if isinstance(op, g.ConstantOp)][-1] == [49.0, 49.5]
    with calls(g.ConstantOp, "print") as printed:
        text = Printing().text(module)
    assert "%49 = graph.constant dense<[4.900000e+01, 4.950000e+01]> : tensor<2xf32>" in text
    assert printed.call_count < 8
    assert 0 < verified.call_count < 60


KERNEL = """te.func @f{0}(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %y = te.compute "stage" (%i : {1}) {{
    %v = te.read %x[%i] : f32
    te.yield %v : f32
  }} : tensor<{1}xf32>
  te.return %{2} : tensor<4xf32>
}}
"""


def test_ops_with_regions_are_verified_once_for_all_of_a_signature():
    right = "".join(KERNEL.format(n, 4, "y") for n in range(20))
    counts = []
    for number in (10, 20):
        text = "".join(KERNEL.format(n, 4, "y") for n in range(number))
        with calls(te.ComputeOp, "verify_") as stage, calls(te.FuncOp, "verify_") as function:
            verify(parse(make_context(), Input(text, "input"))[0])
        counts.append((stage.call_count, function.call_count))
    assert counts[0] == counts[1]
    for wrong in (KERNEL.format("w", 5, "x"), KERNEL.format("w", 4, "y").replace("%i : 4", "%i : 3")):
        assert outcome(right + wrong) == expected(right + wrong)
        assert outcome(right + wrong)[0] == "not valid"


def test_a_kernel_that_uses_a_value_around_it_is_refused():
    module = parse(make_context(), Input("".join(KERNEL.format(n, 4, "y") for n in range(3)), "input"))[0]
    first, *_, last = module.body.block.ops
    outside = first.body.block.args[0]
    last.return_op.operands[0] = outside
    with pytest.raises(InvalidIR, match="does not dominate this use"):
        verify(module)
    with pytest.raises(VerifyException, match="IsolatedFromAbove parent"):
        last.verify_()


def test_upstream_calls_look_up_their_callees_in_one_table():
    call = "  %1 = func.call @f(%0) : (f32) -> f32\n"
    body = f"(%0: f32) -> f32 {{\n{call}  return %1 : f32\n}}\n"
    text = "".join(f"func.func @{name}{body}" for name in "fghijk")
    module = parse_module(text)
    with mock.patch.object(symbol_lookup, "_WALK", wraps=symbol_lookup._WALK) as walked:
        verify(module)
    assert walked.call_count == 0
    assert outcome(text.replace("@f(%0) : (f32)", "@none(%0) : (f32)"))[0] == "not valid"
