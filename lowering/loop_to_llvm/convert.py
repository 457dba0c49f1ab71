"""
loop -> llvm: tiles become native vectors, loops become branches, parallel loops become functions for the pool.

In: loop.func whose blocks are gone (`loop-form-tiles`), tiles as n-D vectors.
Out: one `llvm.func @name(ptr args, ptr rt) -> i32` per kernel, and one internal function per parallel loop. The
attributes `mlc.scratch_bytes` (per thread) and `mlc.workspace_bytes` say what memory the kernel needs; the workspace is
the last entry of args.

    rt = { i32 version, i32 threads, ptr parallel_for, ptr pool, ptr scratch, i64 scratch_stride, ... } (support/abi.py)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    VectorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.attributes import (
    KERNEL_BUFFERS,
    KERNEL_SIZES,
    LOOP_COLD,
    NARROW_BYTES,
    NATIVE_SCRATCH_BYTES,
    NATIVE_SIGNATURE,
    NATIVE_SYMBOLIC_BYTES,
    NATIVE_WORKSPACE_BYTES,
)
from mlc.dialects.index import Index, IndexMapAttr
from mlc.dialects.walk import walk
from mlc.lowering.complete import expect_converted
from mlc.lowering.loop_to_llvm.access.accesses import Accesses, LoweredAccess
from mlc.lowering.loop_to_llvm.access.address import Addresses
from mlc.lowering.loop_to_llvm.access.prefetch import Prefetcher
from mlc.lowering.loop_to_llvm.access.transpose import (
    TransposedLoad,
    contiguous_axis,
    interleaved_axis,
    store_interleaved,
)
from mlc.lowering.loop_to_llvm.arithmetic.saturate import store_saturated
from mlc.lowering.loop_to_llvm.arithmetic.scalars import machine_type
from mlc.lowering.loop_to_llvm.builder import PTR, Builder, machine_function
from mlc.lowering.loop_to_llvm.call import lower_call
from mlc.lowering.loop_to_llvm.contract import load_words
from mlc.lowering.loop_to_llvm.matrix import MatrixValues, define_matrices, matrices, matrix_load, matrix_values
from mlc.lowering.loop_to_llvm.memory import SymbolicBuffers, place_static, place_symbolic
from mlc.lowering.loop_to_llvm.parallel import lower_cold, lower_parallel, uses_no_tile
from mlc.lowering.loop_to_llvm.pressure import check_loop
from mlc.lowering.loop_to_llvm.tables import lower_table
from mlc.lowering.loop_to_llvm.tiles import SCALAR, Tile, positions
from mlc.lowering.loop_to_llvm.values import VALUES
from mlc.lowering.memory.kernel_buffers import in_scratch, static_places
from mlc.passes.loop.index_space.domain import range_between, range_of
from mlc.support.abi import RT_SCRATCH, RT_SCRATCH_STRIDE
from mlc.support.errors import fail

Value = SSAValue | Tile


@dataclass
class NativeKernel:
    """The state that the machine functions of one kernel share."""

    name: str
    lanes: int
    registers: int
    instructions: tuple[str, ...] = ()
    """Names of the target's dot-product, packing and permutation instructions."""
    functions: list[llvm.FuncOp] = field(default_factory=list)
    tables: list[llvm.GlobalOp] = field(default_factory=list)
    declared: list[llvm.FuncOp] = field(default_factory=list)
    """External functions that it calls."""
    strided: set[SSAValue] = field(default_factory=set)
    """The kernel's arguments whose strides `te.buffers` gives."""
    scratch_bytes: int = 0
    workspace_bytes: int = 0
    symbolic: bool = False
    """Whether the kernel has size arguments."""
    places: dict[SSAValue, int] = field(default_factory=dict)
    """Byte offsets of buffers of static sizes, in scratch or workspace."""
    matrices: MatrixValues = field(default_factory=MatrixValues)
    """The values that the matrix unit holds."""


