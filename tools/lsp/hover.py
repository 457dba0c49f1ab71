"""What an editor shows about the thing under the pointer, as Markdown."""

from dataclasses import dataclass

from xdsl.ir import Block, Operation, OpResult, SSAValue

from mlc.dialects.syntax.source_nodes import nodes_text, source_nodes
from mlc.support.display.highlight import Token
from mlc.tools.lsp.analysis import Analysis, ParsedOp
from mlc.tools.lsp.commands import WORD, PipelineText, pipeline_at, place_in_pipeline
from mlc.tools.lsp.describe import (
    attributes_of,
    named_attribute_text,
    op_class,
    op_text,
    options_of,
    pass_text_of,
)
from mlc.tools.lsp.references import binding_of, definition_of, name_of, references_of, symbol_op


@dataclass(frozen=True)
class Hover:
    """A text in Markdown about a part of the document."""

    text: str
    start: int
    end: int


def hover(analysis: Analysis, offset: int) -> Hover | None:
    """What there is to say about the place; None for nothing."""
    if (pipeline := pipeline_at(analysis, offset)) is not None:
        return _pipeline_hover(pipeline, offset)
    token = analysis.token_at(offset)
    if token is None:
        return None
    text = _text(analysis, token)
    return Hover(text, token.start, token.end) if text else None


def _text(analysis: Analysis, token: Token) -> str:
    if token.kind == "op":
        return _op_hover(analysis, token)
    if token.kind == "value":
        return _value_hover(analysis, token)
    if token.kind == "symbol":
        return _symbol_hover(analysis, token)
    if token.kind == "alias":
        definition = definition_of(analysis, token)
        if definition is None:
            return named_attribute_text(analysis.context, analysis.spelled(token))
        return _code(_line(analysis, definition.start))
    if token.kind in ("attribute", "keyword") and (parsed := analysis.op_at(token.start)) is not None:
        name = analysis.spelled(token)
        found = next((one for one in attributes_of(type(parsed.op)) if one.name == name), None)
        if found is not None:
            more = ", ".join(filter(None, (found.text, found.detail)))
            return f"`{name}`, an attribute of `{parsed.op.name}`" + (f": {more}" if more else "")
    return ""


def _op_hover(analysis: Analysis, token: Token) -> str:
    parsed = analysis.op_at(token.start)
    cls = type(parsed.op) if parsed is not None else op_class(analysis.context, analysis.spelled(token))
    if cls is None:
        return ""
    parts = [op_text(cls)]
    if parsed is not None:
        parts.insert(0, _code(_signature(parsed.op)))
        parts += _origin(parsed.op)
    return "\n\n".join(parts)


def _signature(op: Operation) -> str:
    """`(tensor<4xf32>) -> tensor<4xf32>`: the types of the operands and results."""
    results = ", ".join(map(str, op.result_types))
    many = f"({results})" if len(op.results) != 1 else results
    return f"({', '.join(map(str, op.operand_types))}) -> {many}"


def _origin(op: Operation) -> list[str]:
    nodes = source_nodes(op)
    return [f"source nodes: {nodes_text(nodes)}"] if nodes else []


def _value_hover(analysis: Analysis, token: Token) -> str:
    bound = binding_of(analysis, token)
    if bound is None:
        return ""
    spelled, number = analysis.spelled(token), analysis.spelled(token).partition("#")[2]
    values = bound.values[int(number) : int(number) + 1] if number else bound.values
    types = ", ".join(str(value.type) for value in values)
    parts = [_code(f"{spelled} : {types}")]
    if values:
        parts.append(_defined(values[0]))
        if isinstance(values[0], OpResult):
            parts += _origin(values[0].op)
    uses = len(references_of(analysis, token)) - 1
    parts.append(f"{uses} use{'s' * (uses != 1)}")
    return "\n\n".join(parts)


def _defined(value: SSAValue) -> str:
    owner = value.owner
    if not isinstance(owner, Block):
        return f"result of `{owner.name}`"
    parent = owner.parent_op()
    inside = f" of `{parent.name}`" if parent is not None else ""
    return f"block argument {owner.args.index(value)}{inside}" if value in owner.args else f"argument{inside}"


def _symbol_hover(analysis: Analysis, token: Token) -> str:
    definition = definition_of(analysis, token)
    if definition is None:
        return ""
    parts = [_code(_line(analysis, definition.start))]
    parsed = symbol_op(analysis, definition)
    if parsed is not None:
        parts += _symbol_origin(analysis, parsed, definition)
    uses = len(references_of(analysis, token)) - 1
    return "\n\n".join([*parts, f"{uses} use{'s' * (uses != 1)} of `{name_of(analysis, token)}`"])


def _symbol_origin(analysis: Analysis, parsed: ParsedOp, definition: Token) -> list[str]:
    """The source nodes of a kernel: those of its own location, and of the calls of it."""
    users = [analysis.op_at(one.start) for one in references_of(analysis, definition) if one != definition]
    nodes = [node for one in (parsed, *users) if one is not None for node in source_nodes(one.op)]
    return [f"source nodes: {nodes_text(tuple(dict.fromkeys(nodes)))}"] if nodes else []


def _line(analysis: Analysis, offset: int) -> str:
    line = analysis.line_of(offset)
    return analysis.text[analysis.lines[line] :].partition("\n")[0].strip()


def _code(text: str) -> str:
    return f"```mlir\n{text}\n```"


def _pipeline_hover(pipeline: PipelineText, offset: int) -> Hover | None:
    at = offset - pipeline.start
    word = next((m for m in WORD.finditer(pipeline.text) if m.start() <= at <= m.end()), None)
    if word is None:
        return None
    place = place_in_pipeline(pipeline.text[: word.end()])
    text = pass_text_of(word.group())
    if place.what != "pass":
        name = place.option or place.prefix
        found = next((one for one in options_of(place.pass_name) if one.name == name), None)
        text = f"option `{name}` of `{place.pass_name}`: {found.detail}, {found.text}".rstrip(", ") if found else ""
    return Hover(text, pipeline.start + word.start(), pipeline.start + word.end()) if text else None
