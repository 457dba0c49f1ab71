"""
What cost models see of scheduled loops: for each block its loops, and for each access what a part of the loops touches.

In: a `loop.func` with blocks, as `loop-apply-schedule` leaves it. Nothing here depends on a strategy or its knobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, Range
from mlc.passes.loop.index_space.domain import loops_around

LINE_BYTES = 64
"""Bytes of a cache line of every machine that mlc describes."""


@dataclass(frozen=True)
class NestAccess:
    """A load or a store of a block."""

    buffer: SSAValue
    is_store: bool
    element_bytes: int
    shape: tuple[int, ...]
    spans: tuple[tuple[int, ...], ...]
    """For each depth d, for each dimension: how many elements the loops inside of the first d reach over."""
    uses: tuple[bool, ...]
    """For each loop, whether the address depends on it."""
    steps: tuple[int, ...]
    """For each loop, the elements in memory from one iteration to the next, at its start."""

    def lines(self, depth: int) -> int:
        """The cache lines that the loops inside of the first `depth` touch."""
        spans = [min(span, size) for span, size in zip(self.spans[depth], self.shape, strict=True)]
        if not spans:
            return 1
        return prod(spans[:-1]) * -(-spans[-1] * self.element_bytes // LINE_BYTES)

    def bytes(self, depth: int) -> int:
        """The bytes of these lines."""
        return LINE_BYTES * self.lines(depth)


@dataclass(frozen=True)
class Statement:
    """A block and its loops, outermost first."""

    name: str
    extents: tuple[int, ...]
    kinds: tuple[str, ...]
    reduces: tuple[bool, ...]
    """Whether a loop is a reduction: nothing that is written depends on it."""
    accesses: tuple[NestAccess, ...]
    multiplies: int
    """Multiplications and fused ones of a point."""
    others: int
    """Other arithmetic of a point."""

    @cached_property
    def points(self) -> int:
        """How often the block runs."""
        return prod(self.extents)

    @cached_property
    def tile(self) -> int:
        """The depth at which the register tile starts: the innermost loops that are vectorized."""
        depth = len(self.kinds)
        while depth and self.kinds[depth - 1] == "vectorized":
            depth -= 1
        return depth

    def touched(self, depth: int) -> int:
        """The bytes that the loops inside of the first `depth` touch; each buffer counts once."""
        largest: dict[SSAValue, int] = defaultdict(int)
        for access in self.accesses:
            largest[access.buffer] = max(largest[access.buffer], access.bytes(depth))
        return sum(largest.values())

    def moved(self, capacity: float) -> float:
        """
        The bytes that come from beyond a cache of `capacity` bytes.

        What the loops from some depth on touch fits, and is loaded once; the loop around them finds in the cache what
        its last iteration left there.
        """
        fits = (depth for depth in range(len(self.extents) + 1) if self.touched(depth) <= capacity)
        depth = max(0, next(fits, len(self.extents)) - 1)
        return float(self.touched(depth) * prod(self.extents[:depth]))


def statements(func: loop.FuncOp) -> list[Statement]:
    """The blocks of a scheduled kernel, the one that runs most often first; initialisations are left out."""
    found = [_statement(op) for op in func.walk() if isinstance(op, loop.BlockOp)]
    return sorted(found, key=lambda one: -one.points * (1 + one.multiplies + one.others))


def _statement(block: loop.BlockOp) -> Statement:
    loops = loops_around(block)
    extents = tuple(_extent(one) for one in loops)
    accesses = tuple(
        _access(op, block, loops, extents) for op in block.walk() if isinstance(op, loop.LoadOp | loop.StoreOp)
    )
    written = [access for access in accesses if access.is_store]
    reduces = tuple(not any(access.uses[at] for access in written) for at in range(len(loops)))
    names = [op.name for op in block.body.walk()]
    multiplies = sum(name in ("loop.fma", "loop.contract", "arith.mulf", "arith.muli") for name in names)
    others = sum(name.startswith(("arith.", "math.")) and name != "arith.constant" for name in names)
    kinds = tuple(one.kind.data for one in loops)
    return Statement(block.name_, extents, kinds, reduces, accesses, multiplies, max(0, others - multiplies))


def _extent(one: loop.ForOp) -> int:
    """The iterations of a loop; those of a symbolic one are unknown, and count as many."""
    return one.extent if one.extent is not None else 64


def _access(
    op: loop.LoadOp | loop.StoreOp, block: loop.BlockOp, loops: Sequence[loop.ForOp], extents: tuple[int, ...]
) -> NestAccess:
    kind = op.buffer.type
    assert isinstance(kind, MemRefType)
    shape = tuple(size if size > 0 else UNBOUNDED for size in kind.get_shape())
    axes = _Axes(block, loops)
    everything = [(0, extent - 1) for extent in extents]
    fixed: list[Range] = [(0, 0)] * len(loops)
    spans = tuple(
        axes.spans(op.map.data, op.indices, [*fixed[:depth], *everything[depth:]]) for depth in range(len(loops) + 1)
    )
    steps: list[int] = []
    uses: list[bool] = []
    for at, extent in enumerate(extents):
        alone = axes.spans(op.map.data, op.indices, [*fixed[:at], (0, min(1, extent - 1)), *fixed[at + 1 :]])
        whole = axes.spans(op.map.data, op.indices, [*fixed[:at], everything[at], *fixed[at + 1 :]])
        steps.append(sum((span - 1) * prod(shape[n + 1 :]) for n, span in enumerate(alone)))
        uses.append(any(span > 1 for span in whole))
    return NestAccess(op.buffer, isinstance(op, loop.StoreOp), _bytes(kind), shape, spans, tuple(uses), tuple(steps))


def _bytes(kind: MemRefType[Attribute]) -> int:
    size = getattr(kind.element_type, "size", 4)
    return size if isinstance(size, int) and size > 0 else 4


class _Axes:
    """The axes of a block by the loops around it."""

    def __init__(self, block: loop.BlockOp, loops: Sequence[loop.ForOp]) -> None:
        self._numbers = {one.iv: at for at, one in enumerate(loops)}
        self._arguments = list(block.args)
        self._bindings = block.bindings.data
        self._blocks: dict[SSAValue, int] = {argument: at for at, argument in enumerate(block.body.block.args)}
        for region in block.regions[:1]:
            if region.blocks:
                self._blocks |= {argument: at for at, argument in enumerate(region.block.args)}

    def spans(self, exprs: Sequence[Index], operands: Sequence[SSAValue], ranges: Sequence[Range]) -> tuple[int, ...]:
        """How many elements each expression reaches over when the loops have these ranges."""
        outer = [self._loop(value, ranges) for value in self._arguments]
        axes = [binding.bounds(outer) for binding in self._bindings]
        inner = [axes[self._blocks[v]] if v in self._blocks else self._loop(v, ranges) for v in operands]
        return tuple(high - low + 1 for low, high in (expr.bounds(inner) for expr in exprs))

    def _loop(self, value: SSAValue, ranges: Sequence[Range]) -> Range:
        at = self._numbers.get(value)
        return ranges[at] if at is not None else (0, 0)
