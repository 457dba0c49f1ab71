"""
loop -> llvm: tiles become native vectors, loops become branches, parallel loops become functions for the pool.

In: loop.func whose blocks are gone (`loop-form-tiles`), tiles as n-D vectors.
Out: one `llvm.func @name(ptr args, ptr rt) -> i32` per kernel, and one internal function per parallel loop. The
attributes `mlc.scratch_bytes` (per thread) and `mlc.workspace_bytes` say what memory the kernel needs; the workspace is
the last entry of args.

    rt = { i32 version, i32 threads, ptr parallel_for, ptr pool, ptr scratch, i64 scratch_stride }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    VectorType,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.index import Index, const
from mlc.dialects.llvm_ext import argument_attributes
from mlc.lowering.loop_to_llvm.accesses import Access, Accesses
from mlc.lowering.loop_to_llvm.address import Addresses, strides_of
from mlc.lowering.loop_to_llvm.builder import PTR, Builder, byte_size, memory_type
from mlc.lowering.loop_to_llvm.scalars import EMIT, emit_cast, emit_compare, machine_type
from mlc.lowering.loop_to_llvm.tiles import Chunk, Tile, broadcast_values, chunks, native_type, positions

RT_THREADS, RT_PARALLEL_FOR, RT_SCRATCH, RT_STRIDE = 4, 8, 24, 32
Value = SSAValue | Tile


@dataclass
class Kernel:
    """What the functions of one kernel share."""

    name: str
    lanes: int
    functions: list[llvm.FuncOp] = field(default_factory=list)
    scratch_bytes: int = 0
    workspace_bytes: int = 0


def _function(name: str, args: Sequence[Attribute], external: bool, align: int) -> tuple[llvm.FuncOp, Block]:
    block = Block(arg_types=args)
    attrs = ArrayAttr(
        [argument_attributes(noalias=True, nonnull=True) if a == PTR else argument_attributes() for a in args]
    )
    op = llvm.FuncOp(
        name,
        llvm.LLVMFunctionType(list(args), i32),
        llvm.LinkageAttr("external" if external else "internal"),
        body=Region(block),
        other_props={"arg_attrs": attrs},
    )
    return op, block


class FunctionLowering:
    """Lowers the ops of one machine function: the kernel itself, or the body of one of its parallel loops."""

    def __init__(self, kernel: Kernel, entry: Block, rt: SSAValue, thread: SSAValue | None) -> None:
        self.kernel = kernel
        self.b = Builder(entry)
        self.addresses = Addresses(self.b)
        self.accesses = Accesses(self.b, self.addresses)
        self.rt = rt
        self.thread = thread
        self.values: dict[SSAValue, Value] = {}
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.workspace: SSAValue | None = None
        self._scratch: SSAValue | None = None
        self._pending: list[Tile] = []

    def finish_prologue(self) -> None:
        """From here on, address arithmetic of the function's level goes behind what was emitted."""
        self.addresses.levels[0].last = self.b.entry.last_op

    # --- values ---

    def tile(self, v: SSAValue) -> Tile:
        """A vector value's native values."""
        t = self.values[v]
        assert isinstance(t, Tile)
        return t

    def scalar(self, v: SSAValue) -> SSAValue:
        """A scalar's machine value."""
        if isinstance(v.type, IndexType):
            return self.addresses.value(self.addresses.index[v])
        s = self.values[v]
        assert isinstance(s, SSAValue)
        return s

    def natives(self, v: SSAValue) -> list[SSAValue]:
        """The native values, one for a scalar."""
        return self.tile(v).all() if isinstance(v.type, VectorType) else [self.scalar(v)]

    def define(self, result: SSAValue, natives: Sequence[Any]) -> None:
        """Record a result from its native values (or from functions that make them)."""
        t = result.type
        if isinstance(t, VectorType):
            self.values[result] = Tile(t.get_shape(), machine_type(t.element_type), self.kernel.lanes, natives)
        elif isinstance(t, IndexType):
            self.addresses.bind_data(result, natives[0])
        else:
            self.values[result] = natives[0]

    def positions(self, t: Attribute) -> Sequence[Any]:
        """(outer coordinates, chunk) of each native value of a type."""
        assert isinstance(t, VectorType)
        return positions(tuple(t.get_shape()), self.kernel.lanes)

    # --- structure ---

    def lower_block(self, block: Block) -> None:
        """Every op of a block but its terminator."""
        for op in block.ops:
            handler = HANDLERS.get(type(op))
            if handler is not None:
                handler(self, op)
            elif not isinstance(op, loop.YieldOp):
                raise ValueError(f"convert-loop-to-llvm: expected ops of loop, arith or math, but got '{op.name}'")

    def force(self) -> None:
        """Emit loads that were put off, before memory changes or control flow moves on."""
        for t in self._pending:
            t.all()
        self._pending.clear()

    def lower_for(self, op: loop.ForOp) -> None:
        """A loop: inlined where it runs once or is to be unrolled, else a rotated loop of blocks."""
        self.force()
        extent = op.extent
        if op.kind.data == "parallel" and self.thread is None and extent != 1:
            lower_parallel(self, op)
        elif extent is not None and (extent <= 1 or op.kind.data == "unrolled"):
            self._inline(op, extent)
        else:
            self._loop(op, extent)

    def _inline(self, op: loop.ForOp, extent: int) -> None:
        carried = [self.natives(v) for v in op.iter_args]
        lower = self.addresses.resolve(op.lower, op.indices)
        for k in range(extent):
            self.addresses.index[op.iv] = lower + k
            for arg, natives in zip(op.carried, carried, strict=True):
                self.define(arg, natives)
            self.lower_block(op.body.block)
            carried = [self.natives(v) for v in op.yield_op.values]
            self.force()
        for result, natives in zip(op.results, carried, strict=True):
            self.define(result, natives)

    def _loop(self, op: loop.ForOp, extent: int | None) -> None:
        b, a = self.b, self.addresses
        lower, upper = (a.resolve(e, op.indices) for e in (op.lower, op.upper))
        first, last = a.value(lower), a.value(upper)
        natives = [self.natives(v) for v in op.iter_args]
        counts = [len(n) for n in natives]
        flat = [n for group in natives for n in group]
        head = b.new_block([i64, *(v.type for v in flat)])
        exit_types = [v.type for v in flat]
        if extent is None:
            after = b.new_block(exit_types)
            b.cond_br(b.icmp("slt", first, last), head, [first, *flat], after, flat)
        else:
            after = None
            b.br(head, [first, *flat])
        b.block = head
        a.enter(head)
        spans = a.spans()
        a.bind(op.iv, head.args[0], (lower.bounds(spans)[0], upper.bounds(spans)[1] - 1))
        self._define_groups(op.carried, counts, head.args[1:])
        self.lower_block(op.body.block)
        out = [n for v in op.yield_op.values for n in self.natives(v)]
        self.force()
        following = b.add(head.args[0], b.int(1))
        more = b.icmp("slt", following, last)
        a.leave()
        if after is None:
            after = b.new_block(exit_types)
        b.cond_br(more, head, [following, *out], after, out)
        b.block = after
        self._define_groups(op.results, counts, after.args)

    def _define_groups(self, values: Sequence[SSAValue], counts: Sequence[int], flat: Sequence[SSAValue]) -> None:
        at = 0
        for v, n in zip(values, counts, strict=True):
            self.define(v, list(flat[at : at + n]))
            at += n

    # --- memory ---

    def access(self, buffer: SSAValue, exprs: Sequence[Index], op: Any) -> Access:
        """An access of `op` resolved to machine variables."""
        t = buffer.type
        assert isinstance(t, MemRefType)
        indices = op.indices
        return Access(
            self.buffers[buffer],
            self.addresses.linear(exprs, indices, t),
            tuple(self.addresses.resolve(e, indices) for e in op.mask_exprs),
            machine_type(t.element_type),
            len(op.tile_sizes),
        )

    def lower_load(self, op: loop.LoadOp) -> None:
        """A load; tiles are loaded when first used, so that a micro-kernel's scalars come one row at a time."""
        access = self.access(op.buffer, op.map.data, op)
        t = op.result.type
        if not isinstance(t, VectorType):
            otherwise = self.scalar(op.otherwise) if op.otherwise is not None else None
            self.define(op.result, [self.accesses.load(access, (), Chunk(0, 0, 1), otherwise)])
            return
        fills = self.natives(op.otherwise) if op.otherwise is not None else None
        thunks: list[Callable[[], SSAValue]] = []
        for k, (outer, chunk) in enumerate(self.positions(t)):
            fill = fills[k] if fills is not None else None
            thunks.append(lambda o=outer, c=chunk, f=fill: self.accesses.load(access, o, c, f))
        self.define(op.result, thunks)
        self._pending.append(self.tile(op.result))

    def lower_store(self, op: loop.StoreOp) -> None:
        """A store."""
        self.force()
        access = self.access(op.buffer, op.map.data, op)
        if not isinstance(op.value.type, VectorType):
            self.accesses.store(access, (), Chunk(0, 0, 1), self.scalar(op.value))
            return
        for (outer, chunk), v in zip(self.positions(op.value.type), self.natives(op.value), strict=True):
            self.accesses.store(access, outer, chunk, v)

    def lower_alloc(self, op: loop.AllocOp) -> None:
        """A buffer in the thread's scratch, or in the kernel's workspace."""
        t = op.result.type
        assert isinstance(t, MemRefType)
        n = 1
        for size in t.get_shape():
            n *= size
        size = (n * byte_size(machine_type(t.element_type)) + 127) // 64 * 64
        k = self.kernel
        if op.scope.data == "local":
            offset, k.scratch_bytes = k.scratch_bytes, k.scratch_bytes + size
            base = self.scratch()
        else:
            offset, k.workspace_bytes = k.workspace_bytes, k.workspace_bytes + size
            assert self.workspace is not None
            base = self.workspace
        self.buffers[op.result] = self.b.gep(base, offset, i8)

    def scratch(self) -> SSAValue:
        """The start of this thread's scratch."""
        if self._scratch is None:
            b, saved = self.b, self.b.block
            level = self.addresses.levels[0]
            b.block = block = Block()
            base = b.load(b.gep(self.rt, RT_SCRATCH, i8), PTR, 8)
            if self.thread is not None:
                stride = b.load(b.gep(self.rt, RT_STRIDE, i8), i64, 8)
                base = b.gep(base, b.mul(b.cast("sext", self.thread, i64), stride), i8)
            b.block = saved
            for o in list(block.ops):
                o.detach()
                if level.last is not None:
                    b.entry.insert_op_after(o, level.last)
                else:
                    b.entry.add_op(o)
                level.last = o
            self._scratch = base
        return self._scratch


