"""Parses IR text with limits on its size, the source location of every operation, and diagnostics for bad input."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    RankedStructure,
    ShapedType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState, UnresolvedOperand
from xdsl.utils.exceptions import DiagnosticException, MultipleSpansParseError, ParseError, VerifyException
from xdsl.utils.lexer import Input, Span

from mlc.dialects import DIALECTS
from mlc.dialects.discardable import adopt_properties, unknown_attribute
from mlc.dialects.syntax.input import InputError, allow_nesting, reject, start_of
from mlc.dialects.syntax.lexer import SourceLexer
from mlc.dialects.syntax.parse_messages import negative_size, reworded, token_text
from mlc.dialects.syntax.recipes.holes import SHAPED
from mlc.dialects.syntax.recipes.open_ops import type_of
from mlc.dialects.syntax.recipes.probe import open_dense
from mlc.dialects.syntax.recipes.repeated_functions import RepeatedFunctions
from mlc.dialects.syntax.recipes.repeated_ops import RepeatedOps
from mlc.dialects.syntax.token_parser import HexElement, Hole, TokenParser, ValueNames
from mlc.dialects.value_names import value_name
from mlc.support.collector import uncollected
from mlc.support.diagnostics import Diagnostic, Place, one_line, place_of_op, place_of_parse_error
from mlc.support.errors import UserError, diagnostic_text
from mlc.support.limits import limits

_RESULTS = re.compile(r"%[^=\n]*=\s*")
_REMEMBERED = 1 << 14


class SourceParser(TokenParser):
    """xDSL's parser, extended by a location for each operation, and by the limits."""

    def __init__(self, ctx: Context, source: Input[str]) -> None:
        self.positions: dict[Operation, Place] = {}
        self._undeclared: dict[str, Span[Any]] = {}
        self._lines = [0, *(m.end() for m in re.finditer("\n", source.content))]
        self.file = StringAttr(source.name)
        self._depth = 0
        self._count = 0
        self._types = {}
        self.shaped = {}
        self._columns: dict[int, IntAttr] = {}
        self._checked: dict[int, Attribute] = {}
        self._start(ctx, SourceLexer(source))
        self._repeated = RepeatedOps(self)
        self._functions = RepeatedFunctions(self)

    def _start(self, ctx: Context, lexer: SourceLexer, dialects: list[str] | None = None) -> None:
        # Not Parser.__init__, which creates its own lexer.
        AttrParser.__init__(self, ParserState(lexer, dialects), ctx)
        self.ssa_values = ValueNames()
        self._entries: list[tuple[str, int]] = []
        self._open: list[int] = []
        self.blocks = {}
        self.forward_block_references = defaultdict(list)
        self.forward_ssa_references = {}
        self._opened: int | None = None
        self.holes = {}

    def line(self, pos: int) -> int:
        """The line of a position in the text, from 1."""
        return bisect_right(self._lines, pos)

    def place(self, pos: int) -> Place:
        """The place of a position in the text."""
        line = self.line(pos)
        return Place(self.file.data, line, pos - self._lines[line - 1] + 1)

    def begin(self, pos: int) -> int:
        """Where the op at a position begins, behind the names of its results."""
        match = _RESULTS.match(self.lexer.input.content, pos)
        return pos if match is None else match.end()

    def is_at(self, span: Span[Any]) -> bool:
        """Whether the next token is that span."""
        return self._current_token.span == span

    def parse_operation(self) -> Operation:
        pos = self.pos
        found = self._repeated.find(pos) if self._depth < limits.nesting and self._count < limits.ops else None
        if isinstance(found, Operation):
            return found
        function = None
        if found is None and self._depth <= 1:
            function = self._functions.find(pos, limits.ops - self._count)
        if isinstance(function, Operation):
            return function
        self._depth += 1
        self._count += 1
        if self._depth > limits.nesting:
            self.raise_error(f"expected at most {limits.nesting} nested operations; raise the limit with --max-nesting")
        if self._count > limits.ops:
            self.raise_error(f"expected at most {limits.ops} operations; raise the limit with --max-ops")
        entries = len(self._entries)
        op = super().parse_operation()
        self._depth -= 1
        if op.attributes:
            self._check_attributes(op, pos, entries)
        del self._entries[entries:]
        if found is not None:
            self._repeated.learn(found, op)
        self._locate(op, pos)
        if function is not None:
            self._functions.learn(function, op)
        return op

    def skip(self, end: int, ops: int) -> None:
        """Go on at `end`, behind `ops` ops that were made without parsing."""
        self._count += ops
        self.lexer.pos = end
        self._parser_state.current_token = self.lexer.lex()

    def entry_at(self, name: str, pos: int) -> None:
        """Note where the name of an attribute stands, for a later error about it."""
        self._entries.append((name, pos))

    def _parse_attribute_entry(self) -> tuple[str, Attribute]:
        pos = self.pos
        name, value = super()._parse_attribute_entry()
        self.entry_at(name, pos)
        return name, value

    def _check_attributes(self, op: Operation, start: int, entries: int) -> None:
        """Reject attributes that an op of mlc cannot have."""
        adopt_properties(op)
        if (found := unknown_attribute(op)) is not None:
            name, message = found
            self.raise_error(message, next((pos for n, pos in self._entries[entries:] if n == name), start))

    def _locate(self, op: Operation, pos: int) -> None:
        """Give the op that begins at `pos` its location, and check the sizes of its types."""
        content = self.lexer.input.content
        pos = self.begin(pos)
        unknown = op.location is UNKNOWN_LOC or op.location == UNKNOWN_LOC
        if unknown and not content[max(0, self.pos - 64) : self.pos].rstrip().endswith("loc(unknown)"):
            op.location = self._location(pos)
        else:
            self.positions[op] = self.place(pos)
        for value in op.results:
            self._check_size(value.type, pos)
        for region in op.regions:
            for block in region.blocks:
                for value in block.args:
                    self._check_size(value.type, pos)

    @property
    def dialects_around(self) -> Sequence[str]:
        """The dialects of the ops around the current one, whose prefix may be left out."""
        return self._parser_state.dialect_stack

    def _location(self, pos: int) -> FileLineColLoc:
        """The location of a position; it is not verified, which would take longer than parsing most ops."""
        number = bisect_right(self._lines, pos)
        at = pos - self._lines[number - 1] + 1
        column = self._columns.get(at) or self._columns.setdefault(at, IntAttr(at))
        line: IntAttr = object.__new__(IntAttr)
        vars(line)["data"] = number
        location: FileLineColLoc = object.__new__(FileLineColLoc)
        vars(location).update(filename=self.file, line=line, column=column)
        return location

    def is_new(self, names: Sequence[str]) -> bool:
        """Whether no value of these names is defined or used yet."""
        return not any(name in self.ssa_values or name in self.forward_ssa_references for name in names)

    def accept(self, op: Operation, names: Sequence[str], start: int, end: int) -> Operation:
        """Take over an op that was made without parsing; its results have these names, or it has no names."""
        for name, value in zip(names, op.results, strict=False):
            self.ssa_values[name] = (value,)
            if "_" in name:
                value.name_hint = value_name(name)
            elif not name[0].isdigit():
                value._name = name  # pyright: ignore[reportPrivateUsage] - the setter would look for what to shorten
        op.location = self._location(self.begin(start) if names else start)
        self.skip(end, 1)
        return op

    def probe(
        self, start: int, values: dict[str, tuple[SSAValue, ...]], holes: dict[int, Hole], *, opens: bool = False
    ) -> SourceParser:
        """
        A parser of the text from `start` on with only these values.

        `holes`, by their positions, stand for parts of the text; `opens`: dense attributes are left open.
        """
        parser = SourceParser.__new__(SourceParser)
        lexer = SourceLexer(self.lexer.input)
        lexer.pos = start
        parser._undeclared, parser._types, parser.shaped = {}, self._types, self.shaped
        parser._start(self.ctx, lexer, [*self.dialects_around])
        parser.attribute_aliases = self.attribute_aliases
        parser.ssa_values = values
        parser._opened = 0 if opens else None
        parser.holes = holes
        return parser

    def _check_size(self, type_: Attribute, pos: int) -> None:
        """Reject types of too many dimensions, and tensors whose static sizes have too many elements."""
        if id(type_) in self._checked or not isinstance(type_, ShapedType):
            return
        if len(self._checked) >= _REMEMBERED:
            self._checked.clear()
        self._checked[id(type_)] = type_
        shape = type_.get_shape()
        if len(shape) > limits.rank:
            message = f"expected at most {limits.rank} dimensions, but got {len(shape)}"
            self.raise_error(f"{message}; raise the limit with --max-rank", pos)
        count = math.prod(max(size, 1) for size in shape)
        if count > limits.tensor_elements and isinstance(type_, TensorType):
            message = f"expected a tensor of at most {limits.tensor_elements} elements, but got {count}"
            self.raise_error(f"{message}; raise the limit with --max-tensor-elements", pos)
        names, count = getattr(type_, "encoding", None), shape.count(DYNAMIC_INDEX)
        if names is not None and names.name == "graph.dims" and len(names.data) != count:
            self.raise_error(f"expected #graph.dims to name the {count} sizes left as '?', but got {type_}", pos)

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        self._open.append(self.pos)
        region = super().parse_optional_region(arguments)
        self._open.pop()
        return region

    def _parse_block(self) -> Block:
        """A further block of a region; here, too, a text goes wrong that should go on with an operation."""
        if not (text := self._current_token.text).startswith("^"):
            place = self.place(self._open[-1])
            begins = f"the region that begins at {place.line}:{place.column}"
            what = "'}', which closes" if not text else "an operation, or '}', which closes"
            self.raise_error(f"expected {what} {begins}, but got {token_text(text)}")
        return super()._parse_block()

    def parse_optional_type(self) -> TypeAttribute | None:
        match = None if self.holes else SHAPED.match(self.lexer.input.content, self.pos)
        made = None if match is None else type_of(self, match[0])
        if match is None or made is None:
            return super().parse_optional_type()
        self.skip(match.end(), 0)
        return cast("TypeAttribute", made)

    def parse_ranked_shape(self) -> tuple[list[int], Attribute]:
        try:
            return super().parse_ranked_shape()
        except ParseError as error:
            text = self.lexer.input.content
            if self._current_token.text != "-" or error.span != self._current_token.span:
                raise
            digits = re.match(r"\s*(\d+)", text[self._current_token.span.end :])
            self.raise_error(negative_size(digits[1] if digits else ""))

    def reworded(self, error: ParseError) -> str:
        """The message of an error of xDSL's parser, with what stands at its place."""
        return reworded(error.msg, self._current_token.text if self.is_at(error.span) else None)

    def previous(self) -> Span[str]:
        """The token before the current one."""
        text = self.lexer.input.content
        start = self.pos
        while start > 0:
            start = text.rfind("\n", 0, start - 1) + 1
            lexer = SourceLexer(self.lexer.input)
            lexer.pos = start
            found = None
            while (token := lexer.lex()).span.start < self.pos:
                found = token.span
            if found is not None:
                return found
        return self._current_token.span

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = self.ctx.get_optional_op(name, dialect_stack=self._parser_state.dialect_stack)
        if found is None:
            from mlc.dialects.graph.other_names import did_you_mean_op

            self.ctx.get_optional_op("graph.relu")  # loads the dialect, whose ops a name may mean
            known = [op.name for op in self.ctx.loaded_ops]
            self.raise_error(f"operation '{name}' is not registered{did_you_mean_op(name, known)}", self.previous())
        return found

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue[Any]:
        if operand.operand_name not in self.ssa_values:
            self._undeclared.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def parse_dense_int_or_fp_elements_attr(self, type: RankedStructure[Any] | None) -> Any:
        if type is not None:
            self._check_elements(type)
        attribute = super().parse_dense_int_or_fp_elements_attr(type)
        if self._opened is None:
            return attribute
        self._opened += 1
        return open_dense(attribute.type, self._opened)

    def _parse_dense_literal_type(self) -> Any:
        type_ = super()._parse_dense_literal_type()
        self._check_elements(type_)
        return type_

    def _parse_tensor_literal_element(self) -> Any:
        is_hex = self._current_token.text[:2] in ("0x", "0X")
        element = super()._parse_tensor_literal_element()
        return HexElement(element.is_negative, element.value, element.span) if is_hex else element

    def _check_elements(self, type_: ShapedType) -> None:
        elements = 1
        for size in type_.get_shape():
            elements *= size
        if elements > limits.elements:
            self.raise_error(
                f"expected a constant of at most {limits.elements} elements, but got {elements}; "
                "raise the limit with --max-elements",
                self.previous(),
            )

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        if not self.lexer.input.content.strip():
            return ModuleOp([])
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError:
            missing = next(iter(self.forward_ssa_references), None)
            # xDSL reports undeclared values at the end of the file.
            if missing is None or self._current_token.text or missing not in self._undeclared:
                raise
            self.raise_error(f"use of undeclared value %{missing}", self._undeclared[missing])


