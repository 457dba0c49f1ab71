"""xDSL's parser with its innermost functions flattened: the same tokens are taken and the same errors raised."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from xdsl.dialects.builtin import AnyFloat, ShapedType, UnitAttr
from xdsl.ir import Attribute, Region, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRToken, MLIRTokenKind, PunctuationSpelling

from mlc.dialects.syntax.lexer import VALUE_NAME, SourceToken, make_span
from mlc.dialects.value_names import value_name

T = TypeVar("T")

TYPE, VALUE, ATTRIBUTE, MAP, EXPRESSION, STRING = range(6)
"""Kinds of holes: a type, the value of an attribute as an op has it, an attribute, index expressions, one, a string."""

_BARE, _EXCLAMATION = MLIRTokenKind.BARE_IDENT, MLIRTokenKind.EXCLAMATION_IDENT
# A type with its parameters, and the token after it, on which its end may depend. Brackets nest once, and nothing that
# could hide a bracket stands between them.
_TYPE = re.compile(r"(!?[A-Za-z_][\w$.]*+(?:<(?:[^<>\"/\n-]|<[^<>\"/\n-]*>)*>)?+)\s*(\w+|[^\w\s]{0,2})", re.ASCII)
_ONE_RESULT = re.compile(VALUE_NAME + r"[ \t]*=")
_PARAMETRIZED = frozenset(("dense", "opaque", "dense_resource", "array", "affine_map", "affine_set", "strided"))
_NUMBER = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.FLOAT_LIT, MLIRTokenKind.MINUS)
# A list of decimal numbers, and one of them.
_NUMBER_TEXT = r"-?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?"
_NUMBERS = re.compile(rf"\[\s*{_NUMBER_TEXT}(?:\s*,\s*{_NUMBER_TEXT})*\s*\]", re.ASCII)
_LITERAL = re.compile(_NUMBER_TEXT)
_VALUE = re.compile(VALUE_NAME)
_REMEMBERED = 1 << 14


class HexElement(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage] xDSL has no other hook
    """An element of `dense<...>` in hexadecimal: for a float type its bits, as MLIR prints NaN and infinities."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:
        """The element as a value of this type."""
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        bits = self.value
        assert isinstance(bits, int)
        if bits.bit_length() > 8 * type.compile_time_size:
            parser.raise_error(f"expected the bits of {type}, but got {self.span.text}", self.span)
        return next(type.iter_unpack(bits.to_bytes(type.compile_time_size, "little")))


class ValueNames(dict[str, tuple[SSAValue, ...]]):
    """The values in scope by their names."""

    is_entering = False

    def copy(self) -> dict[str, tuple[SSAValue, ...]]:
        """A copy; itself for the parser that enters a region, which takes away the region's names when it leaves."""
        if not self.is_entering:
            return dict(self)
        self.is_entering = False
        return self


class Hole(NamedTuple):
    """A placeholder parsed in place of a part of the text, to find out whether the op depends on that part."""

    kind: int
    end: int
    attribute: Any