def lower_parallel(f: FunctionLowering, op: loop.ForOp) -> None:
    """`loop.for parallel` -> a function of (rt, ctx, task, thread), and a call of rt's parallel_for with it."""
    b, kernel = f.b, f.kernel
    name = f"{kernel.name}.parallel{len(kernel.functions)}"
    func, entry = _function(name, [PTR, PTR, i32, i32], False, 8)
    kernel.functions.append(func)
    rt, ctx, task, thread = entry.args
    g = FunctionLowering(kernel, entry, rt, thread)
    slots = _capture(f, g, op, ctx)
    iv = g.b.cast("sext", task, i64)
    lower = f.addresses.resolve(op.lower, op.indices)
    upper = f.addresses.resolve(op.upper, op.indices)
    start = f.addresses.value(lower)
    slots.append(start)
    iv = g.b.add(iv, g.b.load(g.b.gep(ctx, len(slots) - 1, i64), i64, 8)) if not _is_zero(lower) else iv
    spans = f.addresses.spans()
    g.addresses.bind(op.iv, iv, (lower.bounds(spans)[0], upper.bounds(spans)[1] - 1))
    g.finish_prologue()
    g.lower_block(op.body.block)
    g.force()
    g.b.block.add_op(llvm.ReturnOp(g.b.int(0, i32)))
    context = _on_stack(b, len(slots))
    for k, v in enumerate(slots):
        b.store(v, b.gep(context, k, i64), 8)
    tasks = b.cast("trunc", f.addresses.value(upper - lower), i32)
    threads = b.load(b.gep(f.rt, RT_THREADS, i8), i32, 4)
    callee = b.load(b.gep(f.rt, RT_PARALLEL_FOR, i8), PTR, 8)
    address = b.op(llvm.AddressOfOp, [], PTR, {"global_name": SymbolRefAttr(name)})
    call_indirect(b, callee, [f.rt, address, context, tasks, threads])


