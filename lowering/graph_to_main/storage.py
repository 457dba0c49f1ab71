"""The memory of the tensors of @main: each tensor has a `Storage`, which several tensors may share."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import Shape, product, shape_of
from mlc.dialects.scalar import byte_size
from mlc.support.errors import fail


def bytes_of(type_: TensorType[Any] | MemRefType[Any]) -> int:
    """Bytes of a tensor or buffer of static sizes."""
    count = byte_size(type_.element_type)
    for size in type_.get_shape():
        count *= size
    return count


def buffer_type(shape: Shape, element: Attribute) -> MemRefType[Any]:
    """The type of a buffer; symbolic sizes are `?`."""
    return MemRefType(element, [size if isinstance(size, int) else DYNAMIC_INDEX for size in shape])


@dataclass(eq=False)
class Storage:
    """A piece of memory: its shape, its lifetime in steps, and the storage that contains it."""

    shape: Shape
    element: Attribute
    key: Hashable = None
    """For constants: the content's key; storages with equal keys share memory."""
    facts: dict[str, Attribute] = field(default_factory=dict)
    """For constants: the attributes of the view, the parameter's name or the value."""
    first: int = -1
    last: int = -1
    inside: Storage | None = None
    """The storage of the whole concatenation, if this storage is a part of one."""
    at: Dim = 0
    """The byte offset in `inside`."""
    instead: Storage | None = None
    """The storage that replaces this one: a loop's carried value, a row of a stack, or the result of an if."""
    moves: bool = False
    """Whether its address changes with each iteration of a loop: a row."""
    offset: int = -1
    """The byte offset in the weights, or in a workspace of static size; -1 before it is planned."""
    value: SSAValue | None = None
    """The SSA value of its buffer, once emitted."""

    @staticmethod
    def of(op: Operation, type_: Attribute, first: int = -1, last: int = -1) -> Storage:
        """The storage for a tensor; `op` is blamed for other types."""
        if not isinstance(type_, TensorType):
            fail(op, f"expected values of @main to be tensors, but got {type_}")
        return Storage(shape_of(type_), type_.element_type, first=first, last=last)

    @cached_property
    def bytes(self) -> Dim:
        """The size in bytes."""
        return product(self.shape) * byte_size(self.element)

    @cached_property
    def type(self) -> MemRefType[Any]:
        """The type of the buffer."""
        return buffer_type(self.shape, self.element)

    @property
    def final(self) -> Storage:
        """The storage that finally replaces this one, or itself."""
        found = self
        while found.instead is not None:
            found = found.instead
        return found

    @property
    def root(self) -> Storage:
        """The outermost storage that contains this one."""
        found = self
        while found.inside is not None:
            found = found.inside
        return found


__all__ = ["Storage", "buffer_type", "bytes_of"]
