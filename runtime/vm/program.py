"""
Vm programs: functions with code of tensors, segments with code of kernels; to and from bytes.

    bytecode  ::= "mlcvm\\0" version:u16 (lowest byte first) sha256 of the rest:32 bytes  value
    value     ::= {name, inputs, outputs, functions: [function..], segments: [segment..], options}
    function  ::= {name, open, inputs: count or None, bodies: [[key or None, body]..], wants: [index..]}
    body      ::= {registers: count, inputs: [register..], code: bytes, segments: [index..], results}
    segment   ::= {name, kernels, values, code: bytes, ..}

A function of known code has one body, with the key None. An open one has a body for each combination of shapes (and
of the values that it wants) that it was called with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlc.runtime.vm.encoding import Reader, Writer
from mlc.runtime.vm.instructions import Instruction, read_code, write_code

MAGIC = b"mlcvm\0"
VERSION = 1
"""Version of the bytecode; a newer one is refused."""


class BadBytecode(ValueError):
    """Bytes are no vm program that this version reads."""


@dataclass
class SegmentCode:
    """
    The code of a segment, the facts that it needs, and the number of its artefact among those of the program.

    `facts` has what a model.json has: inputs, outputs, values, buffers, symbols and sizes of memory.
    """

    name: str
    kernels: list[str]
    code: list[Instruction]
    facts: dict[str, Any]

    def packed(self) -> dict[str, Any]:
        """As a value of bytecode."""
        return {"name": self.name, "kernels": self.kernels, "code": _bytes_of(self.code), "facts": self.facts}

    @staticmethod
    def unpacked(value: Mapping[str, Any]) -> SegmentCode:
        """From a value of bytecode."""
        return SegmentCode(value["name"], value["kernels"], read_code(Reader(value["code"])), value["facts"])


@dataclass
class Body:
    """The code of a function: it finds its arguments in the first registers."""

    registers: int
    code: list[Instruction]
    segments: list[Any]
    """What `run` runs: the vm's own segments, or in bytecode their numbers."""

    def packed(self, numbers: Sequence[int]) -> dict[str, Any]:
        """As a value of bytecode, in which the segments have these numbers."""
        return {"registers": self.registers, "code": _bytes_of(self.code), "segments": list(numbers)}

    @staticmethod
    def unpacked(value: Mapping[str, Any], segments: Sequence[Any]) -> Body:
        """From a value of bytecode."""
        own = [segments[number] for number in value["segments"]]
        return Body(value["registers"], read_code(Reader(value["code"])), own)


@dataclass
class Function:
    """A function by name; its body where it is known, else what compiles one (the compiler's own, not saved)."""

    name: str
    body: Body | None = None
    general: list[Body] = field(default_factory=list[Body])
    """Bodies of one segment each, for many sizes; the segment says whether arguments fit."""
    template: Any = None
    tried: list[dict[int, tuple[int, ...]]] = field(default_factory=list[dict[int, "tuple[int, ...]"]])
    """The axes that were left open to find code for many sizes."""
    origin: Sequence[Any] = ()
    """Of a part of another function: the number of that, and which part it is, by which the compiler finds it again."""
    wants: set[int] = field(default_factory=set[int])
    """The arguments whose values, not their shapes alone, decide the code."""


def encoded(value: Mapping[str, Any]) -> bytes:
    """Bytecode of a program's value."""
    writer = Writer()
    writer.value(value)
    rest = bytes(writer.data)
    return MAGIC + VERSION.to_bytes(2, "little") + hashlib.sha256(rest).digest() + rest


def decoded(data: bytes) -> dict[str, Any]:
    """The value of a program; BadBytecode for other bytes, damaged ones, and those of a newer version."""
    if not data.startswith(MAGIC):
        raise BadBytecode("expected vm bytecode, but got other bytes")
    start = len(MAGIC)
    version = int.from_bytes(data[start : start + 2], "little")
    if version > VERSION:
        raise BadBytecode(f"expected vm bytecode of version 1 to {VERSION}, but got {version}; use a newer mlc")
    digest, rest = data[start + 2 : start + 34], data[start + 34 :]
    if hashlib.sha256(rest).digest() != digest:
        raise BadBytecode("expected whole vm bytecode, but its checksum is wrong")
    try:
        return Reader(rest).value()
    except (ValueError, IndexError, KeyError) as error:
        raise BadBytecode(f"expected vm bytecode, but {error}") from error


def _bytes_of(code: Sequence[Instruction]) -> bytes:
    writer = Writer()
    write_code(writer, code)
    return bytes(writer.data)


__all__ = ["BadBytecode", "Body", "Function", "SegmentCode", "decoded", "encoded"]