class FunctionLowering:
    """Lowers the ops of one machine function: the kernel itself, or the body of one of its parallel loops."""

    def __init__(self, kernel: NativeKernel, entry: Block, rt: SSAValue, thread: SSAValue | None) -> None:
        self.kernel = kernel
        self.b = Builder(entry)
        self.b.rounds_bf16 = "dpbf16ps" in kernel.instructions
        self.addresses = Addresses(self.b)
        self.accesses = Accesses(self.b, self.addresses)
        self.prefetcher = Prefetcher(self.b, self.addresses, kernel.symbolic)
        self.rt = rt
        self.thread = thread
        self.values: dict[SSAValue, Value] = {}
        self.matrices: dict[SSAValue, list[SSAValue]] = {}
        """The matrix registers of sums that the matrix unit holds."""
        self.matrix_factors: dict[SSAValue, LoweredAccess] = {}
        """The places from which the matrix unit loads its factors."""
        self.deferred: set[SSAValue] = set()
        """Values that are computed by the lowering of their store."""
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.local: dict[SSAValue, int] = {}
        self.factors: dict[int, int] = {}
        """Machine variables of strides: their number in the enclosing function -> their number here."""
        self.workspace: SSAValue | None = None
        self.symbolic = SymbolicBuffers()
        self.is_cold = False
        self.symbols: list[SSAValue] = []
        """The size arguments of the kernel; empty in the functions of its loops."""
        self._scratch: SSAValue | None = None
        self._pending: list[Tile] = []

    def finish_prologue(self) -> None:
        """Put further address arithmetic of the function's level behind the ops emitted so far."""
        self.addresses.levels[0].last = self.b.entry.last_op

    # --- values ---

    def tile(self, v: SSAValue) -> Tile:
        """A vector value's native values."""
        t = self.values[v]
        assert isinstance(t, Tile)
        return t

    def scalar(self, v: SSAValue) -> SSAValue:
        """The machine value of a scalar."""
        if isinstance(v.type, IndexType):
            return self.addresses.value(self.addresses.index[v])
        s = self.values[v]
        assert isinstance(s, SSAValue)
        return s

    def natives(self, v: SSAValue) -> list[SSAValue]:
        """The native values, one for a scalar."""
        return self.tile(v).all() if isinstance(v.type, VectorType) else [self.scalar(v)]

    def define(self, result: SSAValue, natives: Sequence[Any]) -> None:
        """Record a result by its native values, or by functions that compute them when first used."""
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
        """Lower every op of a block except its terminator."""
        for op in block.ops:
            handler = HANDLERS.get(type(op))
            if handler is not None:
                before = self.b.move_to(op.location)
                handler(self, op)
                self.b.location = before
            elif not isinstance(op, loop.YieldOp):
                fail(op, "cannot be lowered: convert-loop-to-llvm expects ops of loop, arith and math")

    def force(self) -> None:
        """Emit the pending lazy loads: before a store, and before control flow leaves the block."""
        for t in self._pending:
            t.all()
        self._pending.clear()

    def lower_for(self, op: loop.ForOp) -> None:
        """A loop: unrolled if it is so marked or runs at most once, else a rotated loop of basic blocks."""
        _refuse_device_axis(op)
        self.force()
        extent = op.extent
        if op.kind.data == "parallel" and self.thread is None and extent != 1:
            lower_parallel(self, op)
        elif LOOP_COLD in op.attributes and not self.is_cold and not op.results and uses_no_tile(op):
            lower_cold(self, op)
        elif extent is not None and (extent <= 1 or op.kind.data == "unrolled"):
            self._inline(op, extent)
        else:
            self._loop(op, extent)

    def _inline(self, op: loop.ForOp, extent: int) -> None:
        carried = [self.carried(v, arg) for v, arg in zip(op.iter_args, op.carried, strict=True)]
        lower = self.addresses.resolve(op.lower, op.indices)
        for k in range(extent):
            self.addresses.index[op.iv] = lower + k
            for arg, natives in zip(op.carried, carried, strict=True):
                self.define_carried(arg, natives)
            with self.prefetcher.inside_unrolled(op.iv, extent, k):
                self.lower_block(op.body.block)
            carried = [self.carried(v, arg) for v, arg in zip(op.yield_op.values, op.carried, strict=True)]
            self.force()
        for result, natives in zip(op.results, carried, strict=True):
            self.define_carried(result, natives)

    def _loop(self, op: loop.ForOp, extent: int | None) -> None:
        check_loop(op, self.kernel.lanes, self.kernel.registers, self.kernel.matrices.sums)
        b, a = self.b, self.addresses
        lower, upper = (a.resolve(e, op.indices) for e in (op.lower, op.upper))
        first, last = a.value(lower), a.value(upper)
        natives = [self.carried(v, arg) for v, arg in zip(op.iter_args, op.carried, strict=True)]
        counts = [len(n) for n in natives]
        flat = [n for group in natives for n in group]
        head = b.new_block([i64, *(v.type for v in flat)])
        if extent is None:
            after = b.new_block([v.type for v in flat])
            b.cond_br(b.icmp("slt", first, last), head, [first, *flat], after, flat)
        else:
            after = None
            b.br(head, [first, *flat])
        b.block = head
        a.enter(head)
        spans = a.spans()
        a.bind(op.iv, head.args[0], range_between(lower, upper, spans))
        if extent is None:
            a.last[len(a.variables) - 1] = upper - 1
        self._define_groups(op.carried, counts, head.args[1:])
        most = extent or (upper - lower).bounds(spans)[1]
        with self.prefetcher.inside(op, extent, most):
            self.lower_block(op.body.block)
        out = [n for v, arg in zip(op.yield_op.values, op.carried, strict=True) for n in self.carried(v, arg)]
        self.force()
        following = b.add(head.args[0], b.int(1))
        more = b.icmp("slt", following, last)
        a.leave()
        if after is None:  # it is entered from the last iteration alone, whose values it uses
            after = b.new_block([])
            results: Sequence[SSAValue] = out
        else:
            results = after.args
        b.cond_br(more, head, [following, *out], after, out if after.args else [])
        b.block = after
        self._define_groups(op.results, counts, results)

    def _define_groups(self, values: Sequence[SSAValue], counts: Sequence[int], flat: Sequence[SSAValue]) -> None:
        at = 0
        for v, n in zip(values, counts, strict=True):
            self.define_carried(v, flat[at : at + n])
            at += n

    def carried(self, v: SSAValue, arg: SSAValue) -> list[SSAValue]:
        """The native values in which a loop carries `v` as its argument `arg`: vectors, or matrix registers."""
        return matrices(self, v) if arg in self.kernel.matrices.sums else self.natives(v)

    def define_carried(self, v: SSAValue, values: Sequence[SSAValue]) -> None:
        """Record the native values of a loop's argument or result."""
        if v in self.kernel.matrices.sums:
            define_matrices(self, v, values)
        else:
            self.define(v, list(values))

    # --- memory ---

    def access(
        self, buffer: SSAValue, exprs: Sequence[Index], op: loop.LoadOp | loop.StoreOp | loop.GatherOp
    ) -> LoweredAccess:
        """An access of `op` resolved to machine variables."""
        t = buffer.type
        assert isinstance(t, MemRefType)
        indices = op.indices
        return LoweredAccess(
            self.buffers[buffer],
            self.addresses.linear(exprs, indices, buffer),
            tuple(self.addresses.resolve(e, indices) for e in op.mask_exprs),
            machine_type(t.element_type),
            len(op.tile_sizes),
            row=t.get_shape()[-1] if t.get_num_dims() and self.addresses.has_rows(buffer) else 1,
        )

    def lower_load(self, op: loop.LoadOp) -> None:
        """A load; tiles are loaded lazily, so that a micro-kernel needs registers for one row of scalars at a time."""
        if matrix_load(self, op):
            return
        if (words := load_words(self, op)) is not None:
            self.values[op.result] = words
            self._pending.append(words)
            return
        access = self.access(op.buffer, op.map.data, op)
        t = op.result.type
        if not isinstance(t, VectorType):
            otherwise = self.scalar(op.otherwise) if op.otherwise is not None else None
            self.define(op.result, [self.accesses.load(access, (), SCALAR, otherwise)])
            return
        fills = self.natives(op.otherwise) if op.otherwise is not None else None
        thunks: list[Callable[[], SSAValue]] = []
        if (axis := contiguous_axis(access, t.get_shape())) is not None:
            turned = TransposedLoad(self.accesses, access, axis)
            self.define(op.result, turned.thunks(t.get_shape(), self.kernel.lanes, fills))
            self._pending.append(self.tile(op.result))
            return
        for k, (outer, chunk) in enumerate(self.positions(t)):
            fill = fills[k] if fills is not None else None
            thunks.append(lambda o=outer, c=chunk, f=fill: self._load(op, access, o, c, f))
        self.prefetcher.load(op, access)
        self.define(op.result, thunks)
        self._pending.append(self.tile(op.result))

    def _load(
        self, op: loop.LoadOp, access: LoweredAccess, outer: tuple[int, ...], chunk: Any, fill: SSAValue | None
    ) -> SSAValue:
        """A native value of a tile, which is loaded where it is first used."""
        before = self.b.move_to(op.location)
        value = self.accesses.load(access, outer, chunk, fill)
        self.b.location = before
        return value

    def lower_store(self, op: loop.StoreOp) -> None:
        """A store."""
        self.force()
        if store_saturated(self, op):
            return
        access = self.access(op.buffer, op.map.data, op)
        if not isinstance(op.value.type, VectorType):
            self.accesses.store(access, (), SCALAR, self.scalar(op.value))
            return
        shape = op.value.type.get_shape()
        if (axis := interleaved_axis(access, shape)) is not None:
            store_interleaved(self.accesses, access, axis, shape, self.natives(op.value), self.kernel.lanes)
            return
        for (outer, chunk), v in zip(self.positions(op.value.type), self.natives(op.value), strict=True):
            self.accesses.store(access, outer, chunk, v)

    def lower_alloc(self, op: loop.AllocOp) -> None:
        """A buffer in the thread's scratch, or in the kernel's workspace."""
        if op.result.type.has_static_shape():
            self.buffers[op.result] = place_static(self, op)

    def scratch(self) -> SSAValue:
        """The start of this thread's scratch."""
        if self._scratch is None:
            b, saved = self.b, self.b.block
            level = self.addresses.levels[0]
            b.block = block = Block()
            base = b.load(b.gep(self.rt, RT_SCRATCH, i8), PTR, 8)
            if self.thread is not None:
                stride = b.load(b.gep(self.rt, RT_SCRATCH_STRIDE, i8), i64, 8)
                base = b.gep(base, b.mul(b.cast("sext", self.thread, i64), stride), i8)
            b.block = saved
            for o in list(block.ops):
                o.detach()
                end = b.entry.last_op
                if level.last is not None and level.block is b.entry:
                    b.entry.insert_op_after(o, level.last)
                    level.last = o
                elif isinstance(end, llvm.BrOp | llvm.CondBrOp):
                    b.entry.insert_op_before(o, end)
                else:
                    b.entry.add_op(o)
                    level.last = o
            self._scratch = base
        return self._scratch


