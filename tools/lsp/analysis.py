"""
What a text of IR says, and what is wrong with it: operations and values with their places, and the diagnostics.

A text that does not parse is read as far as it goes. After an error the innermost operation around it is left out with
those that use its results, and the text is read again, so that another operation of the same block may have its error.
Where the end of the operation is not plain, and when a function has no more errors, all of the top-level operation (a
function, say) is left out: what is wrong with the rest of it may be due to what is missing.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Input, Span

from mlc.dialects.syntax.input import InputError, start_of
from mlc.dialects.syntax.source import SourceParser, parse
from mlc.driver.pipeline.registry import make_context
from mlc.passes.verifier import InvalidIR, verify
from mlc.support.diagnostics import Diagnostic, place_of_op
from mlc.support.display.highlight import Token, tokens
from mlc.tools.opt.diagnose import error_text

_SPLIT = re.compile(r"^[ \t]*// -----[ \t]*$", re.MULTILINE)
_MODULE = re.compile(r"[ \t]*(?:builtin\.)?module\b")
_LINE = re.compile(r"^([ \t]*)(?!//)(\S?).*\n?", re.MULTILINE)
_VALUE = re.compile(r"%[\w$.-]+")
_ROUNDS = 20
"""How often a text is read at most, each time without the operations that do not parse."""
_ERRORS = 100
"""How many diagnostics a text has at most."""


@dataclass(frozen=True)
class ParsedOp:
    """An operation, and where it stands: the text from `start` to `end`."""

    op: Operation
    start: int
    end: int


@dataclass
class Scope:
    """The text in which a value is visible: a region's braces, or a piece of a text."""

    start: int
    end: int

    def __contains__(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True)
class Definition:
    """Where the name of a value is bound, the values (several for `%0:2`), and where they are visible."""

    name: str
    start: int
    values: tuple[SSAValue, ...]
    scope: Scope


@dataclass
class _Records:
    """What a parser has seen."""

    ops: dict[int, ParsedOp] = field(default_factory=dict[int, ParsedOp])
    definitions: dict[int, Definition] = field(default_factory=dict[int, Definition])
    scopes: list[Scope] = field(default_factory=list[Scope])
    open: list[int] = field(default_factory=list[int])
    """Where the operations begin that are not parsed to their end, outermost first."""


class RecordingParser(SourceParser):
    """A parser that notes where operations and values stand."""

    records: _Records

    def parse_operation(self) -> Operation:
        start = self.pos
        self.records.open.append(start)
        op = super().parse_operation()
        self.records.open.pop()
        self.records.ops[start] = ParsedOp(op, start, self._current_token.span.start)
        return op

    def parse_optional_region(self, arguments: Iterable[Any] | None = None) -> Region | None:
        scopes = self.records.scopes
        scope = Scope(self.pos, scopes[-1].end)
        scopes.append(scope)
        region = super().parse_optional_region(arguments)
        scope.end = self._current_token.span.start
        scopes.pop()
        return region

    def _register_ssa_definition(self, name: str, values: Any, span: Span[Any]) -> None:
        super()._register_ssa_definition(name, values, span)
        found = Definition(f"%{name}", span.start, tuple(values), self.records.scopes[-1])
        self.records.definitions[span.start] = found


@dataclass
class Piece:
    """A part of a text between `// -----` lines, which is a module of its own."""

    start: int
    end: int
    module: ModuleOp | None = None


@dataclass
class Analysis:
    """A text, its tokens, and what was read."""

    text: str
    name: str
    context: Context
    tokens: list[Token]
    pieces: list[Piece] = field(default_factory=list[Piece])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    ops: dict[int, ParsedOp] = field(default_factory=dict[int, ParsedOp])
    definitions: dict[int, Definition] = field(default_factory=dict[int, Definition])

    @cached_property
    def starts(self) -> list[int]:
        """Where the tokens begin."""
        return [token.start for token in self.tokens]

    @cached_property
    def lines(self) -> list[int]:
        """Where the lines begin."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column, counted from 1."""
        line = min(max(line, 1), len(self.lines))
        return min(self.lines[line - 1] + max(column, 1) - 1, len(self.text))

    def line_of(self, offset: int) -> int:
        """The line of an offset, counted from 0."""
        return bisect_right(self.lines, offset) - 1

    def is_first(self, token: Token) -> bool:
        """Whether a token is the first of its line."""
        return not self.text[self.lines[self.line_of(token.start)] : token.start].strip()

    def spelled(self, token: Token) -> str:
        """A token's text."""
        return self.text[token.start : token.end]

    def tokens_in(self, start: int, end: int) -> list[Token]:
        """The tokens that begin in a part of the text."""
        return self.tokens[bisect_left(self.starts, start) : bisect_left(self.starts, end)]

    def token_at(self, offset: int) -> Token | None:
        """The token at an offset, or the one that ends there."""
        index = bisect_right(self.starts, offset) - 1
        for at in (index, index - 1):
            if 0 <= at < len(self.tokens) and self.tokens[at].start <= offset <= self.tokens[at].end:
                touched = self.tokens[at]
                if touched.kind not in ("other", "arrow") or at == index - 1:
                    return touched
        return self.tokens[index] if index >= 0 and self.tokens[index].end > offset else None

    def op_at(self, offset: int) -> ParsedOp | None:
        """The innermost operation around an offset."""
        found = [one for one in self.ops.values() if one.start <= offset < one.end]
        return max(found, key=lambda one: one.start, default=None)

    def piece_at(self, offset: int) -> Piece:
        """The piece around an offset."""
        return next((p for p in self.pieces if p.start <= offset <= p.end), self.pieces[-1])

    def end_of(self, parsed: ParsedOp) -> int:
        """Where the last token of an operation ends; comments after it are not part of it."""
        index = bisect_left(self.starts, parsed.end) - 1
        while index >= 0 and self.tokens[index].kind == "comment":
            index -= 1
        return self.tokens[index].end if index >= 0 else parsed.end