def _is_zero(e: Index) -> bool:
    return not e.terms and e.const == 0


def _on_stack(b: Builder, slots: int) -> SSAValue:
    """Room for n pointers or integers, taken once, in the entry block."""
    size = b.int(max(slots, 1))
    op = llvm.AllocaOp(size, i64, alignment=8)
    assert b._last_constant is not None
    b.entry.insert_op_after(op, b._last_constant)
    return op.results[0]


def call_indirect(b: Builder, callee: SSAValue, args: Sequence[SSAValue]) -> SSAValue:
    """Call a function pointer that returns i32; leave the function with its status where it is not 0."""
    t = llvm.LLVMFunctionType([a.type for a in args], i32)
    op = llvm.CallOp(None, callee, *args, return_type=i32)  # pyright: ignore[reportArgumentType]
    op.properties["var_callee_type"] = t
    b.block.add_op(op)
    status = op.results[0]
    failed, after = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ne", status, b.int(0, i32)), failed, [], after, [])
    failed.add_op(llvm.ReturnOp(status))
    b.block = after
    return status


def _capture(f: FunctionLowering, g: FunctionLowering, op: loop.ForOp, ctx: SSAValue) -> list[SSAValue]:
    """What the body uses from outside: pointers and indices travel in the context, constants are made again."""
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
            if isinstance(v.type, MemRefType):
                g.buffers[v] = slot(f.buffers[v])
            elif isinstance(v.type, IndexType):
                expr = f.addresses.index[v]
                if expr.is_const:
                    g.addresses.index[v] = expr
                else:
                    g.addresses.bind(v, slot(f.addresses.value(expr)), expr.bounds(f.addresses.spans()))
            else:
                _capture_value(f, g, v, slot)
    return slots


