"""What the tests of the loop level share: kernels run by the interpreter and as native code, and compared."""

import ctypes
from math import prod

import matrix_unit
import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.parser import Parser

from mlc.codegen import native
from mlc.codegen.llvm import ir as llvm_ir
from mlc.dialects import loop
from mlc.driver.pipeline.registry import make_context
from mlc.interp import loop as interp
from mlc.interp.values import dtype_of
from mlc.lowering.loop_to_llvm.convert import lower_kernel
from mlc.lowering.memory.plan_kernel import plan_kernel
from mlc.passes.loop.compact_buffers import compact_buffers
from mlc.passes.loop.partitioning.partition import partition
from mlc.passes.loop.tiles.form_tiles import form_tiles
from mlc.passes.loop.tiles.promote_tiles import promote_tiles
from mlc.support.errors import collected_warnings

PASSES = (partition, form_tiles, compact_buffers, promote_tiles, plan_kernel)
TASK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
POOL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
THREADS, CANARY = 3, 0xA5


class Runtime(ctypes.Structure):
    """The struct that kernels take."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("parallel_for", POOL),
        ("pool", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("stride", ctypes.c_int64),
    )


@POOL
def last_task_first(rt, fn, ctx, tasks, threads):
    """Tasks in reverse, on three threads' scratch in turns: what depends on the order shows."""
    for task in reversed(range(tasks)):
        if status := TASK(fn)(rt, ctx, task, task % THREADS):
            return status
    return 0


class Guarded:
    """Memory at a 64-byte boundary (or off it by `shift`) between canaries."""

    def __init__(self, size: int, shift: int = 0) -> None:
        self.bytes = np.full(size + 320 + shift, CANARY, np.uint8)
        self.start = -self.bytes.ctypes.data % 64 + 128 + shift
        self.end = self.start + size
        self.address = self.bytes.ctypes.data + self.start

    def view(self, dtype, shape) -> np.ndarray:
        return self.bytes[self.start : self.end].view(dtype).reshape(shape)

    def check(self) -> None:
        assert (self.bytes[: self.start] == CANARY).all(), "written in front of a buffer"
        assert (self.bytes[self.end :] == CANARY).all(), "written behind a buffer"


def parse(text: str) -> loop.FuncOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    func = module.body.block.first_op
    assert isinstance(func, loop.FuncOp)
    return func


def reread(func: loop.FuncOp) -> loop.FuncOp:
    """The kernel verified, printed and parsed again: its text must mean the same."""
    func.verify()
    return parse(str(func))


def native_kernel(func: loop.FuncOp, bits: int = 512, instructions=(), has_unit: bool = False):
    """
    Compile a kernel; returns a function on arrays that fills and returns the outputs.

    AMX runs in software, unless `has_unit` says that this machine's is to run.
    """
    with collected_warnings():
        functions = lower_kernel(func, bits // 32, instructions=instructions)
    module = ModuleOp([])
    for f in functions:
        module.body.block.add_op(f)
    module.verify()
    ir = llvm_ir.print_module(module, target="native")
    in_software = "x86_amx" in ir and not has_unit
    ir, imports = (matrix_unit.emulated(ir), matrix_unit.symbols()) if in_software else (ir, None)
    library = native.Library.load([native.emit_object(ir)], imports)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(library.address(func.sym_name.data))
    sizes = [functions[-1].attributes[f"mlc.{k}_bytes"].value.data for k in ("scratch", "workspace")]
    rows = functions[-1].attributes.get("mlc.symbolic_bytes", [])
    types = [a.type for a in func.args]
    outputs = func.outputs.value.data

    def run(arrays, shift=0):
        buffers, views, slots = [], [], []
        arrays = iter(arrays)
        n = sum(isinstance(t, MemRefType) for t in types)
        for k, t in enumerate(types):
            if not isinstance(t, MemRefType):
                slots.append(int(next(arrays)))
                continue
            dtype, shape = dtype_of(t.element_type), t.get_shape()
            g = Guarded(int(np.prod(shape)) * dtype.itemsize, shift)
            v = g.view(dtype, shape)
            if k < n - outputs:
                v[...] = next(arrays)
            buffers.append(g)
            views.append(v)
            slots.append(g.address)
        stride = (sizes[0] + 63) // 64 * 64
        symbols = [*(n for n, t in zip(slots, types, strict=True) if not isinstance(t, MemRefType)), THREADS]
        room = sum((prod(e.evaluate(symbols) for e in row.data) + 127) // 64 * 64 for row in rows)
        scratch, workspace = Guarded(stride * THREADS), Guarded(sizes[1] + room)
        scratch.view(np.uint8, -1)[...] = 0xFF
        workspace.view(np.uint8, -1)[...] = 0xFF
        args = (ctypes.c_int64 * (len(slots) + 1))(*slots, workspace.address)
        rt = Runtime(1, THREADS, last_task_first, None, scratch.address, stride)
        assert entry(ctypes.addressof(args), ctypes.addressof(rt)) == 0
        for g in (*buffers, scratch, workspace):
            g.check()
        return views[len(views) - outputs :]

    run.library, run.ir = library, ir
    return run


def close(a, b, tolerance):
    if a.dtype.kind == "f":
        a, b = a.astype(np.float64), b.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(a, b)


def differential(text, arrays, expected=None, tolerance=2e-5, widths=(512,), passes=PASSES):
    """Before, after each pass, and native: the same outputs; returns the kernel after the passes."""
    func = parse(text) if isinstance(text, str) else text
    first = [a.copy() for a in interp.run(func, arrays)]
    if expected is not None:
        for a, b in zip(first, expected, strict=True):
            close(a, np.asarray(b), tolerance)
    for rewrite in passes:
        rewrite(func)
        for a, b in zip(interp.run(reread(func), arrays, shuffle=1), first, strict=True):
            try:
                close(a, b, tolerance)
            except AssertionError as e:
                raise AssertionError(f"after {rewrite.__name__}: {e}\n{func}") from None
    for bits in widths:
        kernel = native_kernel(func, bits)
        for shift in (0, 8):
            for a, b in zip(kernel(arrays, shift), first, strict=True):
                try:
                    close(a, b, tolerance)
                except AssertionError as e:
                    raise AssertionError(f"native, {bits} bits: {e}\n{func}") from None
    return func