def analyze(text: str, name: str = "<text>", context: Context | None = None) -> Analysis:
    """Read a text; its diagnostics have the messages and places of mlc-opt."""
    found = Analysis(text, name, context or make_context(), tokens(text))
    found.pieces = _pieces(text)
    for piece in found.pieces:
        _read(found, piece)
    found.diagnostics = sorted(found.diagnostics, key=lambda one: (one.place.line, one.place.column))[:_ERRORS]
    return found


def _pieces(text: str) -> list[Piece]:
    bounds = [0, *(at for match in _SPLIT.finditer(text) for at in match.span()), len(text)]
    return [Piece(*pair) for pair in zip(bounds[::2], bounds[1::2], strict=True)]


def shifted(old: Analysis, text: str) -> Analysis:
    """
    A changed text with what was read of it before the change; it is not read again, and has no diagnostics.

    What stands before the change is taken over, what stands after it is moved, and what it touches is dropped.
    """
    start, end = _common(old.text, text)
    delta = len(text) - len(old.text)

    def first_of(offset: int) -> int | None:
        if offset >= len(old.text) - end:
            return offset + delta
        return offset if offset < start else None

    def last_of(offset: int) -> int | None:
        if offset <= start:
            return offset
        return offset + delta if offset >= len(old.text) - end else None

    found = Analysis(text, old.name, old.context, tokens(text), _pieces(text))
    scopes: dict[int, Scope] = {}
    for op in old.ops.values():
        if (first := first_of(op.start)) is not None and (last := last_of(op.end)) is not None:
            found.ops[first] = ParsedOp(op.op, first, last)
    for one in old.definitions.values():
        first, opens, closes = first_of(one.start), first_of(one.scope.start), last_of(one.scope.end)
        if first is None or opens is None or text[first : first + len(one.name)] != one.name:
            continue
        scope = scopes.setdefault(id(one.scope), Scope(opens, one.scope.end + delta if closes is None else closes))
        found.definitions[first] = Definition(one.name, first, one.values, scope)
    return found


def _common(old: str, new: str) -> tuple[int, int]:
    """The lengths of the longest common beginning, and of the longest common end of the rest."""
    most = min(len(old), len(new))
    start = bisect_left(range(most), True, key=lambda n: old[: n + 1] != new[: n + 1])
    most -= start
    end = bisect_left(range(most), True, key=lambda n: old[len(old) - n - 1 :] != new[len(new) - n - 1 :])
    return start, end


def _read(found: Analysis, piece: Piece) -> None:
    """Parse a piece, without the operations that do not parse, and verify what is left."""
    text = _blanked(found.text, (0, piece.start), (piece.end, len(found.text)))
    missing: set[str] = set()
    broken: dict[tuple[int, int], None] = {}
    for _ in range(_ROUNDS):
        records, source = _Records(scopes=[Scope(piece.start, piece.end)]), Input(text, found.name)
        read = _parse_once(found, source, records)
        if isinstance(read, Diagnostic):
            found.diagnostics.append(read)
            rest = _without(found, text, read, records, missing, broken)
        elif broken:
            rest = _rest(text, *broken)
            broken.clear()
        else:
            piece.module, parser = read
            found.diagnostics += _verified(piece.module, source, parser, missing)
            return
        if rest is None:
            return
        text = rest


def _parse_once(found: Analysis, source: Input[str], records: "_Records") -> tuple[ModuleOp, SourceParser] | Diagnostic:
    """Parse a text and take over what was recorded; the module and the parser, or the first error."""
    parser_class = type("Recorder", (RecordingParser,), {"records": records})
    try:
        return parse(found.context, source, parser_class=parser_class)
    except InputError as wrong:
        return wrong.diagnostic
    finally:
        # what was read first has its true end: what follows it was not left out then
        found.ops = records.ops | found.ops
        found.definitions = records.definitions | found.definitions


