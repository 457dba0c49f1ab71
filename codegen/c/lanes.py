"""
Loops over the lanes of tiles: neighbouring operations on tiles of one shape share one loop.

    %c = arith.addf %a, %b : vector<16xf32>      for (int64_t d0 = 0; d0 < 16; ++d0) {
    %e = arith.mulf %c, %d : vector<16xf32>        float c = a[d0] + b[d0];
                                                   e[d0] = c * d[d0];
                                                 }

A value that only its own loop reads is a scalar. An operation joins the loop of an earlier one if it reads no value
that another lane of that loop defines, and accesses no buffer to which another lane stores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mlc.codegen.c.types import value_type
from mlc.dialects import loop

_HOLE = re.compile(r"@(\d+)@|\bd(\d+)\b")
"""What is known when the loop is written (`LaneLoops._holes`), or the variable of an axis."""


@dataclass
class LaneLoop:
    """Operations whose lanes are computed in one loop; the shape () is of scalars, which need none."""

    shape: tuple[int, ...]
    ops: dict[Operation, None] = field(default_factory=dict)
    statements: list[str | SSAValue] = field(default_factory=list)
    """C statements, and values where they are declared."""
    before: list[str] = field(default_factory=list)
    """C statements in front of the loop."""
    hoisted: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Expressions that are computed in front of the loop, with holes: the variable, and the text without holes."""
    read: set[SSAValue] = field(default_factory=set)
    written: set[SSAValue] = field(default_factory=set)

    def conflicts(self, op: Operation) -> bool:
        """Whether the order of a memory access and those of this loop matters."""
        if isinstance(op, loop.StoreOp):
            return op.buffer in self.read or op.buffer in self.written
        return isinstance(op, loop.LoadOp | loop.GatherOp) and op.buffer in self.written

    def add(self, op: Operation, statements: Sequence[str], before: Sequence[str]) -> None:
        """Compute an operation in this loop."""
        self.ops[op] = None
        self.before += before
        self.statements += [*op.results, *statements]
        if isinstance(op, loop.StoreOp):
            self.written.add(op.buffer)
        elif isinstance(op, loop.LoadOp | loop.GatherOp):
            self.read.add(op.buffer)

    def is_local(self, value: SSAValue) -> bool:
        """Whether no operation outside of this loop reads a value that it defines."""
        return loop.shape_of(value.type) == self.shape and all(use.operation in self.ops for use in value.uses)


