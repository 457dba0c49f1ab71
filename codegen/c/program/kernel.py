"""
A kernel as C99 for delivery: `int32_t name(void **args, mlc_runtime *rt)`, the calling convention of support/abi.py.

Against the form of codegen/c/emit.py, which validates passes: nothing is checked or poisoned, large buffers lie in the
workspace behind the operands (in the scratch of the thread inside of a parallel loop), and a parallel loop becomes a
function of one task for `rt->parallel_for`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mlc.codegen.c.emit import STATEMENTS
from mlc.codegen.c.printer import CPrinter, on_heap, static_bytes
from mlc.codegen.c.program.tidy import tidied
from mlc.codegen.c.types import storage_type, value_type
from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_LEAST_WORK, LOOP_WORK
from mlc.dialects.index import IndexMapAttr
from mlc.dialects.loop.private import private_buffers
from mlc.support.alignment import ALIGNMENT
from mlc.support.errors import fail

LOCAL = "MLC_LOCAL"
"""The macro of functions that a library does not show."""


@dataclass(frozen=True)
class CKernelText:
    """A kernel as C, the bytes of workspace that its buffers need, and those of scratch for each thread."""

    name: str
    text: str
    workspace_bytes: int
    scratch_bytes: int


def print_kernel(func: loop.FuncOp, *, threads: bool, prefix: str = "") -> CKernelText:
    """
    One kernel, named `prefix` and its name, without the prelude.

    Parallel loops run on `rt->parallel_for` with `threads`, else one iteration after another.

    Raises UserError for buffers of open sizes and for tiles that a parallel loop takes from outside.
    """
    printer = _Printer(_STATEMENTS, threads=threads, kernel=prefix + func.sym_name.data)
    printer.function(func)
    lines = [*printer.tasks, *printer.lines]
    text = tidied("\n".join(lines) + "\n")
    return CKernelText(printer.kernel, text, printer.workspace.most, printer.scratch.most)


@dataclass
class _Room:
    """Memory that is handed out as a stack: a block's buffers end with the block."""

    top: int = 0
    most: int = 0

    def take(self, size: int) -> int:
        """The offset of a new buffer; a cache line lies between it and the next one."""
        offset = self.top
        self.top += (size + 2 * ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        self.most = max(self.most, self.top)
        return offset


@dataclass
class _Printer(CPrinter):
    """Writes one kernel and the functions of its parallel loops."""

    threads: bool = False
    tasks: list[str] = field(default_factory=list)
    """The lines of the functions of the parallel loops."""
    workspace: _Room = field(default_factory=_Room)
    scratch: _Room = field(default_factory=_Room)
    kernel: str = ""
    operands: int = 0
    symbols: list[SSAValue] = field(default_factory=list)

    def head(self, func: loop.FuncOp) -> str:

        self.symbols = [a for a in func.args if isinstance(a.type, IndexType)]
        self.operands = len(func.args)
        if self.symbols:
            fail(func, "expected a kernel of static sizes to print as C; compile for fixed shapes")
        return f"{LOCAL} int32_t {self.kernel}(void **args, mlc_runtime *rt) {{"

    def block(self, block: Block) -> None:
        """Every operation of a block; its buffers end with it."""
        tops = self.workspace.top, self.scratch.top
        self.operations(block)
        self.workspace.top, self.scratch.top = tops


def _alloc(p: _Printer, op: loop.AllocOp) -> None:
    """A buffer: on the stack where it is small, else in the scratch of a thread or in the kernel's workspace."""
    t = storage_type(op.result.type.element_type)
    size = static_bytes(op)
    if size is None:
        fail(op, "expected buffers of static sizes in a kernel that is printed as C; compile for fixed shapes")
    if not on_heap(op):
        p.line(f"{t} {p.name(op.result)}[{max(math.prod(op.result.type.get_shape()), 1)}];")
        return
    inside = p.in_parallel and p.threads
    offset = (p.scratch if inside else p.workspace).take(size)
    base = "(char *)rt->scratch + thread * rt->scratch_stride" if inside else f"(char *)args[{p.operands}]"
    p.line(f"{t} *const {p.name(op.result)} = ({t} *)(void *)({base} + {offset});")


def _for(p: _Printer, op: loop.ForOp) -> None:
    """A loop; an outermost parallel one becomes a call of `parallel_for`, or a plain loop without threads."""
    if op.kind.data != "parallel" or p.in_parallel or not p.threads:
        within, p.in_parallel = p.in_parallel, p.in_parallel or op.kind.data == "parallel"
        STATEMENTS[loop.ForOp](p, op)
        p.in_parallel = within
        return
    name = f"{p.kernel}_task{sum(line.startswith('static') for line in p.tasks)}"
    lower, upper = p.text(op.lower, op.indices), p.text(op.upper, op.indices)
    private = private_buffers(op)
    captured = _captured(p, op, private)
    p.finish_loops()
    fields = {p.name(v): _field_type(v) for v in captured} | {"begin": "int64_t "}
    _task(p, op, name, fields, private)
    p.line("{")
    with p.deeper():
        values = ", ".join([*(p.name(v) for v in captured), lower])
        p.line(f"struct {name} context = {{{values}}};")
        p.line(f"const int32_t tasks = (int32_t)({upper} - ({lower}));")
        p.line(f"const int32_t status = rt->parallel_for(rt, {name}, &context, tasks, {_threads(p, op)});")
        p.line("if (status) return status;")
    p.line("}")


def _threads(p: _Printer, op: loop.ForOp) -> str:
    """How many threads share a loop: one where its work, known at run time, is too little."""
    work, least = op.attributes.get(LOOP_WORK), op.attributes.get(LOOP_LEAST_WORK)
    if not isinstance(work, IndexMapAttr) or not isinstance(least, IntegerAttr):
        return "rt->threads"
    total = " * ".join(f"({p.text(e, p.symbols)})" for e in work.data)
    return f"{total} >= {least.value.data} ? rt->threads : 1"


def _captured(p: _Printer, op: loop.ForOp, private: list[SSAValue]) -> list[SSAValue]:
    """The values from outside that a loop's body uses."""
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        for v in inner.operands:
            owner = v.owner.parent_op() if isinstance(v.owner, Block) else v.owner
            if v not in private and not (owner is not None and op.is_ancestor(owner)):
                found[v] = None
    return list(found)


def _field_type(v: SSAValue) -> str:
    """The type of a captured value, and the blank or star behind it."""
    if isinstance(v.type, MemRefType):
        return f"{storage_type(v.type.element_type)} *"
    return f"{value_type(loop.element_of(v.type))} {'*' if loop.shape_of(v.type) else ''}"


def _task(p: _Printer, op: loop.ForOp, name: str, fields: Mapping[str, str], private: list[SSAValue]) -> None:
    """The function of one iteration, and the struct of what it takes from outside."""
    outside, p.lines, depth, p.depth = p.lines, [], p.depth, 0
    p.line(f"struct {name} {{")
    p.lines += [f"  {type_}{field_};" for field_, type_ in fields.items()]
    p.line("};")
    p.line(f"static int32_t {name}(mlc_runtime *rt, void *context, int32_t task, int32_t thread) {{")
    with p.deeper():
        p.line(f"const struct {name} *const from = (const struct {name} *)context;")
        for field_, type_ in fields.items():
            if field_ != "begin":
                declared = f"{type_}const {field_}" if "*" in type_ else f"const {type_}{field_}"
                p.line(f"{declared} = from->{field_};")
        p.line("(void)rt, (void)thread;")
        p.line(f"const int64_t {p.name(op.iv)} = from->begin + task;")
        p.line(f"(void){p.name(op.iv)};")
        p.in_parallel = True
        top = p.scratch.top
        for buffer in private:
            assert isinstance(buffer.owner, loop.AllocOp)
            _alloc(p, buffer.owner)
        p.block(op.body.block)
        p.scratch.top = top
        p.in_parallel = False
        p.line("return 0;")
    p.line("}")
    p.line("")
    p.tasks += p.lines
    p.lines, p.depth = outside, depth


_STATEMENTS: dict[type[Operation], Callable[[Any, Any], None]] = {
    **STATEMENTS,
    loop.ForOp: _for,
    loop.AllocOp: _alloc,
}

__all__ = ["LOCAL", "CKernelText", "print_kernel"]
