"""A parser of one function that gets, for parts of its text, objects that may not be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.lexer import Span

from mlc.dialects.syntax.lexer import SourceLexer
from mlc.dialects.syntax.recipes.probe import hide_name
from mlc.dialects.syntax.source import SourceParser
from mlc.dialects.syntax.token_parser import Hole


class FunctionProbe(SourceParser):
    """The parser; it takes no short cuts, and remembers no types that contain such objects."""

    places: dict[Operation, int]
    """Where the parsed ops begin, behind the names of their results."""
    names: dict[SSAValue, int]
    """Where the names of values stand that are defined."""

    @classmethod
    def at(cls, parser: SourceParser, start: int, holes: dict[int, Hole]) -> FunctionProbe:
        """A parser of the text from `start` on with these holes, by their positions; dense literals are open."""
        made = cls.__new__(cls)
        lexer = SourceLexer(parser.lexer.input)
        lexer.pos = start
        made._undeclared, made._types, made.shaped = {}, {}, {}
        made.positions, made.places, made.names = {}, {}, {}
        made._lines = parser._lines
        made._start(parser.ctx, lexer, [*parser.dialects_around])
        made.attribute_aliases = parser.attribute_aliases
        made._opened = 0
        made.holes = holes
        return made

    @property
    def opened(self) -> int | None:
        """How many dense literals there were."""
        return self._opened

    def parse_operation(self) -> Operation:
        pos = self.pos
        entries = len(self._entries)
        op = Parser.parse_operation(self)
        if op.attributes:
            self._check_attributes(op, pos, entries)
        del self._entries[entries:]
        self.places[op] = self.begin(pos)
        return op

    def _register_ssa_definition(self, name: str, values: Sequence[SSAValue], span: Span[Any]) -> None:
        super()._register_ssa_definition(name, values, span)
        for value in values:
            self.names[value] = span.start
            hide_name(value)
