"""Warnings about slow kernels: more live native vectors than registers, accumulators in memory."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.passes.loop.index_space.domain import range_of
from mlc.passes.loop.tiles.registers import registers_needed, steps_of
from mlc.support.errors import warn
from mlc.targets.cost.thresholds import AMORTISING_STEPS


def check_loop(op: loop.ForOp, lanes: int, registers: int, matrices: Collection[SSAValue] = ()) -> None:
    """
    Warn where what a loop carries does not fit the registers, or where it accumulates in memory.

    `matrices` are values that the matrix unit holds, in registers of its own. A rest of a tile that is made for it, and
    that vectors take, is as large as it is.
    """
    needed = registers_needed(op, lanes, matrices)
    for_matrices = any(isinstance(o, loop.ContractOp) and o.steps is not None for o in steps_of(op))
    if needed > registers and not for_matrices:
        warn(
            op,
            f"over %{op.iv.name_hint or 'i'} keeps {needed} native vectors, more than the {registers} registers of the "
            "target; choose a smaller tile",
        )
    first, last = range_of(op.iv)
    for buffer in _accumulators(op) if last > first else ():
        warn(
            op,
            f"over %{op.iv.name_hint or 'i'} accumulates a tile of %{buffer.name_hint or 'buffer'} in memory; start "
            "the accumulator in front of that loop",
        )


def _accumulators(op: loop.ForOp) -> list[SSAValue]:
    """The buffers in which a loop accumulates: it loads a tile at a loop-invariant place and then stores one there."""
    first: dict[SSAValue, loop.LoadOp | None] = {}
    found: list[SSAValue] = []
    for o in op.body.block.ops:
        if isinstance(o, loop.LoadOp):
            first.setdefault(o.buffer, o if prod(loop.shape_of(o.result.type)) > 1 and op.iv not in o.indices else None)
        elif isinstance(o, loop.StoreOp):
            load = first.setdefault(o.buffer, None)
            if load is not None and load.map == o.map and list(load.indices) == list(o.indices):
                if not _starts_long_loop(load) and not _is_filled_before(load):
                    found.append(o.buffer)
    return found


def _starts_long_loop(load: loop.LoadOp) -> bool:
    """Whether a loaded tile is the initial value of a loop of many iterations, as between blocks of a reduction."""
    readers = [use.operation for use in load.result.uses]
    loops = [op for op in readers if isinstance(op, loop.ForOp)]
    return len(readers) == len(loops) == 1 and _steps(loops[0]) >= AMORTISING_STEPS


def _is_filled_before(load: loop.LoadOp) -> bool:
    """Whether a loop in front of a load writes the buffer, so that the load reads nothing of an earlier iteration."""
    before = load.prev_op
    while before is not None:
        if isinstance(before, loop.ForOp):
            stores = (op for op in before.walk() if isinstance(op, loop.StoreOp))
            if any(op.buffer is load.buffer for op in stores):
                return True
        before = before.prev_op
    return False


def _steps(f: loop.ForOp) -> int:
    """The iterations of a nest of loops that carry values."""
    inner = [_steps(op) for op in f.body.block.ops if isinstance(op, loop.ForOp) and op.results]
    return (f.extent or 0) * max(inner, default=1)
