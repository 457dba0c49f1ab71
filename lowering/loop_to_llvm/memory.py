"""
The memory of a kernel's own buffers: static ones at fixed offsets, symbolic ones behind them in the workspace.

loop-plan-memory has placed them (lowering/memory/plan_kernel.py); buffers without a place lie behind those with one.

    scratch of a thread:  [ static local buffers ]
    workspace:            [ static shared buffers | symbolic shared buffers | thread 0's symbolic local ones | ... ]

The facts of these buffers are in lowering/memory/kernel_buffers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i8, i64
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_SHARES, LOOP_SLOT
from mlc.dialects.index import IndexMapAttr
from mlc.dialects.scalar import byte_size
from mlc.dialects.walk import walk
from mlc.lowering.memory.kernel_buffers import is_local, is_symbolic, symbolic_row
from mlc.support.alignment import ALIGNMENT

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

Slot = Callable[[SSAValue], SSAValue]


@dataclass
class SymbolicBuffers:
    """A machine function's buffers of symbolic sizes; their pointers are computed in its entry."""

    stride: SSAValue | None = None
    """The total bytes of one thread's local buffers."""
    rows: list[IndexMapAttr] = field(default_factory=list)


def place_symbolic(f: FunctionLowering, func: loop.FuncOp) -> None:
    """Compute the address of every buffer of symbolic sizes, behind the static ones, in the kernel's entry."""
    symbolic = sorted((o for o in walk(func) if isinstance(o, loop.AllocOp) and is_symbolic(o)), key=is_local)
    if not symbolic:
        return
    assert f.workspace is not None
    b, symbols = f.b, func.symbols
    end: SSAValue = b.int(f.kernel.workspace_bytes)
    first_local: SSAValue | None = None
    slots: dict[object, SSAValue] = {}
    for alloc in symbolic:
        f.addresses.shape(alloc.result, alloc.shape, alloc.args)
        if LOOP_SHARES in alloc.attributes:
            continue
        if is_local(alloc) and first_local is None:
            first_local = end
        f.buffers[alloc.result] = slots[alloc.attributes.get(LOOP_SLOT)] = b.gep(f.workspace, end, i8)
        end = b.add(end, _bytes(f, alloc))
        f.symbolic.rows.append(symbolic_row(alloc, symbols))
    for alloc in symbolic:
        if (slot := alloc.attributes.get(LOOP_SHARES)) is not None:
            f.buffers[alloc.result] = slots[slot]
    f.symbolic.stride = b.int(0) if first_local is None else b.op(llvm.SubOp, [end, first_local], i64)


def _bytes(f: FunctionLowering, alloc: loop.AllocOp) -> SSAValue:
    """The bytes reserved for a symbolic buffer, computed at run time as `static_bytes` does."""
    b = f.b
    total: SSAValue = b.int(byte_size(alloc.result.type.element_type))
    for size in alloc.shape:
        total = b.mul(total, f.addresses.value(f.addresses.resolve(size, alloc.args)))
    return b.op(llvm.AndOp, [b.add(total, b.int(2 * ALIGNMENT - 1)), b.int(-ALIGNMENT)], i64)


def place_static(f: FunctionLowering, alloc: loop.AllocOp) -> SSAValue:
    """
    The pointer to a buffer of static sizes; the iterations of an unrolled loop share one place.

    It is computed at the function's entry, where the parts of an access that no loop changes are added to it.
    """
    v = alloc.result
    offset = f.kernel.places[v]
    if is_local(alloc):
        f.local[v] = offset
    base = f.scratch() if is_local(alloc) else f.workspace
    assert base is not None
    with f.addresses.outside_loops():
        return f.b.gep(base, offset, i8)


def capture_strides(f: FunctionLowering, g: FunctionLowering, buffer: SSAValue, slot: Slot) -> None:
    """Pass the strides of a buffer of symbolic sizes to the function `g`; each machine variable is passed once."""
    strides = f.addresses.strides.get(buffer)
    for _, factor in strides or ():
        if factor is not None and factor not in g.factors:
            g.factors[factor] = g.addresses.anonymous(slot(f.addresses.variables[factor][0]))
    if strides is not None:
        g.addresses.strides[buffer] = tuple((n, None if x is None else g.factors[x]) for n, x in strides)


def capture_symbolic(f: FunctionLowering, g: FunctionLowering, op: loop.ForOp, slot: Slot) -> None:
    """Pass the addresses of buffers of symbolic sizes that a loop allocates to `g`; local ones differ per thread."""
    allocs = [o for o in walk(op) if isinstance(o, loop.AllocOp) and is_symbolic(o)]
    part: SSAValue | None = None
    if allocs and f.thread is None and g.thread is not None:
        assert f.symbolic.stride is not None
        part = g.b.mul(g.b.cast("sext", g.thread, i64), slot(f.symbolic.stride))
    for alloc in allocs:
        capture_strides(f, g, alloc.result, slot)
        pointer = slot(f.buffers[alloc.result])
        if part is not None and is_local(alloc):
            pointer = g.b.gep(pointer, part, i8)
        g.buffers[alloc.result] = pointer
    if g.is_cold and f.symbolic.stride is not None:
        g.symbolic.stride = slot(f.symbolic.stride)


__all__ = ["SymbolicBuffers", "capture_strides", "capture_symbolic", "place_static", "place_symbolic"]
