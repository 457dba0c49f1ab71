"""
What an op calls that is not mlc's: a C function by its symbol, or a function that the program registers by name.

    callee ::= `registered` "name" (`unsigned` `[` number,* `]`)?
             |   `c` "symbol" `[` argument,* `]` (`libraries` `[` "name",* `]`)? `status`?

The dialects have signless integers: `unsigned` numbers the buffers that a registered function sees as unsigned ones.
An argument of a C function is a scalar, `101 : i32`, a buffer, `0 : index` is operand 0, or a size that is known when
the kernel runs, `#loop.size<1, i64>`: number 1 of the sizes that the op lists. Without arguments the function receives
all buffers. With `status` it returns an int that is 0 for success; else its result is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

CONVENTIONS = ("c", "registered")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@irdl_attr_definition
class SizeArgument(ParametrizedAttribute):
    """An argument of a C function that is one of the sizes that its op lists: `#loop.size<1, i64>`."""

    name = "loop.size"
    number: IntAttr
    type: IntegerType

    def __init__(self, number: int, type: IntegerType):
        super().__init__(IntAttr(number), type)

    def verify(self) -> None:
        if self.type not in (i32, i64):
            raise VerifyException(f"expected a size of type i32 or i64, but got {self.type}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            number = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            return [IntAttr(number), parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.number.data}, {self.type}>")


Argument = IntegerAttr[IntegerType] | IntegerAttr[IndexType] | FloatAttr[AnyFloat] | SizeArgument
"""An argument of a C function: a scalar of its type, with the type index the number of a buffer, or a size."""


@dataclass(frozen=True)
class Callee:
    """A function outside of mlc: `convention` is "c" or "registered"."""

    convention: str
    name: str
    arguments: tuple[Argument, ...] = ()
    """The arguments of a C function; empty: all buffers."""
    libraries: tuple[str, ...] = ()
    """What a C function needs at link time: `m` for libm, or the path of a library."""
    status: bool = False
    """Whether a C function returns an int that is 0 for success."""
    unsigned: tuple[int, ...] = ()
    """The numbers of the buffers of unsigned integers, for a registered function."""

    @staticmethod
    def of(properties: dict[str, Attribute]) -> Callee | None:
        """The callee that an op's properties give; None if they give none."""
        name, convention = properties.get("callee"), properties.get("convention")
        if not isinstance(name, StringAttr) or not isinstance(convention, StringAttr):
            return None
        arguments = cast("Sequence[Argument]", _items(properties.get("arguments")))
        libraries = cast("Sequence[StringAttr]", _items(properties.get("libraries")))
        texts = tuple(text.data for text in libraries)
        unsigned = _numbers(properties.get("unsigned"))
        return Callee(convention.data, name.data, tuple(arguments), texts, "status" in properties, unsigned)

    def properties(self) -> dict[str, Attribute]:
        """As properties of an op."""
        found: dict[str, Attribute] = {"callee": StringAttr(self.name), "convention": StringAttr(self.convention)}
        if self.arguments:
            found["arguments"] = ArrayAttr(self.arguments)
        if self.libraries:
            found["libraries"] = ArrayAttr(map(StringAttr, self.libraries))
        if self.status:
            found["status"] = UnitAttr()
        if self.unsigned:
            found["unsigned"] = DenseArrayBase.from_list(i64, self.unsigned)
        return found

    def buffers(self, count: int) -> Sequence[Argument]:
        """The arguments of the C function; by default, the `count` buffers in order."""
        return self.arguments or [IntegerAttr.from_index_int_value(k) for k in range(count)]

    def verify(self, operands: int, sizes: int = 0) -> None:
        """
        Raise VerifyException unless

        - the convention is `c` or `registered`, and the name is an identifier (dots are allowed in a registered one);
        - arguments, libraries and status stand only on a C function;
        - each argument is an integer or float of a machine type, the number of an operand, or that of a size.
        """
        if self.convention not in CONVENTIONS:
            raise VerifyException(f"expected a callee of c or registered, but got '{self.convention}'")
        is_c = self.convention == "c"
        if not (_SYMBOL if is_c else _NAME).fullmatch(self.name):
            raise VerifyException(f"expected the callee's name to be an identifier, but got '{self.name}'")
        if not is_c and (self.arguments or self.libraries or self.status):
            raise VerifyException(f"expected arguments, libraries and status on a C function only, not '{self.name}'")
        if is_c and self.unsigned:
            raise VerifyException("expected unsigned buffers of a registered function only")
        for number in self.unsigned:
            if not 0 <= number < operands:
                raise VerifyException(f"expected the number of a buffer in 0..{operands - 1} as unsigned, not {number}")
        for argument in self.arguments:
            _verify_argument(argument, operands, sizes)

    def print(self, printer: Printer) -> None:
        """Print it as the grammar above says."""
        printer.print_string(f"{self.convention} ")
        printer.print_string_literal(self.name)
        if self.convention == "c":
            printer.print_string(" ")
            printer.print_attribute(ArrayAttr(self.arguments))
        if self.libraries:
            printer.print_string(" libraries ")
            printer.print_attribute(ArrayAttr(map(StringAttr, self.libraries)))
        if self.status:
            printer.print_string(" status")
        if self.unsigned:
            printer.print_string(f" unsigned [{', '.join(map(str, self.unsigned))}]")

    @staticmethod
    def parse(parser: Parser) -> Callee | None:
        """What `print` prints; None if no callee stands here."""
        convention = next((word for word in CONVENTIONS if parser.parse_optional_keyword(word)), None)
        if convention is None:
            return None
        name = parser.parse_str_literal(" as the callee's name")
        arguments = _list(parser) if convention == "c" else ()
        libraries = _list(parser) if parser.parse_optional_keyword("libraries") else ()
        if not all(isinstance(text, StringAttr) for text in libraries):
            parser.raise_error("expected the libraries as a list of texts")
        texts = tuple(cast(StringAttr, text).data for text in libraries)
        status = parser.parse_optional_keyword("status") is not None
        numbers = _integers(parser) if parser.parse_optional_keyword("unsigned") else ()
        given = tuple(cast("Sequence[Argument]", arguments))
        return Callee(convention, name, given, texts, status, tuple(numbers))


def _items(attribute: Attribute | None) -> Sequence[Attribute]:
    return attribute.data if isinstance(attribute, ArrayAttr) else ()


def _numbers(attribute: Attribute | None) -> tuple[int, ...]:
    if not isinstance(attribute, DenseArrayBase):
        return ()
    return tuple(cast("DenseArrayBase[IntegerType]", attribute).get_values())


def _integers(parser: Parser) -> Sequence[int]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)


def _list(parser: Parser) -> Sequence[Attribute]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)


def _verify_argument(argument: Attribute, operands: int, sizes: int) -> None:
    if isinstance(argument, FloatAttr):
        return
    if isinstance(argument, SizeArgument):
        if not 0 <= argument.number.data < sizes:
            raise VerifyException(f"expected the number of one of {sizes} sizes, but got {argument.number.data}")
        return
    if not isinstance(argument, IntegerAttr):
        raise VerifyException(f"expected an argument `1 : i32`, `1.0 : f32` or `0 : index`, but got {argument}")
    number = argument.value.data
    if isinstance(argument.type, IndexType) and not 0 <= number < operands:
        raise VerifyException(f"expected the number of a buffer in 0..{operands - 1} as argument, but got {number}")
