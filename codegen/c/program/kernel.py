"""
A kernel as C99 for delivery: `int32_t name(void **args, mlc_runtime *rt)`, the calling convention of support/abi.py.

Against the form of codegen/c/emit.py, which validates passes: nothing is checked or poisoned, large buffers lie in the
workspace behind the operands (in the scratch of the thread inside of a parallel loop), and a parallel loop becomes a
function of one task for `rt->parallel_for`. Buffers of open sizes lie in the workspace behind those of static sizes,
first those that all threads share, then the local ones of each thread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.codegen.c.call import calls_of
from mlc.codegen.c.emit import STATEMENTS
from mlc.codegen.c.printer import CPrinter, on_heap, static_bytes
from mlc.codegen.c.program.tidy import tidied
from mlc.codegen.c.types import element_bytes, storage_type, value_type
from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_LEAST_WORK, LOOP_SHARES, LOOP_SLOT, LOOP_WORK
from mlc.dialects.index import Index, IndexMapAttr, const, dim
from mlc.dialects.loop.private import private_buffers
from mlc.support.alignment import ALIGNMENT

LOCAL = "MLC_LOCAL"
"""The macro of functions that a library does not show."""


@dataclass(frozen=True)
class CKernelText:
    """A kernel as C, the bytes of workspace that its buffers need, and those of scratch for each thread."""

    name: str
    text: str
    workspace_bytes: int
    scratch_bytes: int
    symbolic: tuple[tuple[Index, ...], ...] = ()
    """The buffers of open sizes in the workspace: the factors of the bytes of each, over the kernel's sizes, which the
    number of threads follows."""
    calls: tuple[loop.ExternCallOp, ...] = ()
    """The calls of registered functions and of C functions."""


def print_kernel(func: loop.FuncOp, *, threads: bool, prefix: str = "", calls: str = "") -> CKernelText:
    """
    One kernel, named `prefix` and its name, without the prelude.

    A C function that it calls is named `calls` and its name.

    Parallel loops run on `rt->parallel_for` with `threads`, else one iteration after another.

    Raises UserError for tiles that a parallel loop takes from outside.
    """
    printer = _Printer(_STATEMENTS, threads=threads, kernel=prefix + func.sym_name.data, calls=calls)
    printer.function(func)
    known = [f"enum {{ {printer.kernel}_static = {printer.workspace.most} }}; /* bytes of workspace */"]
    lines = [*(known if printer.rows else []), *printer.tasks, *printer.lines]
    text = tidied("\n".join(lines) + "\n")
    bytes_ = printer.workspace.most, printer.scratch.most
    return CKernelText(printer.kernel, text, *bytes_, tuple(printer.rows), tuple(calls_of(func)))


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
    calls: str = ""
    operands: int = 0
    symbols: list[SSAValue] = field(default_factory=list)
    rows: list[tuple[Index, ...]] = field(default_factory=list)
    """The factors of the bytes of the buffers of open sizes."""
    places: dict[SSAValue, str] = field(default_factory=dict)
    """The variable with the address of each of these buffers; of a local one, the address for thread 0."""

    def c_function(self, name: str) -> str:
        """The name by which a C function is called."""
        return self.calls + name

    def head(self, func: loop.FuncOp) -> str:
        """The first line of a kernel."""
        self.symbols = [a for a in func.args if isinstance(a.type, IndexType)]
        self.operands = len(func.args)
        return f"{LOCAL} int32_t {self.kernel}(void **args, mlc_runtime *rt) {{"

    def block(self, block: Block) -> None:
        """Every operation of a block; its buffers end with it."""
        if isinstance(func := block.parent_op(), loop.FuncOp):
            self.place_symbolic(func)
        tops = self.workspace.top, self.scratch.top
        self.operations(block)
        self.workspace.top, self.scratch.top = tops

    def place_symbolic(self, func: loop.FuncOp) -> None:
        """Variables for the addresses of all buffers of open sizes, and for the bytes of a thread's local ones."""
        allocs = [op for op in func.walk() if isinstance(op, loop.AllocOp) and static_bytes(op) is None]
        slots: dict[Attribute | None, str] = {}
        end, first_local = f"(char *)args[{self.operands}] + {self.kernel}_static", ""
        for alloc in sorted(allocs, key=is_local):
            if LOOP_SHARES in alloc.attributes:
                continue
            name = slots[alloc.attributes.get(LOOP_SLOT)] = self.places[alloc.result] = self.new("room")
            self.line(f"char *const {name} = {end};")
            first_local = first_local or (name if is_local(alloc) else "")
            end = f"{name} + ({self.bytes(alloc)} + {2 * ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT}"
            self.rows.append(self._factors(alloc))
        for alloc in allocs:
            if (slot := alloc.attributes.get(LOOP_SHARES)) is not None:
                self.places[alloc.result] = slots[slot]
        if self.places:
            self.line(f"const int64_t {STRIDE} = {f'{end} - {first_local}' if first_local else '0'};")
            self.line(f"(void){STRIDE};")

    def _factors(self, alloc: loop.AllocOp) -> tuple[Index, ...]:
        numbers = {k: dim(self.symbols.index(v)) for k, v in enumerate(alloc.args)}
        sizes = [e.substitute(numbers) for e in alloc.shape]
        threads = [dim(len(self.symbols))] if is_local(alloc) else []
        return const(element_bytes(alloc.result.type.element_type)), *sizes, *threads


