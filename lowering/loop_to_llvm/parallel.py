"""Outlines loops into machine functions: parallel ones, which the runtime's `parallel_for` calls, and cold ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_LEAST_WORK, LOOP_WORK
from mlc.dialects.index import Index, IndexMapAttr
from mlc.lowering.loop_to_llvm.builder import PTR, Builder, machine_function
from mlc.lowering.loop_to_llvm.call import on_stack
from mlc.lowering.loop_to_llvm.memory import capture_strides, capture_symbolic
from mlc.lowering.loop_to_llvm.values import VALUES
from mlc.passes.loop.index_space.domain import range_between
from mlc.support.abi import RT_PARALLEL_FOR, RT_THREADS
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering


def lower_parallel(f: FunctionLowering, op: loop.ForOp) -> None:
    """
    `loop.for parallel` -> a function of (rt, ctx, task, thread), and a call of rt's parallel_for with it.

    Perfectly nested parallel loops are collapsed: a task is one point of all of them.
    """
    b, kernel, nest = f.b, f.kernel, _nest(op)
    name = f"{kernel.name}.parallel{len(kernel.functions)}"
    func, entry = machine_function(name, [PTR, PTR, i32, i32], False)
    kernel.functions.append(func)
    rt, ctx, task, thread = entry.args
    g = type(f)(kernel, entry, rt, thread)
    g.b.location = b.location
    slots = _capture(f, g, op, ctx)
    tasks = _bind_nest(f, g, nest, (ctx, g.b.cast("sext", task, i64)), slots)
    g.finish_prologue()
    g.lower_block(nest[-1].body.block)
    g.force()
    g.b.block.add_op(llvm.ReturnOp(g.b.int(0, i32)))
    context = _context(b, slots)
    threads = b.load(b.gep(f.rt, RT_THREADS, i8), i32, 4)
    if (enough := _has_enough_work(f, nest[-1])) is not None:
        threads = b.select(enough, threads, b.int(1, i32))
    callee = b.load(b.gep(f.rt, RT_PARALLEL_FOR, i8), PTR, 8)
    address = b.op(llvm.AddressOfOp, [], PTR, {"global_name": SymbolRefAttr(name)})
    call_indirect(b, callee, [f.rt, address, context, b.cast("trunc", tasks, i32), threads])


def _nest(op: loop.ForOp) -> list[loop.ForOp]:
    """A parallel loop and the parallel loops perfectly nested in it whose bounds do not depend on it."""
    nest = [op]
    while True:
        first = nest[-1].body.block.first_op
        if not isinstance(first, loop.ForOp) or not isinstance(first.next_op, loop.YieldOp):
            return nest
        if first.kind.data != "parallel" or _bounds_depend_on(first, nest):
            return nest
        nest.append(first)


def _bounds_depend_on(op: loop.ForOp, nest: Sequence[loop.ForOp]) -> bool:
    """Whether a loop's bounds depend on loops of the nest."""
    return any(i in [f.iv for f in nest] for i in op.indices)


def _bind_nest(
    f: FunctionLowering,
    g: FunctionLowering,
    nest: Sequence[loop.ForOp],
    at: tuple[SSAValue, SSAValue],
    slots: list[SSAValue],
) -> SSAValue:
    """Bind the loops' indices in `g`, computed from the task's number; returns the number of tasks in `f`."""
    (ctx, task), spans = at, f.addresses.spans()
    tasks: SSAValue | None = None

    def slot(expr: Index) -> SSAValue:
        """An index expression of `f`, passed to `g` in the context."""
        slots.append(f.addresses.value(expr))
        return g.b.load(g.b.gep(ctx, len(slots) - 1, i64), i64, 8)

    for loop_ in reversed(nest):
        lower, upper = (f.addresses.resolve(e, loop_.indices) for e in (loop_.lower, loop_.upper))
        extent, iv = f.addresses.value(upper - lower), task
        tasks = extent if tasks is None else f.b.mul(extent, tasks)
        if loop_ is not nest[0]:
            by = g.b.int((upper - lower).const) if (upper - lower).is_const else slot(upper - lower)
            iv, task = g.b.op(llvm.URemOp, [task, by], i64), g.b.op(llvm.UDivOp, [task, by], i64)
        if not _is_zero(lower):
            iv = g.b.add(iv, slot(lower))
        g.addresses.bind(loop_.iv, iv, range_between(lower, upper, spans))
    assert tasks is not None
    return tasks


def _has_enough_work(f: FunctionLowering, op: loop.ForOp) -> SSAValue | None:
    """Whether a loop's symbolic work is at least its threshold for several threads; None if its work is static."""
    work, least = op.attributes.get(LOOP_WORK), op.attributes.get(LOOP_LEAST_WORK)
    if not isinstance(work, IndexMapAttr) or not isinstance(least, IntegerAttr):
        return None
    b, total = f.b, f.b.int(1)
    for factor in work.data:
        size = factor.substitute(lambda d: f.addresses.index[f.symbols[d]])
        total = b.mul(total, f.addresses.value(size))
    return b.icmp("sge", total, b.int(least.value.data))


