"""
A model without the raw data of its large tensors, which protobuf would copy: they stay in the mapped file.

The content of the file is walked in protobuf's wire format (https://protobuf.dev/programming-guides/encoding) along the
fields that lead to tensors. A tensor's raw data of `KEPT_BYTES` and more is replaced by a record of external data in a
location that is drawn at random, so that no file can name it. What is no well-formed message is left to protobuf, which
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

import onnx

KEPT_BYTES: Final = 1 << 16
"""Bytes from which raw data stays in the file; shape inference reads the values of smaller tensors."""
_MAX_DEPTH: Final = 100
"""Levels of nested messages that protobuf reads."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}

Buffer: TypeAlias = "bytes | memoryview"


class Malformed(ValueError):
    """The bytes are no message of protobuf's wire format."""


class Field(NamedTuple):
    """A field of a message: its number and wire type, where it starts, where its content starts and ends."""

    number: int
    wire_type: int
    start: int
    content: int
    end: int


def _number(message: type, name: str) -> int:
    return message.DESCRIPTOR.fields_by_name[name].number  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType] a protobuf message has one


_TENSOR: Final = onnx.TensorProto
_INNER: Final[dict[type, dict[int, type]]] = {
    onnx.ModelProto: {_number(onnx.ModelProto, "graph"): onnx.GraphProto},
    onnx.GraphProto: {
        _number(onnx.GraphProto, "node"): onnx.NodeProto,
        _number(onnx.GraphProto, "initializer"): _TENSOR,
    },
    onnx.NodeProto: {_number(onnx.NodeProto, "attribute"): onnx.AttributeProto},
    onnx.AttributeProto: {
        _number(onnx.AttributeProto, "t"): _TENSOR,
        _number(onnx.AttributeProto, "g"): onnx.GraphProto,
    },
}
"""Message -> number of a field -> the message it holds, which has tensors in it."""
_RAW_DATA: Final = _number(_TENSOR, "raw_data")
_DATA_LOCATION: Final = _number(_TENSOR, "data_location")
_EXTERNAL_DATA: Final = _number(_TENSOR, "external_data")


def without_raw_data(content: memoryview, location: str) -> bytes | None:
    """
    A serialized ModelProto whose large raw data is external data in `location`, at its offset in `content`.

    None where no tensor is large, or the content is malformed.
    """
    try:
        pieces = _pieces(content, 0, len(content), onnx.ModelProto, location, 0)
    except Malformed:
        return None
    return None if pieces is None else b"".join(pieces)


def _pieces(content: memoryview, start: int, end: int, message: type, location: str, depth: int) -> list[Buffer] | None:
    """The buffers that a message without raw data consists of; None where it stays as it is."""
    if depth > _MAX_DEPTH:
        raise Malformed
    if message is _TENSOR:
        return _tensor(content, start, end, location)
    inner, pieces, kept = _INNER[message], list[Buffer](), start
    seen = set[int]()
    for field in _fields(content, start, end):
        if (kind := inner.get(field.number)) is None or field.wire_type != _LENGTH:
            continue
        if message is onnx.AttributeProto and field.number in seen:
            return None  # protobuf merges them, and the last raw data counts
        seen.add(field.number)
        if field.end - field.content < KEPT_BYTES:
            continue
        replaced = _pieces(content, field.content, field.end, kind, location, depth + 1)
        if replaced is not None:
            head = _varint(field.number << 3 | _LENGTH) + _varint(sum(map(len, replaced)))
            pieces += [content[kept : field.start], head, *replaced]
            kept = field.end
    return [*pieces, content[kept:end]] if pieces else None


def _tensor(content: memoryview, start: int, end: int, location: str) -> list[Buffer] | None:
    """A TensorProto without its raw data; None where that is small, given twice, or elsewhere already."""
    fields = list(_fields(content, start, end))
    raw = [field for field in fields if field.number == _RAW_DATA]
    if len(raw) != 1 or any(_is_elsewhere(content, field) for field in fields):
        return None
    (data,) = raw
    if data.wire_type != _LENGTH or data.end - data.content < KEPT_BYTES:
        return None
    record = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", data.content), ("length", data.end - data.content)):
        record.external_data.add(key=key, value=str(value))
    return [content[start : data.start], content[data.end : end], record.SerializeToString()]


def _is_elsewhere(content: memoryview, field: Field) -> bool:
    """Whether a field of a TensorProto says that its data is external; DEFAULT, the location 0, says the opposite."""
    return field.number == _EXTERNAL_DATA or (
        field.number == _DATA_LOCATION and any(content[field.content : field.end])
    )


def _fields(content: memoryview, start: int, end: int) -> Iterator[Field]:
    """The fields of a message; Malformed for what protobuf would refuse, and for groups, which ONNX has not."""
    at = start
    while at < end:
        tag, body = _read_varint(content, at, end)
        number, wire_type = tag >> 3, tag & 7
        stop = body + _FIXED_BYTES.get(wire_type, 0)
        if wire_type == _VARINT:
            stop = _read_varint(content, body, end)[1]
        elif wire_type == _LENGTH:
            length, body = _read_varint(content, body, end)
            stop = body + length
        elif wire_type not in _FIXED_BYTES:
            raise Malformed
        if not number or stop > end:
            raise Malformed
        yield Field(number, wire_type, at, body, stop)
        at = stop


def _read_varint(content: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Malformed
        byte = content[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value, at
    raise Malformed


def _varint(value: int) -> bytes:
    """A number as `_read_varint` reads it."""
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*result, value])