STRIDE = "local_bytes"
"""The variable with the bytes of one thread's buffers of open sizes."""


def is_local(op: loop.AllocOp) -> bool:
    """Whether each thread has its own copy of a buffer."""
    return op.scope.data == "local"


def _alloc(p: _Printer, op: loop.AllocOp) -> None:
    """A buffer: on the stack where it is small, else in the scratch of a thread or in the kernel's workspace."""
    t = storage_type(op.result.type.element_type)
    size = static_bytes(op)
    inside = p.in_parallel and p.threads
    if size is None:
        thread = f" + thread * {STRIDE}" if inside and is_local(op) else ""
        p.line(f"{t} *const {p.name(op.result)} = ({t} *)(void *)({p.places[op.result]}{thread});")
        return
    if not on_heap(op):
        p.line(f"{t} {p.name(op.result)}[{max(math.prod(op.result.type.get_shape()), 1)}];")
        return
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
    fields = {p.name(v): _field_type(v) for v in captured}
    rooms = [p.places[a.result] for a in op.walk() if isinstance(a, loop.AllocOp) and a.result in p.places]
    rooms += [p.places[v] for v in private if v in p.places]
    if rooms:
        fields |= dict.fromkeys(rooms, "char *") | {STRIDE: "int64_t "}
    body = _task_body(p, op, private)
    used = set(re.findall(r"\w+", "\n".join(body)))
    fields = {field_: type_ for field_, type_ in fields.items() if field_ in used}
    p.tasks += [*_task_head(name, fields), *body]
    p.line("{")
    with p.deeper():
        values = ", ".join([*fields, lower])
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
    """The values from outside that a loop's body uses, and the kernel's sizes, over which those of operands are."""
    found: dict[SSAValue, None] = dict.fromkeys(p.symbols)
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


def _task_head(name: str, fields: Mapping[str, str]) -> list[str]:
    """The struct of the values that a loop's body takes from outside, and the beginning of the body's function."""
    lines = [
        f"struct {name} {{",
        *(f"  {type_}{field_};" for field_, type_ in fields.items()),
        "  int64_t begin;",
        "};",
    ]
    lines.append(f"static int32_t {name}(mlc_runtime *rt, void *context, int32_t task, int32_t thread) {{")
    lines.append(f"  const struct {name} *const from = (const struct {name} *)context;")
    for field_, type_ in fields.items():
        declared = f"{type_}const {field_}" if "*" in type_ else f"const {type_}{field_}"
        lines.append(f"  {declared} = from->{field_};")
    return lines


def _task_body(p: _Printer, op: loop.ForOp, private: list[SSAValue]) -> list[str]:
    """The statements of the function of one iteration, up to its closing brace."""
    outside, p.lines, depth, p.depth = p.lines, [], p.depth, 0
    with p.deeper():
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
    lines, p.lines, p.depth = p.lines, outside, depth
    return lines


_STATEMENTS: dict[type[Operation], Callable[[Any, Any], None]] = {
    **STATEMENTS,
    loop.ForOp: _for,
    loop.AllocOp: _alloc,
}

__all__ = ["LOCAL", "CKernelText", "print_kernel"]