def lower_cold(f: FunctionLowering, op: loop.ForOp) -> None:
    """Outline a rarely executed loop, so that it does not affect register allocation in the hot code."""
    b, kernel = f.b, f.kernel
    name = f"{kernel.name}.cold{len(kernel.functions)}"
    func, entry = machine_function(name, [PTR, PTR, i32], False)
    func.properties["passthrough"] = ArrayAttr([StringAttr("cold"), StringAttr("noinline")])
    kernel.functions.append(func)
    rt, ctx, thread = entry.args
    g = type(f)(kernel, entry, rt, None if f.thread is None else thread)
    g.is_cold = True
    g.b.location = b.location
    slots = _capture(f, g, op, ctx)
    g.finish_prologue()
    g.lower_for(op)
    g.force()
    g.b.block.add_op(llvm.ReturnOp(g.b.int(0, i32)))
    first, last = (f.addresses.value(f.addresses.resolve(e, op.indices)) for e in (op.lower, op.upper))
    runs, after = b.new_block(), b.new_block()
    b.cond_br(b.icmp("slt", first, last), runs, [], after, [])
    b.block = runs
    context = _context(b, slots)
    call = llvm.CallOp(name, f.rt, context, b.int(0, i32) if f.thread is None else f.thread, return_type=i32)
    b.append(call)
    b.br(after)
    b.block = after


def uses_no_tile(op: loop.ForOp) -> bool:
    """Whether a loop uses no tile from outside, except constants, which its function can rematerialize."""
    inside = {v for o in op.walk() for v in o.results} | {a for block in _blocks(op) for a in block.args}
    outside = {v for o in op.walk() for v in o.operands if isinstance(v.type, VectorType)} - inside
    return all(isinstance(v.owner, arith.ConstantOp | loop.BroadcastOp) for v in outside)


def _context(b: Builder, slots: Sequence[SSAValue]) -> SSAValue:
    """An array on the stack with the values that are passed to an outlined function."""
    context = on_stack(b, len(slots))
    for k, v in enumerate(slots):
        b.store(v, b.gep(context, k, i64), 8)
    return context


def _is_zero(e: Index) -> bool:
    return not e.terms and e.const == 0


def call_indirect(b: Builder, callee: SSAValue, args: Sequence[SSAValue]) -> SSAValue:
    """Call a function pointer that returns an i32 status; return that status from the caller if it is not 0."""
    t = llvm.LLVMFunctionType([a.type for a in args], i32)
    op = llvm.CallOp(None, callee, *args, return_type=i32)  # pyright: ignore[reportArgumentType] - xDSL declares symbols only
    op.properties["var_callee_type"] = t
    b.append(op)
    status = op.results[0]
    failed, after = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ne", status, b.int(0, i32)), failed, [], after, [])
    failed.add_op(llvm.ReturnOp(status))
    b.block = after
    return status


def _capture(f: FunctionLowering, g: FunctionLowering, op: loop.ForOp, ctx: SSAValue) -> list[SSAValue]:
    """Pass the values that a body uses from outside: pointers and indices in the context; constants are cloned."""
    slots: list[SSAValue] = []
    b = g.b

    def slot(v: SSAValue) -> SSAValue:
        slots.append(v)
        return b.load(b.gep(ctx, len(slots) - 1, i64), v.type, 8)

    if f.workspace is not None:
        g.workspace = slot(f.workspace)
    inside = {v for o in op.walk() for v in o.results} | {a for r in _blocks(op) for a in r.args}
    seen: set[SSAValue] = set()
    for o in op.walk():
        for v in o.operands:
            if v in inside or v in seen:
                continue
            seen.add(v)
            if v in f.local:  # each thread has its own copy
                g.local[v] = f.local[v]
                g.buffers[v] = b.gep(g.scratch(), f.local[v], i8)
            elif isinstance(v.type, MemRefType):
                g.buffers[v] = slot(f.buffers[v])
                capture_strides(f, g, v, slot)
            elif isinstance(v.type, IndexType):
                expr = f.addresses.index[v]
                if expr.is_const:
                    g.addresses.index[v] = expr
                else:
                    g.addresses.bind(v, slot(f.addresses.value(expr)), expr.bounds(f.addresses.spans()))
            else:
                _capture_value(f, g, v, slot)
    capture_symbolic(f, g, op, slot)
    return slots


def _capture_value(f: FunctionLowering, g: FunctionLowering, v: SSAValue, slot: Callable[[SSAValue], SSAValue]) -> None:
    owner = v.owner
    if isinstance(owner, arith.ConstantOp | loop.BroadcastOp):
        for operand in owner.operands:
            if operand not in g.values:
                _capture_value(f, g, operand, slot)
        VALUES[type(owner)](g, owner)
    elif isinstance(v.type, VectorType):
        raise UserError(f"expected a parallel loop to use no tile from outside, but it uses one of type {v.type}")
    else:
        g.values[v] = slot(f.scalar(v))


def _blocks(op: Operation) -> list[Block]:
    return [block for o in op.walk() for region in o.regions for block in region.blocks]
