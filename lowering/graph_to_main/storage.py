"""The memory of tensors of @main: one `Storage` each, or one for several that share it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.passes.errors import fail


def byte_size(element: Attribute) -> int:
    """Bytes of one element in memory; a boolean takes one."""
    width = getattr(element, "bitwidth", None)
    return 8 if width is None else max(1, width // 8)


def bytes_of(type_: TensorType[Any] | MemRefType[Any]) -> int:
    """Bytes of a tensor or buffer of static sizes."""
    count = byte_size(type_.element_type)
    for size in type_.get_shape():
        count *= size
    return count


def to_memref(op: Operation, type_: Attribute) -> MemRefType[Any]:
    """The buffer type of a tensor type."""
    if not isinstance(type_, TensorType):
        fail(op, f"expected values of @main to be tensors, but got {type_}")
    if any(size < 0 for size in type_.get_shape()):
        fail(op, f"expected static sizes in @main, but got {type_}; fix them with shapes=")
    return MemRefType(type_.element_type, type_.get_shape())


@dataclass(eq=False)
class Storage:
    """One piece of memory: where it is, and when it is in use."""

    bytes: int
    type: MemRefType[Any]
    key: Hashable = None
    """Of a constant: equal keys share memory."""
    facts: dict[str, Attribute] = field(default_factory=dict)
    """Of a constant: which parameter it is, or its value."""
    first: int = -1
    last: int = -1
    inside: Storage | None = None
    """The storage of the concatenation that this is a part of."""
    at: int = 0
    """Where in it, in bytes."""
    instead: Storage | None = None
    """The storage that the value is written to at once: a state of a loop, a row of a stack, a result of an if."""
    moves: bool = False
    """Whether it is another piece of memory in each iteration of a loop: a row."""
    value: SSAValue | None = None
    """The SSA value of its buffer, once there is one."""

    @property
    def final(self) -> Storage:
        """The storage that is written instead, if there is one."""
        return self if self.instead is None else self.instead.final

    @property
    def root(self) -> Storage:
        """The storage that it is in, and that is in no other."""
        return self if self.inside is None else self.inside.root


__all__ = ["Storage", "byte_size", "bytes_of", "to_memref"]
