"""
--verify-diagnostics: a run produces the diagnostics that comments in its input announce, and no others.

    // expected-error {{text that the message contains}}         on this line
    // expected-error@+1 {{...}}   @-2, @above, @below            on another; above and below skip such lines
    // expected-warning 2 {{...}}                                 two of them
    // expected-error-re {{size {{[0-9]+}} is odd}}               with regular expressions
    // expected-error@unknown {{...}}                             at no line at all
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.utils.lexer import Input

from mlc.support.diagnostics import Diagnostic, Place

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|note|remark)(?P<regex>-re)?"
    r"[ \t]*(?:@(?P<where>[+-][0-9]+|above|below|unknown))?[ \t]*(?P<count>[0-9]+)?[ \t]*"
    r"\{\{(?P<text>(?:(?!\{\{|\}\}(?!\})).|\{\{.*?\}\})*)\}\}"
)
_ANNOUNCED = re.compile(r"expected-(?:error|warning|note|remark)")


@dataclass
class Expectation:
    """One announced diagnostic; line 0 is "at no line"."""

    line: int
    severity: str
    pattern: re.Pattern[str]
    text: str
    place: Place

    def matches(self, got: Diagnostic) -> bool:
        return (
            got.severity == self.severity
            and got.place.line == self.line
            and self.pattern.search(got.message) is not None
        )


def expectations(source: Input[str]) -> list[Expectation]:
    """The diagnostics that the comments in a text announce."""
    lines = source.content.split("\n")
    found: list[Expectation] = []
    for number, line in enumerate(lines, 1):
        for match in _EXPECTED.finditer(line):
            target = _target(match["where"], number, lines)
            text = match["text"]
            expected = Expectation(
                target,
                match["severity"],
                _pattern(text, bool(match["regex"])),
                text,
                Place(source.name, number, match.start() + 1),
            )
            found += [expected] * int(match["count"] or 1)
    return found


def _target(where: str | None, number: int, lines: Sequence[str]) -> int:
    if where is None:
        return number
    if where == "unknown":
        return 0
    if where not in ("above", "below"):
        return number + int(where)
    step = -1 if where == "above" else 1
    number += step
    while 0 < number <= len(lines) and _ANNOUNCED.search(lines[number - 1]):
        number += step
    return number


def _pattern(text: str, regex: bool) -> re.Pattern[str]:
    if not regex:
        return re.compile(re.escape(text))
    pieces = re.split(r"\{\{(.*?)\}\}", text)
    try:
        return re.compile("".join(p if i % 2 else re.escape(p) for i, p in enumerate(pieces)))
    except re.error:
        return re.compile(re.escape(text))


def compare(source: Input[str], got: Sequence[Diagnostic]) -> list[Diagnostic]:
    """What differs between the diagnostics announced in a text and those it produced."""
    waiting = expectations(source)
    wrong: list[Diagnostic] = []
    for diagnostic in got:
        if (match := next((e for e in waiting if e.matches(diagnostic)), None)) is not None:
            waiting.remove(match)
        else:
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            wrong.append(Diagnostic(diagnostic.place, message))
    missing = [f'expected {e.severity} "{e.text}" was not produced' for e in waiting]
    return wrong + [Diagnostic(e.place, text) for e, text in zip(waiting, missing, strict=True)]
