"""
Index expressions in the text of ops, printed and parsed in this file only: accesses, predicates, axes.

    access     ::= %source `[` expr,* `]` (`mask` predicates)? (`else` %value)? tile?
    tile       ::= `tile` `(` (dN `:` size),* `)`
    predicates ::= `(` expr,* `)`                       every expression must be >= 0
    axes       ::= `(` (%axis `:` extent (`=` expr)?),* `)`
    expr                                                see `mlc.dialects.index`

An op keeps an access as its operands (the source, then the index operands that the expressions number, each once) and
the properties `map`, `mask` and `tile`. `te.read` and the accesses of the loop dialect share the text and the checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import StringIO

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def, prop_def, result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.index import ZERO, Index, IndexMapAttr, const, dim, dim_name, tile
from mlc.dialects.syntax.lexer import VALUE_TEXT
from mlc.dialects.syntax.token_parser import EXPRESSION, MAP, TokenParser
from mlc.dialects.text import TextOp, parse_defined

_INDEX = IndexType()
# An axis of a constant extent, and a list of them.
_AXIS = re.compile(rf"({VALUE_TEXT})\s*:\s*([0-9]+)", re.ASCII)
_AXES = re.compile(rf"\(\s*{VALUE_TEXT}\s*:\s*[0-9]+(?:\s*,\s*{VALUE_TEXT}\s*:\s*[0-9]+)*\s*\)", re.ASCII)


def i64_array(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """A dense array attribute of sizes or axes."""
    return DenseArrayBase.from_list(i64, list(values))


def verify_access(
    exprs: Sequence[Index],
    mask: Sequence[Index] | None,
    operands: Sequence[SSAValue],
    rank: int,
    tile_rank: int = 0,
) -> None:
    """One expression per dimension of the tensor; every operand an index; tile axes only where there is a tile."""
    if len(exprs) != rank:
        raise VerifyException(f"expected {rank} indices, one per dimension, but got {len(exprs)}")
    used = set[int]().union(*(e.dims() for e in (*exprs, *(mask or ()))))
    for number in used:
        if number >= len(operands):
            raise VerifyException(f"expected index operand {number}, but only {len(operands)} are given")
        if number < -tile_rank:
            raise VerifyException(f"expected a tile with axis d{-1 - number}, but it has {tile_rank} axes")
    for operand in operands:
        if not isinstance(operand.type, IndexType):
            raise VerifyException(f"expected index operands of type index, but got {operand.type}")


# --- expressions -------------------------------------------------------------------------------------------------


def print_exprs(printer: Printer, exprs: Iterable[Index], operands: Sequence[SSAValue]) -> None:
    """`%i * 2 + d0, %j` with the operands' printed names."""

    def name(number: int) -> str:
        if number < 0:
            return dim_name(number)
        stream, printer.stream = printer.stream, StringIO()
        try:
            return "%" + printer.print_ssa_value(operands[number])
        finally:
            printer.stream = stream

    for i, e in enumerate(exprs):
        printer.print_string(", " if i else "")
        printer.print_string(e.text(name))


def print_predicates(
    printer: Printer, keyword: str, predicates: IndexMapAttr | None, operands: Sequence[SSAValue]
) -> None:
    """` where (%i - 1, 7 - %i)`; nothing without predicates."""
    if predicates is not None:
        printer.print_string(f" {keyword} (")
        print_exprs(printer, predicates.data, operands)
        printer.print_string(")")


@dataclass(frozen=True)
class ParsedAxis:
    """A parsed axis: its block argument, its extent, and its binding."""

    argument: Parser.Argument
    extent: Index
    binding: Index = ZERO


def print_axes(
    printer: Printer,
    axes: Sequence[SSAValue],
    columns: Sequence[tuple[Index, ...]],
    operands: Sequence[SSAValue],
) -> None:
    """`(%i : 4, %j : %n)`; with two expressions an axis, its extent and its binding, `(%i : 4 = %o * 2 + %p)`."""
    with printer.in_parens():
        for k, (axis, exprs) in enumerate(zip(axes, columns, strict=True)):
            printer.print_string(", " if k else "")
            printer.print_ssa_value(axis)
            for mark, e in zip((" : ", " = "), exprs, strict=False):
                printer.print_string(mark)
                print_exprs(printer, [e], operands)


