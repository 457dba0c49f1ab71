"""
The loop dialect as plain C99.

In: a module of verified `loop.func`s. Out: one C function `int32_t name(void **args, void *rt)` a kernel, with tiles as
loops over local arrays, parallel loops as plain ones, masks as ifs, `loop.fma` as `fma()`. It computes what the
interpreter computes, about a hundred times faster: the reference for large kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.codegen import c_prelude as C
from mlc.codegen.c_types import NARROW, element_bytes, fill, literal, rounded, storage_type, value_type
from mlc.dialects import loop
from mlc.dialects.constants import numbers
from mlc.dialects.index import Index, IndexMapAttr, render
from mlc.dialects.loop.private import private_buffers
from mlc.support.errors import UserError

ROUNDS_TO = "c.rounds_to"
"""Attribute of a cast from f64 to f64 in the wide form of a kernel: the narrower float whose values it rounds to."""
HEAP_BYTES = 4096
"""Buffers larger than this come from malloc."""


def print_module(module: ModuleOp, *, checked: bool = False) -> str:
    """
    The kernels of a module as C99.

    With `checked`, an access out of bounds makes the kernel return the number of the operation (counted from 1 as
    `checked_ops` lists them) in place of reading or writing there.
    """
    kernels = [op for op in module.walk() if isinstance(op, loop.FuncOp)]
    return "\n".join([C.PRELUDE, *(print_function(k, checked=checked) for k in kernels)])


def print_function(func: loop.FuncOp, *, checked: bool = False, snapped: bool = False) -> str:
    """
    One kernel, without the prelude.

    With `snapped`, comparisons and roundings of f64 decide as `support/arithmetic.py` says, and a cast with the
    attribute `ROUNDS_TO` rounds to the values of that type.
    """
    printer = _Printer(checked, snapped)
    printer.function(func)
    return "\n".join(printer.lines) + "\n"


def checked_ops(func: loop.FuncOp) -> list[Operation]:
    """The operations that a checked kernel may name by its return code."""
    return [op for op in func.walk() if isinstance(op, loop.LoadOp | loop.StoreOp | loop.GatherOp | loop.BlockOp)]


@dataclass
class _Printer:
    """Writes one kernel."""

    checked: bool
    snapped: bool = False
    lines: list[str] = field(default_factory=list)
    names: dict[SSAValue, str] = field(default_factory=dict)
    codes: dict[Operation, int] = field(default_factory=dict)
    depth: int = 0
    fresh: int = 0
    in_parallel: bool = False
    shapes: dict[SSAValue, list[str]] = field(default_factory=dict)
    """Sizes of operands as C expressions, where the kernel's attribute `sizes` gives them over its index arguments."""

    def function(self, func: loop.FuncOp) -> None:
        """The whole kernel."""
        self.codes = {op: k + 1 for k, op in enumerate(checked_ops(func))}
        self.line(f"int32_t {func.sym_name.data}(void **args, void *rt) {{")
        with self.deeper():
            self.line("(void)rt;")
            for k, a in enumerate(func.args):
                if isinstance(a.type, MemRefType):
                    t = storage_type(a.type.element_type)
                    self.line(f"{t} *restrict {self.name(a)} = ({t} *)args[{k}];")
                else:
                    self.line(f"const int64_t {self.name(a)} = (int64_t)(intptr_t)args[{k}];")
            symbols = [a for a in func.args if not isinstance(a.type, MemRefType)]
            rows = func.attributes.get("sizes")
            shapes: tuple[Attribute, ...] = rows.data if isinstance(rows, ArrayAttr) else ()
            for a, row in zip(func.args, shapes, strict=False):
                assert isinstance(row, IndexMapAttr)
                self.shapes[a] = [self.text(e, symbols) for e in row.data]
            self.block(func.body.block)
            self.line("return 0;")
        self.line("}")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

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

    def new(self, hint: str) -> str:
        self.fresh += 1
        return f"{hint}{self.fresh}_"

    def block(self, block: Block) -> None:
        """Every operation of a block; its large buffers are freed at its end."""
        for op in block.ops:
            handler = _STATEMENTS.get(type(op))
            if handler is not None:
                handler(self, op)
            else:
                self.elementwise(op)
        for op in block.ops:
            if isinstance(op, loop.AllocOp) and _on_heap(op):
                self.line(f"free({self.name(op.result)});")

    # --- values

    def declare(self, value: SSAValue) -> None:
        """The variable, or the local array, of a value."""
        shape = loop.shape_of(value.type)
        size = f"[{math.prod(shape)}]" if shape else ""
        self.line(f"{value_type(loop.element_of(value.type))} {self.name(value)}{size};")

    def at(self, value: SSAValue) -> str:
        """One lane of a value at the loop variables d0, d1, ...; axes of size 1 are broadcast."""
        shape = loop.shape_of(value.type)
        return (
            f"{self.name(value)}[{_flat([f'd{k}' if n > 1 else '0' for k, n in enumerate(shape)], shape)}]"
            if (shape)
            else self.name(value)
        )

    def lanes(self, shape: Sequence[int], *statements: str) -> None:
        """Statements for every lane of a tile; for a scalar, the statements."""
        head = " ".join(f"for (int64_t d{k} = 0; d{k} < {n}; ++d{k})" for k, n in enumerate(shape))
        if head:
            self.line(f"{head} {{")
            with self.deeper():
                for s in statements:
                    self.line(s)
            self.line("}")
            return
        for s in statements:
            self.line(s)

    def define(self, value: SSAValue, expression: str) -> None:
        """A value given lane by lane."""
        self.declare(value)
        self.lanes(loop.shape_of(value.type), f"{self.at(value)} = {rounded(value.type, expression)};")

    def elementwise(self, op: Operation) -> None:
        """An operation of the tables."""
        operands = [self.at(v) for v in op.operands]
        template = C.BINARY.get(op.name) or (C.SNAPPED if self.snapped else {}).get(op.name) or C.UNARY.get(op.name)
        if template is None and (kind := op.name.removeprefix("arith.")) in loop.CASTS:
            _cast(self, op, kind)
            return
        if template is None:
            raise UserError(f"expected operations of a loop.func, but got '{op.name}', which has no C99 form")
        self.define(op.results[0], fill(template, op.operands[0].type, op.results[0].type, *operands))

    def comparison(self, predicate: str) -> str:
        """The template of a comparison."""
        return C.SNAPPED_COMPARE.get(predicate, C.COMPARE[predicate]) if self.snapped else C.COMPARE[predicate]

    # --- indices

    def text(self, expr: Index, operands: Sequence[SSAValue]) -> str:
        """An index expression over operands and the lanes' loop variables."""
        return render(expr, lambda n: self.name(operands[n]) if n >= 0 else f"d{-1 - n}", _division)

    def condition(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> str:
        return " && ".join(f"{self.text(e, operands)} >= 0" for e in exprs)

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
        count = _static_bytes(op)
        sizes = [*(f"({n})" for n in self.sizes(op.result)), str(element_bytes(op.result.type.element_type))]
        return str(count) if count is not None else " * ".join(sizes)

    def element(self, op: Operation, buffer: SSAValue, index: Sequence[str]) -> tuple[str, str]:
        """An element of a buffer, and the statement that checks its index (or nothing)."""
        t = buffer.type
        assert isinstance(t, MemRefType)
        shape = self.sizes(buffer)
        limits = [f"{n}u" if n.isdecimal() else f"(uint64_t)({n})" for n in shape]
        tests = [f"(uint64_t)({i}) >= {n}" for i, n, known in zip(index, limits, shape, strict=True) if known]
        check = f"if ({' || '.join(tests)}) return {self.codes[op]};" if self.checked and tests else ""
        return f"{self.name(buffer)}[{_flat(index, shape)}]", check


def _flat(index: Sequence[str], shape: Sequence[str | int]) -> str:
    """Row-major: `(i * 4 + j) * 8 + k`."""
    if all(i == "0" for i in index):
        return "0"
    text = index[0]
    for i, n in zip(index[1:], shape[1:], strict=True):
        text = f"({text}) * {n if str(n).isdecimal() else f'({n})'} + {i}"
    return text


def _division(text: str, by: int, is_mod: bool) -> str:
    return f"mlc_{'mod' if is_mod else 'floordiv'}({text}, {by})"


# --- structure ---------------------------------------------------------------------------------------------------


def _for(p: _Printer, op: loop.ForOp) -> None:
    lower, upper = p.text(op.lower, op.indices), p.text(op.upper, op.indices)
    for inner, result, first in zip(op.carried, op.results, op.iter_args, strict=True):
        p.names[result] = p.name(inner)
        p.declare(inner)
        _assign(p, inner, first)
    outermost = op.kind.data == "parallel" and not p.in_parallel
    i = p.name(op.iv)
    note = "" if op.kind.data == "serial" else f"  /* {op.kind.data} */"
    p.line(f"for (int64_t {i} = {lower}, end_{i} = {upper}; {i} < end_{i}; ++{i}) {{{note}")
    with p.deeper():
        if outermost:
            p.in_parallel = True
            for buffer in private_buffers(op):
                p.line(_poison(p, buffer))
        p.block(op.body.block)
        _carry(p, op.carried, op.yield_op.values)
        if outermost:
            p.in_parallel = False
    p.line("}")


def _carry(p: _Printer, to: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    """Assign all carried values at once: one that is read after its own assignment is saved first."""
    saved = list(values)
    for k, v in enumerate(values):
        if v in to and v is not to[k]:
            copy = v.type
            kept = p.new("kept")
            shape = loop.shape_of(copy)
            size = f"[{math.prod(shape)}]" if shape else ""
            p.line(f"{value_type(loop.element_of(copy))} {kept}{size};")
            p.line(f"memcpy({'' if shape else '&'}{kept}, {'' if shape else '&'}{p.name(v)}, sizeof {kept});")
            alias = Block(arg_types=[copy]).args[0]
            p.names[alias] = kept
            saved[k] = alias
    for target, v in zip(to, saved, strict=True):
        if v is not target:
            _assign(p, target, v)


def _assign(p: _Printer, to: SSAValue, value: SSAValue) -> None:
    if loop.shape_of(to.type):
        p.line(f"memcpy({p.name(to)}, {p.name(value)}, sizeof {p.name(to)});")
    else:
        p.line(f"{p.name(to)} = {p.name(value)};")


def _block(p: _Printer, op: loop.BlockOp) -> None:
    where = p.condition(op.where_exprs, op.args)
    p.line(f"{f'if ({where}) ' if where else ''}{{  /* {op.name_.replace('*/', '')} */")
    with p.deeper():
        args = op.body.block.args
        for arg, extent, binding in zip(args, op.static_extents, op.bindings.data, strict=True):
            p.line(f"const int64_t {p.name(arg)} = {p.text(binding, op.args)};")
            if p.checked:
                p.line(f"if ((uint64_t){p.name(arg)} >= {extent}u) return {p.codes[op]};")
        if op.has_init:
            for a, b in zip(op.init.block.args, args, strict=True):
                p.names[a] = p.name(b)
            p.line(f"if ({' && '.join(f'{p.name(a)} == 0' for a in args[op.num_spatial :])}) {{")
            with p.deeper():
                p.block(op.init.block)
            p.line("}")
        p.block(op.body.block)
    p.line("}")


def _on_heap(op: loop.AllocOp) -> bool:
    size = _static_bytes(op)
    return size is None or size > HEAP_BYTES


def _static_bytes(op: loop.AllocOp) -> int | None:
    t = op.result.type
    return None if op.sizes is not None else math.prod(t.get_shape()) * element_bytes(t.element_type)


def _poison(p: _Printer, buffer: SSAValue) -> str:
    """Every byte set: NaN in a float."""
    owner = buffer.owner
    assert isinstance(owner, loop.AllocOp)
    return f"memset({p.name(buffer)}, 0xff, {p.bytes(owner)});"


def _alloc(p: _Printer, op: loop.AllocOp) -> None:
    t, name = storage_type(op.result.type.element_type), p.name(op.result)
    if _on_heap(op):
        p.line(f"{t} *restrict {name} = ({t} *)malloc({p.bytes(op)});")
        p.line(f"if (!{name}) return -1;")
    else:
        p.line(f"{t} {name}[{max(math.prod(op.result.type.get_shape()), 1)}];")
    p.line(_poison(p, op.result))


def _load(p: _Printer, op: loop.LoadOp) -> None:
    index = [p.text(e, op.indices) for e in op.map.data]
    _read(p, op, op.buffer, index, p.condition(op.mask_exprs, op.indices), op.otherwise)


def _gather(p: _Printer, op: loop.GatherOp) -> None:
    index = [p.text(e, op.indices) for e in op.map.data]
    at = op.at.value.data
    index[at] = f"{index[at]} + {p.at(op.by)}"
    _read(p, op, op.buffer, index, "", None)


def _read(
    p: _Printer, op: Operation, buffer: SSAValue, index: Sequence[str], mask: str, otherwise: SSAValue | None
) -> None:
    result = op.results[0]
    element, check = p.element(op, buffer, index)
    t = loop.element_of(result.type)
    value = f"mlc_from_{NARROW[type(t)]}({element})" if type(t) in NARROW else element
    p.declare(result)
    read = f"{p.at(result)} = {value};"
    if otherwise is None:
        p.lanes(loop.shape_of(result.type), *([check] if check else []), read)
        return
    either = f"if ({mask}) {{ {check}{' ' if check else ''}{read} }} else {p.at(result)} = {p.at(otherwise)};"
    p.lanes(loop.shape_of(result.type), either)


def _store(p: _Printer, op: loop.StoreOp) -> None:
    index = [p.text(e, op.indices) for e in op.map.data]
    element, check = p.element(op, op.buffer, index)
    t = loop.element_of(op.value.type)
    value = f"mlc_to_{NARROW[type(t)]}({p.at(op.value)})" if type(t) in NARROW else p.at(op.value)
    write = f"{check}{' ' if check else ''}{element} = {value};"
    if op.mask_exprs:
        write = f"if ({p.condition(op.mask_exprs, op.indices)}) {{ {write} }}"
    exprs = [*op.map.data, *op.mask_exprs]
    p.lanes(loop.tile_shape(exprs, op.tile_sizes), write)


def _if(p: _Printer, op: scf.IfOp) -> None:
    for r in op.results:
        p.declare(r)
    for head, region in ((f"if ({p.name(op.cond)}) {{", op.true_region), ("else {", op.false_region)):
        if not region.blocks:
            continue
        p.line(head)
        with p.deeper():
            p.block(region.block)
            last = region.block.last_op
            for r, v in zip(op.results, last.operands if last is not None else (), strict=False):
                _assign(p, r, v)
        p.line("}")


# --- values ------------------------------------------------------------------------------------------------------


def _index(p: _Printer, op: loop.IndexOp) -> None:
    p.define(op.result, p.text(op.map.data[0], op.args))


def _constant(p: _Printer, op: arith.ConstantOp) -> None:
    value, t = op.value, op.result.type
    element = loop.element_of(t)
    if isinstance(value, DenseIntOrFPElementsAttr) and not value.is_splat():
        data = ", ".join(rounded(element, literal(element, v)) for v in numbers(value))
        p.line(f"{value_type(element)} {p.name(op.result)}[] = {{{data}}};")
        return
    if isinstance(value, DenseIntOrFPElementsAttr):
        number = numbers(value)[0]
    else:
        assert isinstance(value, IntegerAttr | FloatAttr)
        number = value.value.data
    p.define(op.result, literal(element, number))


def _fma(p: _Printer, op: loop.FmaOp) -> None:
    element = loop.element_of(op.result.type)
    a, b, c = (p.at(v) for v in op.operands)
    if isinstance(element, AnyFloat):
        p.define(op.result, f"{'fma' if isinstance(element, Float64Type) else 'fmaf'}({a}, {b}, {c})")
    else:
        t = value_type(element)
        p.define(op.result, f"({t})((uint64_t){a} * (uint64_t){b} + (uint64_t){c})")


def _contract(p: _Printer, op: loop.ContractOp) -> None:
    """One fma after another for the lanes of a word."""
    shape, wide = loop.shape_of(op.result.type), loop.element_of(op.result.type)
    count = loop.shape_of(op.a.type)[-1]
    result, t = p.at(op.result), value_type(wide)
    p.declare(op.result)
    steps = [f"{result} = {p.at(op.c)};"]
    for k in range(count):
        a, b = (
            f"({'u' if u else ''}{value_type(loop.element_of(v.type))}){p.at(v).replace(f'd{len(shape)}', str(k))}"
            for v, u in zip((op.a, op.b), op.unsigned, strict=True)
        )
        step = f"fmaf({a}, {b}, {result})" if isinstance(wide, AnyFloat) else f"({t})({result} + ({t}){a} * ({t}){b})"
        steps.append(f"{result} = {step};")
    p.lanes(shape, *steps)


def _broadcast(p: _Printer, op: loop.BroadcastOp) -> None:
    p.define(op.result, p.at(op.value))


def _reduce(p: _Printer, op: loop.ReduceOp) -> None:
    """The first lane, then the others in row-major order."""
    shape, axes = loop.shape_of(op.value.type), op.axes.get_values()
    element = loop.element_of(op.result.type)
    template = C.BINARY[C.COMBINE[op.combiner.data][0 if isinstance(element, AnyFloat) else 1]]
    step = rounded(element, fill(template, element, element, p.at(op.result), p.at(op.value)))
    p.declare(op.result)
    first = " && ".join(f"d{k} == 0" for k in axes) or "1"
    p.lanes(shape, f"{p.at(op.result)} = {first} ? {p.at(op.value)} : ({step});")


def _compare(p: _Printer, op: loop.CompareOp) -> None:
    template = p.comparison(op.predicate.data)
    p.define(op.result, fill(template, op.a.type, op.result.type, p.at(op.a), p.at(op.b)))


def _select(p: _Printer, op: Operation) -> None:
    c, a, b = (p.at(v) for v in op.operands)
    p.define(op.results[0], f"{c} ? {a} : {b}")


def _cmp(table: Sequence[str]) -> Callable[[_Printer, Any], None]:
    def emit(p: _Printer, op: arith.CmpfOp | arith.CmpiOp) -> None:
        predicate = table[op.predicate.value.data]
        if predicate not in C.COMPARE:
            raise UserError(f"expected a predicate of {', '.join(loop.COMPARES)}, but got '{predicate}'")
        p.define(op.result, fill(C.COMPARE[predicate], op.lhs.type, op.result.type, p.at(op.lhs), p.at(op.rhs)))

    return emit


def _cast(p: _Printer, op: Operation, kind: str) -> None:
    source, result = op.operands[0], op.results[0]
    narrow = op.attributes.get(ROUNDS_TO)
    if isinstance(narrow, StringAttr):
        p.define(result, f"mlc_snapped_{narrow.data}({p.at(source)})")
        return
    if kind != "bitcast":
        casts = C.CAST | C.SNAPPED_CAST if p.snapped else C.CAST
        p.define(result, fill(casts[kind], source.type, result.type, p.at(source)))
        return
    if {type(loop.element_of(v.type)) for v in (source, result)} & set(NARROW):
        raise UserError(
            f"expected a bitcast of 32 or 64 bits or between integers, but got {source.type} to {result.type}"
        )
    p.declare(result)
    p.lanes(loop.shape_of(result.type), f"memcpy(&{p.at(result)}, &{p.at(source)}, sizeof {p.at(result)});")


_STATEMENTS: dict[type[Operation], Callable[[_Printer, Any], None]] = {
    loop.ForOp: _for,
    loop.BlockOp: _block,
    loop.AllocOp: _alloc,
    loop.LoadOp: _load,
    loop.StoreOp: _store,
    loop.GatherOp: _gather,
    loop.YieldOp: lambda p, op: None,
    loop.IndexOp: _index,
    loop.FmaOp: _fma,
    loop.ContractOp: _contract,
    loop.BroadcastOp: _broadcast,
    loop.ReduceOp: _reduce,
    loop.CompareOp: _compare,
    loop.SelectOp: _select,
    loop.CastOp: lambda p, op: _cast(p, op, op.kind.data),
    arith.ConstantOp: _constant,
    arith.SelectOp: _select,
    arith.CmpfOp: _cmp(arith.CMPF_COMPARISON_OPERATIONS),
    arith.CmpiOp: _cmp(arith.CMPI_COMPARISON_OPERATIONS),
    scf.IfOp: _if,
    scf.YieldOp: lambda p, op: None,
}
