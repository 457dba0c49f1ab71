"""
Software prefetch: while an iteration of a loop marked {prefetch} runs, the data of its next one is fetched into L2.

    loop.for %j = 0 to 40 {                            panels of weights
      loop.for %i = 0 to 7 {                           rows, which share a panel
        loop.for %k = 0 to 512 iter_args(...) {
          %w = loop.load %W[%j * 3 + d1, %k, d2] tile (d0 : 7, d1 : 3, d2 : 16)
    } attributes {prefetch = 1 : i64}

In each step of %k, row %i fetches its share of the data that %w will load in panel %j + 1: an even stream. Where marked
loops are nested with no loop between them, the next iteration is that of the nest: after the last of the inner loop
comes the first of the outer loop's next one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import IntegerAttr, i64

from mlc.dialects import llvm_ext, loop
from mlc.dialects.attributes import LOOP_PREFETCH
from mlc.dialects.index import UNBOUNDED, Index, Ranges, const, dim
from mlc.dialects.scalar import byte_size
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.access.address import Addresses
from mlc.lowering.loop_to_llvm.builder import Builder
from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.thresholds import SURE_ROWS

L2 = {"locality": IntegerAttr(2, i64)}


class Prefetcher:
    """Emits prefetches; keeps the machine variables of the marked loops and of the loop of rows inside of them."""

    def __init__(self, b: Builder, addresses: Addresses, symbolic: bool = False) -> None:
        self.b, self.addresses, self.symbolic = b, addresses, symbolic
        self.panels: tuple[tuple[int, int | None], ...] = ()  # variables and extents, outer ones first
        self.row: tuple[int, int] | None = None  # variable and extent

    @contextmanager
    def inside(self, op: loop.ForOp, extent: int | None, most: int) -> Generator[None]:
        """
        Context of the lowering of a loop's body; the loop's variable is the newest machine variable.

        `most` is the greatest trip count of a loop that has several: one that is shorter fetches a part of the lines.
        """
        saved = self.panels, self.row
        newest = len(self.addresses.variables) - 1
        if LOOP_PREFETCH in op.attributes:
            nested = self.panels if self.row is None and extent is not None and op.lower == const(0) else ()
            self.panels, self.row = (*nested, (newest, extent)), None
        elif self.panels and self.row is None and (extent or self.symbolic or op.lower == const(0)):
            rows = SURE_ROWS if self.symbolic and extent is None else most
            self.row = newest, min(rows, SURE_ROWS if self.symbolic else UNBOUNDED)
        yield
        self.panels, self.row = saved

    def load(self, op: loop.LoadOp, access: LoweredAccess) -> None:
        """Prefetch for a load of full vectors whose address depends on the panel, but not on the row."""
        if not self.panels or self.row is None or access.mask or access.rank < 2:
            return
        (row, rows), offset, lane = self.row, access.offset, -access.rank
        following, apart = following_offset(offset, self.panels, self.addresses.spans()), offset.coefficient(lane + 1)
        if following == offset or not self._vectors(access, op.tile_sizes[-1]):
            return
        if offset.uses(row):  # there is a single row: the loop is over the panel's own vectors
            rows = 1
        columns = op.tile_sizes[-2] if apart else 1
        shares_lines = op.tile_sizes[-1] * byte_size(access.element) < LINE_BYTES
        per_column = max(1, op.tile_sizes[-1] * byte_size(access.element) // LINE_BYTES)
        lines, spans = columns * per_column, self.addresses.spans()
        share = -(-lines // rows)
        for k in range(0, share):
            number = (dim(row) * share + k).mod(lines, spans)
            inside = number.mod(per_column, spans) * (LINE_BYTES // byte_size(access.element))
            to = {-1 - axis: const(0) for axis in range(access.rank)}
            to |= {lane: inside, lane + 1: number.floordiv(per_column, spans)}
            at = following.substitute(to, spans)
            within = at.mod(LINE_BYTES // byte_size(access.element), spans)
            if shares_lines and within.is_const and within != const(0):
                continue  # an unrolled step before this one fetches the line
            self._fetch(access, at)

    def _vectors(self, access: LoweredAccess, lanes: int) -> bool:
        """Whether the lanes are contiguous and fill at least a cache line."""
        lane, size = -access.rank, LINE_BYTES // byte_size(access.element)
        spans = self.addresses.spans()
        first = access.offset.substitute({lane: const(0)}, spans)
        near = access.offset.substitute({lane: const(min(size, lanes) - 1)}, spans)
        return near - first == const(min(size, lanes) - 1)

    def _fetch(self, access: LoweredAccess, offset: Index) -> None:
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
