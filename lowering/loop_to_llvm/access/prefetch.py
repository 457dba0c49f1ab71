"""
Software prefetch: while an iteration of a loop marked {prefetch} runs, the data of its next one is fetched into L2.

    loop.for %j = 0 to 40 {                            panels of weights
      loop.for %i = 0 to 7 {                           rows, which share a panel
        loop.for %k = 0 to 512 iter_args(...) {
          %w = loop.load %W[%j * 3 + d1, %k, d2] tile (d0 : 7, d1 : 3, d2 : 16)
    } attributes {prefetch = 1 : i64}

Each row fetches its share of the data that %w will load in panel %j + 1: an even stream. Few rows fetch in each step of
%k. Unrolled steps count as one, whose lines are fetched in the first of them. Where a step has fewer lines than there
are rows, a row fetches in each iteration of an outer loop over steps, or once before its first step, so that no two
rows fetch the same line. Where marked loops are nested with no loop between them, the next iteration is that of the
nest: after the last of the inner loop comes the first of the outer loop's next one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from mlc.dialects import llvm_ext, loop
from mlc.dialects.attributes import LOOP_PREFETCH
from mlc.dialects.index import Index, Ranges, const, dim
from mlc.dialects.scalar import byte_size
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.access.address import Addresses
from mlc.lowering.loop_to_llvm.builder import Builder
from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.thresholds import PREFETCH_BURST, SURE_ROWS

L2 = {"locality": IntegerAttr(2, i64)}


@dataclass(frozen=True)
class FetchPlace:
    """A loop in whose iterations rows fetch their shares of the lines that its inner loops will load."""

    variable: int
    """The loop's variable."""
    row: Index
    """The number of the current row."""
    rows: int
    """How many rows share the lines."""
    steps: tuple[tuple[int, int], ...]
    """Variables and extents of the inner loops over steps, outer ones first."""
    lines: int
    """The lines of one iteration."""

    @property
    def share(self) -> int:
        """The lines that a row fetches in one iteration."""
        return ceil(self.lines / self.rows)

    def line(self, k: int, spans: Ranges) -> tuple[dict[int, Index], Index]:
        """The k-th line of the current row's share: its step, by the variables of loops, and its number in the step."""
        number, step = (self.row * self.share + k).mod(self.lines, spans), dict[int, Index]()
        for variable, extent in reversed(self.steps):
            step[variable], number = number.mod(extent, spans), number.floordiv(extent, spans)
        return step, number


@dataclass(frozen=True)
class UnrolledLoop:
    """An iteration of an unrolled loop."""

    variable: SSAValue
    """The loop's index at the loop level."""
    extent: int
    k: int
    """The number of the iteration."""


