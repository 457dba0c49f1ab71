"""The input of the parser: texts of files and their pieces, limits on them, and the error for wrong input."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from xdsl.utils.lexer import Input

from mlc.support.diagnostics import Diagnostic, Place, one_line
from mlc.support.limits import limits

_SPLIT = re.compile(r"^[ \t]*// -----[ \t]*$", re.MULTILINE)
_FRAMES = 24
"""The Python stack frames of a nested operation, at most, in the parser, the printer or a pass."""


class InputError(Exception):
    """The input is not a valid program; `diagnostic` has the place and the message."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


def reject(place: Place, message: str) -> InputError:
    """The InputError for the input at `place`."""
    return InputError(Diagnostic(place, one_line(message)))


def read_source(path: str | None) -> Input[str]:
    """The text of a file, or of the standard input for None and "-"."""
    name = "<stdin>" if path in (None, "-") else str(path)
    try:
        if name == "<stdin>":
            data = sys.stdin.buffer.read(limits.input_bytes + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(limits.input_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise reject(Place(one_line(name)), f"cannot read the file: {reason}") from error
    if len(data) > limits.input_bytes:
        message = f"expected at most {limits.input_bytes} bytes of text; raise the limit with --max-input-bytes"
        raise reject(Place(name, 1, 1), message)
    try:
        return Input(data.decode("utf-8"), name)
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, line_start) + 1
        column = len(data[line_start : error.start].decode("utf-8")) + 1
        message = f"expected UTF-8 text, but got byte 0x{data[error.start]:02x}"
        raise reject(Place(name, line, column), message) from error


def split_source(source: Input[str]) -> Iterator[Input[str]]:
    """The pieces between `// -----` lines; each keeps the line numbers of the whole text."""
    start = 0
    for match in [*_SPLIT.finditer(source.content), None]:
        end = len(source.content) if match is None else match.start()
        yield Input("\n" * source.content.count("\n", 0, start) + source.content[start:end], source.name)
        start = 0 if match is None else match.end()


def start_of(source: Input[str]) -> Place:
    """The place of a diagnostic about the whole text: its first character that is not blank."""
    text = source.content
    start = len(text) - len(text.lstrip())
    start = 0 if start == len(text) else start
    line_start = text.rfind("\n", 0, start) + 1
    return Place(source.name, text.count("\n", 0, start) + 1, start - line_start + 1)


def allow_nesting(nesting: int) -> None:
    """Raise Python's recursion limit as `nesting` nested operations need."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + _FRAMES * nesting))
