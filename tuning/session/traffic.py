"""
What loops cost by a model: the cache lines that each level has to fetch, and the vector registers that are live.

A loop whose accesses touch no more lines than a cache holds misses each of them once. A loop that touches more, but
whose single iterations fit, finds again what does not depend on its index; of everything else it fetches what is new.
A larger one misses in each iteration what its body misses. Conflicts and prefetching are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import TypeAlias

from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Range, axis_range, tile_ranges
from mlc.dialects.scalar import byte_size
from mlc.targets.target import Target

LINE = 64
"""Bytes of a cache line."""

Spans: TypeAlias = Mapping[SSAValue, Range]
"""The values of the indices that vary; the others count as one value."""


@dataclass(frozen=True)
class LoopCosts:
    """The costs of a kernel's loops by the model."""

    l1_misses: float
    """Cache lines that L1 fetches in one call."""
    l2_misses: float
    registers: int
    """The most vector registers that a loop keeps: what it carries, and the operands of one step."""


def loop_costs(module: ModuleOp, target: Target) -> LoopCosts:
    """The costs of the loop.funcs of a module, whose tiles are formed."""
    funcs = [op for op in module.body.block.ops if isinstance(op, loop.FuncOp)]
    l1, l2 = (sum(_misses(func.body.block, {}, size) for func in funcs) for size in (target.l1_bytes, target.l2_bytes))
    lanes = target.vector_bits // 32
    return LoopCosts(l1, l2, max((_registers(func, lanes) for func in funcs), default=0))


def _misses(block: Block, around: Spans, size: int) -> float:
    """The lines that one run of a block misses; `around` are the loops inside of the run."""
    touched = _touched(block, around)
    if sum(touched.values()) * LINE <= size:
        return sum(touched.values())
    nested = sum(_loop_misses(op, size) for op in block.ops if isinstance(op, loop.ForOp))
    return nested + sum(_lines(op, around) for op in block.ops if _is_access(op))


def _loop_misses(op: loop.ForOp, size: int) -> float:
    """The lines that one run of a loop misses."""
    block, extent = op.body.block, float(_extent(op))
    whole = _touched(block, {op.iv: axis_range(_extent(op))})
    if sum(whole.values()) * LINE <= size:
        return sum(whole.values())
    once = _touched(block, {})
    if sum(once.values()) * LINE <= size:
        return sum(whole.values())  # what the index leaves in place stays: it counts once in `whole`
    return extent * _misses(block, {}, size)


def _touched(block: Block, spans: Spans) -> dict[SSAValue, float]:
    """The lines of each buffer that a block touches: the most that one of its accesses does."""
    found: dict[SSAValue, float] = {}
    for op, inside in _accesses(block, spans):
        buffer = _buffer(op)
        found[buffer] = max(found.get(buffer, 0.0), _lines(op, inside))
    return found


def _accesses(block: Block, spans: Spans) -> Iterator[tuple[Operation, Spans]]:
    for op in block.ops:
        if _is_access(op):
            yield op, spans
        for region in op.regions:
            for inner in region.blocks:
                inside = {**spans, op.iv: axis_range(_extent(op))} if isinstance(op, loop.ForOp) else spans
                yield from _accesses(inner, inside)


def _is_access(op: Operation) -> bool:
    return isinstance(op, loop.LoadOp | loop.StoreOp)


def _buffer(op: Operation) -> SSAValue:
    assert isinstance(op, loop.LoadOp | loop.StoreOp)
    return op.buffer


def _lines(op: Operation, spans: Spans) -> float:
    """The lines that an access touches while the indices run over their spans."""
    assert isinstance(op, loop.LoadOp | loop.StoreOp)
    t = op.buffer.type
    assert isinstance(t, MemRefType)
    ranges = {n: spans.get(index, (0, 0)) for n, index in enumerate(op.indices)} | tile_ranges(op.tile_sizes)
    bounds = [e.bounds(ranges) for e in op.map.data]
    sizes = [s if s > 0 else UNBOUNDED for s in t.get_shape()]
    counts = [min(high - low + 1, size) for (low, high), size in zip(bounds, sizes, strict=True)]
    if not counts:
        return 1.0
    run = _contiguous(counts, sizes) * byte_size(t.element_type)
    outer = prod(counts[: -len(_whole(counts, sizes)) - 1])
    return float(outer * ceil(run / LINE))


def _whole(counts: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The innermost axes that are touched from end to end: the next one lies behind them without a gap."""
    whole: list[int] = []
    for axis in reversed(range(1, len(counts))):
        if counts[axis] < sizes[axis]:
            break
        whole.append(axis)
    return whole


def _contiguous(counts: Sequence[int], sizes: Sequence[int]) -> int:
    """The elements that lie beside each other."""
    return prod(counts[len(counts) - 1 - len(_whole(counts, sizes)) :])


def _extent(op: loop.ForOp) -> int:
    return op.extent if op.extent is not None else UNBOUNDED


def _registers(func: loop.FuncOp, lanes: int) -> int:
    most = 0
    for op in func.walk():
        if isinstance(op, loop.ForOp) and (carried := sum(_vectors(v.type, lanes) for v in op.carried)):
            loads = [o for o in op.body.block.ops if isinstance(o, loop.LoadOp)]
            most = max(most, carried + sum(max(1, _vectors(o.result.type, lanes, rows=1)) for o in loads))
    return most


def _vectors(t: Attribute, lanes: int, rows: int | None = None) -> int:
    """The native vectors of a tile, or of one row of it."""
    if not isinstance(t, VectorType) or t.get_shape()[-1] == 1:
        return 0
    shape = t.get_shape()
    return (prod(shape[:-1]) if rows is None else rows) * ceil(shape[-1] / lanes)


__all__ = ["LINE", "LoopCosts", "loop_costs"]