HANDLERS: dict[type[Operation], Callable[[FunctionLowering, Any], None]] = {
    loop.ForOp: FunctionLowering.lower_for,
    loop.LoadOp: FunctionLowering.lower_load,
    loop.StoreOp: FunctionLowering.lower_store,
    loop.AllocOp: FunctionLowering.lower_alloc,
    loop.TableOp: lower_table,
    loop.ExternCallOp: lower_call,
    **VALUES,
}


def lower_kernel(
    func: loop.FuncOp, lanes: int, registers: int | None = None, instructions: Sequence[str] = ()
) -> list[llvm.FuncOp | llvm.GlobalOp]:
    """The machine functions of one kernel, its entry last, for vectors of `lanes` 32-bit lanes."""
    kernel = NativeKernel(func.sym_name.data, lanes, registers or (32 if lanes >= 16 else 16), tuple(instructions))
    kernel.places, (kernel.workspace_bytes, kernel.scratch_bytes) = static_places(func)
    kernel.matrices = matrix_values(func, instructions)
    kernel.symbolic = any(isinstance(arg.type, IndexType) for arg in func.args)
    op, entry = machine_function(kernel.name, [PTR, PTR], True)
    op.location = func.location
    args, rt = entry.args
    f = FunctionLowering(kernel, entry, rt, None)
    for k, arg in enumerate(func.args):
        if isinstance(arg.type, MemRefType):
            f.buffers[arg] = f.b.load(f.b.gep(args, k, PTR), PTR, 8)
        else:
            f.symbols.append(arg)
            f.addresses.bind(arg, f.b.load(f.b.gep(args, k, i64), i64, 8), range_of(arg))
    if any(isinstance(o, loop.AllocOp) and not in_scratch(o) for o in walk(func)):
        f.workspace = f.b.load(f.b.gep(args, len(func.args), PTR), PTR, 8)
    _bind_shapes(f, func)
    place_symbolic(f, func)
    f.finish_prologue()
    f.lower_block(func.body.block)
    f.force()
    f.b.block.add_op(llvm.ReturnOp(f.b.int(0, i32)))
    op.attributes[NATIVE_SCRATCH_BYTES] = IntegerAttr(kernel.scratch_bytes, i64)
    op.attributes[NATIVE_WORKSPACE_BYTES] = IntegerAttr(kernel.workspace_bytes, i64)
    op.attributes[NATIVE_SIGNATURE] = _signature(func)
    op.attributes |= {name: a for name, a in func.attributes.items() if name == NARROW_BYTES}
    if isinstance(sizes := func.attributes.get(KERNEL_SIZES), ArrayAttr):
        op.attributes[KERNEL_SIZES] = sizes
    if f.symbolic.rows:
        op.attributes[NATIVE_SYMBOLIC_BYTES] = ArrayAttr(f.symbolic.rows)
    return [*kernel.tables, *kernel.declared, *kernel.functions, op]


