"""
An independent check of a memory plan, read from the IR of @main alone.

It plays the calls in order, the body of a loop twice and both ways of an if, and remembers, for every byte range of
each argument, which buffer wrote it last.
A plan is right if each call reads only bytes that were written through the very buffer it reads them by, through a
part of it or through what it is a part of, and writes nothing that it reads at the same time. A part that nothing
writes counts as what it is a part of. Inputs and weights must never be written.
Where sizes are symbolic, all this is done for several of them: typical ones, the smallest, and some at random.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import func, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects import runtime
from mlc.validation.plan_places import Place, Places, PlanError, Refused, lineage, name_of, sizes_to_try, symbols_on


@dataclass
class _Memory:
    """Which buffer wrote which bytes last: disjoint (start, end, buffer) per argument."""

    written: dict[BlockArgument, list[tuple[int, int, SSAValue]]] = field(default_factory=dict)

    def write(self, place: Place) -> None:
        """The bytes of `place` now belong to its buffer."""
        kept: list[tuple[int, int, SSAValue]] = []
        for start, end, buffer in self.written.get(place.root, []):
            if start < place.start:
                kept.append((start, min(end, place.start), buffer))
            if end > place.end:
                kept.append((max(start, place.end), end, buffer))
        self.written[place.root] = [*kept, (place.start, place.end, place.buffer)]

    def intruder(self, place: Place) -> SSAValue | None:
        """Another buffer that wrote into `place` after its own, or None."""
        for start, end, buffer in self.written.get(place.root, []):
            if start < place.end and place.start < end and not _related(buffer, place.buffer):
                return buffer
        return None

    def keep_common(self, other: "_Memory") -> None:
        """Forget what was not written, through buffers of one family, in the other memory too."""
        for root, pieces in self.written.items():
            self.written[root] = [
                (max(start, first), min(end, last), buffer)
                for start, end, buffer in pieces
                for first, last, written in other.written.get(root, [])
                if max(start, first) < min(end, last) and _related(buffer, written)
            ]

    def complete(self, place: Place) -> bool:
        """Whether all bytes of `place` have been written through its own buffer."""
        own = sum(
            max(0, min(end, place.end) - max(start, place.start))
            for start, end, buffer in self.written.get(place.root, [])
            if _related(buffer, place.buffer)
        )
        return own == place.end - place.start


def _related(a: SSAValue, b: SSAValue) -> bool:
    """Whether one of two buffers is the other, or a part of it; two parts of one buffer are not related."""
    return a in lineage(b) or b in lineage(a)


def check_plan(main: func.FuncOp) -> int:
    """Check @main on buffers; return the number of calls. Raises PlanError at the first thing wrong."""
    symbols = symbols_on(main)
    for values in sizes_to_try(symbols) if symbols else [{}]:
        try:
            check_plan_at(main, values)
        except Refused:
            continue
        except PlanError as error:
            if not values:
                raise
            sizes = ", ".join(f"{name} = {value}" for name, value in values.items())
            raise PlanError(f"{error} (where {sizes})", error.op) from error
    return sum(isinstance(op, runtime.CallOp) for op in main.walk())


def check_plan_at(main: func.FuncOp, values: Mapping[str, int]) -> None:
    """Check @main for one value of each symbol."""
    inputs, outputs = _count(main, "mlc.inputs"), _count(main, "mlc.outputs")
    args = main.body.block.args
    readable = {*args[:inputs], args[-2]}
    memory, places = _Memory(), Places(main, values)
    written = {buffer for op in main.walk() for out in _accesses(op)[1] for buffer in lineage(out)}
    _Player(written, readable, places).play(main.body.block, memory)
    for argument in args[inputs : inputs + outputs]:
        if not memory.complete(places.locate(argument)):
            raise PlanError(f"output {argument.index - inputs} of @main is not written in full", main)


@dataclass
class _Player:
    """Plays blocks of operations: a loop's twice, since an iteration reads what the one before it left."""

    written: set[SSAValue]
    readable: set[BlockArgument]
    places: Places

    def play(self, block: Block, memory: _Memory) -> None:
        """One block, with the control flow in it."""
        for op in block.ops:
            if isinstance(op, scf.IfOp):
                self.either([r.block for r in op.regions if r.blocks], memory)
            elif isinstance(op, scf.ForOp | scf.WhileOp):
                for region in (*op.regions, *op.regions):
                    self.play(region.block, memory)
            else:
                reads, writes = _accesses(op)
                places = [_as_written(self.places.locate(v), self.written) for v in reads]
                if reads or writes:
                    _play(op, places, [self.places.locate(v) for v in writes], memory, self.readable)

    def either(self, blocks: Sequence[Block], memory: _Memory) -> None:
        """Blocks of which one runs: what is left is what all of them leave."""
        results = [_Memory(dict(memory.written)) for _ in blocks]
        for block, result in zip(blocks, results, strict=True):
            self.play(block, result)
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


def _as_written(place: Place, written: set[SSAValue]) -> Place:
    """The same bytes, as the innermost buffer that is written, itself or through parts."""
    buffer = next((b for b in lineage(place.buffer) if b in written), place.buffer)
    return Place(place.root, place.start, place.end, buffer)


def _play(
    op: Operation, reads: list[Place], writes: list[Place], memory: _Memory, readable: set[BlockArgument]
) -> None:
    """One call: its reads must find their own bytes; then its writes take place."""
    for place in reads:
        if place.root in readable:
            continue
        if (other := memory.intruder(place)) is not None:
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


def _others(place: Place, reads: Iterable[Place], writes: Iterable[Place]) -> list[Place]:
    return [*reads, *(other for other in writes if other is not place)]


def _count(op: Operation, name: str) -> int:
    attribute = op.attributes.get(name)
    if not isinstance(attribute, IntegerAttr):
        raise PlanError(f"expected an integer attribute '{name}'; run convert-graph-to-main first", op)
    return attribute.value.data


def _text(place: Place) -> str:
    return f"bytes [{place.start}, {place.end}) of argument {place.root.index}"
