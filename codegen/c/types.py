"""C types, literals and roundings of the loop dialect's element types."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

from mlc.dialects import loop
from mlc.support.errors import UserError

NARROW: dict[type[Attribute], str] = {BFloat16Type: "bf16", Float16Type: "f16"}
_FLOATS: dict[type[Attribute], str] = {Float32Type: "float", Float64Type: "double"}


class NoCForm(UserError):
    """A kernel has an operation or an element type that C99 has no form of."""


def storage_type(element: Attribute) -> str:
    """The C type of an element in memory."""
    return "uint16_t" if type(element) in NARROW else value_type(element)


def value_type(element: Attribute) -> str:
    """The C type of a value; f16 and bf16 are computed as rounded floats."""
    if isinstance(element, IntegerType):
        if element.width.data == 1:
            return "uint8_t"
        sign = "u" if element.signedness.data is Signedness.UNSIGNED else ""
        return f"{sign}int{element.width.data}_t"
    if isinstance(element, IndexType):
        return "int64_t"
    if type(element) in NARROW:
        return "float"
    if type(element) in _FLOATS:
        return _FLOATS[type(element)]
    raise NoCForm(f"expected elements that C99 has a type for, but got {element}")


def element_bytes(element: Attribute) -> int:
    """The size of an element in memory."""
    sizes = {"float": 4, "double": 8}
    name = storage_type(element)
    return sizes.get(name) or int("".join(c for c in name if c.isdigit())) // 8


def unsigned_type(t: Attribute) -> str:
    """The unsigned C type of an integer's width; of other types, their own."""
    name = value_type(loop.element_of(t))
    return "u" + name if name.startswith("int") else name


def rounded(t: Attribute, expression: str) -> str:
    """An expression rounded to f16 or bf16, or cut to one bit, where the type asks for it."""
    element = loop.element_of(t)
    if type(element) in NARROW:
        return f"mlc_{NARROW[type(element)]}({expression})"
    if isinstance(element, IntegerType) and element.width.data == 1:
        return f"({expression}) & 1"
    return expression


def fill(template: str, operand: Attribute, result: Attribute, a: str, b: str = "") -> str:
    """A template of the tables with its operands and types."""
    source = loop.element_of(operand)
    sign = "-" if isinstance(source, IntegerType) and source.width.data == 1 else ""
    return template.format(
        a=a, b=b, t=value_type(loop.element_of(result)), u=unsigned_type(operand), v=unsigned_type(result), s=sign
    )


def literal(element: Attribute, value: float) -> str:
    """A C literal, exact for every float."""
    if isinstance(element, AnyFloat):
        if math.isnan(value):
            return "NAN"
        if math.isinf(value):
            return "INFINITY" if value > 0 else "-INFINITY"
        suffix = "" if isinstance(element, Float64Type) else "f"
        return float(value).hex() + suffix
    number = int(value)
    return "INT64_MIN" if number == -(1 << 63) else f"INT64_C({number})" if abs(number) >> 31 else str(number)