def _refuse_device_axis(op: loop.ForOp) -> None:
    """UserError for a loop that sched.bind has given to the threads of a GPU."""
    if op.kind.data.startswith("bind:"):
        axis = op.kind.data.removeprefix("bind:")
        fail(op, f"is bound to the GPU axis '{axis}', which a CPU does not have; use sched.parallel, not sched.bind")


def _signature(func: loop.FuncOp) -> FunctionType:
    """The types of the inputs and of the size arguments, and those of the outputs."""
    types = [arg.type for arg in func.args]
    buffers = sum(isinstance(t, MemRefType) for t in types)
    first = buffers - func.outputs.value.data
    return FunctionType.from_lists([*types[:first], *types[buffers:]], types[first:buffers])


def _bind_shapes(f: FunctionLowering, func: loop.FuncOp) -> None:
    """Compute the strides of operands of symbolic sizes from `sizes`, and take those that `te.buffers` gives."""
    _bind_sizes(f, func)
    rows = func.attributes.get(KERNEL_BUFFERS)
    symbols = func.symbols
    for buffer, row in zip(func.args, rows.data if isinstance(rows, ArrayAttr) else (), strict=False):
        strides = row.data.get("strides") if isinstance(row, DictionaryAttr) else None
        if isinstance(strides, IndexMapAttr):
            f.addresses.stride(buffer, strides.data, symbols)
            f.kernel.strided.add(buffer)


