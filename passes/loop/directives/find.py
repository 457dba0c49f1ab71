"""Directives that only find things: block, loops, child, knob."""

from __future__ import annotations

from mlc.dialects import loop, sched
from mlc.passes.loop.directives.kernel import Kernel, children, is_below, name_of
from mlc.passes.loop.index_space.domain import loops_around


def find_block(kernel: Kernel, op: sched.BlockOp) -> None:
    """A handle on the block of a name."""
    kernel.give(op.result, kernel.find(op.block_name.data))


def find_loops(kernel: Kernel, op: sched.LoopsOp) -> None:
    """Handles on the loops around a block."""
    block = kernel.block(op.block)
    found = loops_around(block)
    where = ""
    if op.under is not None:
        outer = kernel.loop(op.under)
        if outer not in found:
            kernel.fail(f"expected a loop around {name_of(block)}, but got {name_of(outer)}")
        found = found[found.index(outer) + 1 :]
        where = f" under {name_of(outer)}"
    if len(found) != len(op.loops):
        names = ", ".join(map(name_of, found))
        kernel.fail(
            f"expected as many results as there are loops around {name_of(block)}{where}, "
            f"{len(found)} ({names}), but got {len(op.loops)}"
        )
    for handle, f in zip(op.loops, found, strict=True):
        kernel.give(handle, f)


def find_child(kernel: Kernel, op: sched.ChildOp) -> None:
    """A handle on a loop or block inside a loop."""
    outer = kernel.loop(op.loop)
    inside = list(children(outer))
    n = op.position.value.data
    if not 0 <= n < len(inside):
        kernel.fail(f"expected a position below {len(inside)} in {name_of(outer)}, but got {n}")
    child = inside[n]
    kind = loop.ForOp if isinstance(op.result.type, sched.LoopType) else loop.BlockOp
    if not isinstance(child, kind):
        kernel.fail(f"expected a {op.result.type.name[6:]} at {n} in {name_of(outer)}, but got {name_of(child)}")
    assert is_below(child, outer)
    kernel.give(op.result, child)


def find_knob(kernel: Kernel, op: sched.KnobOp) -> None:
    """The value of a knob."""
    kernel.give(op.result, op.value)
