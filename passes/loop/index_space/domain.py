"""
Iteration domain: the loops around an op, and the range of values that each index takes.

    index                                 range, both ends included
    index of `loop.for %i = a to b`       [a, b - 1], a and b at the extremes of the ranges of what they use
    axis of a `loop.block`                [0, extent - 1]
    symbol, an argument of the kernel     [n, UNBOUNDED], n its smallest value
    any other value                       UNKNOWN

No range is empty: a loop or an axis that may have no iteration counts as one that has one. What is proved for a range
then also holds, trivially, where nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import lru_cache
from itertools import product
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.constants import integers
from mlc.dialects.index import UNBOUNDED, UNKNOWN, Div, Index, Range, Ranges, axis_range, size_of
from mlc.dialects.loop import BlockOp, ForOp, FuncOp, YieldOp

MOST_POINTS = 4096
"""Points at which the bounds of a minimum are computed exactly, at most."""


def loops_around(op: Operation, within: Operation | None = None) -> list[ForOp]:
    """The loops around an op, outermost first, up to (not including) `within`."""
    found: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None and parent is not within:
        if isinstance(parent, ForOp):
            found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


def parallel_around(op: Operation) -> ForOp | None:
    """The outermost parallel loop around an op."""
    return next((f for f in loops_around(op) if f.kind.data == "parallel"), None)


def ancestor_in(block: Block, op: Operation) -> Operation:
    """The op of `block` that is, or holds, this one."""
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def body_ops(block: Block) -> list[Operation]:
    """The ops of a block without its terminator."""
    return [op for op in block.ops if not isinstance(op, YieldOp)]


def loops_and_blocks(op: Operation) -> Generator[ForOp | BlockOp]:
    """The loops and blocks in an op, itself included, in the order of the text; blocks are not looked into."""
    if type(op) is BlockOp:
        yield op
        return
    if type(op) is ForOp:
        yield op
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if inner.regions:
                    yield from loops_and_blocks(inner)


def blocks_of(op: Operation) -> list[BlockOp]:
    """The blocks in an op, itself included."""
    return [one for one in loops_and_blocks(op) if type(one) is BlockOp]


def is_within(value: SSAValue, home: Block) -> bool:
    """Whether a value is defined in a block of ops, or deeper: a result there, or the index of a loop."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    if block is home and isinstance(owner, Block):
        return False
    while block is not None and block is not home:
        parent = block.parent_op()
        block = parent.parent if parent is not None else None
    return block is home


def loop_of(value: SSAValue) -> ForOp | None:
    """The loop whose index a value is."""
    f = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return f if isinstance(f, ForOp) and f.iv is value else None


def is_symbol(value: SSAValue) -> bool:
    """Whether an index value is a size that the kernel is given at run time."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)


def smallest_value(func: FuncOp, symbol: SSAValue) -> int:
    """The smallest value of a kernel's symbol, from the kernel's attribute `least`; 0 without it."""
    known = integers(func.attributes.get("least"))
    return known[func.symbols.index(symbol)] if known is not None else 0


def range_of(value: SSAValue) -> Range:
    """The smallest and largest value of an index, as the op that defines it says: see the table above."""
    owner = value.owner
    parent = owner.parent_op() if isinstance(owner, Block) else None
    if isinstance(parent, ForOp) and parent.iv is value:
        return _range_of_loop(parent)
    if isinstance(parent, FuncOp):
        return smallest_value(parent, value), UNBOUNDED
    if isinstance(owner, Block) and isinstance(parent, BlockOp):
        return axis_range(size_of(parent.extents.data[owner.args.index(value)]))
    return UNKNOWN


def _range_of_loop(f: ForOp) -> Range:
    return range_between(f.lower, f.upper, [range_of(v) for v in f.indices])


def range_between(lower: Index, upper: Index, ranges: Ranges) -> Range:
    """The range of the index of a loop with these bounds, the second one exclusive."""
    first = bounds_of(lower, ranges)[0]
    return first, max(bounds_of(upper, ranges)[1] - 1, first)


def bounds_of(e: Index, ranges: Ranges) -> Range:
    """The bounds of an expression; of a minimum or maximum, whose terms are over the same dimensions, exact ones."""
    if not any(isinstance(t, Div) and t.by == UNBOUNDED for t, _ in e.terms):
        return e.bounds(ranges)
    spans = tuple((d, ranges[d]) for d in sorted(e.dims()))
    points = prod(last + 1 - first for _, (first, last) in spans)
    return _exact_bounds(e, spans) if points <= MOST_POINTS else e.bounds(ranges)


@lru_cache(maxsize=4096)
def _exact_bounds(e: Index, spans: tuple[tuple[int, Range], ...]) -> Range:
    axes = [range(first, last + 1) for _, (first, last) in spans]
    values = [e.evaluate(dict(zip((d for d, _ in spans), at, strict=True))) for at in product(*axes)]
    return min(values), max(values)


class LazyRanges(dict[int, Range]):
    """The range of each dimension, looked up when it is first asked for; a tile axis that is not given is UNKNOWN."""

    def __init__(self, look_up: Callable[[int], Range], known: Mapping[int, Range] | None = None) -> None:
        super().__init__(known or {})
        self._look_up = look_up

    def __missing__(self, dimension: int) -> Range:
        found = self[dimension] = self._look_up(dimension) if dimension >= 0 else UNKNOWN
        return found