def _bind_sizes(f: FunctionLowering, func: loop.FuncOp) -> None:
    sizes = func.attributes.get(KERNEL_SIZES)
    if not isinstance(sizes, ArrayAttr):
        return
    symbols = func.symbols
    buffers = [a for a in func.args if isinstance(a.type, MemRefType)]
    for buffer, shape in zip(buffers, sizes.data, strict=True):
        if isinstance(shape, IndexMapAttr) and not all(e.is_const for e in shape.data):
            f.addresses.shape(buffer, shape.data, symbols)


def _is_declared(function: llvm.FuncOp, op: Operation) -> bool:
    """Whether an op of the module declares or defines what `function` declares."""
    return isinstance(op, llvm.FuncOp) and op.sym_name.data == function.sym_name.data


@dataclass(frozen=True)
class ConvertLoopToLLVMPass(ModulePass):
    """
    `loop.func` -> `llvm.func`; `vector-bits` is the width of the machine's vectors (512: AVX-512, 256: AVX2).

    `registers` is the number of vector registers; larger tiles get a warning. 0: 32 with AVX-512, else 16.
    `instructions` are the instructions that the lowering may use beyond plain vectors, comma-separated: "dpbf16ps".
    """

    name = "convert-loop-to-llvm"

    vector_bits: int = 512
    registers: int = 0
    instructions: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in [o for o in op.body.block.ops if isinstance(o, loop.FuncOp)]:
            names = [name for name in self.instructions.split(",") if name]
            new = lower_kernel(func, self.vector_bits // 32, self.registers or None, names)
            for machine in new:
                if isinstance(machine, llvm.FuncOp) and not machine.body.blocks:
                    if any(_is_declared(machine, o) for o in op.body.block.ops):
                        continue
                expect_converted(machine, self.name, "loop", "arith", "math", "scf", "memref")
                op.body.block.insert_op_before(machine, func)
            func.detach()
            func.erase()


__all__ = ["ConvertLoopToLLVMPass", "lower_kernel"]