def _capture_value(f: FunctionLowering, g: FunctionLowering, v: SSAValue, slot: Callable[[SSAValue], SSAValue]) -> None:
    owner = v.owner
    if isinstance(owner, arith.ConstantOp | loop.BroadcastOp):
        for operand in owner.operands:
            if operand not in g.values:
                _capture_value(f, g, operand, slot)
        HANDLERS[type(owner)](g, owner)
    elif isinstance(v.type, VectorType):
        raise ValueError(f"expected a parallel loop to use no tile from outside, but it uses one of type {v.type}")
    else:
        g.values[v] = slot(f.scalar(v))


def _blocks(op: Operation) -> list[Block]:
    return [block for o in op.walk() for region in o.regions for block in region.blocks]


# --- ops on values -----------------------------------------------------------------------------------------------


def _constant(f: FunctionLowering, op: arith.ConstantOp) -> None:
    value, t = op.value, op.result.type
    if isinstance(t, IndexType):
        assert isinstance(value, IntegerAttr)
        f.addresses.bind_constant(op.result, value.value.data)
        return
    if isinstance(t, VectorType):
        assert isinstance(value, DenseIntOrFPElementsAttr)
        number = value.get_values()[0]
        natives = [f.b.number(number, native_type(machine_type(t.element_type), chunk)) for _, chunk in f.positions(t)]
        f.define(op.result, natives)
        return
    assert isinstance(value, IntegerAttr | FloatAttr)
    f.define(op.result, [f.b.number(value.value.data, machine_type(t))])


def _elementwise(f: FunctionLowering, op: Operation) -> None:
    emit = EMIT[type(op)]
    result = op.results[0]
    if isinstance(result.type, IndexType):
        f.addresses.bind_data(result, emit(f.b, [f.scalar(v) for v in op.operands], i64))
        return
    operands = [f.natives(v) for v in op.operands]
    element = machine_type(loop.element_of(result.type))
    if isinstance(result.type, VectorType):
        types = [native_type(element, chunk) for _, chunk in f.positions(result.type)]
    else:
        types = [element]
    f.define(result, [emit(f.b, v, t) for *v, t in zip(*operands, types, strict=True)])


def _fma(f: FunctionLowering, op: loop.FmaOp) -> None:
    t = op.result.type
    if not isinstance(t, VectorType):
        f.define(op.result, [_fma_native(f.b, f.scalar(op.a), f.scalar(op.b), f.scalar(op.c))])
        return
    parts = [f.values[v] for v in (op.a, op.b)]
    addend, out = f.tile(op.c), []
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    for k, (outer, chunk) in enumerate(f.positions(t)):
        x, y = (
            p.take(f.b, outer, k % per_row, chunk)
            if isinstance(p, Tile)
            else (f.b.splat(p, chunk.width) if chunk.width else p)
            for p in parts
        )
        out.append(_fma_native(f.b, x, y, addend.at(k)))
    f.define(op.result, out)


