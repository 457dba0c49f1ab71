"""What may be written at a place: ops, their attributes, values, symbols, passes and their options."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from xdsl.context import Context
from xdsl.ir import Operation

from mlc.dialects import DIALECTS
from mlc.dialects.own_ops import USER_OPS
from mlc.driver.pipeline.pipelines import PIPELINES
from mlc.driver.pipeline.registry import pass_names
from mlc.tools.lsp.analysis import Analysis
from mlc.tools.lsp.commands import PipelineText, pipeline_at, place_in_pipeline
from mlc.tools.lsp.describe import attributes_of, docstring, has_regions, op_class, options_of, values_of
from mlc.tools.lsp.references import symbols, visible_at

_OP = re.compile(r"(?:^|[{}])\s*(?:%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=\s*)?(\"?[A-Za-z_][\w.]*|)\Z")
_NAME = re.compile(r"[%@^][\w$.-]*\Z")
_KEY = re.compile(r"(?:[{,]\s*)([A-Za-z_][\w.]*|)\Z")


@dataclass(frozen=True)
class Completion:
    """A word that may stand at a place; `start` is where what has been written of it begins."""

    label: str
    kind: str
    start: int
    detail: str = ""
    text: str = ""
    insert: str = ""


def complete(analysis: Analysis, offset: int) -> list[Completion]:
    """The words that may stand at an offset, those first that are most likely."""
    if (pipeline := pipeline_at(analysis, offset)) is not None:
        return list(_in_pipeline(pipeline, offset))
    line = analysis.text[analysis.lines[analysis.line_of(offset)] : offset]
    if "//" in re.sub(r'"(?:[^"\\]|\\.)*"', "", line):
        return []
    if (name := _NAME.search(line)) is not None:
        return list(_names(analysis, offset, name.group()))
    if (key := _KEY.search(line)) is not None and (owner := _dictionary_owner(analysis, offset)) is not None:
        return list(_attributes(analysis.context, owner, line, key[1], offset))
    op = _OP.search(line)
    return [] if op is None else list(_ops(analysis.context, op[1].strip('"'), offset))


def _names(analysis: Analysis, offset: int, prefix: str) -> Iterator[Completion]:
    """Values, symbols or blocks."""
    start = offset - len(prefix)
    if prefix[0] == "%":
        for one in reversed(visible_at(analysis, offset)):
            if one.name.startswith(prefix) and one.start != start:
                yield Completion(one.name, "value", start, ", ".join(str(v.type) for v in one.values))
        return
    if prefix[0] == "@":
        found: Iterable[str] = (analysis.spelled(one) for one in symbols(analysis, offset))
    else:
        around = [one for one in analysis.tokens if one.kind == "block" and analysis.is_first(one)]
        found = (analysis.spelled(one) for one in around)
    for name in dict.fromkeys(found):
        if name.startswith(prefix) and len(name) > 1:
            yield Completion(name, "symbol" if prefix[0] == "@" else "block", start)


def _ops(context: Context, prefix: str, offset: int) -> Iterator[Completion]:
    """The ops that begin with a prefix; without a dot those of mlc's dialects and a few more, and the dialects."""
    dialect, dot, _ = prefix.partition(".")
    start = offset - len(prefix)
    if not dot:
        names = [*DIALECTS, "func", "arith", "math", "scf", "memref", "builtin", "llvm"]
        yield from (Completion(n, "dialect", start, "dialect", insert=f"{n}.") for n in names if n.startswith(dialect))
        yield from (Completion("return", "op", start, "func.return") for _ in [0] if "return".startswith(dialect))
        return
    for cls in _ops_of(context, dialect):
        if cls.name.startswith(prefix):
            doc = docstring(cls)
            summary = doc.partition("\n")[0].partition(": `")[0].rstrip(".:")
            yield Completion(cls.name, "op", start, summary, doc)


def _ops_of(context: Context, dialect: str) -> list[type[Operation]]:
    own = [op for name, op in USER_OPS.items() if name.startswith(f"{dialect}.")]
    if context.get_optional_dialect(dialect) is None and dialect in context.registered_dialect_names:
        context.load_registered_dialect(dialect)
    found = context.get_optional_dialect(dialect)
    return sorted([*own, *(found.operations if found is not None else ())], key=lambda op: op.name)


def _dictionary_owner(analysis: Analysis, offset: int) -> str | None:
    """The op's name if the offset is in a dictionary of attributes of its line; `{ ` opens a region."""
    line = analysis.lines[analysis.line_of(offset)]
    before = analysis.tokens_in(line, offset)
    open_at: list[int] = []
    for token in before:
        if token.kind == "other" and analysis.text[token.start] in "{[(<":
            open_at.append(token.start)
        elif token.kind == "other" and analysis.text[token.start] in "}])>" and open_at:
            open_at.pop()
    op = next((analysis.spelled(token) for token in before if token.kind == "op"), None)
    if op is None or not open_at or analysis.text[open_at[-1]] != "{":
        return None
    is_tight = analysis.text[open_at[-1] + 1 : open_at[-1] + 2].strip() != ""
    cls = op_class(analysis.context, op)
    return op if is_tight or (cls is not None and not has_regions(cls)) else None


def _attributes(context: Context, owner: str, line: str, prefix: str, offset: int) -> Iterator[Completion]:
    cls = op_class(context, owner)
    if cls is None:
        return
    given = set(re.findall(r"([\w.]+)\s*=", line))
    for one in attributes_of(cls):
        if one.name.startswith(prefix) and one.name not in given:
            start = offset - len(prefix)
            yield Completion(one.name, "attribute", start, one.detail, one.text, f"{one.name} = ")


def _in_pipeline(pipeline: PipelineText, offset: int) -> Iterator[Completion]:
    place = place_in_pipeline(pipeline.text[: offset - pipeline.start])
    start = offset - len(place.prefix)
    if place.what == "pass":
        for name in (*_passes(), *(n for n in PIPELINES if n not in _passes())):
            if name.startswith(place.prefix):
                yield Completion(name, "pass", start, "pipeline" if name in PIPELINES else "pass")
    elif place.what == "option":
        for one in options_of(place.pass_name):
            if one.name.startswith(place.prefix) and one.name not in place.given:
                yield Completion(one.name, "option", start, one.detail, one.text, f"{one.name}=")
    else:
        for value in values_of(place.pass_name, place.option):
            if value.startswith(place.prefix):
                yield Completion(value, "choice", start)


@lru_cache
def _passes() -> tuple[str, ...]:
    return tuple(pass_names())
