"""What the accesses of te and loop share: `%x[%i, %k * 2 + 1] mask (%i - 1) else %zero`, its text and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.index import Index, IndexMapAttr, IndexParser, print_exprs
from mlc.dialects.text import parse_defined


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
    if mask is not None:
        printer.print_string(" mask (")
        print_exprs(printer, mask.data, operands)
        printer.print_string(")")
    if otherwise is not None:
        printer.print_string(" else ")
        printer.print_operand(otherwise)


@dataclass
class ParsedAccess:
    """An access as it was written; the type of its else value follows in the text."""

    operands: list[SSAValue]
    """The source, then the index operands."""
    properties: dict[str, Attribute]
    """The map, and the mask where there is one."""
    otherwise: UnresolvedOperand | None = None

    def all_operands(self, parser: Parser, type: Attribute) -> list[SSAValue]:
        """The operands and, last, the else value of this type, where there is one."""
        last = [] if self.otherwise is None else [parser.resolve_operand(self.otherwise, type)]
        return [*self.operands, *last]


def parse_access(parser: Parser, *, with_mask: bool = True, with_else: bool = True) -> ParsedAccess:
    """The counterpart of `print_access`; `with_else`: a mask comes with an else value."""
    source, index = parse_defined(parser), IndexParser(parser)
    properties: dict[str, Attribute] = {"map": IndexMapAttr.get(index.list())}
    otherwise = None
    if with_mask and parser.parse_optional_keyword("mask"):
        properties["mask"] = IndexMapAttr.get(index.list(parser.Delimiter.PAREN))
        if with_else:
            parser.parse_keyword("else")
            otherwise = parser.parse_unresolved_operand()
    return ParsedAccess([source, *index.operands()], properties, otherwise)
