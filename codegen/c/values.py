"""C99 of the loop dialect's operations that compute values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Operation

from mlc.codegen.c import prelude as C
from mlc.codegen.c.access import index_text
from mlc.codegen.c.printer import CPrinter
from mlc.codegen.c.types import NARROW, NoCForm, fill, literal, rounded, value_type
from mlc.dialects import loop
from mlc.dialects.constants import numbers
from mlc.dialects.scalar import predicate_of
from mlc.support.errors import UserError

ROUNDS_TO = "c.rounds_to"
"""Attribute of a cast from f64 to f64 in the wide form of a kernel: the narrower float whose values it rounds to."""


def _index(p: CPrinter, op: loop.IndexOp) -> None:
    p.define(op.result, index_text(p, op.map.data[0], op.args, loop.shape_of(op.result.type)))


def _constant(p: CPrinter, op: arith.ConstantOp) -> None:
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


def _fma(p: CPrinter, op: loop.FmaOp) -> None:
    element = loop.element_of(op.result.type)
    a, b, c = (p.at(v) for v in op.operands)
    if isinstance(element, AnyFloat):
        p.define(op.result, f"{'fma' if isinstance(element, Float64Type) else 'fmaf'}({a}, {b}, {c})")
    else:
        t = value_type(element)
        p.define(op.result, f"({t})((uint64_t){a} * (uint64_t){b} + (uint64_t){c})")


def _contract(p: CPrinter, op: loop.ContractOp) -> None:
    """One fma after another for the factors that a lane sums."""
    shape, wide = loop.shape_of(op.result.type), loop.element_of(op.result.type)
    result, t = p.at(op.result), value_type(wide)
    multiply_add = "fma" if isinstance(wide, Float64Type) else "fmaf"
    steps = [f"{result} = {p.at(op.c)};"]
    for at in product(*(range(n) for n in loop.shape_of(op.a.type)[len(shape) :])):
        a, b = (
            f"({'u' if u else ''}{value_type(loop.element_of(v.type))}){p.element_at(v, at)}"
            for v, u in zip((op.a, op.b), op.unsigned, strict=True)
        )
        step = (
            f"{multiply_add}({a}, {b}, {result})"
            if isinstance(wide, AnyFloat)
            else f"({t})({result} + ({t}){a} * ({t}){b})"
        )
        steps.append(f"{result} = {step};")
    p.lanes(shape, *steps)


def _intrinsic(p: CPrinter, op: loop.CallIntrinsicOp) -> None:
    """What the intrinsic means: C99 has no name for it."""
    p.finish_loops()
    for inner, given in zip(op.means.block.args, op.args, strict=True):
        p.names[inner] = p.name(given)
    p.block(op.means.block)
    p.current = op
    p.define(op.result, p.at(op.yielded))


def _broadcast(p: CPrinter, op: loop.BroadcastOp) -> None:
    p.define(op.result, p.at(op.value))


def _concat(p: CPrinter, op: loop.ConcatOp) -> None:
    """The operand of each position along the axis; the last one needs no comparison."""
    *first, last = op.values
    chosen = [f"d{op.axis.value.data} == {k} ? {p.at(v)} : " for k, v in enumerate(first)]
    p.define(op.result, "".join(chosen) + p.at(last))


def _slice(p: CPrinter, op: loop.SliceOp) -> None:
    axis = op.axis.value.data
    rest = [f"d{k}" for k in range(axis + 1, len(loop.shape_of(op.value.type)))]
    p.define(op.result, p.element_at(op.value, [op.at.value.data, *rest]))


def _reduce(p: CPrinter, op: loop.ReduceOp) -> None:
    """The first lane, then the others in row-major order."""
    shape, axes = loop.shape_of(op.value.type), op.axes.get_values()
    element = loop.element_of(op.result.type)
    template = C.BINARY[C.COMBINE[op.combiner.data][0 if isinstance(element, AnyFloat) else 1]]
    step = rounded(element, fill(template, element, element, p.at(op.result), p.at(op.value)))
    first = " && ".join(f"d{k} == 0" for k in axes) or "1"
    p.lanes(shape, f"{p.at(op.result)} = {first} ? {p.at(op.value)} : ({step});")


def _compare(p: CPrinter, op: loop.CompareOp | arith.CmpfOp | arith.CmpiOp) -> None:
    predicate = op.predicate.data if isinstance(op, loop.CompareOp) else predicate_of(op)
    a, b = op.operands
    if predicate not in C.COMPARE:
        raise UserError(f"expected a predicate of {', '.join(loop.COMPARES)}, but got '{predicate}'", op)
    p.define(op.results[0], fill(p.comparison(predicate), a.type, op.results[0].type, p.at(a), p.at(b)))


def _select(p: CPrinter, op: Operation) -> None:
    c, a, b = (p.at(v) for v in op.operands)
    p.define(op.results[0], f"{c} ? {a} : {b}")


def _cast(p: CPrinter, op: Operation) -> None:
    kind = op.kind.data if isinstance(op, loop.CastOp) else op.name.removeprefix("arith.")
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
        raise NoCForm(
            f"expected a bitcast of 32 or 64 bits or between integers, but got {source.type} to {result.type}"
        )
    p.lanes(loop.shape_of(result.type), f"memcpy(&{p.at(result)}, &{p.at(source)}, sizeof {p.at(result)});")


VALUES: dict[type[Operation], Callable[[CPrinter, Any], None]] = {
    loop.IndexOp: _index,
    loop.FmaOp: _fma,
    loop.ContractOp: _contract,
    loop.CallIntrinsicOp: _intrinsic,
    loop.BroadcastOp: _broadcast,
    loop.ConcatOp: _concat,
    loop.SliceOp: _slice,
    loop.ReduceOp: _reduce,
    loop.CompareOp: _compare,
    loop.SelectOp: _select,
    loop.CastOp: _cast,
    arith.ConstantOp: _constant,
    arith.SelectOp: _select,
    arith.CmpfOp: _compare,
    arith.CmpiOp: _compare,
}
