"""
Streams from memory: while a loop marked {prefetch} runs, what its next iteration reads is fetched into L2.

    loop.for %j = 0 to 40 {                            panels of weights
      loop.for %i = 0 to 7 {                           rows, which share a panel
        loop.for %k = 0 to 512 iter_args(...) {
          %w = loop.load %W[%j * 3 + d1, %k, d2] tile (d0 : 7, d1 : 3, d2 : 16)
    } attributes {prefetch = 1 : i64}

With each step of %k, row %i fetches its share of what %w will be in panel %j + 1: the bytes come evenly.

    loop.for %t = 0 to 10 {                            tiles of pixels, one behind the other in memory
      loop.for %k = 0 to 6 iter_args(...) {
        loop.for %c = 0 to 16 iter_args(...) {
          %x = loop.load %X[%k, %t * 16 + d0, %c] tile (d0 : 16, d1 : 2, d2 : 16)
    } attributes {stream = 1 : i64}

With each step of %c, one cache line of what %x will be in tile %t + 1 is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xdsl.dialects.builtin import IntegerAttr, i64

from mlc.dialects import llvm_ext, loop
from mlc.dialects.index import Index, dim
from mlc.lowering.loop_to_llvm.accesses import Access
from mlc.lowering.loop_to_llvm.address import Addresses
from mlc.lowering.loop_to_llvm.builder import Builder, byte_size
from mlc.lowering.loop_to_llvm.tiles import Chunk

KEY, STREAM = "prefetch", "stream"
LINE = 64
L2 = {"locality": IntegerAttr(2, i64)}


class Prefetcher:
    """Knows the marked loop and the loop of rows inside of it, by their machine variables."""

    def __init__(self, b: Builder, addresses: Addresses) -> None:
        self.b, self.addresses = b, addresses
        self.panel: int | None = None
        self.row: tuple[int, int] | None = None  # variable and extent
        self.stream: int | None = None
        self.innermost: tuple[int, int] | None = None

    @contextmanager
    def inside(self, op: loop.ForOp, extent: int | None) -> Iterator[None]:
        """While the body of a loop, whose variable is the newest, is lowered."""
        saved = self.panel, self.row, self.stream, self.innermost
        newest = len(self.addresses.variables) - 1
        if KEY in op.attributes:
            self.panel, self.row = newest, None
        elif self.panel is not None and self.row is None and extent:
            self.row = newest, extent
        if STREAM in op.attributes:
            self.stream, self.innermost = newest, None
        elif self.stream is not None and extent:
            self.innermost = newest, extent
        yield
        self.panel, self.row, self.stream, self.innermost = saved

    def load(self, op: loop.LoadOp, access: Access) -> None:
        """Fetch ahead for a load in a marked loop."""
        self._load_panel(op, access)
        self._load_stream(access)

    def _load_stream(self, access: Access) -> None:
        """Fetch for a load of pixels, each with channels that the innermost loop runs through."""
        if self.stream is None or self.innermost is None or access.mask or not access.rank:
            return
        (inner, steps), offset, lane = self.innermost, access.offset, -access.rank
        tile, size = offset.coefficient(self.stream), LINE // byte_size(access.element)
        if tile <= 0 or offset.coefficient(inner) != 1 or offset.coefficient(lane) == 1:
            return
        lines = tile // size
        share = -(-lines // steps)
        at, _ = access.place(self.addresses, [0] * (access.rank - 1), Chunk(0, 0, 1))
        for k in range(share if share <= 4 else 0):
            line = (dim(inner) * share + k).mod(lines, self.addresses.spans())
            self._fetch(access, at - dim(inner) + tile + line * size)

    def _load_panel(self, op: loop.LoadOp, access: Access) -> None:
        """Fetch for a load of whole vectors that moves with the panels, and is the same for all rows."""
        if self.panel is None or self.row is None or access.mask or access.rank < 2:
            return
        (row, rows), offset, lane = self.row, access.offset, -access.rank
        step, apart = offset.coefficient(self.panel), offset.coefficient(lane + 1)
        if not step or not apart or offset.uses(row) or offset.coefficient(lane) != 1:
            return
        columns = op.tile_sizes[-2]
        share = -(-columns // rows)
        at, _ = access.place(self.addresses, [0] * (access.rank - 1), Chunk(0, 0, 1))
        for k in range(0, share):
            column = (dim(row) * share + k).mod(columns, self.addresses.spans())
            self._fetch(access, at + step + column * apart)

    def _fetch(self, access: Access, offset: Index) -> None:
        pointer = self.addresses.pointer(access.base, offset, access.element)
        self.b.block.add_op(llvm_ext.PrefetchOp.create(operands=[pointer], properties=L2))
