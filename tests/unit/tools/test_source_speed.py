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
from mlc.dialects import symbol_lookup
from mlc.dialects.lexer import SourceLexer
from mlc.dialects.printer import SourcePrinter
from mlc.dialects.source import allow_nesting, parse_module, split_source
from mlc.dialects.symbol_lookup import _table as table
from mlc.passes.verifier import InvalidIR, verify
from mlc.support.errors import UserError
from mlc.support.limits import limits
from mlc.tools.opt.printing import Printing

CHAIN = "\n".join(f"  %{i + 1} = graph.relu %{i} : tensor<4xf32>" for i in range(50))
TEXT = f"func.func @main(%0: tensor<4xf32>) {{\n{CHAIN}\n  return\n}}"

FILES = sorted(Path("tests/filecheck").rglob("*.mlir"))
FOLDERS = sorted({file.parent.name for file in FILES})
PIECES = [piece.content.strip("\n") for file in FILES for piece in split_source(Input(file.read_text(), file.name))]
SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)


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
