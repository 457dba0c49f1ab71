"""The memory of tensors of @main: one `Storage` each, or one for several that share it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import Shape, product, shape_of
from mlc.support.errors import fail


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


def buffer_type(shape: Shape, element: Attribute) -> MemRefType[Any]:
    """The type of a buffer; symbolic sizes are `?`."""
    return MemRefType(element, [size if isinstance(size, int) else DYNAMIC_INDEX for size in shape])


@dataclass(eq=False)
class Storage:
    """One piece of memory: where it is, and when it is in use."""

    shape: Shape
    element: Attribute
    key: Hashable = None
    """Of a constant: equal keys share memory."""
    facts: dict[str, Attribute] = field(default_factory=dict)
    """Of a constant: which parameter it is, or its value."""
    first: int = -1
    last: int = -1
    inside: Storage | None = None
    """The storage of the concatenation that this is a part of."""
    at: Dim = 0
    """Where in it, in bytes."""
    instead: Storage | None = None
    """The storage that the value is written to at once: a state of a loop, a row of a stack, a result of an if."""
    moves: bool = False
    """Whether it is another piece of memory in each iteration of a loop: a row."""
    value: SSAValue | None = None
    """The SSA value of its buffer, once there is one."""

    @staticmethod
    def of(op: Operation, type_: Attribute, **facts: Any) -> Storage:
        """The storage for a tensor; `op` is blamed for other types."""
        if not isinstance(type_, TensorType):
            fail(op, f"expected values of @main to be tensors, but got {type_}")
        return Storage(shape_of(type_), type_.element_type, **facts)

    @cached_property
    def bytes(self) -> Dim:
        """How large it is."""
        return product(self.shape) * byte_size(self.element)

    @cached_property
    def type(self) -> MemRefType[Any]:
        """The type of its buffer."""
        return buffer_type(self.shape, self.element)

    @property
    def final(self) -> Storage:
        """The storage that is written instead, if there is one."""
        found = self
        while found.instead is not None:
            found = found.instead
        return found

    @property
    def root(self) -> Storage:
        """The storage that it is in, and that is in no other."""
        found = self
        while found.inside is not None:
            found = found.inside
        return found


__all__ = ["Storage", "buffer_type", "byte_size", "bytes_of"]
