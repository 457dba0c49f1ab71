"""Locates the buffers of @main at given sizes: each is a byte range of one of @main's arguments."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, MemRefType, StringAttr, TensorType
from xdsl.ir import BlockArgument, OpResult, SSAValue

from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_SCRATCH, MAIN_SHAPES, MAIN_SYMBOLS
from mlc.dialects.graph.dims import SymbolAttr, least_extent
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.dialects.scalar import byte_size
from mlc.lowering.graph_to_main.sizes import SizeReader
from mlc.lowering.graph_to_main.storage import bytes_of
from mlc.support.errors import UserError

LARGEST_RANDOM_SIZE = 1024
"""Upper bound of the random sizes of a symbol, unless its own lower bound is above."""
RANDOM_SIZES = 3
"""Number of random sizes tried for each symbol."""


class PlanError(UserError):
    """Two buffers that are alive together share memory, or a buffer is read before it is written."""


class InvalidSizes(Exception):
    """At these values of the symbols a size is below its lower bound; programs reject such inputs."""


@dataclass(frozen=True)
class BufferPlace:
    """The byte range [start, end) of `root`, an argument of @main or a kernel's memory, accessed through `buffer`."""

    root: object
    start: int
    end: int
    buffer: SSAValue

    def overlaps(self, other: BufferPlace) -> bool:
        """Whether the two share a byte."""
        return self.root == other.root and self.start < other.end and other.start < self.end


def owner_of(value: SSAValue) -> SSAValue:
    """The buffer that an alias was made from."""
    while isinstance(value, OpResult) and isinstance(value.op, memref.ReinterpretCastOp):
        value = value.op.operands[0]
    return value


def wholes(value: SSAValue) -> list[SSAValue]:
    """A buffer, the whole of which it is a part or a row, and so on outward."""
    found = [owner_of(value)]
    while isinstance(op := found[-1].owner, runtime.PartOp | runtime.RowOp):
        found.append(owner_of(op.operands[0]))  # the source; the named accessor is several times slower
    return found


