"""
Dense attributes (`dense<[1.0, 2.0]> : tensor<2xf32>`): their literals read and written without tokens.

What is not a plain list of decimal numbers is left to xDSL's parser and printer, and so is every error.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    i1,
    i32,
    i64,
)
from xdsl.printer import Printer

NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?)?"
"""A decimal number that JSON and MLIR read alike."""
DENSE = re.compile(rf"\bdense<((?:[\[ ]*{NUMBER}[\] ]*,?)+)>", re.ASCII)
"""A dense literal of numbers, which may be nested in lists."""


def dense_attribute(type: Any, text: str) -> DenseIntOrFPElementsAttr | None:
    """The attribute of this type with the elements of a text that DENSE matches; None where xDSL must parse it."""
    element = type.element_type
    try:
        values: Any = json.loads(text)
        shape = list(type.get_shape())
        if isinstance(values, list):
            values = _flat(cast("list[Any]", values), shape)
        else:
            values = [values] * math.prod(shape)
        if isinstance(element, Float32Type | Float64Type):
            letter = "f" if isinstance(element, Float32Type) else "d"
            return _make(type, struct.pack(f"<{len(values)}{letter}", *values))
        plain = isinstance(element, IntegerType) and element.signedness.data is Signedness.SIGNLESS and element != i1
        if plain and all(value.__class__ is int for value in values):
            return _make(type, element.pack([element.get_normalized_value(value) for value in values]))
    except (ValueError, OverflowError, struct.error, RecursionError):
        pass
    return None


def integer_array(type: Any, values: Sequence[int]) -> DenseArrayBase[Any] | None:
    """The array attribute of these integers; None where a type or a value needs xDSL's checks."""
    letter = _LETTERS.get(type)
    if letter is None:
        return None
    try:
        data = struct.pack(f"<{len(values)}{letter}", *values)
    except struct.error:
        return None
    attribute: DenseArrayBase[Any] = DenseArrayBase.__new__(DenseArrayBase)
    content: BytesAttr = BytesAttr.__new__(BytesAttr)
    vars(content)["data"] = data
    vars(attribute).update(elt_type=type, data=content)
    return attribute


_LETTERS: dict[Any, str] = {i32: "i", i64: "q"}


def _flat(values: Sequence[Any], shape: list[int]) -> Sequence[Any]:
    """The numbers in nested lists of this shape; ValueError for another shape."""
    if not shape or len(values) != shape[0]:
        raise ValueError
    if len(shape) == 1:
        if any(isinstance(value, list) for value in values):
            raise ValueError
        return values
    if not all(isinstance(value, list) for value in values):
        raise ValueError
    return [number for inner in values for number in _flat(inner, shape[1:])]


def _make(type: Any, data: bytes) -> DenseIntOrFPElementsAttr:
    """The attribute; it is not verified, since the data has one element for each of the type's."""
    attribute: DenseIntOrFPElementsAttr = DenseIntOrFPElementsAttr.__new__(DenseIntOrFPElementsAttr)
    content: BytesAttr = BytesAttr.__new__(BytesAttr)
    vars(content)["data"] = data
    vars(attribute).update(type=type, data=content)
    return attribute


def dense_text(attribute: DenseIntOrFPElementsAttr, printer: Printer, known: dict[float, str]) -> str:
    """The literal as a printer prints it, without the type; `known`: the texts of f32 values, which grows."""
    type: Any = attribute.type
    if isinstance(type.element_type, Float32Type) and len(shape := type.get_shape()) <= 1:
        data = attribute.data.data
        count = len(data) // 4
        if 0 < count <= 100 and (not shape or shape[0] == count):
            values = struct.unpack(f"<{count}f", data)
            texts = [known.get(value) or _f32_text(value, printer, known) for value in values]
            return f"dense<{texts[0]}>" if values.count(values[0]) == count else f"dense<[{', '.join(texts)}]>"
    return _printed(printer, lambda: attribute.print_without_type(printer))


def _printed(printer: Printer, write: Callable[[], None]) -> str:
    """What a printer prints, which is put nowhere yet."""
    printer.stream, stream = StringIO(), printer.stream
    column = printer._current_column  # pyright: ignore[reportPrivateUsage]
    try:
        write()
        return printer.stream.getvalue()
    finally:
        printer.stream = stream
        printer._current_column = column  # pyright: ignore[reportPrivateUsage]


_F32 = Float32Type()
_ONE_F32 = struct.Struct("<f")


def _f32_text(value: float, printer: Printer, known: dict[float, str]) -> str:
    """The text of one f32."""
    text = f"{value:.5e}"
    if value != 0 and math.isfinite(value) and _is_f32(float(text), value):
        mantissa, _, exponent = text.partition("e")
        text = f"{mantissa}0e{exponent}"
    else:
        text = _printed(printer, lambda: printer.print_float(value, _F32))
    if value != 0 and len(known) < 1 << 16:  # 0.0 == -0.0, whose texts differ
        known[value] = text
    return text


def _is_f32(number: float, value: float) -> bool:
    """Whether a number is this value once it is rounded to f32."""
    try:
        return _ONE_F32.unpack(_ONE_F32.pack(number))[0] == value
    except OverflowError:
        return False