class Prefetcher:
    """Emits prefetches; keeps the machine variables of the marked loops and of the loops inside of them."""

    def __init__(self, b: Builder, addresses: Addresses, symbolic: bool = False) -> None:
        self.b, self.addresses, self.symbolic = b, addresses, symbolic
        self.panels: tuple[tuple[int, int | None], ...] = ()  # variables and extents, outer ones first
        self.loops: tuple[tuple[int, int | None], ...] = ()
        """Variables and extents of the loops inside of them; the extent of a loop that a border shortens is None."""
        self.unrolled: tuple[UnrolledLoop, ...] = ()
        """The unrolled loops inside of the innermost loop, outer ones first."""

    @contextmanager
    def inside(self, op: loop.ForOp, extent: int | None, most: int) -> Generator[None]:
        """
        Context of the lowering of a loop's body; the loop's variable is the newest machine variable.

        `most` is the greatest trip count of a loop that has several: one that is shorter fetches a part of the lines.
        """
        saved = self.panels, self.loops, self.unrolled
        newest, self.unrolled = len(self.addresses.variables) - 1, ()
        if LOOP_PREFETCH in op.attributes:
            nested = self.panels if not self.loops and extent is not None and op.lower == const(0) else ()
            self.panels, self.loops = (*nested, (newest, extent)), ()
        elif self.panels:
            counts = extent or self.symbolic or op.lower == const(0)
            self.loops = (*self.loops, (newest, most if counts else None))
        yield
        self.panels, self.loops, self.unrolled = saved

    @contextmanager
    def inside_unrolled(self, iv: SSAValue, extent: int, k: int) -> Generator[None]:
        """Context of the lowering of the k-th iteration of an unrolled loop."""
        saved, self.unrolled = self.unrolled, (*self.unrolled, UnrolledLoop(iv, extent, k))
        yield
        self.unrolled = saved

    def load(self, op: loop.LoadOp, access: LoweredAccess) -> None:
        """Prefetch for a load of full vectors whose address depends on the panel."""
        if not self.panels or not self.loops or access.mask or access.rank < 2:
            return
        spans, offset, lane = self.addresses.spans(), access.offset, -access.rank
        following, apart = following_offset(offset, self.panels, spans), offset.coefficient(lane + 1)
        if following == offset or not self._vectors(access, op.tile_sizes[-1]):
            return
        size = LINE_BYTES // byte_size(access.element)
        steps, first = self._unrolled_steps(op, offset)
        if not first:
            return
        axes = self._lines(op.tile_sizes, apart, steps, size)
        place = self._place(offset, prod(extent for extent, _ in axes))
        for k in range(place.share):
            to, number = place.line(k, spans)
            to |= {-1 - axis: const(0) for axis in range(access.rank)}
            at = following.substitute(to, spans)
            for extent, stride in axes:
                at, number = at + number.mod(extent, spans) * stride, number.floordiv(extent, spans)
            self._fetch(access, at, place.variable)

    def _unrolled_steps(self, op: loop.LoadOp, offset: Index) -> tuple[list[tuple[int, int]], bool]:
        """
        (extent, stride in elements) of the unrolled loops that move a load evenly, innermost first.

        The flag is False in iterations after their first, which has fetched the lines of all.
        """
        found, first, index = list[tuple[int, int]](), True, self.addresses.index
        for one in reversed(self.unrolled):
            here = index[one.variable]
            index[one.variable] = here + 1
            moved = self.addresses.linear(op.map.data, op.indices, op.buffer) - offset
            index[one.variable] = here
            if moved.is_const:
                first = first and one.k == 0
                found += [(one.extent, moved.const)] if moved.const else []
        return found, first

    @staticmethod
    def _lines(tile: Sequence[int], apart: int, steps: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int]]:
        """
        (extent, stride in elements) of the lines of a load in unrolled steps, the nearest first.

        Steps that follow each other in memory, as those of a packed panel do, are one row of lines. `tile`: the load's
        sizes; `apart`: the distance of its columns; `size`: the elements of a line.
        """
        row, rest = tile[-1], list(steps)
        while rest and rest[0][1] == row:
            row *= rest.pop(0)[0]
        return [(ceil(row / size), size), *rest, *([(tile[-2], apart)] if apart else [])]

    def _place(self, offset: Index, lines: int) -> FetchPlace:
        """
        The innermost loop in which each row's share is a line or more; the innermost of all if that is a long burst.

        A loop that a border shortens is not left if the offset uses its variable. `lines` are the lines of a step.
        """
        place = innermost = self._place_in(offset, lines, len(self.loops) - 1)
        for at in reversed(range(len(self.loops) - 1)):
            variable, extent = self.loops[at + 1]
            if place.lines >= place.rows or (extent is None and offset.uses(variable)):
                break
            place = self._place_in(offset, lines, at)
        return place if place.rows <= place.lines <= PREFETCH_BURST * place.rows else innermost

    def _place_in(self, offset: Index, lines: int, at: int) -> FetchPlace:
        """The place in the loop of that number."""
        outer, inner = self.loops[: at + 1], self.loops[at + 1 :]
        row, rows = const(0), 1
        shared = [(variable, extent) for variable, extent in outer if extent is not None and not offset.uses(variable)]
        if self.symbolic:
            shared = [(variable, min(extent, SURE_ROWS)) for variable, extent in shared[:1]]
        for variable, extent in shared:
            row, rows = row * extent + dim(variable), rows * extent
        steps = tuple((variable, extent) for variable, extent in inner if extent is not None and offset.uses(variable))
        return FetchPlace(self.loops[at][0], row, rows, steps, lines * prod(extent for _, extent in steps))

    def _vectors(self, access: LoweredAccess, lanes: int) -> bool:
        """Whether the lanes are contiguous and fill at least a cache line."""
        lane, size = -access.rank, LINE_BYTES // byte_size(access.element)
        spans = self.addresses.spans()
        first = access.offset.substitute({lane: const(0)}, spans)
        near = access.offset.substitute({lane: const(min(size, lanes) - 1)}, spans)
        return near - first == const(min(size, lanes) - 1)

    def _fetch(self, access: LoweredAccess, offset: Index, variable: int) -> None:
        with self.addresses.inside_of(variable):
            pointer = self.addresses.pointer(access.base, offset, access.element)
            self.b.block.add_op(llvm_ext.PrefetchOp.create(operands=[pointer], properties=L2))


def following_offset(offset: Index, nest: Sequence[tuple[int, int | None]], spans: Ranges) -> Index:
    """An offset in the next iteration of nested loops, given as (variable, extent), outer ones first."""
    to, carry = dict[int, Index](), const(1)
    for variable, extent in reversed(nest[1:]):
        assert extent is not None
        to[variable] = (dim(variable) + carry).mod(extent, spans)
        carry = (dim(variable) + carry).floordiv(extent, spans)
    return offset.substitute(to | {nest[0][0]: dim(nest[0][0]) + carry}, spans)
