"""
graph-order-calls: the kernels of @main in an order that needs less memory.

In: @main after graph-outline-kernels, of static sizes. Out: the same calls, each behind those whose results it reads.

A beam search builds orders call by call and keeps those with the lowest peak of live bytes; a second one looks for that
peak with few moves. The result replaces the model's order only if the lower bound of its memory plan is lower: where
nothing is won, a result is read as soon after it is written as before, while it is in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import CallOp, ControlOp
from mlc.lowering.graph_to_main.convert import Converter, content_keys, find_function
from mlc.lowering.graph_to_main.storage import Storage
from mlc.lowering.graph_to_main.symbolic import lifetimes_of
from mlc.lowering.memory.lifetimes import lower_bound

BEAM = 16
"""Partial orders that the search keeps after each call."""
MOST_CALLS = 1000
"""Calls of @main beyond which the order is left alone."""

Content = Callable[[str], Hashable]


def peak_of(main: func.FuncOp, content: Content, order: Sequence[Operation] | None = None) -> int:
    """The lower bound in bytes of a memory plan of @main, its operations taken in this order."""
    converter, inner = _visited(main, content, order)
    return lower_bound(lifetimes_of(inner, {})) if converter.buffers else 0


def _visited(main: func.FuncOp, content: Content, order: Sequence[Operation] | None) -> tuple[Converter, list[Storage]]:
    """The storages of @main, and those that lie in the arena."""
    converter = Converter(main, content)
    for argument in main.body.block.args:
        converter.storages[argument] = Storage.of(main, argument.type)
    ops = list(main.body.block.ops) if order is None else order
    for op in ops:
        converter.visit(op)
    outputs = converter.choose_outputs(list(ops[-1].operands))
    return converter, [s for s in converter.buffers if s.instead is None and s.root not in outputs]


@dataclass(frozen=True)
class _Step:
    """A call, or an op of control flow: the steps that it needs, the buffers that it writes and reads."""

    op: Operation
    needs: frozenset[int]
    writes: tuple[Storage, ...]
    reads: tuple[Storage, ...]


class _Growth(NamedTuple):
    """
    A partial order extended by one step.

    It has the peak and the sum of live bytes, and by how many places calls have moved in total.
    """

    peak: int
    live: int
    moved: int
    before: _Partial
    number: int


@dataclass(frozen=True)
class _Partial:
    """The calls so far: the peak and the current sum of live bytes, what may follow, the readers left."""

    peak: int
    live: int
    moved: int
    """The sum of the places by which the calls have moved."""
    count: int
    last: int
    before: _Partial | None
    done: int
    """The calls, a bit for each."""
    ready: frozenset[int]
    readers: Mapping[Storage, int]

    @property
    def order(self) -> list[int]:
        """The numbers of the calls."""
        found, one = list[int](), self
        while one.before is not None:
            found.append(one.last)
            one = one.before
        return found[::-1]


Rank: TypeAlias = Callable[[_Growth], tuple[int, int, int]]


class _Search:
    """A beam search for the order of steps with the lowest peak."""

    def __init__(self, steps: Sequence[_Step], inner: Iterable[Storage]) -> None:
        self.steps = steps
        self.bytes = {buffer: buffer.bytes for buffer in inner if isinstance(buffer.bytes, int)}
        self.needs = [sum(1 << needed for needed in step.needs) for step in steps]
        self.readers: dict[Storage, int] = {}
        self.users: dict[int, list[int]] = {}
        for number, step in enumerate(steps):
            for buffer in step.reads:
                self.readers[buffer] = self.readers.get(buffer, 0) + 1
            for needed in step.needs:
                self.users.setdefault(needed, []).append(number)
        self.touched = [
            [(b, self.bytes.get(b, 0), b in step.writes, b in step.reads) for b in {*step.reads, *step.writes}]
            for step in steps
        ]

    @property
    def least(self) -> int:
        """The most bytes that one step writes and reads: no order needs fewer."""
        return max(sum(self.bytes.get(b, 0) for b in {*step.reads, *step.writes}) for step in self.steps)

    def best(self) -> list[int]:
        """The numbers of the steps: the lowest peak that is found, with as few moves as that allows."""
        lowest = self.run(lambda one: (one.peak, one.live, one.moved))
        near = self.run(lambda one: (max(one.peak, lowest.peak), one.moved, one.live))
        return (near if near.peak <= lowest.peak else lowest).order

    def run(self, rank: Rank) -> _Partial:
        """The first by rank of the complete orders that are found."""
        ready = frozenset(number for number, step in enumerate(self.steps) if not step.needs)
        beam = [_Partial(0, 0, 0, 0, -1, None, 0, ready, {})]
        for _ in self.steps:
            following: dict[int, tuple[tuple[int, int, int], _Growth]] = {}
            for one in beam:
                for number in one.ready:
                    growth = self.grown(one, number)
                    done, place = one.done | 1 << number, rank(growth)
                    best = following.get(done)
                    if best is None or place < best[0]:
                        following[done] = place, growth
            beam = [self.after(growth) for _, growth in nsmallest(BEAM, following.values(), key=itemgetter(0))]
        return beam[0]

    def grown(self, one: _Partial, number: int) -> _Growth:
        """The extension of a partial order by one step."""
        live, freed, left = one.live, 0, one.readers
        for buffer, size, written, read in self.touched[number]:
            count = left.get(buffer)
            if count is None:
                if not written:
                    continue  # an input, or a buffer of another program
                count = self.readers.get(buffer, 0)
                live += size
            if count == read:
                freed += size
        return _Growth(max(one.peak, live), live - freed, one.moved + abs(number - one.count), one, number)

    def after(self, growth: _Growth) -> _Partial:
        """The partial order that the extension gives."""
        one, number = growth.before, growth.number
        left = dict(one.readers)
        for buffer, _, written, read in self.touched[number]:
            if buffer in left or written:
                left[buffer] = left.get(buffer, self.readers.get(buffer, 0)) - read
        done = one.done | 1 << number
        freed = {user for user in self.users.get(number, ()) if self.needs[user] & ~done == 0}
        ready = (one.ready - {number}) | freed
        return _Partial(growth.peak, growth.live, growth.moved, one.count + 1, number, one, done, ready, left)


def better_order(main: func.FuncOp, content: Content) -> list[Operation] | None:
    """
    An order of the operations of @main whose memory plan has a smaller lower bound than now.

    None where the search finds none.
    """
    ops = list(main.body.block.ops)
    converter, inner = _visited(main, content, None)
    steps = _steps(converter, ops)
    if not 2 < len(steps) <= MOST_CALLS:
        return None
    search, peak = _Search(steps, inner), peak_of(main, content)
    if peak <= search.least:
        return None
    order = _with_views(ops, [steps[k].op for k in search.best()])
    return order if peak_of(main, content, order) < peak else None


def _steps(converter: Converter, ops: Sequence[Operation]) -> list[_Step]:
    """The calls of @main, with the storages of the converter that has visited them."""
    parts: dict[Storage, list[Storage]] = {}
    for buffer in converter.buffers:
        if buffer.inside is not None:
            parts.setdefault(buffer.inside, []).append(buffer)

    def innermost(storage: Storage) -> list[Storage]:
        return [piece for part in parts[storage] for piece in innermost(part)] if storage in parts else [storage]

    producers: dict[SSAValue, frozenset[int]] = {}
    steps: list[_Step] = []
    for op in ops:
        operands = [v for inner in op.walk() for v in inner.operands if v in producers]
        needs = frozenset(n for v in operands for n in producers[v])
        if isinstance(op, CallOp | ControlOp):
            reads = dict.fromkeys(b for v in operands for b in innermost(converter.storage(v)))
            writes = dict.fromkeys(b for v in op.results for b in innermost(converter.storage(v)))
            producers |= dict.fromkeys(op.results, frozenset([len(steps)]))
            steps.append(_Step(op, needs, tuple(writes), tuple(reads)))
        else:
            producers |= dict.fromkeys(op.results, needs)
    return steps


def _with_views(ops: Sequence[Operation], steps: Iterable[Operation]) -> list[Operation]:
    """All operations: each that is no step stands right before the first that needs it."""
    placed: dict[Operation, None] = {}

    def place(op: Operation) -> None:
        if op in placed:
            return
        for inner in op.walk():
            for value in inner.operands:
                if isinstance(value.owner, Operation) and value.owner.parent is op.parent:
                    place(value.owner)
        placed[op] = None

    for op in (*steps, *ops):
        place(op)
    return list(placed)


@dataclass(frozen=True)
class OrderCallsPass(ModulePass):
    """
    Reorder the independent calls of @main so that fewer bytes are alive at once.

    `%a = call @up(%x)  %b = call @up(%y)  %c = call @down(%a)  %d = call @down(%b)` -> `%a  %c  %b  %d`, where the
    results of @up are larger than those of @down
    """

    name = "graph-order-calls"

    function: str = "main"
    """The function whose calls are ordered."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = find_function(op, self.function)
        values = [v for one in main.walk() for v in (*one.operands, *one.results)]
        if any(isinstance(v.type, TensorType) and not v.type.has_static_shape() for v in values):
            return  # sizes that a call computes bind symbols, whose uses the operands do not show
        order = better_order(main, content_keys(op))
        if order is None:
            return
        block = main.body.block
        for one in order:
            one.detach()
        for one in order:
            block.add_op(one)


__all__ = ["OrderCallsPass", "better_order", "peak_of"]
