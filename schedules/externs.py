"""Kernels with te.extern stages: the stages between them are scheduled as if they were kernels of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from xdsl.dialects.builtin import ArrayAttr, IndexType, StringAttr, TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from mlc.dialects import sched, te
from mlc.dialects.attributes import KERNEL_LEAST, KERNEL_SIZES, KERNEL_TYPICAL, SCHEDULE_STRATEGY
from mlc.dialects.constants import items
from mlc.dialects.index import Index, IndexMapAttr, const, dim
from mlc.dialects.te_extern import ExternOp


def parts_between_externs(func: te.FuncOp) -> list[te.FuncOp] | None:
    """A kernel for each run of compute stages between te.extern stages; None of a kernel without te.extern."""
    runs: list[list[te.ComputeOp]] = [[]]
    has_extern = False
    for op in func.body.block.ops:
        if isinstance(op, ExternOp):
            has_extern = True
            runs.append([])
        elif isinstance(op, te.ComputeOp):
            runs[-1].append(op)
    return [_kernel(func, run) for run in runs if run] if has_extern else None


def _kernel(func: te.FuncOp, stages: Sequence[te.ComputeOp]) -> te.FuncOp:
    """Some stages as a kernel that takes what they read from elsewhere, and returns what others read."""
    own: set[Operation] = set(stages)
    inside = dict.fromkeys(op for stage in stages for op in stage.walk())
    read = dict.fromkeys(v for op in inside for v in op.operands if v.owner is func.body.block or _from(v, func, own))
    symbols = [a for a in func.args if isinstance(a.type, IndexType)]
    tensors = [v for v in read if not isinstance(v.type, IndexType)]
    taken = [*tensors, *symbols]
    block = Block(arg_types=[v.type for v in taken])
    mapping: dict[SSAValue, SSAValue] = dict(zip(taken, block.args, strict=True))
    for stage in stages:
        block.add_op(stage.clone(mapping))
    results = [r for stage in stages for r in stage.results if any(use.operation not in inside for use in r.uses)]
    block.add_op(te.ReturnOp.create(operands=[mapping[r] for r in results]))
    types = [v.type for v in block.args], [r.type for r in results]
    kernel = te.FuncOp.make(func.sym_name.data, *types, Region(block))
    if symbols:
        kernel.attributes |= {n: a for n in (KERNEL_TYPICAL, KERNEL_LEAST) if (a := func.attributes.get(n)) is not None}
        rows = [IndexMapAttr.get(_sizes(func, v, symbols)) for v in (*tensors, *results)]
        kernel.attributes[KERNEL_SIZES] = ArrayAttr(rows)
    return kernel


def _sizes(func: te.FuncOp, value: SSAValue, symbols: Sequence[SSAValue]) -> list[Index]:
    """The shape of a tensor of a kernel, over the kernel's symbols."""
    t, owner = value.type, value.owner
    assert isinstance(t, TensorType)
    if t.has_static_shape():
        return [const(n) for n in t.get_shape()]
    if isinstance(value, BlockArgument) and owner is func.body.block:
        row = items(func.attributes[KERNEL_SIZES])[value.index]
        assert isinstance(row, IndexMapAttr)
        return list(row.data)
    if isinstance(owner, te.ScanOp) and isinstance(value, OpResult):
        return _sizes(func, owner.yield_op.values[value.index], symbols)
    assert isinstance(owner, te.ComputeOp | ExternOp)
    shape = owner.shape_of(value) if isinstance(owner, ExternOp) else owner.extents.data[: owner.num_spatial]
    return [e.substitute({k: dim(symbols.index(s)) for k, s in enumerate(owner.symbols)}) for e in shape]


def _from(value: SSAValue, func: te.FuncOp, own: set[Operation]) -> bool:
    """Whether a value is the result of a stage, scan or table of the function that is not among these."""
    owner = value.owner
    return isinstance(owner, Operation) and owner.parent_op() is func and owner not in own


def joined(kernel: str, schedules: Sequence[sched.ScheduleOp]) -> sched.ScheduleOp:
    """One schedule of several, for distinct stages of a kernel; a knob's name that occurs twice gets a number."""
    block = Block()
    names: set[str] = set()
    strategies: list[str] = []
    for schedule in schedules:
        for op in list(schedule.body.block.ops):
            op.detach()
            block.add_op(op)
            if isinstance(op, sched.KnobOp):
                op.properties["knob"] = StringAttr(_unused(op.knob.data, names))
        if isinstance(name := schedule.attributes.get(SCHEDULE_STRATEGY), StringAttr):
            strategies.append(name.data)
    made = sched.ScheduleOp.make(kernel, Region(block))
    if strategies:
        made.attributes[SCHEDULE_STRATEGY] = StringAttr("+".join(dict.fromkeys(strategies)))
    return made


def _unused(name: str, names: set[str]) -> str:
    """The name, or where it is taken with a number behind it; it is taken from then."""
    found = next(one for k in count() if (one := f"{name}_{k}" if k else name) not in names)
    names.add(found)
    return found
