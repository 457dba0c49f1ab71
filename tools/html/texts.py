"""Texts of IR, stored once: lines are numbered, and a text is a list of line numbers with a tag for each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any, NamedTuple

from xdsl.ir import Operation
from xdsl.printer import Printer

Tag = tuple[int, ...]
"""What a line comes from; its meaning is the unit's (origins.py)."""


class Span(NamedTuple):
    """The first and the last line of an operation in a text, counted from 0."""

    op: Operation
    first: int
    last: int


class _LinePrinter(Printer):
    """Notes the lines of the operations that it prints."""

    def __init__(self, stream: StringIO) -> None:
        super().__init__(stream)
        self.spans: list[Span] = []

    def print_op(self, op: Operation) -> None:
        first, at = self._current_line, len(self.spans)
        self.spans.append(Span(op, first, first))
        super().print_op(op)
        self.spans[at] = Span(op, first, self._current_line)


def printed(op: Operation) -> tuple[list[str], list[Span]]:
    """The lines of an operation's text, and the spans of all operations in it, outer ones first."""
    stream = StringIO()
    printer = _LinePrinter(stream)
    printer.print_op(op)
    return stream.getvalue().split("\n"), printer.spans


@dataclass
class TextPool:
    """The texts of one unit - the module, or one kernel - without what repeats."""

    lines: dict[str, int] = field(default_factory=dict[str, int])
    tags: dict[Tag, int] = field(default_factory=dict[Tag, int])
    texts: list[dict[str, list[int]]] = field(default_factory=list[dict[str, list[int]]])
    _known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = field(
        default_factory=dict[tuple[tuple[int, ...], tuple[int, ...]], int]
    )

    def add(self, lines: Sequence[str], tags: Sequence[Tag | None]) -> int:
        """The number of a text with these lines and their tags."""
        numbered = tuple(self.lines.setdefault(line, len(self.lines)) for line in lines)
        marks = tuple(-1 if tag is None else self.tags.setdefault(tag, len(self.tags)) for tag in tags)
        found = self._known.setdefault((numbered, marks), len(self.texts))
        if found == len(self.texts):
            self.texts.append({"lines": list(numbered), "tags": _runs(marks)})
        return found

    def add_op(self, op: Operation, tag_of: Callable[[Operation], Tag | None]) -> int:
        """The number of an operation's text; a line has the tag of the innermost operation that stands there."""
        lines, spans = printed(op)
        return self.add(lines, line_tags(len(lines), spans, tag_of))

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        return {"lines": list(self.lines), "tags": [list(tag) for tag in self.tags], "texts": self.texts}


def line_tags(count: int, spans: Sequence[Span], tag_of: Callable[[Operation], Tag | None]) -> list[Tag | None]:
    """The tag of each line; the closing line of an operation has its tag, too."""
    tags: list[Tag | None] = [None] * count
    for op, first, last in spans:
        tag = tag_of(op)
        if tag is not None:
            tags[first] = tags[last] = tag
    return tags


def _runs(marks: Sequence[int]) -> list[int]:
    """Run lengths: `[5, 5, 5, -1] -> [5, 3, -1, 1]`."""
    runs: list[int] = []
    for mark in marks:
        if runs and runs[-2] == mark:
            runs[-1] += 1
        else:
            runs += [mark, 1]
    return runs
