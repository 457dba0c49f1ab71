"""
The bytes of a vm program.

    value ::= 0 varint | 1 text | 2 count value.. | 3 count (text value).. | 4 | 5 | 6 | 7 size bytes
              integer     text     list              mapping                 None False True  raw bytes

An integer is zigzag-encoded (0, -1, 1, -2, ..) into groups of 7 bits, the lowest first, as in protobuf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_INTEGER, _TEXT, _LIST, _MAPPING, _NONE, _FALSE, _TRUE, _RAW = range(8)
MAX_DEPTH = 200
"""Values nested deeper than this are no program."""


class Writer:
    """Collects bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def unsigned(self, number: int) -> None:
        """A number from 0 on."""
        while number > 127:
            self.data.append(number & 127 | 128)
            number >>= 7
        self.data.append(number)

    def integer(self, number: int) -> None:
        """Any whole number."""
        self.unsigned(number << 1 if number >= 0 else (-number << 1) - 1)

    def raw(self, data: bytes) -> None:
        """Bytes with their count before them."""
        self.unsigned(len(data))
        self.data += data

    def value(self, value: object) -> None:
        """A value of integers, texts, lists, mappings, None, truth values and bytes; TypeError for any other."""
        if value is None or isinstance(value, bool):
            self.data.append(_NONE if value is None else _TRUE if value else _FALSE)
        elif isinstance(value, int):
            self.data.append(_INTEGER)
            self.integer(value)
        elif isinstance(value, str):
            self.data.append(_TEXT)
            self.raw(value.encode())
        elif isinstance(value, list | tuple):
            items = cast("list[object]", value)
            self.data.append(_LIST)
            self.unsigned(len(items))
            for item in items:
                self.value(item)
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[str, object]", value)
            self.data.append(_MAPPING)
            self.unsigned(len(pairs))
            for name, item in pairs.items():
                self.raw(name.encode())
                self.value(item)
        elif isinstance(value, bytes):
            self.data.append(_RAW)
            self.raw(value)
        else:
            raise TypeError(f"expected a value of a vm program, but got {type(value).__name__}")


class Reader:
    """Reads what a Writer wrote; ValueError for anything else."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        """The next byte."""
        if self.at >= len(self.data):
            raise ValueError("the program ends early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """A number from 0 on."""
        number, shift = 0, 0
        while (byte := self.byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def integer(self) -> int:
        """Any whole number."""
        number = self.unsigned()
        return -(number + 1 >> 1) if number & 1 else number >> 1

    def raw(self) -> bytes:
        """Bytes with their count before them."""
        size = self.unsigned()
        if self.at + size > len(self.data):
            raise ValueError("the program ends early")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, depth: int = 0) -> Any:
        """A value."""
        if depth > MAX_DEPTH:
            raise ValueError(f"values are nested more than {MAX_DEPTH} deep")
        tag = self.byte()
        if tag == _INTEGER:
            return self.integer()
        if tag == _TEXT:
            return self.raw().decode()
        if tag == _LIST:
            return [self.value(depth + 1) for _ in range(self.unsigned())]
        if tag == _MAPPING:
            return {self.raw().decode(): self.value(depth + 1) for _ in range(self.unsigned())}
        if tag == _RAW:
            return self.raw()
        if tag not in (_NONE, _FALSE, _TRUE):
            raise ValueError(f"a value begins with {tag}, which no version writes")
        return None if tag == _NONE else tag == _TRUE


__all__ = ["Reader", "Writer"]