class TokenParser(Parser):
    """A parser that remembers the types that it has parsed, by their text."""

    _types: dict[tuple[str, str, str], Any]
    shaped: dict[str, Attribute]
    """The types with a shape, by their text: one object for each."""
    holes: dict[int, Hole]
    """By their positions; each can be taken once."""

    def hole(self, kind: int) -> Any:
        """The placeholder of this kind at the current token, which is consumed; None if there is none."""
        found = self.holes.get(self.pos)
        if found is None or found.kind != kind:
            return None
        del self.holes[self.pos]
        state = self._parser_state
        state.lexer.pos = found.end
        state.current_token = state.lexer.lex()
        return found.attribute

    @property
    def pos(self) -> int:
        token = self._parser_state.current_token
        return token.start if isinstance(token, SourceToken) else token.span.start

    def _consume_token(self, expected_kind: MLIRTokenKind | None = None) -> MLIRToken:
        state = self._parser_state
        token = state.current_token
        assert expected_kind is None or token.kind is expected_kind, (
            f"Unexpected token {token}, expected {expected_kind}"
        )
        state.current_token = state.lexer.lex()
        return token

    def _parse_optional_token(self, expected_kind: MLIRTokenKind) -> MLIRToken | None:
        state = self._parser_state
        token = state.current_token
        if token.kind is not expected_kind:
            return None
        state.current_token = state.lexer.lex()
        return token

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """
        The text from the current token on that a pattern matches, if it does; the parser goes on behind it.

        It is a short cut: where it is None, the tokens say the same.
        """
        if self.holes:
            return None
        state = self._parser_state
        match = pattern.match(state.lexer.input.content, self.pos)
        if match is not None:
            state.lexer.pos = match.end()
            state.current_token = state.lexer.lex()
        return match

    def operands_between(self, start: int, end: int) -> Sequence[UnresolvedOperand]:
        """The operands that the text between two positions names, in order."""
        source = self._parser_state.lexer.input
        names = _VALUE.finditer(source.content, start, end)
        return [UnresolvedOperand(make_span(Span, *name.span(), source), 0) for name in names]

    def argument(self, match: re.Match[str], type: Attribute) -> Parser.Argument:
        """The block argument whose name is the first group of a match in the text."""
        return Parser.Argument(make_span(Span, *match.span(1), self._parser_state.lexer.input), type)

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span[Any]) -> None:
        super()._register_ssa_definition(name, values, span)
        if "_" in name:
            for value in values:
                value.name_hint = value_name(name)

    def parse_optional_punctuation(self, punctuation: PunctuationSpelling) -> PunctuationSpelling | None:
        state, kind = self._parser_state, KIND_BY_PUNCTUATION_SPELLING.get(punctuation)
        if kind is None:
            return super().parse_optional_punctuation(punctuation)
        if state.current_token.kind is not kind:
            return None
        state.current_token = state.lexer.lex()
        return punctuation

    def parse_punctuation(self, punctuation: PunctuationSpelling, context_msg: str = "") -> PunctuationSpelling:
        if self.parse_optional_punctuation(punctuation) is None:
            self.raise_error(f"Expected '{punctuation}'" + context_msg, self._parser_state.current_token.span)
        return punctuation

    def parse_optional_characters(self, text: str) -> str | None:
        state = self._parser_state
        if state.current_token.text != text:
            return None
        state.current_token = state.lexer.lex()
        return text

    def parse_optional_keyword(self, keyword: str) -> str | None:
        state = self._parser_state
        token = state.current_token
        if token.kind is not _BARE or token.text != keyword:
            return None
        state.current_token = state.lexer.lex()
        return keyword

    def parse_optional_unit_attr(self) -> Attribute | None:
        return UnitAttr() if self.parse_optional_keyword("unit") is not None else None

    def _parse_optional_builtin_attr(self) -> Attribute | None:
        token = self._parser_state.current_token
        if token.kind is _BARE and token.text in _PARAMETRIZED:
            return self._parse_optional_builtin_parametrized_attr()
        if token.kind in _NUMBER:
            return self.parse_optional_builtin_int_or_float_attr()
        return super()._parse_optional_builtin_attr()

    def _parse_tensor_literal(self) -> tuple[list[Any], list[int]]:
        state = self._parser_state
        source = state.lexer.input
        match = _NUMBERS.match(source.content, self.pos)
        if match is None:
            return super()._parse_tensor_literal()
        elements: list[Any] = []
        for number in _LITERAL.finditer(source.content, match.start(), match.end()):
            text = number[0]
            value = float(text) if "." in text else int(text)
            elements.append(self._TensorLiteralElement(value < 0, value, make_span(Span, *number.span(), source)))
        state.lexer.pos = match.end()
        state.current_token = state.lexer.lex()
        return elements, [len(elements)]

    def _parse_op_result_list(self) -> list[tuple[Span[Any], int]]:
        state = self._parser_state
        token = state.current_token
        match = _ONE_RESULT.match(state.lexer.input.content, self.pos)
        if match is None:
            return super()._parse_op_result_list()
        state.lexer.pos = match.end()
        state.current_token = state.lexer.lex()
        return [(token.span, 1)]

    def parse_optional_region(self, arguments: Iterable[Parser.Argument] | None = None) -> Region | None:
        values = self.ssa_values
        if not isinstance(values, ValueNames):
            return super().parse_optional_region(arguments)
        count = len(values)
        values.is_entering = True
        try:
            region = super().parse_optional_region(arguments)
        finally:
            values.is_entering = False
        # A name is never defined twice, so the region's names are the last ones.
        while len(values) > count:
            values.popitem()
        return region

    def parse_optional_str_literal(self) -> str | None:
        if self.holes and (text := self.hole(STRING)) is not None:
            return text
        return super().parse_optional_str_literal()

    def parse_optional_attribute(self) -> Attribute | None:
        if self.holes and (value := self.hole(ATTRIBUTE)) is not None:
            return value
        return super().parse_optional_attribute()

    def parse_optional_type(self) -> TypeAttribute | None:
        if self.holes and (type_ := self.hole(TYPE)) is not None:
            return cast("TypeAttribute", type_)
        if self._parser_state.current_token.kind not in (_BARE, _EXCLAMATION):
            return super().parse_optional_type()
        return self._remember("type", super().parse_optional_type)

    def _parse_dense_literal_type(self) -> Any:
        return self._remember("dense", super()._parse_dense_literal_type)

    def _remember(self, rule: str, parse: Callable[[], T]) -> T:
        """What `parse` makes of the type at the current token, or what it made of the same text before."""
        state = self._parser_state
        content, start = state.lexer.input.content, self.pos
        match = _TYPE.match(content, start)
        if match is None or (after := match[2])[:1] in ("<", "/"):
            return parse()
        key = rule, match[1], after
        if (found := self._types.get(key)) is not None:
            state.lexer.pos = match.end(1)
            state.current_token = state.lexer.lex()
            return found
        result = parse()
        end = match.end(1)
        # The text stands for the type if it is what was parsed: white space at most stands before the next token.
        if result is not None and end <= self.pos and not content[end : self.pos].strip(" \t\r\n"):
            if len(self._types) >= _REMEMBERED:
                self._types.clear()
            if isinstance(result, ShapedType):
                known = self.shaped.setdefault(match[1], result)
                result = known if known == result else result
            self._types[key] = result
        return result