class Places:
    """The byte ranges of the buffers of @main, for one value of each symbol."""

    def __init__(self, main: func.FuncOp | None = None, values: Mapping[str, int] | None = None) -> None:
        self.known: dict[SSAValue, BufferPlace] = {}
        self.sizes: dict[SSAValue, int] = {}
        """The sizes in bytes of arguments with dynamic shapes."""
        self.read = SizeReader({})
        if main is not None and values:
            self._bind(main, values)

    def _bind(self, main: func.FuncOp, values: Mapping[str, int]) -> None:
        args, shapes = main.body.block.args, main.attributes[MAIN_SHAPES]
        assert isinstance(shapes, ArrayAttr)
        names = list(symbols_on(main))
        self.read = SizeReader({a: values[n] for a, n in zip(args[-2 - len(names) :], names, strict=False)})
        for argument, type_ in zip(args, shapes.data, strict=False):
            assert isinstance(type_, TensorType)
            shape = sizes_at(shape_of(type_), values)
            if any(n < least_extent(size) for n, size in zip(shape, shape_of(type_), strict=True)):
                raise InvalidSizes
            self.sizes[argument] = byte_size(type_.element_type) * math.prod(shape)
        for op in main.body.block.ops:
            if isinstance(op, memref.ViewOp) and MAIN_SCRATCH in op.attributes:
                self.sizes[args[-1]] = self.number(op.byte_shift, "the end of the workspace")

    def locate(self, value: SSAValue) -> BufferPlace:
        """The byte range of a buffer; that of an alias is its source's."""
        value = owner_of(value)
        if value not in self.known:
            for outer in reversed(wholes(value)):  # a part is located relative to its whole
                if outer not in self.known:
                    self.known[outer] = self._locate(outer)
        return self.known[value]

    def _locate(self, value: SSAValue) -> BufferPlace:
        if isinstance(value, BlockArgument):
            return BufferPlace(value, 0, self.bytes(value), value)
        op = value.owner
        if isinstance(op, runtime.PartOp):
            whole = self.locate(op.source)
            offset = op.offset.value.data + (0 if op.shift is None else self.number(op.shift, "where a part begins"))
            start, size = whole.start + offset, self.bytes(value, op.bytes)
            if offset < 0 or start + size > whole.end:
                raise PlanError(f"expected a part within {whole.end - whole.start} bytes, but got {offset}", op)
            return BufferPlace(whole.root, start, start + size, value)
        if isinstance(op, runtime.RowOp):  # the row's number is unknown: assume all rows
            whole = self.locate(op.source)
            return BufferPlace(whole.root, whole.start, whole.end, value)
        if not isinstance(op, memref.ViewOp) or not isinstance(op.source, BlockArgument):
            raise PlanError(f"expected a buffer of @main to be a view of an argument, but got {name_of(value)}")
        start, end = self.number(op.byte_shift, "the offset of a view"), self.bytes(op.source)
        size = self.bytes(value) if not op.sizes else byte_size(op.result.type.element_type)
        extents = iter(op.sizes)
        for extent in op.result.type.get_shape() if op.sizes else ():
            size *= extent if extent >= 0 else self.extent(next(extents), "the size of a view")
        place = BufferPlace(op.source, start, start + size, value)
        if start % 64 or place.end > end:
            raise PlanError(f"expected a view at a multiple of 64 within {end} bytes, but got [{start}, {place.end})")
        return place

    def bytes(self, value: SSAValue, given: SSAValue | None = None) -> int:
        """The size of a buffer in bytes: by its type if static, else by the operand `given`."""
        type_ = value.type
        if not isinstance(type_, MemRefType):
            raise PlanError(f"expected a buffer, but got {type_}")
        if all(size >= 0 for size in type_.get_shape()):
            return bytes_of(type_)
        if value in self.sizes:
            return self.sizes[value]
        if given is None:
            raise PlanError(f"expected the size of {name_of(value)} in bytes, but its type leaves it open")
        return self.extent(given, "the bytes of a buffer")

    def number(self, value: SSAValue, what: str) -> int:
        """The value of an index computed from symbols; PlanError, naming it as `what`, if it is not."""
        size = self.read(value)
        if not isinstance(size, int):
            raise PlanError(f"expected {what} to be a constant, or computed from sizes")
        return size

    def extent(self, value: SSAValue, what: str) -> int:
        """As `number`, for a size; InvalidSizes if it is negative."""
        size = self.number(value, what)
        if size < 0:
            raise InvalidSizes
        return size


def symbols_on(main: func.FuncOp) -> dict[str, SymbolAttr]:
    """The symbols of @main on buffers, in the order of its arguments."""
    listed, found = main.attributes.get(MAIN_SYMBOLS), dict[str, SymbolAttr]()
    for one in listed.data if isinstance(listed, ArrayAttr) else ():
        assert isinstance(one, DictionaryAttr)
        name, span = one.data["name"], one.data["range"]
        assert isinstance(name, StringAttr)
        assert isinstance(span, SymbolAttr)
        found[name.data] = span
    return found


def sizes_to_try(symbols: Mapping[str, SymbolAttr], count: int = RANDOM_SIZES) -> list[dict[str, int]]:
    """Values of symbols: the typical ones, the smallest, and `count` random ones (with a fixed seed)."""
    generator = random.Random(0)

    def some(span: SymbolAttr) -> int:
        low, high, step = span.low.data, span.high.data, span.step.data
        first, last = -(-low // step), min(high, max(low, step, LARGEST_RANDOM_SIZE)) // step
        return generator.randint(first, max(first, last)) * step

    def least(span: SymbolAttr) -> int:
        return -(-span.low.data // span.step.data) * span.step.data

    found = [{n: s.typical for n, s in symbols.items()}, {n: least(s) for n, s in symbols.items()}]
    return found + [{n: some(s) for n, s in symbols.items()} for _ in range(count)]


def name_of(value: SSAValue) -> str:
    """The name of a buffer in messages: its name hint, else its type."""
    return f"%{value.name_hint}" if value.name_hint else str(value.type)


__all__ = [
    "BufferPlace",
    "InvalidSizes",
    "Places",
    "PlanError",
    "name_of",
    "owner_of",
    "sizes_to_try",
    "symbols_on",
    "wholes",
]
