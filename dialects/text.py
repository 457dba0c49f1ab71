"""What all custom texts share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.printer import Printer


class TextOp(IRDLOperation):
    """An op that writes and reads its own text; the attributes that no op declares stand behind it."""

    @abstractmethod
    def write(self, printer: Printer) -> None:
        """Print all but the op's name and its discardable attributes."""

    @classmethod
    @abstractmethod
    def read(cls, parser: Parser) -> Self:
        """Parse what `write` prints."""

    def print(self, printer: Printer) -> None:
        self.write(printer)
        if self.attributes:
            printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls.read(parser)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


def parse_defined(parser: Parser) -> SSAValue:
    """An operand whose type the text does not repeat: it must stand above."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        name = operand.operand_name + (f"#{operand.index}" if operand.index else "")
        parser.raise_error(f"expected an operand that is defined above, but got %{name}", operand.span)
    return values[operand.index]
