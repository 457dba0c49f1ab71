"""The fast ways to parse, verify and print do what xDSL's own do: the same IR, names, text, errors and places."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from upstream_text import expected, outcome
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from mlc.dialects.lexer import SourceLexer
from mlc.dialects.source import split_source

FILES = sorted(Path("tests/filecheck").rglob("*.mlir"))
FOLDERS = sorted({file.parent.name for file in FILES})
PIECES = [piece.content.strip("\n") for file in FILES for piece in split_source(Input(file.read_text(), file.name))]
SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=True)


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


@pytest.mark.parametrize("folder", FOLDERS)
def test_all_files(folder):
    for file in FILES:
        if file.parent.name == folder:
            for piece in split_source(Input(file.read_text(), file.name)):
                text = thrice(piece.content)
                assert outcome(text) == expected(text), file


def mutated(text, chance):
    """The text with some tokens left out, put in another's place, or written twice; or with a character changed."""
    words = re.findall(r"\s+|[\w.$%@^!#]+|.", text)
    for _ in range(chance.randint(1, 3)):
        at, other = (chance.randrange(len(words)) for _ in range(2))
        new = ["", words[other], words[at] * 2, words[at] + " ", chance.choice('%:,<>(){}"#!^0/\\\n\x00é')]
        words[at] = chance.choice(new)
    return "".join(words)


@settings(SETTINGS, max_examples=60)
@given(st.integers(0, 2**32))
def test_mutated_texts(seed):
    chance = random.Random(seed)
    piece = chance.choice([piece for piece in PIECES if 0 < len(piece) < 3000])
    last = mutated(piece, chance) if chance.random() < 0.5 else ""
    text = mutated(f"{thrice(piece)}builtin.module {{\n{last}\n}}\n", chance)
    assert outcome(text) == expected(text)
