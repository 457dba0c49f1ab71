"""Where a name is defined, and where it is used: values, symbols, blocks and aliases."""

import re
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import StringAttr

from mlc.support.display.highlight import Token
from mlc.tools.lsp.analysis import Analysis, Definition, ParsedOp

NAMES = ("value", "symbol", "block", "alias")
"""The kinds of tokens that are names."""


def name_of(analysis: Analysis, token: Token) -> str:
    """The name that a token spells, with its `%`, `@`, `^`, `#` or `!`; without the number of `%0#1`."""
    spelled = analysis.spelled(token)
    return re.sub(r"#\d+\Z", "", spelled) if token.kind == "value" else spelled


def definition_of(analysis: Analysis, token: Token) -> Token | None:
    """The token that defines what `token` names; None for what is no name, or is defined nowhere."""
    if token.kind == "value":
        return _value_definition(analysis, token)
    if token.kind not in NAMES:
        return None
    same = _same(analysis, token)
    if token.kind == "symbol":
        return next((one for one in same if symbol_op(analysis, one) is not None or _heads(analysis, one)), None)
    own = [one for one in same if _begins_line(analysis, one)]
    if token.kind == "alias":
        return next((one for one in own if analysis.text[one.end :].lstrip()[:1] == "="), None)
    around = [(span, one) for one in own for span in [_braces(analysis, one)] if span[0] <= token.start < span[1]]
    return max(around, key=lambda pair: pair[0][0], default=(None, None))[1]


def references_of(analysis: Analysis, token: Token) -> list[Token]:
    """Every token that names what `token` names, its definition included, in the order of the text."""
    definition = definition_of(analysis, token)
    if definition is None:
        return []
    if token.kind in ("symbol", "alias"):
        return _same(analysis, token)
    return [one for one in _same(analysis, token) if definition_of(analysis, one) == definition]


def binding_of(analysis: Analysis, token: Token) -> Definition | None:
    """The parsed definition of a value's token."""
    bound = analysis.definitions.get(token.start)
    if bound is not None:
        return bound
    name, piece = name_of(analysis, token), analysis.piece_at(token.start)
    visible = [
        one
        for one in analysis.definitions.values()
        if one.name == name and token.start in one.scope and piece.start <= one.start <= piece.end
    ]
    return max(visible, key=lambda one: one.scope.start, default=None)


def visible_at(analysis: Analysis, offset: int) -> list[Definition]:
    """The values that an operation at an offset may use; of equal names the innermost."""
    found: dict[str, Definition] = {}
    piece = analysis.piece_at(offset)
    around = [d for d in analysis.definitions.values() if offset in d.scope and piece.start <= d.start < offset]
    for definition in sorted(around, key=lambda one: (one.scope.start, one.start)):
        found[definition.name] = definition
    return list(found.values())


def symbol_op(analysis: Analysis, token: Token) -> ParsedOp | None:
    """The operation whose own name a symbol's token is: the first symbol in its text."""
    parsed = analysis.op_at(token.start)
    if parsed is None:
        return None
    name = parsed.op.properties.get("sym_name") or parsed.op.attributes.get("sym_name")
    if not isinstance(name, StringAttr) or analysis.spelled(token).strip('@"') != name.data:
        return None
    first = next(t for t in analysis.tokens_in(parsed.start, parsed.end) if t.kind == "symbol")
    return parsed if first == token else None


def symbols(analysis: Analysis, offset: int) -> list[Token]:
    """The tokens that define the symbols of the piece around an offset."""
    piece = analysis.piece_at(offset)
    inside = [t for t in analysis.tokens_in(piece.start, piece.end) if t.kind == "symbol"]
    return [t for t in inside if symbol_op(analysis, t) is not None or _heads(analysis, t)]


def _value_definition(analysis: Analysis, token: Token) -> Token | None:
    bound = binding_of(analysis, token)
    if bound is not None:
        return analysis.token_at(bound.start)
    same = _same(analysis, token)
    return next((one for one in same if _begins_line(analysis, one)), None)


def _same(analysis: Analysis, token: Token) -> list[Token]:
    """The tokens of the same name in the same piece."""
    name, piece = name_of(analysis, token), analysis.piece_at(token.start)
    return [
        one
        for one in analysis.tokens_in(piece.start, piece.end)
        if one.kind == token.kind and name_of(analysis, one) == name
    ]


def _heads(analysis: Analysis, token: Token) -> bool:
    """Whether a symbol follows the name of an op that did not parse, but defines symbols: `func.func private @f(`."""
    line = analysis.text.rfind("\n", 0, token.start) + 1
    head = re.fullmatch(r"\s*(?:[\w.]+\.)?func(?:\s+\w+)*\s+", analysis.text[line : token.start])
    return head is not None and analysis.op_at(token.start) is None


def _begins_line(analysis: Analysis, token: Token) -> bool:
    """Whether nothing stands before a token on its line but other results of the same operation."""
    line = analysis.text.rfind("\n", 0, token.start) + 1
    return re.fullmatch(r"\s*(?:%[\w$.-]+(?::\d+)?\s*,\s*)*", analysis.text[line : token.start]) is not None


def _braces(analysis: Analysis, token: Token) -> tuple[int, int]:
    """The innermost pair of braces around a token; the whole text where there is none."""
    return max(
        (pair for pair in brace_pairs(analysis.tokens, analysis.text) if pair[0] <= token.start < pair[1]),
        default=(0, len(analysis.text)),
    )


def brace_pairs(found: Sequence[Token], text: str) -> Iterator[tuple[int, int]]:
    """Where braces open, and behind where they close."""
    open_at: list[int] = []
    for token in found:
        if token.kind == "other" and text[token.start] == "{":
            open_at.append(token.start)
        elif token.kind == "other" and text[token.start] == "}" and open_at:
            yield open_at.pop(), token.end
