"""Whether loads of a buffer read only what stores of the same run of a block of ops have surely written before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Block, Operation

from mlc.dialects import loop
from mlc.dialects.index import dim, tile_ranges
from mlc.passes.loop.index_space.domain import is_within
from mlc.passes.loop.index_space.regions import Interval, interval_of
from mlc.passes.loop.index_space.space import IndexSpace

Region = list[Interval]
_WRITERS = {loop.StoreOp, loop.ForOp}
"""The ops that may fill boxes of a buffer. Types are compared, since most ops of a block are others."""


def reads_own_writes(home: Block, ops: Sequence[loop.AccessOp]) -> bool:
    """
    Whether each load below a block reads elements that stores below it write, all of them and in the same run.

    `ops` are accesses of one buffer. Counted are stores without a mask in loops of constant bounds, as far as they
    leave no gaps.
    """
    if any(isinstance(op, loop.GatherOp) for op in ops):
        return False
    stores = {op for op in ops if isinstance(op, loop.StoreOp) and op.mask is None}
    filled = _FilledRegions(stores)
    return all(filled.before(op, home) for op in ops if not isinstance(op, loop.StoreOp))


@dataclass
class _FilledRegions:
    """The boxes that stores fill in each run of an op, over the values that do not vary in it."""

    stores: Collection[Operation]
    space: IndexSpace = field(default_factory=IndexSpace)
    known: dict[Operation, list[Region]] = field(default_factory=dict)
    fronts: dict[Block, dict[Operation, list[Region]]] = field(default_factory=dict)
    """Of each block of ops: the boxes that the ops in front of each op fill."""

    def before(self, read: loop.AccessOp, home: Block) -> bool:
        """Whether the ops in front of a load, in one of the blocks around it up to `home`, fill all that it reads."""
        top: Operation = read
        while (block := top.parent) is not None:
            if written := self._in_front(top, block):
                wanted = self._read(read, block)
                if any(all(map(_holds, region, wanted)) for region in written):
                    return True
            parent = block.parent_op()
            if block is home or parent is None:
                return False
            top = parent
        return False

    def _in_front(self, op: Operation, block: Block) -> list[Region]:
        """The boxes that the ops in front of an op of a block fill."""
        if block not in self.fronts:
            front = self.fronts[block] = {}
            written: list[Region] = []
            for one in block.ops:
                front[one] = written
                if type(one) in _WRITERS:
                    for region in self._of(one):
                        written = _joined(written, region)
        return self.fronts[block][op]

    def _read(self, op: loop.AccessOp, block: Block) -> Region:
        """The bounding box of the elements that a load reads as the values of a block vary, the others fixed."""
        exprs = self.space.exprs(op.map.data, op.indices)
        used = {d for e in exprs for d in e.dims() if d >= 0}
        fixed = {d for d in used if not is_within(self.space.values[d], block)}
        ranges = self.space.ranges_with(tile_ranges(op.tile_sizes))
        return [interval_of(e, fixed, ranges) for e in exprs]

    def _of_all(self, ops: Iterable[Operation]) -> list[Region]:
        """The boxes that several ops fill."""
        written: list[Region] = []
        for op in ops:
            for region in self._of(op):
                written = _joined(written, region)
        return written

    def _of(self, op: Operation) -> list[Region]:
        """The boxes that an op fills."""
        if type(op) not in _WRITERS:
            return []
        if op not in self.known:
            self.known[op] = self._filled(op)
        return self.known[op]

    def _filled(self, op: Operation) -> list[Region]:
        if isinstance(op, loop.StoreOp) and op in self.stores:
            exprs = self.space.exprs(op.map.data, op.indices)
            ranges = self.space.ranges_with(tile_ranges(op.tile_sizes))
            region = [interval_of(e, {d for d in e.dims() if d >= 0}, ranges) for e in exprs]
            return [region] if all(one.exact for one in region) and _tile_axes_differ(op) else []
        if not isinstance(op, loop.ForOp) or not op.extent or not op.lower.is_const:
            return []
        swept = (self._swept(op, op.extent, region) for region in self._of_all(op.body.block.ops))
        written: list[Region] = []
        for region in swept:
            written = _joined(written, region) if region is not None else written
        return written

    def _swept(self, f: loop.ForOp, extent: int, region: Region) -> Region | None:
        """The box that all iterations of a loop fill together; None where it has gaps."""
        iv = self.space.number(f.iv)
        moving = [k for k, one in enumerate(region) if one.base.uses(iv)]
        if not moving:
            return region
        (k, *others) = moving
        one, step = region[k], region[k].base.coefficient(iv)
        rest = one.base - dim(iv) * step
        if others or rest.uses(iv) or abs(step) > one.extent:
            return None
        first = rest + step * (f.lower.const + (extent - 1 if step < 0 else 0))
        grown = Interval(first, one.extent + abs(step) * (extent - 1))
        return [grown if n == k else same for n, same in enumerate(region)]


def _tile_axes_differ(op: loop.StoreOp) -> bool:
    """Whether no axis of the tile occurs in two subscripts, so that the tile fills the box around it."""
    used = [d for e in op.map.data for d in e.dims() if d < 0]
    return len(used) == len(set(used))


def _joined(written: list[Region], region: Region) -> list[Region]:
    """The boxes with one more, which grows by those that continue it along one axis."""
    for other in written:
        apart = [k for k, (a, b) in enumerate(zip(other, region, strict=True)) if not (_holds(a, b) and _holds(b, a))]
        if not apart:
            return written
        if len(apart) == 1 and (union := _union(other[apart[0]], region[apart[0]])) is not None:
            grown = [union if k == apart[0] else one for k, one in enumerate(region)]
            return _joined([w for w in written if w is not other], grown)
    return [*written, region]


def _union(a: Interval, b: Interval) -> Interval | None:
    """The interval of two that meet or overlap; None of two with a gap between them."""
    step = b.base - a.base
    if not step.is_const:
        return None
    if step.const < 0:
        a, b, step = b, a, -step
    return replace(a, extent=max(a.extent, step.const + b.extent)) if step.const <= a.extent else None


def _holds(a: Interval, b: Interval) -> bool:
    """Whether an interval holds another one."""
    step = b.base - a.base
    return step.is_const and step.const >= 0 and step.const + b.extent <= a.extent
