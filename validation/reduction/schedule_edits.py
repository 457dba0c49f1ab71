"""
The edits of a reduction that change a loop.func where others depend on it: its schedule, its callers' arguments.

    untiled      a split loop stays one loop, and directives name it instead of its parts
    unlooped     a loop goes from the function and from the handles on its nest
    as_input     a buffer that the function computes becomes an input
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.sched.handles import BlockOp, LoopsOp, ScheduleOp
from mlc.dialects.sched.loops import FuseOp, ReorderOp, SplitOp, VectorizeOp
from mlc.validation.reduction.edits import erase, inlined, is_called, outputs_of, update_type
from mlc.validation.reduction.subject import Subject, name_of

_LISTS = (FuseOp, ReorderOp, VectorizeOp)
"""Directives on any number of loops."""


def untiled(op: Operation, subject: Subject, value: object) -> bool:
    """Let the first loop of a split be the loop that is split; the others are no longer named."""
    if not isinstance(op, SplitOp):
        return False
    first, *others = op.loops
    if not all(_forget(one, subject) for one in others):
        return False
    first.replace_all_uses_with(op.loop)
    op.detach()
    op.erase()
    return True


def unlooped(op: Operation, subject: Subject, number: object) -> bool:
    """Put the first iteration of a loop around a block in its place, and drop it from the handles on its nest."""
    schedule, function = _around(op)
    if not isinstance(op, LoopsOp) or function is None or schedule is None or not isinstance(number, int):
        return False
    nest = _nest(op, function)
    if op.under is not None or number >= len(op.loops) or len(nest) != len(op.loops) or nest[number].results:
        return False
    gone = nest[number]
    for handles in [one for one in schedule.body.block.ops if isinstance(one, LoopsOp)]:
        loops = [] if handles.under is not None else _nest(handles, function)
        if gone in loops and (len(loops) != len(handles.loops) or not _without(handles, loops.index(gone), subject)):
            return False
    return inlined(gone, subject, None)


def _around(op: Operation) -> tuple[ScheduleOp | None, loop.FuncOp | None]:
    """The schedule of a directive and the function that it schedules."""
    schedule = op.parent_op()
    module = schedule.parent_op() if schedule is not None else None
    if not isinstance(schedule, ScheduleOp) or module is None:
        return None, None
    functions = (one for one in module.regions[0].block.ops if isinstance(one, loop.FuncOp))
    return schedule, next((one for one in functions if name_of(one) == schedule.kernel_name), None)


def _nest(handles: LoopsOp, function: loop.FuncOp) -> list[loop.ForOp]:
    """The loops around the block of a handle, outer to inner, before any directive."""
    named = handles.block.owner
    if not isinstance(named, BlockOp):
        return []
    found = (one for one in function.walk() if isinstance(one, loop.BlockOp) and one.block_name == named.block_name)
    at, loops = next(found, None), list[loop.ForOp]()
    parent = at.parent_op() if at is not None else None
    while parent is not None and parent is not function:
        if isinstance(parent, loop.ForOp):
            loops.insert(0, parent)
        parent = parent.parent_op()
    return loops


def _without(handles: LoopsOp, number: int, subject: Subject) -> bool:
    """Make handles on one loop less."""
    block = handles.parent
    if block is None or not _forget(handles.loops[number], subject):
        return False
    new = LoopsOp.make(handles.block, len(handles.loops) - 1)
    block.insert_op_before(new, handles)
    kept = [one for k, one in enumerate(handles.loops) if k != number]
    for old, result in zip(kept, new.loops, strict=True):
        old.replace_all_uses_with(result)
        result.name_hint = old.name_hint
    handles.detach()
    handles.erase()
    return True


def _forget(handle: SSAValue, subject: Subject) -> bool:
    """Let no directive name a loop: lists of loops lose it, other directives go."""
    for user in [use.operation for use in handle.uses]:
        if user.parent is None:
            continue
        kept = [one for one in user.operands if one is not handle]
        if not isinstance(user, _LISTS) or not kept:
            if not erase(user, subject, None):
                return False
        elif isinstance(user, FuseOp) and len(kept) == 1:
            user.result.replace_all_uses_with(kept[0])
            user.detach()
            user.erase()
        else:
            user.operands = kept
    return not handle.uses


def as_input(op: Operation, subject: Subject, number: object) -> bool:
    """Let a buffer that a kernel allocates, or returns as its output of this number, be an input."""
    function = op if isinstance(op, loop.FuncOp) else _function_of(op)
    if function is None or is_called(function) or not isinstance(op, loop.FuncOp | loop.AllocOp):
        return False
    block, written = function.body.block, outputs_of(function)
    if isinstance(op, loop.AllocOp):
        buffer: SSAValue = op.results[0]
    elif isinstance(number, int) and 0 <= number < len(written) and len(written) > 1:
        buffer = written[number]
    else:
        return False
    users = [use.operation for use in buffer.uses]
    if not all(isinstance(user, loop.LoadOp | loop.StoreOp | loop.GatherOp) for user in users):
        return False
    for user in users:
        if isinstance(user, loop.StoreOp):
            user.detach()
            user.erase()
    buffers = sum(isinstance(arg.type, MemRefType) for arg in block.args)
    new = block.insert_arg(buffer.type, buffers - len(written))
    new.name_hint = buffer.name_hint
    buffer.replace_all_uses_with(new)
    if buffer in written:
        block.erase_arg(next(arg for arg in block.args if arg is buffer))
        function.outputs = IntegerAttr(len(written) - 1, i64)
    update_type(function)
    return True


def _function_of(op: Operation) -> loop.FuncOp | None:
    at = op.parent_op()
    while at is not None and not isinstance(at, loop.FuncOp):
        at = at.parent_op()
    return at
