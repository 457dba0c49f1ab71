"""Regions of control flow during import: blocks that read outer values until these become operands at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph import name_location
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops.control import ControlOp, captured, isolate
from mlc.dialects.graph.types import numpy_dtype, shape_of, static_shape
from mlc.dialects.index import TYPICAL
from mlc.frontends.common.counted import marked, plain
from mlc.frontends.common.elementwise import cast, full, iota
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.source_node import NeedsSizes, NeedsValues, SourceNode
from mlc.frontends.common.values import Value, dtype_like

Build = Callable[[list[Value]], Sequence[Value]]


class RegionBuilder:
    """A region that is being imported."""

    def __init__(self, node: SourceNode, types: Sequence[Attribute]) -> None:
        self.node = node
        self.block = Block(arg_types=types)

    @property
    def types(self) -> list[Attribute]:
        """The types of the values that it yields."""
        assert self.block.last_op is not None
        return list(self.block.last_op.operand_types)

    def trace(self, first: int, values: Sequence[Value]) -> None:
        """Note the initial values of the arguments from `first` on."""
        importer = self.node.importer
        for argument, value in zip(self.block.args[first:], values, strict=False):
            importer.captures[argument] = importer.materialize(value, self.node.path)

    def build(self, fill: Build) -> list[Value]:
        """Run `fill` on the block's arguments with the block as the insertion point, and yield its results."""
        importer, path = self.node.importer, self.node.path
        outer, importer.block = importer.block, self.block
        try:
            results = list(fill([Value(argument, None, path) for argument in self.block.args]))
            if any(v.counted is not None for v in results):
                raise NeedsSizes("expected a region to yield values of sizes known at import, but the data says them")
            self.block.add_op(g.YieldOp(*(importer.materialize(v, path) for v in results)))
        except BaseException:
            self.discard()
            raise
        finally:
            importer.block = outer
        return results

    def discard(self) -> None:
        """Erase the ops of the block."""
        for op in reversed(list(self.block.ops)):
            op.detach()
            op.erase(safe_erase=False)

    def set_first(self, node: SourceNode, type_: Attribute) -> None:
        """Reshape the first yielded value to a type of as many elements."""
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
        """Remove the first of the yielded values."""
        last = self.block.last_op
        assert last is not None
        new = g.YieldOp(*last.operands[1:])
        self.block.insert_op_before(new, last)
        last.detach()
        last.erase()

    def check(self, carried: Sequence[Value], skip: int) -> None:
        """UserError for a region whose results, from `skip` on, have other types than the values it carries."""
        path, importer = self.node.path, self.node.importer
        for index, (value, found) in enumerate(zip(carried, self.types[skip:], strict=False)):
            wanted = importer.materialize(value, path).type
            if found != wanted:
                self.discard()
                message = (
                    f"expected the value that is carried on as number {index} to stay {wanted}, but it becomes {found}"
                )
                raise NeedsValues(str(self.node.fail(message)), set())

    def row_bytes(self, rows: int) -> int:
        """The bytes of the last `rows` values that are yielded; symbolic sizes count as TYPICAL."""
        types: list[Any] = self.types[len(self.types) - rows :]
        shapes = [[n if isinstance(n, int) else TYPICAL for n in shape_of(t)] for t in types]
        return sum(math.prod(s) * numpy_dtype(t.element_type).itemsize for s, t in zip(shapes, types, strict=True))

    def captured(self) -> list[SSAValue]:
        """The outer values that the block reads."""
        return captured(self.block)

    def isolated(self, reads: Sequence[SSAValue]) -> Region:
        """The region, with arguments in place of these outer values."""
        isolate(self.block, reads)
        return Region(self.block)

    def add(self, op: ControlOp) -> list[Value]:
        """Append the op that has the region; its results."""
        op.location = name_location(self.node.path)
        self.node.importer.block.add_op(op)
        return [Value(result, None, self.node.path) for result in op.results]


def scan(
    node: SourceNode, carried: Sequence[Value], rows: Sequence[Value], build: Build, backward: Sequence[bool] = ()
) -> list[Value]:
    """The results of a graph.scan over axis 0 of the rows."""
    importer = node.importer
    states: list[Any] = [importer.materialize(v, node.path) for v in carried]
    scanned: list[Any] = [importer.materialize(v, node.path) for v in rows]
    types = [v.type for v in states]
    types += [g.tensor(shape_of(v.type)[1:], v.type.element_type) for v in scanned]
    region = RegionBuilder(node, types)
    region.trace(0, [*carried, *rows])
    region.build(build)
    region.check(carried, 0)
    reads = region.captured()
    return region.add(g.ScanOp(region.isolated(reads), states, scanned, reads, backward))


def counted_loop(
    region: RegionBuilder, carried: Sequence[Value], most: int, limit: Value | None, condition: Value | None
) -> list[Value]:
    """The results of a graph.loop; those that stack rows are as long as the number of iterations."""
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
    node: SourceNode, values: Sequence[Value], axes: Sequence[int | None], rooms: Sequence[Dim | None]
) -> list[Value]:
    """Values padded to `rooms` elements along an axis each, followed by their counts."""
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


__all__ = ["Build", "RegionBuilder", "counted_loop", "filled_up", "scan"]