class IndexParser:
    """Parses index expressions and collects their SSA operands, each once, in order of appearance."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.unresolved: list[UnresolvedOperand] = []
        self._numbers: dict[str, int] = {}

    def operands(self) -> list[SSAValue]:
        """The collected operands, resolved as `index` values."""
        return [self.parser.resolve_operand(u, IndexType()) for u in self.unresolved]

    def list(self, delimiter: Parser.Delimiter = Parser.Delimiter.SQUARE) -> tuple[Index, ...]:
        """A delimited list of expressions."""
        return tuple(self.parser.parse_comma_separated_list(delimiter, self.expr))

    def subscripts(self) -> Attribute:
        """`[%i + 2, %j]`; its operands are collected also where a placeholder gives the attribute."""
        parser, start = self.parser, self.parser.pos
        found = parser.hole(MAP) if isinstance(parser, TokenParser) and parser.holes else None
        if not isinstance(parser, TokenParser) or found is None:
            return IndexMapAttr.get(self.list())
        for operand in parser.operands_between(start, parser.pos):
            self._take(operand)
        return found

    def _take(self, operand: UnresolvedOperand) -> int:
        """The number of an operand, which is collected if it is new."""
        key = f"{operand.span.text}#{operand.index}"
        if key not in self._numbers:
            self._numbers[key] = len(self.unresolved)
            self.unresolved.append(operand)
        return self._numbers[key]

    def optional_list(self) -> tuple[Index, ...]:
        """A list of one or more expressions in parentheses; () where no parenthesis follows."""
        if not self.parser.parse_optional_punctuation("("):
            return ()
        exprs = self.parser.parse_comma_separated_list(Parser.Delimiter.NONE, self.expr)
        self.parser.parse_punctuation(")")
        return tuple(exprs)

    def predicates(self, keyword: str) -> tuple[Index, ...]:
        """The counterpart of `print_predicates`; () where the keyword does not follow."""
        return self.list(Parser.Delimiter.PAREN) if self.parser.parse_optional_keyword(keyword) else ()

    def axes(self, *, bound: bool = False) -> Sequence[ParsedAxis]:
        """The counterpart of `print_axes`; `bound`: each axis has a binding."""
        parser = self.parser
        if not bound and isinstance(parser, TokenParser) and (axes := parser.take(_AXES)) is not None:
            each = _AXIS.finditer(axes.string, axes.start(), axes.end())
            return [ParsedAxis(parser.argument(axis, _INDEX), const(int(axis[2]))) for axis in each]
        return self.parser.parse_comma_separated_list(Parser.Delimiter.PAREN, lambda: self._axis(bound))

    def _axis(self, bound: bool) -> ParsedAxis:
        argument = self.parser.parse_argument(expect_type=False).resolve(IndexType())
        self.parser.parse_punctuation(":")
        extent = self.expr()
        if not bound:
            return ParsedAxis(argument, extent)
        self.parser.parse_punctuation("=")
        return ParsedAxis(argument, extent, self.expr())

    def expr(self) -> Index:
        """One expression."""
        parser = self.parser
        if isinstance(parser, TokenParser) and parser.holes and (found := parser.hole(EXPRESSION)) is not None:
            return found
        total = self._term()
        while True:
            if self.parser.parse_optional_punctuation("+"):
                total = total + self._term()
            elif self.parser.parse_optional_punctuation("-"):
                total = total - self._term()
            elif (n := self._negative_literal()) is not None:
                total = total + n
            else:
                return total

    def _negative_literal(self) -> int | None:
        # `%i -1` lexes as `%i` and the literal -1 where no space stands between sign and digits
        return self.parser.parse_optional_integer(allow_boolean=False)

    def _term(self) -> Index:
        value = self._factor()
        while True:
            if self.parser.parse_optional_characters("*"):
                value = self._times(value)
            elif self.parser.parse_optional_keyword("floordiv"):
                value = value.floordiv(self._positive())
            elif self.parser.parse_optional_keyword("mod"):
                value = value.mod(self._positive())
            else:
                return value

    def _times(self, value: Index) -> Index:
        other = self._factor()
        if other.is_const:
            return value * other.const
        if value.is_const:
            return other * value.const
        self.parser.raise_error("expected an integer factor, but got a product of two indices")

    def _positive(self) -> int:
        number = self.parser.parse_integer(allow_boolean=False)
        if number <= 0:
            self.parser.raise_error(f"expected a positive divisor, but got {number}")
        return number

    def _factor(self) -> Index:
        p = self.parser
        if p.parse_optional_punctuation("("):
            inner = self.expr()
            p.parse_punctuation(")")
            return inner
        if p.parse_optional_punctuation("-"):
            return -self._factor()
        if (n := p.parse_optional_integer(allow_boolean=False)) is not None:
            return const(n)
        if (u := p.parse_optional_unresolved_operand()) is not None:
            return dim(self._take(u))
        word = p.parse_identifier(" as an index expression")
        if word[:1] == "d" and word[1:].isdigit():
            return tile(int(word[1:]))
        p.raise_error(f"expected an index expression, but got '{word}'")


# --- accesses ----------------------------------------------------------------------------------------------------


def print_access(
    printer: Printer,
    source: SSAValue,
    exprs: IndexMapAttr,
    operands: Sequence[SSAValue],
    mask: IndexMapAttr | None = None,
    otherwise: SSAValue | None = None,
) -> None:
    """`%x[%i] mask (%i - 1, 7 - %i) else %zero`."""
    printer.print_operand(source)
    with printer.in_square_brackets():
        print_exprs(printer, exprs.data, operands)
    print_predicates(printer, "mask", mask, operands)
    if otherwise is not None:
        printer.print_string(" else ")
        printer.print_operand(otherwise)


@dataclass
class ParsedAccess:
    """A parsed access; the type of its else value follows in the text."""

    operands: list[SSAValue]
    """The source, then the index operands."""
    properties: dict[str, Attribute]
    """The map, and the mask if there is one."""
    otherwise: UnresolvedOperand | None = None

    def all_operands(self, parser: Parser, type: Attribute) -> list[SSAValue]:
        """The operands and, last, the else value of this type, where there is one."""
        last = [] if self.otherwise is None else [parser.resolve_operand(self.otherwise, type)]
        return [*self.operands, *last]


def parse_access(parser: Parser, *, with_mask: bool = True, with_else: bool = True) -> ParsedAccess:
    """The counterpart of `print_access`; `with_else`: a mask comes with an else value."""
    source, index = parse_defined(parser), IndexParser(parser)
    properties: dict[str, Attribute] = {"map": index.subscripts()}
    otherwise = None
    if with_mask and parser.parse_optional_keyword("mask"):
        properties["mask"] = IndexMapAttr.get(index.list(parser.Delimiter.PAREN))
        if with_else:
            parser.parse_keyword("else")
            otherwise = parser.parse_unresolved_operand()
    return ParsedAccess([source, *index.operands()], properties, otherwise)


def print_tile(printer: Printer, sizes: Sequence[int]) -> None:
    """` tile (d0 : 12, d1 : 32)`; nothing where there is no tile."""
    if sizes:
        axes = ", ".join(f"d{k} : {n}" for k, n in enumerate(sizes))
        printer.print_string(f" tile ({axes})")


def parse_tile(parser: Parser) -> dict[str, Attribute]:
    """The counterpart of `print_tile`: the property `tile`, where there is one."""
    if not parser.parse_optional_keyword("tile"):
        return {}

    def axis() -> tuple[str, int]:
        name = parser.parse_identifier(" as a tile axis")
        parser.parse_punctuation(":")
        return name, parser.parse_integer(allow_boolean=False)

    axes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, axis)
    for k, (name, _) in enumerate(axes):
        if name != f"d{k}":
            parser.raise_error(f"expected tile axis d{k}, but got '{name}'")
    return {"tile": i64_array([n for _, n in axes])}


class MaskedReadOp(TextOp):
    """
    A read that gives another value where its mask does not hold, and then touches no memory.

    Operands: the source, the index operands that map and mask number, and last the else value where there is a mask.
    """

    map = prop_def(IndexMapAttr)
    mask = opt_prop_def(IndexMapAttr)
    result = result_def()

    @property
    def indices(self) -> Sequence[SSAValue]:
        """The index operands of map and mask."""
        return self.operands[1:-1] if self.mask is not None else self.operands[1:]

    @property
    def otherwise(self) -> SSAValue | None:
        """The value where the mask does not hold."""
        return self.operands[-1] if self.mask is not None else None

    def verify_otherwise(self) -> None:
        """The else value has the type of the result."""
        if self.otherwise is not None and self.otherwise.type != self.result.type:
            raise VerifyException(f"expected an else value of type {self.result.type}, but got {self.otherwise.type}")
