"""
An independent check of the places of buffers inside a kernel, read from its loop IR alone.

It plays the accesses in order, the body of a loop twice, and records for every byte the buffer that took it last. A
buffer takes its bytes at the first access after its loop.alloc; a plan is right if, at every later one, no other buffer
has taken any of them. Shared buffers that one parallel loop accesses must not overlap at all, since its threads are at
different places of the body. With symbolic sizes the check runs at several sizes, like that of @main.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import KERNEL_LEAST, KERNEL_TYPICAL, LOOP_OFFSET, LOOP_SHARES, LOOP_SLOT
from mlc.dialects.constants import integer, integers
from mlc.dialects.graph.dims import SymbolAttr
from mlc.dialects.index import TYPICAL
from mlc.dialects.scalar import byte_size
from mlc.dialects.walk import walk
from mlc.validation.plans.plan_check import Memory
from mlc.validation.plans.plan_places import BufferPlace, PlanError, name_of, sizes_to_try

UNBOUNDED_SYMBOL = (1 << 31) - 1
"""Upper bound of a kernel's symbol, of which the kernel says only the smallest value."""


@dataclass
class _Repeated:
    """The accesses of the regions of an op, in order; a loop runs them several times."""

    op: Operation
    events: list[_Event] = field(default_factory=list["_Event"])

    @property
    def is_parallel(self) -> bool:
        """Whether several threads run the accesses at once."""
        return isinstance(self.op, loop.ForOp) and self.op.kind.data == "parallel"


@dataclass(frozen=True)
class _Access:
    """An op that allocates or accesses a buffer."""

    op: Operation
    buffer: SSAValue

    @property
    def is_alloc(self) -> bool:
        """Whether the buffer is new from here on."""
        return self.op is self.buffer.owner


_Event = _Access | _Repeated


def check_kernel_plan(func: loop.FuncOp) -> int:
    """Check the places of a kernel's buffers and return the number of buffers; PlanError at the first violation."""
    allocs = [op for op in walk(func) if isinstance(op, loop.AllocOp)]
    if len(allocs) < 2:
        return len(allocs)
    events = list(_events(func.body.block))
    for values in _sizes(func):
        try:
            places = _places(allocs, values)
            _check_parallel(events, places)
            _Player(places).play(events)
        except PlanError as error:
            sizes = ", ".join(f"{name_of(symbol)} = {value}" for symbol, value in values.items())
            at = f" (where {sizes})" if values else ""
            raise PlanError(f"kernel @{func.sym_name.data}: {error.text}{at}", error.op) from error
    return len(allocs)


def _sizes(func: loop.FuncOp) -> list[dict[SSAValue, int]]:
    """Values of the kernel's symbols at which the check runs."""
    symbols = func.symbols
    if not symbols:
        return [{}]
    low = integers(func.attributes.get(KERNEL_LEAST)) or (1,) * len(symbols)
    typical = integers(func.attributes.get(KERNEL_TYPICAL)) or (TYPICAL,) * len(symbols)
    named = {str(k): SymbolAttr(max(n, 1), UNBOUNDED_SYMBOL) for k, n in enumerate(low)}
    found = [{symbols[int(k)]: n for k, n in values.items()} for values in sizes_to_try(named)]
    return [dict(zip(symbols, typical, strict=True)), *found]


def _events(block: Block) -> Iterator[_Event]:
    """The accesses of a block, in order."""
    for op in block.ops:
        if isinstance(op, loop.AllocOp):
            yield _Access(op, op.result)
        for value in dict.fromkeys(op.operands):
            if isinstance(value.owner, loop.AllocOp):
                yield _Access(op, value)
        inner = [event for region in op.regions for part in region.blocks for event in _events(part)]
        if not any(_allocates(event) for event in inner):  # the order inside does not matter: it is repeated
            inner = list({one.buffer: one for event in inner for one in _accesses(event)}.values())
        if inner:
            yield _Repeated(op, list(inner))


