"""
The declared attributes of graph ops: a Python value as a class attribute, an MLIR attribute in the property dictionary.

`axis = Int(0)` in an op class makes `op.axis` an int; an attribute without a default is required.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, overload

from typing_extensions import TypeVar
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f64, i1, i64
from xdsl.ir import Attribute, Operation

from mlc.dialects.syntax.dense import integer_array

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

T = TypeVar("T")
A = TypeVar("A", bound=Attribute, default=Any)


class OpAttr(ABC, Generic[T, A]):
    """A declared attribute: a Python value as a class attribute, an MLIR attribute in the property dictionary."""

    name: str
    what: ClassVar[str] = "an attribute"

    def __init__(self, default: T | None = None):
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: Operation, owner: type) -> T: ...
    def __get__(self, op: Operation | None, owner: type) -> Any:
        if op is None:
            return self
        attribute = op.properties.get(self.name)
        if attribute is None:
            return self.default
        return self.decode(attribute)  # pyright: ignore[reportArgumentType] - the verifier checks its class

    def __set__(self, op: Operation, value: T) -> None:
        op.properties[self.name] = self.encode(value)

    @abstractmethod
    def encode(self, value: T) -> Attribute:
        """The attribute that holds a Python value."""

    @abstractmethod
    def decode(self, attribute: A) -> T:
        """The Python value that an attribute holds."""

    @abstractmethod
    def accepts(self, attribute: Attribute) -> bool:
        """Whether `attribute` has the right class."""

    @abstractmethod
    def parse(self, parser: Parser) -> T:
        """Parse the value after `name =`."""

    def attribute_of_text(self, text: str) -> Attribute | None:
        """The attribute of a decimal number or a list of them, as `parse` makes it; None where that must be parsed."""
        return None

    def text(self, value: T) -> str:
        """The value as `parse` reads it."""
        return str(value)

    def print(self, printer: Printer, attribute: A) -> None:
        """Print the value as `parse` reads it."""
        printer.print_string(self.text(self.decode(attribute)))


class Int(OpAttr[int, "IntegerAttr[Any]"]):
    """An integer: `axis = 1`."""

    what = "an integer"

    def encode(self, value: int) -> Attribute:
        return IntegerAttr(int(value), i64)

    def decode(self, attribute: IntegerAttr[Any]) -> int:
        return attribute.value.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, IntegerAttr)

    def parse(self, parser: Parser) -> int:
        return parser.parse_integer(allow_boolean=False)

    def attribute_of_text(self, text: str) -> Attribute | None:
        return None if "." in text or "[" in text else self.encode(int(text))


class Bool(OpAttr[bool, "IntegerAttr[Any]"]):
    """`keepdims = true`."""

    what = "true or false"

    def encode(self, value: bool) -> Attribute:
        return IntegerAttr(int(value), i1)

    def decode(self, attribute: IntegerAttr[Any]) -> bool:
        return bool(attribute.value.data)

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, IntegerAttr)

    def parse(self, parser: Parser) -> bool:
        return parser.parse_boolean()

    def text(self, value: bool) -> str:
        return "true" if value else "false"


class Float(OpAttr[float, "FloatAttr[Any]"]):
    """`epsilon = 1.0e-05`, also `inf`, `-inf` and `nan`."""

    what = "a float"

    def encode(self, value: float) -> Attribute:
        return FloatAttr(float(value), f64)

    def decode(self, attribute: FloatAttr[Any]) -> float:
        return attribute.value.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, FloatAttr)

    def parse(self, parser: Parser) -> float:
        sign = -1.0 if parser.parse_optional_punctuation("-") else 1.0
        if (word := parser.parse_optional_keyword_in(("inf", "nan"))) is not None:
            return sign * float(word)
        return sign * float(parser.parse_number())

    def attribute_of_text(self, text: str) -> Attribute | None:
        return None if "[" in text else self.encode(float(text))

    def text(self, value: float) -> str:
        digits = repr(float(value))
        mantissa, e, exponent = digits.partition("e")
        return f"{mantissa}.0e{exponent}" if e and "." not in mantissa else digits


class Str(OpAttr[str, "StringAttr"]):
    """`layout = "NCHW"`."""

    what = "a string"

    def encode(self, value: str) -> Attribute:
        return StringAttr(value)

    def decode(self, attribute: StringAttr) -> str:
        return attribute.data

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, StringAttr)

    def parse(self, parser: Parser) -> str:
        return parser.parse_str_literal()

    def text(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'


class Ints(OpAttr[tuple[int, ...], "DenseArrayBase[Any]"]):
    """`strides = [2, 2]`."""

    what = "integers, array<i64: ..>"

    def encode(self, value: Sequence[int]) -> Attribute:
        return DenseArrayBase.from_list(i64, [int(v) for v in value])

    def decode(self, attribute: DenseArrayBase[Any]) -> tuple[int, ...]:
        return tuple(attribute.get_values())

    def accepts(self, attribute: Attribute) -> bool:
        return isinstance(attribute, DenseArrayBase) and attribute.elt_type == i64

    def parse(self, parser: Parser) -> tuple[int, ...]:
        items = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
        )
        return tuple(items)

    def attribute_of_text(self, text: str) -> Attribute | None:
        return integer_array(i64, [*map(int, text[1:-1].split(","))]) if text[0] == "[" else None

    def text(self, value: Sequence[int]) -> str:
        return "[" + ", ".join(map(str, value)) + "]"


class Attr(OpAttr[Attribute, "Attribute"]):
    """Any attribute, in its own text form."""

    def encode(self, value: Attribute) -> Attribute:
        return value

    def decode(self, attribute: Attribute) -> Attribute:
        return attribute

    def accepts(self, attribute: Attribute) -> bool:
        return True

    def parse(self, parser: Parser) -> Attribute:
        return parser.parse_attribute()

    def print(self, printer: Printer, attribute: Attribute) -> None:
        printer.print_attribute(attribute)
