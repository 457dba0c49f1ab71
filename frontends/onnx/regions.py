"""Regions of control flow during import: a block of their own, whose outer values become operands at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir import Region as IRRegion

from mlc.dialects import graph as g
from mlc.dialects.graph import name_location
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops.control import ControlOp, captured, isolate
from mlc.dialects.graph.types import numpy_dtype, shape_of, static_shape
from mlc.dialects.index import TYPICAL
from mlc.frontends.onnx.counted import marked, plain
from mlc.frontends.onnx.node import Node, Value, dtype_like
from mlc.frontends.onnx.tools import cast, full, iota, reshape

Build = Callable[[list[Value]], Sequence[Value]]


class Region:
    """A region that is being imported."""

    def __init__(self, node: Node, types: Sequence[Attribute]) -> None:
        self.node = node
        self.block = Block(arg_types=types)

    @property
    def types(self) -> list[Attribute]:
        """The types of what it yields."""
        assert self.block.last_op is not None
        return list(self.block.last_op.operand_types)

    def trace(self, first: int, values: Sequence[Value]) -> None:
        """Say what the arguments from `first` on are at the beginning."""
        importer = self.node.importer
        for argument, value in zip(self.block.args[first:], values, strict=False):
            importer.captures[argument] = importer.materialize(value, self.node.path)

    def build(self, fill: Build) -> list[Value]:
        """Import what `fill` makes of the arguments into the block, which ends by yielding it."""
        importer, path = self.node.importer, self.node.path
        outer, importer.block = importer.block, self.block
        try:
            results = list(fill([Value(argument, None, path) for argument in self.block.args]))
            if any(v.counted is not None for v in results):
                raise self.node.fail(
                    "expected a region to yield values of sizes known at import, but the data says them"
                )
            self.block.add_op(g.YieldOp(*(importer.materialize(v, path) for v in results)))
        except BaseException:
            self.discard()
            raise
        finally:
            importer.block = outer
        return results

    def discard(self) -> None:
        """Take back what the block holds."""
        for op in reversed(list(self.block.ops)):
            op.detach()
            op.erase(safe_erase=False)

    def set_first(self, node: Node, type_: Attribute) -> None:
        """Give the first yielded value a type, in which it has as many elements."""
        importer, last = node.importer, self.block.last_op
        assert last is not None
        value = last.operands[0]
        if value.type == type_:
            return
        outer, importer.block = importer.block, Block()
        reshape(node, Value(value, None, node.path), static_shape(type_))
        made, importer.block = importer.block, outer
        for op in list(made.ops):
            op.detach()
            self.block.insert_op_before(op, last)
            last.operands[0] = op.results[0]

    def drop_first(self) -> None:
        """No longer yield the first value."""
        last = self.block.last_op
        assert last is not None
        new = g.YieldOp(*last.operands[1:])
        self.block.insert_op_before(new, last)
        last.detach()
        last.erase()

    def check(self, carried: Sequence[Value], skip: int) -> None:
        """Refuse a region that does not carry on what it was given."""
        path, importer = self.node.path, self.node.importer
        for index, (value, found) in enumerate(zip(carried, self.types[skip:], strict=False)):
            wanted = importer.materialize(value, path).type
            if found != wanted:
                self.discard()
                raise self.node.fail(
                    f"expected the value that is carried on as number {index} to stay {wanted}, but it becomes {found}"
                )

    def row_bytes(self, rows: int) -> int:
        """The bytes of the last `rows` values that are yielded; at usual sizes, where they are symbolic."""
        types: list[Any] = self.types[len(self.types) - rows :]
        shapes = [[n if isinstance(n, int) else TYPICAL for n in shape_of(t)] for t in types]
        return sum(math.prod(s) * numpy_dtype(t.element_type).itemsize for s, t in zip(shapes, types, strict=True))

    def captured(self) -> list[SSAValue]:
        """The values from outside."""
        return captured(self.block)

    def isolated(self, reads: Sequence[SSAValue]) -> IRRegion:
        """The region, in which these values are arguments."""
        isolate(self.block, reads)
        return IRRegion(self.block)

    def add(self, op: ControlOp) -> list[Value]:
        """Append the op that has the region; its results."""
        op.location = name_location(self.node.path)
        self.node.importer.block.add_op(op)
        return [Value(result, None, self.node.path) for result in op.results]


def scan(
    node: Node, carried: Sequence[Value], rows: Sequence[Value], build: Build, backward: Sequence[bool] = ()
) -> list[Value]:
    """The results of a graph.scan over axis 0 of the rows."""
    importer = node.importer
    states: list[Any] = [importer.materialize(v, node.path) for v in carried]
    scanned: list[Any] = [importer.materialize(v, node.path) for v in rows]
    types = [v.type for v in states]
    types += [g.tensor(shape_of(v.type)[1:], v.type.element_type) for v in scanned]
    region = Region(node, types)
    region.trace(0, [*carried, *rows])
    region.build(build)
    region.check(carried, 0)
    reads = region.captured()
    return region.add(g.ScanOp(region.isolated(reads), states, scanned, reads, backward))


def counted_loop(
    region: Region, carried: Sequence[Value], most: int, limit: Value | None, condition: Value | None
) -> list[Value]:
    """The results of a graph.loop; the number of its iterations says how long those are that stack rows."""
    importer, path = region.node.importer, region.node.path

    def value(v: Value | None) -> SSAValue | None:
        return None if v is None else importer.materialize(v, path)

    states = [importer.materialize(v, path) for v in carried]
    reads = region.captured()
    op = g.LoopOp(region.isolated(reads), states, reads, most, value(limit), value(condition))
    *results, count = region.add(op)
    if op.always:
        return results
    return [*results[: len(carried)], *(marked(v, 0, count) for v in results[len(carried) :])]


def filled_up(
    node: Node, values: Sequence[Value], axes: Sequence[int | None], rooms: Sequence[Dim | None]
) -> list[Value]:
    """Values with room for so many elements along an axis each, and how many are there behind them."""
    results, counts = list(values), list[Value]()
    for k, (value, axis, room) in enumerate(zip(values, axes, rooms, strict=True)):
        if axis is None or room is None:
            continue
        size = value.shape[axis]
        count = node.array(np.array(size)) if value.counted is None else reshape(node, value.counted.value, ())
        counts.append(cast(node, count, np.int64))
        results[k] = plain(value)
        if size == 0:
            results[k] = full(node, [room if a == axis else n for a, n in enumerate(value.shape)], 0, dtype_like(value))
        elif isinstance(room - size, DimExpr):  # which may be 0
            last = node.array(np.array(size - 1, object if isinstance(size, DimExpr) else np.int64))
            places = node.emit(g.MinimumOp, iota(node, (room,), 0), last)
            results[k] = node.emit(g.TakeOp, results[k], places, axis=axis)
        elif room != size:
            more = [room - size if a == axis else n for a, n in enumerate(value.shape)]
            rest = full(node, more, 0, dtype_like(value))
            results[k] = node.emit(g.ConcatenateOp, results[k], rest, axis=axis)
    return [*results, *counts]


__all__ = ["Build", "Operation", "Region", "counted_loop", "filled_up", "scan"]