def _accesses(event: _Event) -> Iterator[_Access]:
    if isinstance(event, _Access):
        yield event
        return
    for one in event.events:
        yield from _accesses(one)


def _allocates(event: _Event) -> bool:
    return any(access.is_alloc for access in _accesses(event))


def _places(allocs: Sequence[loop.AllocOp], values: Mapping[SSAValue, int]) -> dict[SSAValue, BufferPlace]:
    """The bytes of each buffer; one without a place has memory of its own."""
    sizes = {op: _bytes(op, values) for op in allocs}
    slots = {slot: op for op in allocs if (slot := integer(op.attributes.get(LOOP_SLOT))) is not None}
    places: dict[SSAValue, BufferPlace] = {}
    for op, size in sizes.items():
        offset, slot = integer(op.attributes.get(LOOP_OFFSET)), integer(op.attributes.get(LOOP_SLOT))
        shared = integer(op.attributes.get(LOOP_SHARES))
        root: object = op
        if offset is not None:
            root = op.scope.data == "local"
        elif shared is not None:
            leader = slots.get(shared)
            if leader is None or leader.scope.data != op.scope.data or sizes[leader] < size:
                room = "none" if leader is None else f"{sizes[leader]} bytes of scope '{leader.scope.data}'"
                scope = f"{size} bytes of scope '{op.scope.data}'"
                raise PlanError(f"expected slot {shared} to have room for {scope}, but got {room}", op)
            root = shared, ""
        elif slot is not None:
            root = slot, ""
        if offset is not None and (offset < 0 or offset % 64):
            raise PlanError(f"expected an offset that is a multiple of 64, but got {offset}", op)
        places[op.result] = BufferPlace(root, offset or 0, (offset or 0) + size, op.result)
    return places


def _bytes(op: loop.AllocOp, values: Mapping[SSAValue, int]) -> int:
    """The size of a buffer at these values of the symbols."""
    given = [values[v] for v in op.args]
    return byte_size(op.result.type.element_type) * prod(int(e.evaluate(given)) for e in op.shape)


def _check_parallel(events: Sequence[_Event], places: Mapping[SSAValue, BufferPlace]) -> None:
    """PlanError where two shared buffers that one parallel loop accesses overlap."""
    for event in events:
        if isinstance(event, _Access):
            continue
        if not event.is_parallel:
            _check_parallel(event.events, places)
            continue
        used = dict.fromkeys(access.buffer for access in _accesses(event))
        shared = [places[v] for v in used if isinstance(v.owner, loop.AllocOp) and v.owner.scope.data != "local"]
        for one, other in combinations(shared, 2):
            if one.overlaps(other):
                names = f"{name_of(one.buffer)} and {name_of(other.buffer)}"
                raise PlanError(f"{names} overlap, but threads of one parallel loop use both", event.op)


class _Player:
    """Plays accesses; the state is the last taker of every byte, and the buffers accessed since their loop.alloc."""

    def __init__(self, places: Mapping[SSAValue, BufferPlace]) -> None:
        self.places = places
        self.memory = Memory()
        self.taken: set[SSAValue] = set()

    def play(self, events: Sequence[_Event]) -> None:
        """Play accesses in order, those in regions twice."""
        for event in events:
            if isinstance(event, _Repeated):
                self.play(event.events)
                self.play(event.events)
            elif event.is_alloc:
                self.taken.discard(event.buffer)
            else:
                self.access(event)

    def access(self, event: _Access) -> None:
        """The first access takes the buffer's bytes; PlanError if another buffer has taken some of them since."""
        place = self.places[event.buffer]
        if event.buffer not in self.taken:
            self.taken.add(event.buffer)
            self.memory.write(place)
        elif (other := self.memory.overwriter(place)) is not None:
            raise PlanError(f"{name_of(event.buffer)} is overwritten by {name_of(other)} while it is in use", event.op)


__all__ = ["check_kernel_plan"]
