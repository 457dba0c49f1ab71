"""Helpers that the custom texts of all dialects share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, StringAttr
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer


class TextOp(IRDLOperation):
    """An op with custom text, which `write` prints and `read` parses; discardable attributes follow it."""

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
    """An operand whose type the text omits: it must be defined above."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        name = operand.operand_name + (f"#{operand.index}" if operand.index else "")
        parser.raise_error(f"expected an operand that is defined above, but got %{name}", operand.span)
    return values[operand.index]


def print_bindings(printer: Printer, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    """`(%a = %x, %b = %y)`: the arguments of a region, and the operands that they take at first."""
    with printer.in_parens():
        for k, (argument, value) in enumerate(zip(arguments, values, strict=True)):
            printer.print_string(", " if k else "")
            printer.print_ssa_value(argument)
            printer.print_string(" = ")
            printer.print_operand(value)


def parse_bindings(parser: Parser) -> list[tuple[Parser.UnresolvedArgument, SSAValue]]:
    """The counterpart of `print_bindings`."""

    def pair() -> tuple[Parser.UnresolvedArgument, SSAValue]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        return argument, parse_defined(parser)

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, pair)


def parse_dense(parser: Parser) -> DenseIntOrFPElementsAttr:
    """Dense numbers: `dense<[1.0, 2.0]> : tensor<2xf32>`."""
    start = parser.pos
    value = parser.parse_attribute()
    if not isinstance(value, DenseIntOrFPElementsAttr):
        parser.raise_error(f"expected dense numbers, `dense<[1.0, 2.0]> : tensor<2xf32>`, but got {value}", start)
    return value


def print_types(printer: Printer, values: Sequence[SSAValue]) -> None:
    """` : f32, i1`: the types of values."""
    printer.print_string(" : ")
    printer.print_list(values, lambda v: printer.print_attribute(v.type))


def parse_three_operands(
    parser: Parser,
    types: int,
    message: str,
    parse_operand: Callable[[], UnresolvedOperand] | None = None,
) -> tuple[Sequence[UnresolvedOperand], Sequence[Attribute]]:
    """Parse `%a, %b, %c : f32, i1`; an error with `message` unless there are three operands and `types` types."""
    start = parser.pos
    parse_operand = parse_operand or parser.parse_unresolved_operand
    names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parse_operand)
    parser.parse_punctuation(":")
    found = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    if len(names) != 3 or len(found) != types:
        parser.raise_error(message, start, parser.pos)
    return names, found


def print_conversion(printer: Printer, value: SSAValue, result: SSAValue) -> None:
    """` : f32 to vector<4xf32>`: the types of an operand and of its conversion."""
    printer.print_string(" : ")
    printer.print_attribute(value.type)
    printer.print_string(" to ")
    printer.print_attribute(result.type)


def parse_conversion(parser: Parser, operand: UnresolvedOperand) -> tuple[SSAValue, Attribute]:
    """The counterpart of `print_conversion`: the operand, resolved, and the type of the result."""
    parser.parse_punctuation(":")
    value = parser.resolve_operand(operand, parser.parse_type())
    parser.parse_keyword("to")
    return value, parser.parse_type()


_NAMED = ("sym_name", "function_type")


def print_kernel(
    printer: Printer, name: StringAttr, type: FunctionType, body: Region, attributes: dict[str, Attribute]
) -> None:
    """` @f(%x: memref<4xf32>) attributes {...} { ... }`."""
    print_func_op_like(printer, name, type, body, attributes, reserved_attr_names=_NAMED)


@dataclass
class ParsedKernel:
    """A parsed kernel."""

    name: str
    inputs: Sequence[Attribute]
    outputs: Sequence[Attribute]
    body: Region
    attributes: dict[str, Attribute]


def parse_kernel(parser: Parser) -> ParsedKernel:
    """The counterpart of `print_kernel`."""
    name, inputs, outputs, body, extra, _, _ = parse_func_op_like(parser, reserved_attr_names=_NAMED)
    return ParsedKernel(name, list(inputs), list(outputs), body, dict(extra.data) if extra is not None else {})
