"""
An independent check of a memory plan, read from the IR of @main alone.

It simulates the calls in order, the body of a loop twice and both branches of an if, and records for every byte range
of each argument the buffer that wrote it last.
A plan is right if each call reads only bytes that were last written through the same buffer, a part of it, or the whole
of which it is a part, and writes no bytes that it also reads. A part that no call writes counts as its whole. Inputs
and weights must never be written.
With symbolic sizes the check runs at several sizes: the typical ones, the smallest, and a few random ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_INPUTS, MAIN_OUTPUTS
from mlc.validation.plans.plan_places import (
    BufferPlace,
    InvalidSizes,
    Places,
    PlanError,
    name_of,
    sizes_to_try,
    symbols_on,
    wholes,
)


@dataclass
class Memory:
    """The last writer of each byte: disjoint (start, end, buffer) per argument."""

    written: dict[object, list[tuple[int, int, SSAValue]]] = field(default_factory=dict)

    def write(self, place: BufferPlace) -> None:
        """The bytes of `place` now belong to its buffer."""
        kept: list[tuple[int, int, SSAValue]] = []
        for start, end, buffer in self.written.get(place.root, []):
            if start < place.start:
                kept.append((start, min(end, place.start), buffer))
            if end > place.end:
                kept.append((max(start, place.end), end, buffer))
        self.written[place.root] = [*kept, (place.start, place.end, place.buffer)]

    def overwriter(self, place: BufferPlace) -> SSAValue | None:
        """An unrelated buffer that wrote into `place` last, or None."""
        for start, end, buffer in self.written.get(place.root, []):
            if start < place.end and place.start < end and not _related(buffer, place.buffer):
                return buffer
        return None

    def keep_common(self, other: "Memory") -> None:
        """Keep the bytes whose last writers in both memories are related: the state after a branch."""
        for root, pieces in self.written.items():
            self.written[root] = [
                (max(start, first), min(end, last), buffer)
                for start, end, buffer in pieces
                for first, last, written in other.written.get(root, [])
                if max(start, first) < min(end, last) and _related(buffer, written)
            ]

    def complete(self, place: BufferPlace) -> bool:
        """Whether the last writer of every byte of `place` is its own buffer or a related one."""
        own = sum(
            max(0, min(end, place.end) - max(start, place.start))
            for start, end, buffer in self.written.get(place.root, [])
            if _related(buffer, place.buffer)
        )
        return own == place.end - place.start


def _related(a: SSAValue, b: SSAValue) -> bool:
    """Whether one of two buffers is the other, or a part of it; two parts of one buffer are not related."""
    return a in wholes(b) or b in wholes(a)


def check_plan(main: func.FuncOp) -> int:
    """Check @main on buffers and return the number of its calls; PlanError at the first violation."""
    symbols = symbols_on(main)
    for values in sizes_to_try(symbols) if symbols else [{}]:
        try:
            check_plan_at(main, values)
        except InvalidSizes:
            continue
        except PlanError as error:
            if not values:
                raise
            sizes = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise PlanError(f"{error} (where {sizes})", error.op) from error
    return sum(isinstance(op, runtime.CallOp) for op in main.walk())


def check_plan_at(main: func.FuncOp, values: Mapping[str, int]) -> None:
    """Check @main for one value of each symbol."""
    inputs, outputs = _count(main, MAIN_INPUTS), _count(main, MAIN_OUTPUTS)
    args = main.body.block.args
    readable = {*args[:inputs], args[-2]}
    memory, places = Memory(), Places(main, values)
    written = {buffer for op in main.walk() for out in _accesses(op)[1] for buffer in wholes(out)}
    _Simulation(written, readable, places).run(main.body.block, memory)
    for argument in args[inputs : inputs + outputs]:
        if not memory.complete(places.locate(argument)):
            raise PlanError(f"output {argument.index - inputs} of @main is not written in full", main)


@dataclass
class _Simulation:
    """Simulates blocks of operations; a loop's body twice, since an iteration may read what the previous one wrote."""

    written: set[SSAValue]
    readable: set[BlockArgument]
    places: Places

    def run(self, block: Block, memory: Memory) -> None:
        """Simulate a block and the control flow in it."""
        for op in block.ops:
            if isinstance(op, scf.IfOp):
                self.either([r.block for r in op.regions if r.blocks], memory)
            elif isinstance(op, scf.ForOp | scf.WhileOp):
                for region in (*op.regions, *op.regions):
                    self.run(region.block, memory)
            else:
                reads, writes = _accesses(op)
                places = [_as_written(self.places.locate(v), self.written) for v in reads]
                if reads or writes:
                    _call(op, places, [self.places.locate(v) for v in writes], memory, self.readable)

    def either(self, blocks: Sequence[Block], memory: Memory) -> None:
        """Simulate blocks of which one runs: `memory` becomes the state that all of them agree on."""
        results = [Memory(dict(memory.written)) for _ in blocks]
        for block, result in zip(blocks, results, strict=True):
            self.run(block, result)
        memory.written = results[0].written
        for other in results[1:]:
            memory.keep_common(other)


def _accesses(op: Operation) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    """The buffers that an operation reads, and those that it writes."""
    if isinstance(op, runtime.CallOp):
        return op.ins, op.outs
    if isinstance(op, memref.CopyOp | runtime.CopyOp):
        return [op.source], [op.destination]
    if isinstance(op, memref.LoadOp):
        return [op.memref], []
    if isinstance(op, memref.StoreOp):
        return [], [op.memref]
    return ([], [op.target]) if isinstance(op, runtime.FillOp) else ([], [])


def _as_written(place: BufferPlace, written: set[SSAValue]) -> BufferPlace:
    """The same bytes, seen as the innermost enclosing buffer that some call writes, directly or through parts."""
    buffer = next((b for b in wholes(place.buffer) if b in written), place.buffer)
    return BufferPlace(place.root, place.start, place.end, buffer)


def _call(
    op: Operation, reads: list[BufferPlace], writes: list[BufferPlace], memory: Memory, readable: set[BlockArgument]
) -> None:
    """Simulate one call: check the bytes that it reads, then record those that it writes."""
    for place in reads:
        if place.root in readable:
            continue
        if (other := memory.overwriter(place)) is not None:
            raise PlanError(f"{_text(place)} is overwritten by {name_of(other)} before it is read", op)
        if not memory.complete(place):
            raise PlanError(f"{_text(place)} is read before it is written", op)
    for place in writes:
        if place.root in readable:
            raise PlanError(f"{_text(place)}, an input or a weight, is written", op)
        for other in _others(place, reads, writes):
            if place.overlaps(other):
                raise PlanError(f"{_text(place)} is written while {_text(other)} is in use by the same call", op)
    for place in writes:
        memory.write(place)


def _others(place: BufferPlace, reads: Iterable[BufferPlace], writes: Iterable[BufferPlace]) -> list[BufferPlace]:
    return [*reads, *(other for other in writes if other is not place)]


def _count(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    if not isinstance(attribute, IntegerAttr):
        raise PlanError(f"expected an integer attribute '{name}'; run convert-graph-to-main first", op)
    return attribute.value.data


def _text(place: BufferPlace) -> str:
    root = place.root.index if isinstance(place.root, BlockArgument) else place.root
    return f"bytes [{place.start}, {place.end}) of argument {root}"
