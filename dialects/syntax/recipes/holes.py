"""
The parts of a line that differ between ops of one pattern: names, sizes of types, numbers, index expressions.

`open_line` cuts them out of a line. For learning, an attribute of the same class stands for each of them whose open
field may not be read (`open_attribute`); for making an op, `Maker` makes the attribute of a part's text. What these do
not know, and everything that is wrong, is left to the parser: they answer None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    Float32Type,
    Float64Type,
    FloatAttr,
    FloatData,
    FunctionType,
    IntAttr,
    IntegerAttr,
    MemRefType,
    NoneAttr,
    StringAttr,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute

from mlc.dialects.index import Index, IndexMapAttr
from mlc.dialects.syntax.dense import integer_array
from mlc.dialects.syntax.lexer import VALUE_NAME
from mlc.dialects.syntax.recipes.probe import OpenData, OpenSize
from mlc.dialects.syntax.token_parser import ATTRIBUTE, MAP, TYPE, VALUE
from mlc.support.limits import limits

_NUMBER = r"-?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?"
_INTEGERS = r"-?[0-9]+(?:, -?[0-9]+)*"
_SUBSCRIPTS = r"(\[[^][\n\"]*%[^][\n\"]*\])?"
SHAPED = re.compile(r"((?:tensor|memref|vector)<)((?:[0-9]+x)+)([a-z]+[0-9]*>)", re.ASCII)
"""The text of a type with static sizes: before them, the sizes, and after them."""
_PARTS = (
    rf"{SHAPED.pattern}"  # tensor<4x8xf32>
    rf"|(?<== )({_NUMBER}|\[{_INTEGERS}\])(?=[,}}])"  # axes = [0, 1]
    rf"|(?<=constant )({_NUMBER})( : [a-z]+[0-9]*)"  # arith.constant 1.5 : f32
    r"|(?<=constant\()(-?[0-9]+)(?=\))"  # llvm.mlir.constant(4)
    rf"|(array<i[0-9]+: )({_INTEGERS})>"
)
_LINE = re.compile(rf"{VALUE_NAME}|{_PARTS}", re.ASCII)
_ACCESS = re.compile(rf"{VALUE_NAME}{_SUBSCRIPTS}|{_PARTS}", re.ASCII)
_ACCESSES = re.compile(r"\b(?:te\.read|loop\.load|loop\.store) ")
_NAME = re.compile(VALUE_NAME)
_TERM = re.compile(r" ?([+-]?) ?(?:%([0-9]+)|d([0-9]+)|([0-9]+))(?: \* ([0-9]+))?(?= |$)")
_SHAPED = (TensorType, MemRefType, VectorType)
_REMEMBERED = 1 << 16


class LinePart(NamedTuple):
    """A part of a line: its kind, the text that tells it from others of its kind, and its place in the line."""

    kind: int
    text: str
    start: int
    end: int


class OpenLine(NamedTuple):
    """A line cut into what is fixed, the names of values, and the other open parts."""

    fixed: tuple[str, ...]
    names: list[str]
    parts: list[LinePart]


def open_line(text: str) -> OpenLine | None:
    """The open parts of a line; None where it has none but names."""
    is_access = _ACCESSES.search(text) is not None
    fixed: list[str] = []
    names: list[str] = []
    parts: list[LinePart] = []
    last = 0
    name_group = 1
    shift = 1 if is_access else 0
    for match in (_ACCESS if is_access else _LINE).finditer(text):
        start, end = match.span()
        fixed.append(text[last:start])
        last, group = end, match.lastindex or 0
        if group == name_group:
            names.append(match[1])
            continue
        group -= shift
        if group == name_group:
            inner = _NAME.split(match[2])
            names.append(match[1])
            names += inner[1::2]
            fixed.append(f"[{len(inner) // 2}]")
            parts.append(LinePart(MAP, match[2], match.start(2), end))
        elif group == 4:
            dims = match[3 + shift]
            fixed += (match[2 + shift], str(dims.count("x")), match[4 + shift])
            parts.append(LinePart(TYPE, match[0], start, end))
        elif group == 5:
            fixed.append("=")
            parts.append(LinePart(VALUE, match[0], start, end))
        elif group == 7:
            fixed.append(match[7 + shift])
            parts.append(LinePart(ATTRIBUTE, match[6 + shift], start, end))
        elif group == 8:
            fixed.append("#")
            parts.append(LinePart(ATTRIBUTE, match[0], start, end))
        else:
            fixed.append(match[9 + shift])
            parts.append(LinePart(ATTRIBUTE, match[10 + shift], start, end))
    if not parts:
        return None
    fixed.append(text[last:])
    return OpenLine(tuple(fixed), names, parts)


# --- types ---------------------------------------------------------------------------------------------------------


def _fields(attribute: Any) -> dict[str, Any]:
    """The fields of an attribute by name."""
    fields: dict[str, Any] = attribute.__dict__
    return fields


def shape_key(type: Any) -> tuple[object, ...] | None:
    """A key equal for shaped types that differ in sizes only; None where the sizes cannot be left open."""
    fields = _fields(type)
    if type.__class__ not in _SHAPED:
        return None
    sizes: list[int] = [size.data for size in fields["shape"].data]
    if not sizes or min(sizes) < 1:
        return None
    rest: list[object] = [type.__class__, len(sizes)]
    for name, value in fields.items():
        if name == "element_type":
            rest.append(id(value) if value.__dict__ else id(value.__class__))
        elif name == "scalable_dims":
            if any(bool(flag.value.data) for flag in value.data):
                return None
        elif name != "shape" and value.__class__ is not NoneAttr:
            return None
    return tuple(rest)


def type_of_text(text: str, like: Any) -> Attribute | None:
    """The type with the sizes `4x8x` for those of `like`; None where a size is 0 or too large."""
    sizes = [*map(int, text[:-1].split("x"))]
    count = math.prod(sizes)
    if not 0 < count <= limits.tensor_elements or len(sizes) > limits.rank:
        return None
    return with_sizes(like, sizes)


def with_sizes(like: Attribute, sizes: Sequence[int]) -> Attribute:
    """The shaped type with these sizes, which are at least 1, for those of `like`."""
    return _with(like, "shape", ArrayAttr([*map(_size, sizes)]))


@lru_cache(_REMEMBERED)
def _size(value: int) -> IntAttr:
    return IntAttr(value)


def _with(attribute: Attribute, field: str, value: object) -> Attribute:
    """A copy of an attribute with another value of one field; it is not verified."""
    made: Attribute = object.__new__(attribute.__class__)
    vars(made).update(vars(attribute))
    vars(made)[field] = value
    return made


# --- attributes ----------------------------------------------------------------------------------------------------

OPEN_FIELDS: dict[type[Attribute], str] = {
    StringAttr: "data",
    TensorType: "shape",
    MemRefType: "shape",
    VectorType: "shape",
    FloatAttr: "value",
    IntegerAttr: "value",
    DenseArrayBase: "data",
    IndexMapAttr: "data",
}


def open_attribute(like: Attribute, number: int) -> Attribute | None:
    """An attribute as `like` whose open field may not be read; None for a class without one."""
    if like.__class__ is FunctionType:
        return _with(_with(like, "inputs", OpenData(number)), "outputs", OpenData(number))
    field = OPEN_FIELDS.get(like.__class__)
    return None if field is None else _with(like, field, _opened(vars(like)[field], number))


def _opened(content: object, number: int) -> object:
    """The content of an attribute with all numbers and texts open, but not how many sizes a shape has."""
    if isinstance(content, ArrayAttr):
        sizes = content.data
        return _with(content, "data", tuple(_with(size, "data", OpenSize(number)) for size in sizes))
    return _with(content, "data", OpenData(number)) if isinstance(content, Attribute) else OpenData(number)


def attribute_of_text(text: str, like: Any) -> Attribute | None:
    """The attribute of a part's text, of the type that `like` has; None where the parser must decide."""
    try:
        if isinstance(like, FloatAttr):
            if "." in text and isinstance(like.type, Float32Type | Float64Type):
                value: float = like.type.unpack(like.type.pack((float(text),)), 1)[0]
                return _with(like, "value", FloatData(value))
        elif isinstance(like, IntegerAttr):
            return IntegerAttr(int(text), like.type)
        elif isinstance(like, DenseArrayBase):
            values = [*map(int, text.split(", "))]
            made = integer_array(like.elt_type, values)
            return DenseArrayBase.from_list(like.elt_type, values) if made is None else made
    except Exception:  # out of range: the parser says how
        return None
    return None


