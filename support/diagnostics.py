"""Errors and warnings with their positions, printed as mlir-opt prints them."""

import sys
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input


@dataclass(frozen=True)
class Place:
    """A position: a file, and as far as known the line and column, counted from 1 (0: not known)."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True)
class Diagnostic:
    """One message for the user."""

    place: Place
    message: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.place}: {self.severity}: {self.message}"


@dataclass
class Reporter:
    """Collects diagnostics, or prints each with the source line it is about."""

    source: Input[str] | None = None
    keep: bool = False
    kept: list[Diagnostic] = field(default_factory=list)

    def report(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic for --verify-diagnostics, or print it on stderr."""
        if self.keep:
            self.kept.append(diagnostic)
        else:
            print(f"{diagnostic}{self._excerpt(diagnostic.place)}", file=sys.stderr)

    def _excerpt(self, place: Place) -> str:
        if self.source is None or place.file != self.source.name or not place.line:
            return ""
        return excerpt(self.source.content, place)


def excerpt(content: str, place: Place) -> str:
    """The line of a text at a place, and a caret below it, after a line break; nothing if the line is not printable."""
    lines = content.split("\n", place.line)
    text = lines[place.line - 1] if place.line <= len(lines) else ""
    if not text.strip() or len(text) > 200 or not text.replace("\t", " ").isprintable():
        return ""
    indent = "".join(c if c == "\t" else " " for c in text[: place.column - 1])
    return f"\n{text}\n{indent}^"


def one_line(text: str) -> str:
    """The text with its line breaks and control characters made printable."""
    text = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def place_of_parse_error(error: ParseError) -> Place:
    """The position of a parse error."""
    location = error.span.get_location()
    return Place(location.file, location.line, location.col)


def place_of_op(op: Operation | None, default: Place, positions: dict[Operation, Place]) -> Place:
    """The position of an operation, or else of the nearest enclosing operation that has one, or else `default`."""
    while op is not None:
        if (found := positions.get(op) or place_of_location(op.location)) is not None:
            return found
        op = op.parent_op()
    return default


def place_of_location(location: Attribute) -> Place | None:
    """The position that a location attribute gives: file, line and column, or a name in the source model."""
    if isinstance(location, FileLineColLoc):
        return Place(location.filename.data, location.line.data, location.column.data)
    if isinstance(location, NameLoc):
        return place_of_location(location.location) or Place(f'"{one_line(location.desc.data)}"')
    if isinstance(location, CallSiteLoc):
        return place_of_location(location.callee) or place_of_location(location.caller)
    if isinstance(location, FusedLoc):
        several: Any = location.locations
        return next(filter(None, map(place_of_location, several)), None)
    return None


_KERNELS = ("te.func", "loop.func")
_LABELS = {"te.compute": ("stage", "stage"), "loop.block": ("block", "block_name")}


def place_in_kernel(op: Operation) -> str:
    """
    Where an op of a kernel stands, whose ops have no place in a model's file; empty for all others.

    `@softmax, stage "sum"`, or `@dense, loops %i, %k, block "init"`: loops by their variables, outer ones first.
    """
    around: list[Operation] = []
    at = op.parent_op()
    while at is not None and at.name not in _KERNELS:
        around.insert(0, at)
        at = at.parent_op()
    if at is None:
        return ""
    parts = [f"@{_text_of(at, 'sym_name')}"]
    variables = [one.regions[0].block.args[0].name_hint for one in around if one.name == "loop.for"]
    if variables:
        parts.append(f"loop{'s' * (len(variables) > 1)} {', '.join(f'%{v}' if v else 'unnamed' for v in variables)}")
    for one in around:
        if one.name in _LABELS:
            kind, name = _LABELS[one.name]
            parts.append(f'{kind} "{_text_of(one, name)}"')
    return ", ".join(parts)


def _text_of(op: Operation, name: str) -> str:
    value = op.properties.get(name)
    return value.data if isinstance(value, StringAttr) else ""
