"""The lexer of IR text: xDSL's tokens, found by one regular expression instead of a walk over the characters."""

import re

from xdsl.utils.lexer import Input, Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

_IDENTIFIER = r"[a-zA-Z_][a-zA-Z0-9_$.]*"
_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
VALUE_NAME = "%(" + _SUFFIX + ")"
"""A value's name in the text, without the % as the pattern's group."""
VALUE_TEXT = "%" + _SUFFIX
"""The same without a group."""

_GROUPS = {
    "PERCENT_IDENT": "%" + _SUFFIX,
    "BARE_IDENT": _IDENTIFIER,
    "": r"[:,()}\[\]<>=+/*?|]|->?|\{(?!-\#)",
    "FLOAT_LIT": r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?",
    "INTEGER_LIT": r"0x[0-9a-fA-F]+|[0-9]+",
    "STRING_LIT": r'"[^"\\\n\v\f]*"',
    "AT_IDENT": "@" + _IDENTIFIER,
    "EXCLAMATION_IDENT": "!" + _SUFFIX,
    "HASH_IDENT": r"\#(?!-\})" + _SUFFIX,
    "CARET_IDENT": r"\^" + _SUFFIX,
}
_TOKEN = re.compile(r"(?:\s+|//[^\n]*\n?)*+(?:" + "|".join(f"({g})" for g in _GROUPS.values()) + ")", re.ASCII)
_KINDS = [None, *(MLIRTokenKind[name] if name else None for name in _GROUPS)]


class SourceToken(Token[MLIRTokenKind, str]):
    """A token that has its text, and makes its span when it is asked for."""

    __slots__ = ("_input", "_start", "_text", "kind")

    def __init__(self, kind: MLIRTokenKind, start: int, text: str, source: Input[str]) -> None:
        self.kind = kind
        self._start = start
        self._text = text
        self._input = source

    @property
    def start(self) -> int:
        """The position of its first character."""
        return self._start

    @property
    def text(self) -> str:
        return self._text

    @property
    def span(self) -> Span[str]:  # pyright: ignore[reportIncompatibleVariableOverride] - made late: it costs a microsecond
        cls = StringLiteral if self.kind is MLIRTokenKind.STRING_LIT else Span
        return make_span(cls, self._start, self._start + len(self._text), self._input)


def make_span(cls: type[Span[str]], start: int, end: int, source: Input[str]) -> Span[str]:
    """A span, four times as fast as its constructor, which sets field by field, as frozen dataclasses do."""
    span = cls.__new__(cls)
    span.__dict__.update(start=start, end=end, input=source)
    return span


class SourceLexer(MLIRLexer):
    """
    xDSL's lexer with one regular expression for the common tokens; all others, and all errors, are xDSL's own.

    Strings have another expression than xDSL's, which takes exponential time on unclosed strings.
    """

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def lex(self) -> MLIRToken:
        source = self.input
        match = _TOKEN.match(source.content, self.pos)
        if match is None:
            return super().lex()
        index = match.lastindex or 0
        text = match[index]
        self.pos = end = match.end()
        return SourceToken(_KINDS[index] or KIND_BY_PUNCTUATION_SPELLING[text], end - len(text), text, source)