def parse(
    ctx: Context, source: Input[str], *, implicit_module: bool = True, parser_class: type[SourceParser] = SourceParser
) -> tuple[ModuleOp, SourceParser]:
    """The module in a text, and the parser, which has the places of operations; InputError for an invalid text."""
    allow_nesting(limits.nesting)
    parser: SourceParser | None = None
    try:
        parser = parser_class.__new__(parser_class)
        parser.__init__(ctx, source)
        with uncollected():
            return parser.parse_module(implicit_module), parser
    except MultipleSpansParseError as error:
        # Report an undefined block at its first use, not where xDSL notices that it is missing.
        where = ParseError(error.refs[0][0], "") if "missing block" in error.msg and error.refs else error
        raise InputError(Diagnostic(place_of_parse_error(where), one_line(error.msg))) from None
    except ParseError as error:
        message = error.msg
        if parser is not None and hasattr(parser, "_parser_state"):
            message = parser.reworded(error)
            if _is_behind(error.msg) and parser.is_at(error.span):
                error.span = parser.previous()
        raise InputError(Diagnostic(place_of_parse_error(error), one_line(message))) from None
    except RecursionError:
        message = "expected less deeply nested text"
        raise reject(_here(parser, source), message) from None
    except (UserError, DiagnosticException) as error:
        raise reject(_here(parser, source), str(error)) from error
    except Exception as error:
        # xDSL's parsers assert some properties of the text, or do not check them: the text is still wrong.
        detail = f": {error}" if str(error) else ""
        raise reject(_here(parser, source), f"cannot parse this ({type(error).__name__}{detail})") from error


