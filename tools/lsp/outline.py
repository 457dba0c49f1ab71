"""The symbols of a text, as an editor's outline shows them, and the parts that it folds."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import StringAttr

from mlc.support.display.highlight import Token
from mlc.tools.lsp.analysis import Analysis, ParsedOp
from mlc.tools.lsp.references import brace_pairs, symbol_op, symbols

_LABELLED = ("te.compute", "te.scan", "te.extern", "loop.block", "sched.block", "graph.fused")
"""The ops below a function that have a name in quotes."""


@dataclass
class Outlined:
    """A named operation: where it stands, where its name stands, and the named operations inside."""

    name: str
    kind: str
    start: int
    end: int
    named: tuple[int, int]
    children: "list[Outlined]" = field(default_factory=list["Outlined"])


def document_symbols(analysis: Analysis) -> list[Outlined]:
    """The functions and schedules of a text, and in each its stages, blocks and fused regions."""
    found: list[Outlined] = []
    for piece in analysis.pieces:
        for token in symbols(analysis, piece.start):
            parsed = symbol_op(analysis, token)
            found.append(_broken(analysis, token) if parsed is None else _symbol(analysis, parsed, token))
    for one in analysis.ops.values():
        if one.op.name == "sched.schedule":  # its name is that of its kernel
            inside = analysis.tokens_in(one.start, one.end)
            found += [_symbol(analysis, one, token) for token in inside if token.kind == "symbol"][:1]
    top = [one for one in found if not any(one is not other and _inside(one, other) for other in found)]
    return sorted(top, key=lambda one: one.start)


def _symbol(analysis: Analysis, parsed: ParsedOp, token: Token) -> Outlined:
    """An operation with a name, and the labelled operations inside."""
    made = _leaf(analysis, parsed, token)
    inner = [one for one in analysis.ops.values() if parsed.start < one.start < parsed.end]
    for one in sorted(inner, key=lambda one: one.start):
        if one.op.name in _LABELLED and (label := _label(analysis, one)) is not None:
            _add(made, _leaf(analysis, one, label))
    return made


def _leaf(analysis: Analysis, parsed: ParsedOp, token: Token) -> Outlined:
    named = token.start, token.end
    return Outlined(analysis.spelled(token), parsed.op.name, parsed.start, analysis.end_of(parsed), named)


def _add(parent: Outlined, child: Outlined) -> None:
    """Put a symbol below the innermost that it stands in."""
    around = next((other for other in parent.children if _inside(child, other)), None)
    if around is None:
        parent.children.append(child)
    else:
        _add(around, child)


def _inside(one: Outlined, other: Outlined) -> bool:
    return other.start <= one.start and one.end <= other.end and (one.start, one.end) != (other.start, other.end)


def _label(analysis: Analysis, parsed: ParsedOp) -> Token | None:
    found = next((t for t in analysis.tokens_in(parsed.start, parsed.end) if t.kind == "string"), None)
    labels = [a.data for a in parsed.op.properties.values() if isinstance(a, StringAttr)]
    return found if found is not None and analysis.spelled(found).strip('"') in labels else None


def _broken(analysis: Analysis, token: Token) -> Outlined:
    """The symbol of an operation that did not parse: to the end of its line."""
    line = analysis.text.rfind("\n", 0, token.start) + 1
    end = analysis.text.find("\n", token.end)
    named = (token.start, token.end)
    return Outlined(analysis.spelled(token), "(does not parse)", line, len(analysis.text) if end < 0 else end, named)


def folds(analysis: Analysis) -> list[tuple[int, int]]:
    """The pairs of lines, counted from 0, between which an editor may fold: braces, and runs of comments."""
    line_of = analysis.line_of
    pairs = [(line_of(a), line_of(b - 1) - 1) for a, b in brace_pairs(analysis.tokens, analysis.text)]
    comments = [line_of(t.start) for t in analysis.tokens if t.kind == "comment" and analysis.is_first(t)]
    first = last = -2
    for line in [*comments, -2]:
        if line == last + 1:
            last = line
        else:
            pairs.append((first, last))
            first = last = line
    return sorted({(a, b) for a, b in pairs if 0 <= a < b})
