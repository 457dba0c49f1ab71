"""
IR text in colour: one tokenizer for the terminal, for HTML and for the language server.

It knows MLIR's lexical syntax and no dialect, and takes any text, a broken one too: what it cannot read is punctuation.
"""

import re
from collections.abc import Callable
from html import escape
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*)
    | (?P<string>"(?:[^"\\\n]|\\.)*"?)
    | (?P<value>%[\w$.-]+(?:\#\d+)?)
    | (?P<symbol>@(?:[\w$.-]+|"(?:[^"\\\n]|\\.)*"))
    | (?P<block>\^[\w$.-]+)
    | (?P<alias>[\#!][A-Za-z_][\w$.-]*)
    | (?P<dims>(?<=<)(?:(?:\d+|\?)x)+)
    | (?P<arrow>->)
    | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
    | (?P<word>[A-Za-z_][\w$.]*)
    | (?P<newline>\n)
    | (?P<space>[^\S\n]+)
    | (?P<other>.)
    """,
    re.VERBOSE,
)
_TYPE = re.compile(r"(?:tensor|memref|vector|tuple|complex|index|none|[su]?i\d+|bf16|tf32|f\d+(?:E\w+)?)\Z")
_ATTRIBUTE = re.compile(r"[^\S\n]*=(?!=)")

ANSI = {
    "comment": "90",
    "string": "32",
    "value": "36",
    "symbol": "33",
    "block": "33",
    "alias": "35",
    "type": "35",
    "number": "32",
    "op": "34",
    "attribute": "2",
}
"""Kind of token -> the parameters of its escape sequence."""
CSS = """\
.mlc-ir { font-family: monospace; white-space: pre; overflow-x: auto; line-height: 1.35; }
.mlc-comment { color: #7a7f87; font-style: italic; }
.mlc-string, .mlc-number { color: #3f8f4f; }
.mlc-value { color: #1787a5; }
.mlc-symbol, .mlc-block { color: #b0741a; }
.mlc-alias, .mlc-type { color: #9a56b8; }
.mlc-op { color: #3d7de0; font-weight: 600; }
.mlc-attribute { color: #8a8f98; }
"""
"""The style sheet of `html`: colours that can be read on a light and on a dark ground."""


class Token(NamedTuple):
    """A piece of IR text. The kinds are those of `ANSI`, and "keyword", "arrow" and "other", which have no colour."""

    kind: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The tokens of a text, in order, without the blanks between them."""
    found: list[Token] = []
    first = results = True  # whether an operation may begin here, and whether only names of its results came so far
    for match in _TOKEN.finditer(text):
        kind, start, end = str(match.lastgroup), match.start(), match.end()
        if kind == "newline":
            first = results = True
        if kind in ("newline", "space"):
            continue
        if kind == "word":
            kind = _kind_of_word(text, match, first)
        elif kind == "string" and first and text.startswith("(", end):
            kind = "op"
        elif kind == "dims":
            kind = "number"
        found.append(Token(kind, start, end))
        spelled = match.group()
        # `{ return }` is a region, `{graph.kernel}` a dictionary
        first = spelled == "}" or (spelled == "{" and text[end : end + 1].isspace()) or (spelled == "=" and results)
        results = first or (results and (kind in ("value", "number") or spelled in ",:"))
    return found


def _kind_of_word(text: str, match: re.Match[str], first: bool) -> str:
    if first and not _ATTRIBUTE.match(text, match.end()):
        return "op"
    if _TYPE.match(match.group()):
        return "type"
    return "attribute" if _ATTRIBUTE.match(text, match.end()) else "keyword"


def ansi(text: str) -> str:
    """The text with escape sequences for a terminal."""
    return _marked(text, lambda kind, piece: f"\x1b[{ANSI[kind]}m{piece}\x1b[0m", lambda piece: piece)


def html(text: str) -> str:
    """The text as HTML: escaped, each token in a `span` of class `mlc-KIND`; `CSS` has their colours."""
    return _marked(text, lambda kind, piece: f'<span class="mlc-{kind}">{escape(piece)}</span>', escape)


def _marked(text: str, mark: Callable[[str, str], str], plain: Callable[[str], str]) -> str:
    parts: list[str] = []
    at = 0
    for token in tokens(text):
        if token.kind in ANSI:
            parts += [plain(text[at : token.start]), mark(token.kind, text[token.start : token.end])]
            at = token.end
    return "".join([*parts, plain(text[at:])])