def _fma_native(b: Builder, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    if isinstance(loop.element_of(z.type), AnyFloat):
        return b.fma(x, y, z)
    return b.add(b.mul(x, y), z)


def _broadcast(f: FunctionLowering, op: loop.BroadcastOp) -> None:
    t = op.result.type
    assert isinstance(t, VectorType)
    if not isinstance(op.value.type, VectorType):
        s = f.scalar(op.value)
        if isinstance(s.owner, llvm.ConstantOp) and isinstance(s.owner.value, IntegerAttr | FloatAttr):
            number = s.owner.value.value.data
            natives = [f.b.number(number, native_type(s.type, chunk)) for _, chunk in f.positions(t)]
        else:
            natives = [f.b.splat(s, chunk.width) if chunk.width else s for _, chunk in f.positions(t)]
        f.define(op.result, natives)
        return
    f.define(op.result, broadcast_values(f.b, f.tile(op.value), tuple(t.get_shape())))


def _compare(f: FunctionLowering, op: loop.CompareOp) -> None:
    pairs = zip(f.natives(op.a), f.natives(op.b), strict=True)
    f.define(op.result, [emit_compare(f.b, op.predicate.data, x, y) for x, y in pairs])


def _select(f: FunctionLowering, op: loop.SelectOp) -> None:
    a, b = f.natives(op.a), f.natives(op.b)
    condition = f.natives(op.condition)
    if len(condition) != len(a):
        condition = condition * len(a)
    f.define(op.result, [f.b.select(c, x, y) for c, x, y in zip(condition, a, b, strict=True)])


def _cast(f: FunctionLowering, op: loop.CastOp | Operation) -> None:
    value, result = op.operands[0], op.results[0]
    kind = op.kind.data if isinstance(op, loop.CastOp) else "index_cast"
    natives = [emit_cast(f.b, kind, v, loop.element_of(result.type)) for v in f.natives(value)]
    f.define(result, natives)


def _index(f: FunctionLowering, op: loop.IndexOp) -> None:
    expr = f.addresses.resolve(op.map.data[0], op.args)
    t = op.result.type
    if not isinstance(t, VectorType):
        f.addresses.index[op.result] = expr
        return
    access = Access(f.rt, expr, (), i64, len(op.tile_sizes))
    natives = []
    for outer, chunk in f.positions(t):
        offset, _ = access.place(f.addresses, outer, chunk)
        lane = -access.rank
        if chunk.width:
            natives.append(f.accesses.lane_values(offset, lane, chunk))
        else:
            natives.append(f.addresses.value(offset))
    f.define(op.result, natives)


def _gather(f: FunctionLowering, op: loop.GatherOp) -> None:
    t, buffer = op.result.type, op.buffer.type
    assert isinstance(t, VectorType)
    assert isinstance(buffer, MemRefType)
    stride = f.b.int(strides_of(buffer)[op.at.value.data])
    access = f.access(op.buffer, op.map.data, op)
    by = broadcast_values(f.b, f.tile(op.by), tuple(t.get_shape()))
    element, natives = access.element, []
    for (outer, chunk), index in zip(f.positions(t), by, strict=True):
        offset, _ = access.place(f.addresses, outer, chunk)
        natives.append(_gather_native(f, access, offset, chunk, index, stride, element))
    f.define(op.result, natives)


def _gather_native(
    f: FunctionLowering,
    access: Access,
    offset: Index,
    chunk: Any,
    index: SSAValue,
    stride: SSAValue,
    element: Attribute,
) -> SSAValue:
    b = f.b

    def one(i: SSAValue, at: Index) -> SSAValue:
        p = b.gep(f.addresses.pointer(access.base, at, element), b.mul(i, stride), memory_type(element))
        v = b.load(p, memory_type(element), byte_size(element))
        return b.icmp("ne", v, b.number(0, v.type)) if element == i1 else v

    if not chunk.width:
        return one(index, offset)
    v = b.poison(native_type(element, chunk))
    for k in range(chunk.valid):
        at = offset.substitute({-access.rank: const(k)}, f.addresses.spans())
        v = b.insert(v, one(b.extract(index, k), at), k)
    return v


def _reduce(f: FunctionLowering, op: loop.ReduceOp) -> None:
    t, tile = op.value.type, f.tile(op.value)
    assert isinstance(t, VectorType)
    combiner = COMBINERS[op.combiner.data]
    emit = EMIT[combiner.op(t.element_type)]
    axes, shape = set(op.axes.get_values()), tuple(t.get_shape())
    groups: dict[tuple[tuple[int, ...], int], SSAValue] = {}
    for k, (outer, chunk) in enumerate(f.positions(t)):
        key = tuple(0 if i in axes else c for i, c in enumerate(outer))
        last = 0 if len(shape) - 1 in axes else chunk.start
        v = tile.at(k)
        if len(shape) - 1 in axes and chunk.width:
            v = _fill_ragged(f, v, chunk, combiner.identity(t.element_type))
            if chunk.width < min(shape[-1], f.kernel.lanes):
                v = _widen(f, v, f.kernel.lanes, combiner.identity(t.element_type))
        slot = (key, last)
        groups[slot] = v if slot not in groups else emit(f.b, [groups[slot], v], v.type)
    natives = list(groups.values())
    if len(shape) - 1 in axes and shape[-1] > 1:
        natives = [_across_lanes(f, v, emit) for v in natives]
    f.define(op.result, natives)


def _fill_ragged(f: FunctionLowering, v: SSAValue, chunk: Any, identity: float | int) -> SSAValue:
    if not chunk.ragged:
        return v
    valid = f.b.lanes([int(k < chunk.valid) for k in range(chunk.width)], i1)
    return f.b.select(valid, v, f.b.number(identity, v.type))


def _widen(f: FunctionLowering, v: SSAValue, lanes: int, identity: float | int) -> SSAValue:
    t = v.type
    assert isinstance(t, VectorType)
    n = t.get_shape()[0]
    return f.b.shuffle(v, f.b.number(identity, t), [k if k < n else n for k in range(lanes)])


def _across_lanes(f: FunctionLowering, v: SSAValue, emit: Any) -> SSAValue:
    """Combine the lanes by halves: log2(n) shuffles."""
    t = v.type
    assert isinstance(t, VectorType)
    n = t.get_shape()[0]
    while n > 1:
        n //= 2
        low, high = f.b.shuffle(v, v, list(range(n))), f.b.shuffle(v, v, list(range(n, 2 * n)))
        v = emit(f.b, [low, high], low.type)
    return f.b.extract(v, 0)


HANDLERS: dict[type[Operation], Callable[[FunctionLowering, Any], None]] = {
    loop.ForOp: FunctionLowering.lower_for,
    loop.LoadOp: FunctionLowering.lower_load,
    loop.StoreOp: FunctionLowering.lower_store,
    loop.AllocOp: FunctionLowering.lower_alloc,
    loop.FmaOp: _fma,
    loop.BroadcastOp: _broadcast,
    loop.CompareOp: _compare,
    loop.SelectOp: _select,
    loop.CastOp: _cast,
    loop.IndexOp: _index,
    loop.GatherOp: _gather,
    loop.ReduceOp: _reduce,
    arith.ConstantOp: _constant,
    arith.IndexCastOp: _cast,
    **dict.fromkeys(EMIT, _elementwise),
}


def lower_kernel(func: loop.FuncOp, lanes: int) -> list[llvm.FuncOp]:
    """The machine functions of one kernel, its entry last."""
    kernel = Kernel(func.sym_name.data, lanes)
    op, entry = _function(kernel.name, [PTR, PTR], True, 8)
    args, rt = entry.args
    f = FunctionLowering(kernel, entry, rt, None)
    for k, arg in enumerate(func.args):
        if isinstance(arg.type, MemRefType):
            f.buffers[arg] = f.b.load(f.b.gep(args, k, PTR), PTR, 8)
        else:
            f.addresses.bind(arg, f.b.load(f.b.gep(args, k, i64), i64, 8), (0, 1 << 40))
    shared = any(isinstance(o, loop.AllocOp) and o.scope.data != "local" for o in func.walk())
    if shared:
        f.workspace = f.b.load(f.b.gep(args, len(func.args), PTR), PTR, 8)
    f.finish_prologue()
    f.lower_block(func.body.block)
    f.force()
    f.b.block.add_op(llvm.ReturnOp(f.b.int(0, i32)))
    op.attributes["mlc.scratch_bytes"] = IntegerAttr(kernel.scratch_bytes, i64)
    op.attributes["mlc.workspace_bytes"] = IntegerAttr(kernel.workspace_bytes, i64)
    return [*kernel.functions, op]


@dataclass(frozen=True)
class ConvertLoopToLLVMPass(ModulePass):
    """`loop.func` -> `llvm.func`; `vector-bits` is the width of the machine's vectors (512: AVX-512, 256: AVX2)."""

    name = "convert-loop-to-llvm"

    vector_bits: int = 512

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in [o for o in op.body.block.ops if isinstance(o, loop.FuncOp)]:
            new = lower_kernel(func, self.vector_bits // 32)
            for machine in new:
                op.body.block.insert_op_before(machine, func)
            func.detach()
            func.erase()


__all__ = ["ConvertLoopToLLVMPass", "StringAttr", "lower_kernel"]
