"""
Symbolic sizes: integer expressions over a function's symbols, in canonical form.

    dims-attr ::= `#graph.dims` `<` `[` expr (`,` expr)* `]` `>`     one expression for each `?` of the type
    expr      ::= term ((`+` | `-`) term)*
    term      ::= factor ((`*` | `floordiv` | `ceildiv` | `mod`) factor)*
    factor    ::= integer | symbol (`<` low `to` high `>`)? | `min` `(` expr `,` expr `)` | `(` expr `)` | `-` factor
    symbol-attr ::= `#graph.symbol` `<` low `to` high (`step` divisor)? (`like` usual)? `>`

A size is an `int` or a `DimExpr`; the two mix under `+ - * // %`, and a constant result is an `int`, so type inference
is plain arithmetic for static and symbolic sizes alike. Equal expressions are equal objects. The range of a bounded
symbol simplifies divisions and decides comparisons: `(H<33 to 80> + 15) floordiv 48` is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.expressions import (
    Atom,
    Bounded,
    Dim,
    DimExpr,
    FloorDiv,
    Least,
    UnequalSizes,
    basis,
    bounds_between,
    floordiv,
    greatest,
    least,
    least_extent,
    simplify,
    with_ends,
)
from mlc.dialects.index import TYPICAL

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class DimsAttr(Data[tuple[DimExpr, ...]]):
    """The sizes of a tensor type's dynamic dimensions, in order: `tensor<1x?xf32, #graph.dims<[H floordiv 2]>>`."""

    name = "graph.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[DimExpr, ...]:
        with parser.in_angle_brackets():
            sizes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_dim(parser))
        return tuple(DimExpr.of(size) for size in sizes)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("[" + ", ".join(size.text(with_ends) for size in self.data) + "]")


@irdl_attr_definition
class SymbolAttr(ParametrizedAttribute):
    """
    The range of a symbol: `#graph.symbol<32 to 2048 step 32>` is the multiples of 32, both ends included.

    `like 1` gives the typical value, for which schedules and memory plans are optimized; they are correct for all.
    """

    name = "graph.symbol"
    low: IntAttr
    high: IntAttr
    step: IntAttr
    usual: IntAttr

    def __init__(self, low: int, high: int, step: int = 1, usual: int = 0):
        super().__init__(IntAttr(low), IntAttr(high), IntAttr(step), IntAttr(usual))

    @property
    def typical(self) -> int:
        """The typical value, for which schedules and memory plans are optimized."""
        low, high, step = self.low.data, self.high.data, self.step.data
        if self.usual.data:
            return self.usual.data
        return max(low, min(step, high), min(TYPICAL, (low + high) // 3) // step * step)

    def verify(self) -> None:
        if not 0 <= self.low.data <= self.high.data or self.step.data < 1:
            raise VerifyException(
                f"expected 0 <= low <= high and step >= 1, but got {self.low.data} to {self.high.data} "
                f"step {self.step.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[IntAttr]:
        with parser.in_angle_brackets():
            low = parser.parse_integer()
            parser.parse_keyword("to")
            high = parser.parse_integer()
            step = parser.parse_integer() if parser.parse_optional_keyword("step") else 1
            usual = parser.parse_integer() if parser.parse_optional_keyword("like") else 0
        return [IntAttr(low), IntAttr(high), IntAttr(step), IntAttr(usual)]

    def print_parameters(self, printer: Printer) -> None:
        step = "" if self.step.data == 1 else f" step {self.step.data}"
        usual = "" if not self.usual.data else f" like {self.usual.data}"
        printer.print_string(f"<{self.low.data} to {self.high.data}{step}{usual}>")


def parse_dim(parser: AttrParser) -> int | DimExpr:
    """Parse one size expression."""
    total = _parse_term(parser)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = total + _parse_term(parser)
        elif parser.parse_optional_punctuation("-"):
            total = total - _parse_term(parser)
        else:
            return total


def _parse_term(parser: AttrParser) -> int | DimExpr:
    value = _parse_factor(parser)
    while True:
        if parser.parse_optional_punctuation("*"):
            value = value * _parse_factor(parser)
        elif (keyword := parser.parse_optional_keyword_in(("floordiv", "ceildiv", "mod"))) is not None:
            position = parser.pos
            divisor = parser.parse_integer(allow_negative=False)
            if divisor == 0:
                parser.raise_error("expected a positive divisor, but got 0", position)
            value = _divide(keyword, value, divisor)
        else:
            return value


def _divide(keyword: str, value: int | DimExpr, divisor: int) -> int | DimExpr:
    if keyword == "ceildiv":
        return (value + (divisor - 1)) // divisor
    return value // divisor if keyword == "floordiv" else value % divisor


def _parse_factor(parser: AttrParser) -> int | DimExpr:
    if parser.parse_optional_punctuation("-"):
        return -_parse_factor(parser)
    if parser.parse_optional_punctuation("("):
        value = parse_dim(parser)
        parser.parse_punctuation(")")
        return value
    if (number := parser.parse_optional_integer(allow_boolean=False, allow_negative=False)) is not None:
        return number
    name = parser.parse_identifier(" or integer in a size expression")
    if name == "min" and parser.parse_optional_punctuation("("):
        first = parse_dim(parser)
        parser.parse_punctuation(",")
        second = parse_dim(parser)
        parser.parse_punctuation(")")
        return least(first, second)
    if not parser.parse_optional_punctuation("<"):
        return DimExpr.symbol(name)
    low = parser.parse_integer(allow_negative=False)
    parser.parse_keyword("to")
    high = parser.parse_integer(allow_negative=False)
    if high < low:
        parser.raise_error(f"expected {name} from {low} on, but got {low} to {high}")
    parser.parse_punctuation(">")
    return DimExpr.symbol(name, low, high)


__all__ = [
    "Atom",
    "Bounded",
    "Dim",
    "DimExpr",
    "DimsAttr",
    "FloorDiv",
    "Least",
    "SymbolAttr",
    "UnequalSizes",
    "basis",
    "bounds_between",
    "floordiv",
    "greatest",
    "least",
    "least_extent",
    "parse_dim",
    "simplify",
    "with_ends",
]
