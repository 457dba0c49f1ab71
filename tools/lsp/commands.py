"""The pipelines in the RUN lines of a text: what is wrong with them, and what may stand at a place in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mlc.driver.pipeline.text import PipelineError, parse_pipeline
from mlc.support.diagnostics import Diagnostic, Place
from mlc.tools.lsp.analysis import Analysis

_RUN = re.compile(r"//\s*RUN:")
_PIPELINE = re.compile(r"(?<=\s)(?:-p|--?passes|--?pass-pipeline)(?:\s+|=)(?P<quote>['\"]?)")
_NAMES = re.compile(r"--?mlir-print-ir-(?:before|after)=|--?show-passes=")
_END = {"'": re.compile(r"[^']*"), '"': re.compile(r'[^"]*'), "": re.compile(r"[^\s|&;<>'\"]*")}
WORD = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class PipelineText:
    """A pipeline in a RUN line: its text, where it begins, and the line."""

    text: str
    start: int
    command: str

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class PipelinePlace:
    """What stands at a place of a pipeline: a pass, an option of `pass_name`, or a value of its option."""

    what: Literal["pass", "option", "value"]
    prefix: str
    pass_name: str = ""
    option: str = ""
    given: tuple[str, ...] = ()


def pipelines(analysis: Analysis) -> Iterator[PipelineText]:
    """The pipelines, and lists of passes, that the RUN lines of a text give mlc-opt."""
    continued = False
    for token in analysis.tokens:
        line = analysis.spelled(token)
        if token.kind != "comment" or not _RUN.match(line):
            continue
        if "mlc-opt" in line or continued:
            for pattern in (_PIPELINE, _NAMES):
                for match in pattern.finditer(line):
                    quote = match["quote"] if pattern is _PIPELINE else ""
                    text = _END[quote].match(line, match.end())
                    assert text is not None
                    yield PipelineText(text.group(), token.start + text.start(), line)
            continued = line.endswith("\\")


def pipeline_at(analysis: Analysis, offset: int) -> PipelineText | None:
    """The pipeline around an offset."""
    return next((one for one in pipelines(analysis) if one.start <= offset <= one.end), None)


def pipeline_diagnostics(analysis: Analysis) -> list[Diagnostic]:
    """
    The errors of the pipelines in RUN lines, at their places.

    Left out are lines that want an error (`not mlc-opt`), and those that lit or the shell completes (`%s`, `\\`).
    """
    found: list[Diagnostic] = []
    for one in pipelines(analysis):
        if re.search(r"\bnot mlc-opt\b|--load\b|--show-passes|--mlir-print-ir-(?:before|after)=", one.command):
            continue
        if "%" in one.text or one.text.endswith("\\"):
            continue
        try:
            parse_pipeline(one.text)
        except PipelineError as error:
            at = min(one.start + error.column - 1, one.end)
            line = analysis.line_of(at)
            place = Place(analysis.name, line + 1, at - analysis.lines[line] + 1)
            found.append(Diagnostic(place, str(error)))
    return found


def place_in_pipeline(before: str) -> PipelinePlace:
    """What is being written where a pipeline ends with `before`."""
    options = re.search(r"([\w.-]+)\{([^{}]*)\Z", before)
    if options is None:
        prefix = re.search(r"[\w.-]*\Z", before)
        return PipelinePlace("pass", prefix.group() if prefix else "")
    name, text = options[1], options[2]
    word = re.search(r"\S*\Z", text)
    current = word.group() if word else ""
    given = tuple(re.findall(r"([\w-]+)=", text))
    if "=" in current:
        option, _, value = current.partition("=")
        return PipelinePlace("value", re.split(r"[,\"]", value)[-1], name, option, given)
    return PipelinePlace("option", current, name, "", given)