def _is_behind(message: str) -> bool:
    """Whether xDSL reports this message at the token after the wrong one."""
    return message.endswith("is not registered") or message.startswith("undefined symbol alias")


def _here(parser: SourceParser | None, source: Input[str]) -> Place:
    """The place of the parser's current token."""
    if parser is None or not hasattr(parser, "_parser_state"):
        return start_of(source)
    try:
        return parser.place(parser.previous().start)
    except ParseError:
        return parser.place(parser.pos)


def parse_module(text: str, name: str = "<text>", context: Context | None = None) -> ModuleOp:
    """Parse and verify a module, by default in mlc's dialects only; errors are UserErrors with their place."""
    return parse_placed(text, name, context)[0]


def parse_placed(
    text: str, name: str = "<text>", context: Context | None = None
) -> tuple[ModuleOp, dict[Operation, Place]]:
    """As `parse_module`, with the place of each operation in the text."""
    try:
        module, parser = parse(context or model_context(), Input(text, name))
        _verify(module, parser)
    except InputError as error:
        raise UserError(error.diagnostic.message, place=str(error.diagnostic.place)) from error
    except (UserError, DiagnosticException, VerifyException) as error:
        raise UserError(str(error), place=name) from error
    except RecursionError as error:
        raise UserError(f"{name}: nested too deeply") from error
    return module, parser.positions


def _verify(module: ModuleOp, parser: SourceParser) -> None:
    """InputError for the first operation, inner ones first, that its verifier refuses."""
    try:
        module.verify()
        return
    except VerifyException as error:
        for op in module.walk(region_first=True):
            try:
                op.verify(verify_nested_ops=False)
            except VerifyException as reason:
                text = diagnostic_text(op, one_line(str(reason)))
                raise reject(place_of_op(op, parser.place(0), parser.positions), text) from error
        raise


def model_context() -> Context:
    """A context with mlc's dialects and the upstream ones that a model may use, loaded lazily."""
    upstream = {"builtin": "Builtin", "func": "Func", "arith": "Arith", "math": "Math", "scf": "Scf"}
    places = {**DIALECTS, **{name: f"xdsl.dialects.{name}:{symbol}" for name, symbol in upstream.items()}}
    context = Context()
    for name, place in places.items():
        context.register_dialect(name, lambda place=place: _imported(place))
    context.load_registered_dialect("builtin")
    return context


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