def _without(
    found: Analysis,
    text: str,
    error: Diagnostic,
    records: "_Records",
    missing: set[str],
    broken: dict[tuple[int, int], None],
) -> str | None:
    """
    The text without the operation that an error is in; None where nothing is left to read.

    The symbols of its top-level operation are added to `missing`. The top-level operation is in `broken` afterwards if
    a part of it is left.
    """
    wrong_part = _part_of(text, found.offset(error.place.line, error.place.column))
    if wrong_part is None:
        return None
    for definition in records.definitions.values():
        if definition.scope.start in range(*wrong_part):
            definition.scope.end = min(definition.scope.end, wrong_part[1])
    missing |= set(re.findall(r"@[\w$.-]+", text[slice(*wrong_part)]))
    parts = _dependent(text, records.open[-1], wrong_part) if records.open else []
    if parts:
        broken[wrong_part] = None
        return _blanked(text, *parts)
    broken.pop(wrong_part, None)
    return _rest(text, wrong_part)


def _rest(text: str, *spans: tuple[int, int]) -> str | None:
    """The text with blanks in place of these parts; None where only comments are left."""
    rest = _blanked(text, *spans)
    return None if all(token.kind == "comment" for token in tokens(rest)) else rest


def _blanked(text: str, *spans: tuple[int, int]) -> str:
    """The text with blanks in place of these parts; places in the rest stay."""
    for start, end in spans:
        text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text


def _part_of(text: str, offset: int) -> tuple[int, int] | None:
    """The top-level operation around an offset, by its indentation; None at the end of the text, or if it is all."""
    if not text[offset:].strip():
        return None
    lines = [match for match in _LINE.finditer(text) if match[2]]
    outer = 1 if lines and _MODULE.match(lines[0].group()) else 0
    begins = [line for line in lines[outer:] if re.match(r"[\w%\"]", line[2])]
    indent = min((len(line[1]) for line in begins), default=0)
    starts = [line.start() for line in begins if len(line[1]) == indent]
    index = bisect_right(starts, offset) - 1
    if index < 0:
        return None
    ends = [line.start() for line in lines if line.start() > starts[index] and len(line[1]) < indent]
    end = min([*starts[index + 1 : index + 2], *ends[:1], len(text)])
    return starts[index], end


def _dependent(text: str, start: int, around: tuple[int, int]) -> list[tuple[int, int]]:
    """The parts of the operation at `start` and of those that use its results; [] if its end is not plain."""
    parts = _statements(text, *around)
    at = next((number for number, part in enumerate(parts) if part[0] == start), None)
    if at is None or not _is_closed(text[slice(*parts[at])]):
        return []
    found = [parts[at]]
    lost = _results(text[slice(*parts[at])])
    for part in parts[at + 1 :]:
        inside = part[0] < found[-1][1]  # an operation in the region of one that is left out
        if not inside and lost.intersection(_VALUE.findall(written := text[slice(*part)])):
            if not _is_closed(written):
                return []
            found.append(part)
            lost |= _results(written)
    return found


def _statements(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The operations that begin their line in a top-level operation, by indentation, each with its regions."""
    lines = [match for match in _LINE.finditer(text, start, end) if match[2]][1:]
    found: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if not re.match(r'[\w%"]', line[2]):
            continue
        until, opens = number + 1, 0
        while until < len(lines) and (len(lines[until][1]) > len(line[1]) or lines[until][2] in "})]"):
            opens = _balance(text[line.start() : lines[until - 1].end()])
            if opens <= 0 and len(lines[until][1]) <= len(line[1]):
                break
            until += 1
        last = lines[until].start() if until < len(lines) else end
        found.append((line.start(2), last))
    return found


def _balance(text: str) -> int:
    """How many braces of a text are open at its end."""
    spelled = [text[token.start : token.end] for token in tokens(text) if token.kind not in ("comment", "string")]
    return sum((one == "{") - (one == "}") for one in spelled)


def _is_closed(text: str) -> bool:
    return _balance(text) == 0 and "^" not in text


def _results(text: str) -> set[str]:
    """The values that an operation defines."""
    head = re.match(r"(%[^=\n]*)=", text)
    return set() if head is None else set(_VALUE.findall(head[1]))


def _verified(module: ModuleOp, source: Input[str], parser: SourceParser, missing: set[str]) -> list[Diagnostic]:
    """What is wrong with the operations of a module, but for the lack of `missing` symbols."""
    found: dict[Operation | None, str] = {}
    for op in (*module.body.block.ops, None):
        for error in _violations(op) if op is not None else _own_violations(module):
            text = error_text(error)
            if not missing.intersection(re.findall(r"@[\w$.-]+", text)):
                found.setdefault(error.op, text)
    default = start_of(source)
    return [Diagnostic(place_of_op(op, default, parser.positions), text) for op, text in found.items()]


def _violations(op: Operation) -> Iterator[InvalidIR]:
    """The first error of an operation, as mlc-opt finds it, and what the verifiers of the ops inside say."""
    try:
        verify(op)
    except InvalidIR as error:
        yield error
        for inner in op.walk():
            yield from _own_violations(inner)


def _own_violations(op: Operation) -> Iterator[InvalidIR]:
    try:
        op.verify_()
    except VerifyException as error:
        yield InvalidIR(op, str(error))
    except Exception:
        return  # the verifier stumbles over what another diagnostic is about