# --- index expressions ---------------------------------------------------------------------------------------------


def map_of_text(text: str, numbers: Sequence[int]) -> IndexMapAttr | None:
    """The map of `[%i + 2, d0]`, whose names have these numbers; None where an expression is not a plain sum."""
    if len(numbers) == 1:
        text = _NAME.sub("%0", text)
    elif numbers:
        each = iter(numbers)
        text = _NAME.sub(lambda _: f"%{next(each)}", text)
    return _map(text)


@lru_cache(_REMEMBERED)
def _map(text: str) -> IndexMapAttr | None:
    exprs: list[Index] = []
    for part in text[1:-1].split(","):
        constant, factors, end = 0, dict[Any, int](), 0
        part = part.strip()
        while match := _TERM.match(part, end):
            sign, operand, tile, number, factor = match.groups()
            if (not sign) != (not end) and not (sign == "-" and not end):
                return None
            end = match.end()
            scale = int(factor or 1) * (-1 if sign == "-" else 1)
            if number is not None:
                constant += int(number) * scale
            else:
                key = -1 - int(tile) if operand is None else int(operand)
                factors[key] = factors.get(key, 0) + scale
        if end != len(part) or not part:
            return None
        exprs.append(Index.of(constant, factors))
    return IndexMapAttr(tuple(exprs))


def local_numbers(text: str) -> list[int]:
    """For each name in `[%i, %j, %i]` its number by first appearance."""
    names = _NAME.findall(text)
    first: dict[str, int] = {}
    return [first.setdefault(name, len(first)) for name in names]
