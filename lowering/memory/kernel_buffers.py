"""
The facts of a kernel's own buffers: their bytes, their places, whether each thread has a copy.

loop-plan-memory has placed those of static sizes (plan_kernel.py); the others lie behind them in the workspace. The
attribute `mlc.symbolic_bytes` gives the bytes of these: one map per slot, whose expressions are multiplied. They are
over the kernel's symbols, followed, for a local buffer, by the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType
from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_OFFSET, NATIVE_SYMBOLIC_BYTES
from mlc.dialects.index import Div, Index, IndexMapAttr, const, dim
from mlc.dialects.scalar import byte_size
from mlc.dialects.walk import walk
from mlc.support.alignment import ALIGNMENT


def static_bytes(t: MemRefType) -> int:
    """The bytes reserved for a buffer of static sizes: aligned, with a cache line between it and the next one."""
    return (prod(t.get_shape()) * byte_size(t.element_type) + 2 * ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def static_places(func: loop.FuncOp) -> tuple[dict[SSAValue, int], tuple[int, int]]:
    """The byte offsets of the buffers of static sizes; the bytes of workspace and of a thread's scratch they take."""
    places, ends = dict[SSAValue, int](), [0, 0]
    allocs = [o for o in walk(func) if isinstance(o, loop.AllocOp) and not is_symbolic(o)]
    for alloc in sorted(allocs, key=lambda o: LOOP_OFFSET not in o.attributes):
        local = is_local(alloc)
        known = alloc.attributes.get(LOOP_OFFSET)
        offset = places[alloc.result] = known.value.data if isinstance(known, IntegerAttr) else ends[local]
        ends[local] = max(ends[local], offset + static_bytes(alloc.result.type))
    return places, (ends[0], ends[1])


def symbolic_row(alloc: loop.AllocOp, symbols: Sequence[SSAValue]) -> IndexMapAttr:
    """A slot's map in `mlc.symbolic_bytes`: the factors of its size in bytes."""
    threads = [dim(len(symbols))] if is_local(alloc) else []
    return IndexMapAttr.get([*factors(alloc, symbols), *threads])


def factors(alloc: loop.AllocOp, symbols: Sequence[SSAValue]) -> list[Index]:
    """The factors of a buffer's size in bytes, over the kernel's symbols."""
    numbers = {k: dim(symbols.index(v)) for k, v in enumerate(alloc.args)}
    sizes: list[Index] = [e.substitute(numbers) for e in alloc.shape]
    return [const(byte_size(alloc.result.type.element_type)), *sizes]


def in_scratch(alloc: loop.AllocOp) -> bool:
    """Whether a buffer lies in a thread's scratch."""
    return is_local(alloc) and not is_symbolic(alloc)


def is_local(alloc: loop.AllocOp) -> bool:
    """Whether each thread has its own copy of a buffer."""
    return alloc.scope.data == "local"


def is_symbolic(alloc: loop.AllocOp) -> bool:
    """Whether a buffer has dynamic sizes."""
    return not alloc.result.type.has_static_shape()


def symbolic_bytes(op: Operation) -> list[list[Any]]:
    """A kernel's attribute `mlc.symbolic_bytes` as the runtime reads it: the encoded factors of each buffer."""
    rows = op.attributes.get(NATIVE_SYMBOLIC_BYTES)
    maps = rows.data if isinstance(rows, ArrayAttr) else ()
    return encoded_rows(row.data for row in maps if isinstance(row, IndexMapAttr))


def encoded_rows(rows: Iterable[Iterable[Index]]) -> list[list[Any]]:
    """The factors of each buffer's bytes in the runtime's encoding of sizes."""
    return [[_encoded(e) for e in row] for row in rows]


def _encoded(e: Index) -> Any:
    """An index expression over a kernel's symbols in the runtime's encoding of sizes."""
    terms: list[Any] = [[e.const, []]] if e.const or not e.terms else []
    for t, c in e.terms:
        if isinstance(t, int):
            terms.append([c, [str(t)]])
            continue
        assert isinstance(t, Div)
        inner = _encoded(t.expr)
        if t.is_mod:  # x mod n = x - n * (x floordiv n)
            terms += [[c * k, atoms] for k, atoms in inner]
            c *= -t.by
        terms.append([c, [[inner, t.by]]])
    return terms
