"""The state of printing one kernel as C99: names, lines, values lane by lane, indices and bounds checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.codegen.c import prelude as C
from mlc.codegen.c.lanes import LaneLoops, declaration, element_of_array
from mlc.codegen.c.types import NoCForm, element_bytes, fill, rounded, storage_type
from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, render
from mlc.support.errors import UserError

HEAP_BYTES = 4096
"""Buffers larger than this come from malloc."""


RACES = 1_000_000
"""Added to the number of the operation in a return code that reports a race."""


def checked_ops(func: loop.FuncOp) -> list[Operation]:
    """The operations that a checked kernel may name by its return code."""
    return [op for op in func.walk() if isinstance(op, loop.LoadOp | loop.StoreOp | loop.GatherOp | loop.BlockOp)]


@dataclass
class CPrinter:
    """Writes one kernel."""

    statements: Mapping[type[Operation], Callable[[CPrinter, Any], None]]
    """How operations with a form of their own are written; the others are in the tables of c_prelude.py."""
    checked: bool = False
    snapped: bool = False
    races: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[SSAValue, str] = field(default_factory=dict)
    codes: dict[Operation, int] = field(default_factory=dict)
    depth: int = 0
    fresh: int = 0
    in_parallel: bool = False
    shadows: dict[SSAValue, list[tuple[str, str]]] = field(default_factory=dict)
    """By buffer that the enclosing parallel loops write: for each loop the array that holds, by element, the iteration
    that wrote it, and the variable of the current iteration."""
    loops: LaneLoops = field(init=False)
    """The loops over lanes that operations may still join."""
    current: Operation | None = None
    """The operation that is being written."""
    shapes: dict[SSAValue, list[str]] = field(default_factory=dict)
    """Sizes of operands as C expressions, where the kernel's attribute `sizes` gives them over its index arguments."""

    def __post_init__(self) -> None:
        self.loops = LaneLoops(self.name, self.new)

    def function(self, func: loop.FuncOp) -> None:
        """The whole kernel."""
        self.codes = {op: k + 1 for k, op in enumerate(checked_ops(func))}
        self.line(self.head(func))
        with self.deeper():
            self.line("(void)rt;")
            for k, a in enumerate(func.args):
                if isinstance(a.type, MemRefType):
                    t = storage_type(a.type.element_type)
                    self.line(f"{t} *restrict {self.name(a)} = ({t} *)args[{k}];")
                else:
                    self.line(f"const int64_t {self.name(a)} = (int64_t)(intptr_t)args[{k}];")
            symbols = func.symbols
            rows = func.attributes.get("sizes")
            shapes: tuple[Attribute, ...] = rows.data if isinstance(rows, ArrayAttr) else ()
            for a, row in zip(func.args, shapes, strict=False):
                assert isinstance(row, IndexMapAttr)
                self.shapes[a] = [self.text(e, symbols) for e in row.data]
            self.block(func.body.block)
            self.line("return 0;")
        self.line("}")

    def head(self, func: loop.FuncOp) -> str:
        """The first line of a kernel."""
        return f"int32_t {func.sym_name.data}(void **args, void *rt) {{"

    def line(self, text: str) -> None:
        """A line behind everything that was written before."""
        self.finish_loops()
        self.lines.append("  " * self.depth + text)

    def finish_loops(self) -> None:
        """Write the loops over lanes: what follows does not join them."""
        self.lines += ["  " * (self.depth + depth) + text for depth, text in self.loops.take()]

    @contextmanager
    def deeper(self) -> Generator[None]:
        """One level of braces."""
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, value: SSAValue) -> str:
        """The variable of a value."""
        if value not in self.names:
            hint = value.name_hint or "v"
            self.names[value] = f"{hint if hint.isascii() and hint.isidentifier() else 'v'}_{len(self.names)}"
        return self.names[value]

    def c_function(self, name: str) -> str:
        """The name by which a C function is called."""
        return name

    def new(self, hint: str) -> str:
        self.fresh += 1
        return f"{hint}{self.fresh}_"

    def block(self, block: Block) -> None:
        """Every operation of a block; its large buffers are freed at its end."""
        self.operations(block)
        for op in block.ops:
            if isinstance(op, loop.AllocOp) and on_heap(op):
                self.line(f"free({self.name(op.result)});")

    def operations(self, block: Block) -> None:
        """Every operation of a block."""
        for op in block.ops:
            self.current = op
            self.statements.get(type(op), CPrinter.elementwise)(self, op)
        self.finish_loops()

    # --- values

    def declare(self, value: SSAValue) -> None:
        """The variable, or the local array, of a value that is not given lane by lane."""
        self.line(declaration(self.name(value), value))

    def at(self, value: SSAValue) -> str:
        """One lane of a value at the loop variables d0, d1, ...; axes of size 1 are broadcast."""
        return self.loops.at(value, self.current)

    def element_at(self, value: SSAValue, last: Sequence[int | str]) -> str:
        """One lane of a value whose shape is not that of the operation's lanes, at `last` on its last axes."""
        return element_of_array(self.name(value), value, last)

    def lanes(self, shape: Sequence[int], *statements: str, before: Sequence[str] = ()) -> None:
        """Statements of the current operation for every lane of a tile; its results are declared."""
        assert self.current is not None
        self.loops.add(self.current, shape, statements, before)

    def define(self, value: SSAValue, expression: str) -> None:
        """A value given lane by lane."""
        self.lanes(loop.shape_of(value.type), f"{self.at(value)} = {rounded(value.type, expression)};")

    def elementwise(self, op: Operation) -> None:
        """An operation of the tables."""
        operands = [self.at(v) for v in op.operands]
        template = C.BINARY.get(op.name) or (C.SNAPPED if self.snapped else {}).get(op.name) or C.UNARY.get(op.name)
        if template is None and op.name.removeprefix("arith.") in loop.CASTS:
            self.statements[loop.CastOp](self, op)
            return
        if template is None:
            raise NoCForm(f"expected operations of a loop.func, but got '{op.name}', which has no C99 form")
        self.define(op.results[0], fill(template, op.operands[0].type, op.results[0].type, *operands))

    def comparison(self, predicate: str) -> str:
        """The template of a comparison."""
        return C.SNAPPED_COMPARE.get(predicate, C.COMPARE[predicate]) if self.snapped else C.COMPARE[predicate]

    # --- indices

    def text(self, expr: Index, operands: Sequence[SSAValue], *, shared: bool = False) -> str:
        """An index expression over operands and the lanes' loop variables; `shared` divisions are computed once."""

        def divided(text: str, by: int, is_mod: bool) -> str:
            quotient = division(text, by, is_mod)
            return self.loops.hoisted(quotient) if shared and self.loops.precede(operands) else quotient

        return render(expr, lambda n: self.name(operands[n]) if n >= 0 else f"d{-1 - n}", divided)

    def sizes(self, buffer: SSAValue) -> list[str]:
        """The sizes of a buffer as C expressions; an unknown leading size of an argument is an empty text."""
        t, op = buffer.type, buffer.owner
        assert isinstance(t, MemRefType)
        if isinstance(op, loop.AllocOp):
            return [self.text(e, op.args) for e in op.shape]
        shape = self.shapes.get(buffer) or ["" if n < 0 else str(n) for n in t.get_shape()]
        if not all(shape[1:]):
            raise UserError(
                f"expected a buffer with static sizes behind the first, or the kernel's attribute sizes, but got {t}"
            )
        return shape

    def bytes(self, op: loop.AllocOp) -> str:
        """The size of a buffer."""
        count = static_bytes(op)
        sizes = [*(f"({n})" for n in self.sizes(op.result)), str(element_bytes(op.result.type.element_type))]
        return str(count) if count is not None else " * ".join(sizes)

    def check(self, op: Operation, tests: Sequence[str]) -> str:
        """The statement that reports an index out of range."""
        return f"if ({' || '.join(tests)}) return {self.codes[op]};"

    def race_of_read(self, op: Operation, buffer: SSAValue, element: str) -> str:
        """The statements that report a read of what another iteration wrote; empty for buffers without a shadow."""
        marks = self._marks(buffer, element)
        return "".join(f"if ({m} && {m} != {now}) return {RACES + self.codes[op]}; " for m, now in marks)

    def race_of_write(self, op: Operation, buffer: SSAValue, element: str, value: str) -> str:
        """The statements that report a write of another value than another iteration wrote, and note this write."""
        differs = f"memcmp(&(typeof({element})){{{value}}}, &{element}, sizeof {element})"
        report = f"return {RACES + self.codes[op]}"
        marks = self._marks(buffer, element)
        return "".join(f"if ({m} && {m} != {now} && {differs}) {report}; {m} = {now}; " for m, now in marks)

    def _marks(self, buffer: SSAValue, element: str) -> list[tuple[str, str]]:
        """The shadows of an element `buffer[index]`, and the variables of the current iterations."""
        index = element.partition("[")[2]
        return [(f"{shadow}[{index}", now) for shadow, now in self.shadows.get(buffer, ())]


def division(text: str, by: int, is_mod: bool) -> str:
    """Floor division, or the remainder that goes with it."""
    return f"mlc_{'mod' if is_mod else 'floordiv'}({text}, {by})"


def on_heap(op: loop.AllocOp) -> bool:
    """Whether a buffer comes from malloc."""
    size = static_bytes(op)
    return size is None or size > HEAP_BYTES


def static_bytes(op: loop.AllocOp) -> int | None:
    """The size of a buffer in bytes; None if it is symbolic."""
    t = op.result.type
    return None if op.sizes is not None else math.prod(t.get_shape()) * element_bytes(t.element_type)