@dataclass
class LaneLoops:
    """The loops over lanes that are not yet written, in their order."""

    name: Callable[[SSAValue], str]
    """The variable of a value."""
    new: Callable[[str], str]
    """A new variable."""
    _loops: list[LaneLoop] = field(default_factory=list)
    _home: dict[SSAValue, int] = field(default_factory=dict)
    """The loop that defines a value, by its position."""
    _holes: dict[SSAValue | str, int] = field(default_factory=dict)
    """Holes, by what they stand for: a lane of a value, or an expression computed in front of the loop."""

    def at(self, value: SSAValue, current: Operation | None) -> str:
        """One lane of a value: an element of its array, or what stands for it until its loop is written."""
        if value not in self._home and value.owner is not current:
            return element_of_array(self.name(value), value)
        return self._hole(value)

    def hoisted(self, text: str) -> str:
        """An index expression that is the same for every lane, to be computed in front of the loop."""
        return self._hole(text)

    def _hole(self, what: SSAValue | str) -> str:
        return f"@{self._holes.setdefault(what, len(self._holes))}@"

    def precede(self, values: Sequence[SSAValue]) -> bool:
        """Whether values are defined in front of all these loops."""
        return not any(v in self._home for v in values)

    def add(self, op: Operation, shape: Sequence[int], statements: Sequence[str], before: Sequence[str] = ()) -> None:
        """Compute an operation in the first loop over these lanes that it may join, or in a new one."""
        lanes = tuple(shape)
        first = self._first(op, lanes)
        found = next((k for k in range(first, len(self._loops)) if self._loops[k].shape == lanes), len(self._loops))
        if found == len(self._loops):
            self._loops.append(LaneLoop(lanes))
        self._loops[found].add(op, statements, before)
        for result in op.results:
            self._home[result] = found

    def _first(self, op: Operation, lanes: tuple[int, ...]) -> int:
        """The position of the first loop that an operation may join."""
        first = 0
        for v in op.operands:
            if (home := self._home.get(v)) is not None:
                same_lane = loop.shape_of(v.type) == lanes == self._loops[home].shape
                first = max(first, home if same_lane else home + 1)
        for k in range(len(self._loops) - 1, first - 1, -1):
            if self._loops[k].conflicts(op):
                return k if lanes == self._loops[k].shape == () else k + 1
        return first

    def take(self) -> Iterator[tuple[int, str]]:
        """The lines of all loops, each with its depth, which are then forgotten."""
        fillings = list(self._holes)
        for one in self._loops:
            yield from self._lines(one, fillings)
        self._loops, self._home, self._holes = [], {}, {}

    def _lines(self, one: LaneLoop, fillings: Sequence[SSAValue | str]) -> Iterator[tuple[int, str]]:
        heads = [f"for (int64_t d{k} = 0; d{k} < {n}; ++d{k})" for k, n in enumerate(one.shape) if n > 1]
        values = [s for s in one.statements if isinstance(s, SSAValue)]
        scalars = {v for v in values if not one.shape or one.is_local(v)}
        inside = [
            s if isinstance(s, str) else declaration(self.name(s), s, scalar=True)
            for s in one.statements
            if isinstance(s, str) or s in scalars
        ]
        depth = 1 if one.shape else 0
        lines = [(depth, self._filled(s, one, fillings)) for s in inside]
        before = [(0, self._filled(s, one, fillings)) for s in one.before]
        yield from ((0, declaration(self.name(v), v)) for v in values if v not in scalars)
        yield from ((0, f"const int64_t {name} = {text};") for name, text in one.hoisted.values())
        yield from before
        if one.shape:
            yield 0, " ".join([*heads, "{"])
        yield from lines
        if one.shape:
            yield 0, "}"

    def _filled(self, statement: str, one: LaneLoop, fillings: Sequence[SSAValue | str]) -> str:
        """A statement with its holes filled; the variable of an axis of size 1 is 0."""

        def fill(match: re.Match[str]) -> str:
            if match[1] is None:
                return "0" if int(match[2]) < len(one.shape) and one.shape[int(match[2])] == 1 else match[0]
            what = fillings[int(match[1])]
            if isinstance(what, str):
                if what not in one.hoisted:
                    text = self._filled(what, one, fillings)
                    one.hoisted[what] = self.new("at"), text
                return one.hoisted[what][0]
            local = self._loops[self._home[what]].is_local(what)
            return self.name(what) if local else element_of_array(self.name(what), what)

        return _HOLE.sub(fill, statement)


def declaration(name: str, value: SSAValue, *, scalar: bool = False) -> str:
    """The variable of a value, or of its present lane, or its local array."""
    shape = () if scalar else loop.shape_of(value.type)
    return f"{value_type(loop.element_of(value.type))} {name}{f'[{math.prod(shape)}]' if shape else ''};"


def element_of_array(name: str, value: SSAValue, last: Sequence[int | str] = ()) -> str:
    """One lane of a value at d0, d1, ..., and at `last` on the last axes; axes of size 1 are broadcast."""
    shape = loop.shape_of(value.type)
    if not shape:
        return name
    index = [f"d{k}" if n > 1 else "0" for k, n in enumerate(shape)]
    index[len(index) - len(last) :] = map(str, last)
    return f"{name}[{flat(index, shape)}]"


def flat(index: Sequence[str], shape: Sequence[str | int]) -> str:
    """Row-major: `(i * 4 + j) * 8 + k`, without what is 0."""
    text = index[0] if index else "0"
    for i, n in zip(index[1:], shape[1:], strict=True):
        if text == "0":
            text = i
        else:
            scaled = f"({text}) * {n if str(n).isdecimal() else f'({n})'}"
            text = scaled if i == "0" else f"{scaled} + {i}"
    return text
