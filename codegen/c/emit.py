"""
The loop dialect as plain C99.

In: a module of verified `loop.func`s. Out: one C function `int32_t name(void **args, void *rt)` a kernel, with tiles as
loops over local arrays, parallel loops as plain ones, masks as ifs, `loop.fma` as `fma()`. It computes what the
interpreter computes, about a hundred times faster: the reference for large kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.ir import Block, Operation, SSAValue

from mlc.codegen.c import prelude as C
from mlc.codegen.c.access import CheckedElement, access, mask_text
from mlc.codegen.c.call import print_call, prototypes
from mlc.codegen.c.printer import CPrinter, on_heap
from mlc.codegen.c.types import NARROW, storage_type, value_type
from mlc.codegen.c.values import VALUES
from mlc.dialects import loop
from mlc.dialects.loop.private import private_buffers


def print_module(module: ModuleOp) -> str:
    """The kernels of a module as C99."""
    kernels = [op for op in module.walk() if isinstance(op, loop.FuncOp)]
    return "\n".join([C.PRELUDE, *(print_function(k) for k in kernels)])


def print_function(func: loop.FuncOp, *, checked: bool = False, snapped: bool = False, races: bool = False) -> str:
    """
    One kernel, without the prelude.

    With `checked`, an access out of bounds makes the kernel return the number of the operation (counted from 1 as
    `checked_ops` lists them) in place of reading or writing there. With `snapped`, comparisons and roundings of f64
    decide as `support/arithmetic.py` says, and a cast with the attribute `ROUNDS_TO` rounds to the values of that type.
    With `races`, iterations of parallel loops run backwards, and a kernel whose iterations depend on each other returns
    `RACES` plus the number of the operation.
    """
    printer = CPrinter(STATEMENTS, checked, snapped, races)
    printer.function(func)
    return prototypes(func) + "\n".join(printer.lines) + "\n"


# --- structure ---------------------------------------------------------------------------------------------------


def _for(p: CPrinter, op: loop.ForOp) -> None:
    lower, upper = p.text(op.lower, op.indices), p.text(op.upper, op.indices)
    for inner, result, first in zip(op.carried, op.results, op.iter_args, strict=True):
        p.names[result] = p.name(inner)
        p.declare(inner)
        _assign(p, inner, first)
    outermost = op.kind.data == "parallel" and not p.in_parallel
    if op.kind.data == "parallel" and p.races:
        _racing(p, op, lower, upper, private_buffers(op) if outermost else [])
        return
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


def _racing(p: CPrinter, op: loop.ForOp, lower: str, upper: str, private: Sequence[SSAValue]) -> None:
    """
    A parallel loop whose iterations run backwards, and report where one reads what another wrote, or writes another
    value to an element that another wrote. Each thread has its own copy of the `private` buffers.
    """
    i, now, inner = p.name(op.iv), p.new("iteration"), p.in_parallel
    stored = dict.fromkeys(store.buffer for store in op.walk() if isinstance(store, loop.StoreOp))
    shared = [b for b in stored if b not in private and not op.is_ancestor(b.owner) and all(p.sizes(b))]
    p.in_parallel = True
    for buffer in shared:
        shadow = p.new("shadow")
        p.shadows.setdefault(buffer, []).append((shadow, now))
        size = " * ".join(f"({n})" for n in (*p.sizes(buffer), "1"))
        p.line(f"int32_t *{shadow} = (int32_t *)calloc({size}, sizeof(int32_t));")
        p.line(f"if (!{shadow}) return -1;")
    p.line(f"for (int64_t begin_{i} = {lower}, {i} = {upper} - 1; {i} >= begin_{i}; --{i}) {{  /* parallel */")
    with p.deeper():
        p.line(f"const int32_t {now} = (int32_t)({i} - begin_{i} + 1);")
        for buffer in private:
            p.line(_poison(p, buffer))
        p.block(op.body.block)
    p.line("}")
    for buffer in shared:
        p.line(f"free({p.shadows[buffer].pop()[0]});")
    p.in_parallel = inner


def _carry(p: CPrinter, to: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
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


def _assign(p: CPrinter, to: SSAValue, value: SSAValue) -> None:
    if loop.shape_of(to.type):
        p.line(f"memcpy({p.name(to)}, {p.name(value)}, sizeof {p.name(to)});")
    else:
        p.line(f"{p.name(to)} = {p.name(value)};")


def _block(p: CPrinter, op: loop.BlockOp) -> None:
    where = " && ".join(f"{p.text(e, op.args)} >= 0" for e in op.where_exprs)
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


def _poison(p: CPrinter, buffer: SSAValue) -> str:
    """Every byte set: NaN in a float."""
    owner = buffer.owner
    assert isinstance(owner, loop.AllocOp)
    return f"memset({p.name(buffer)}, 0xff, {p.bytes(owner)});"


def _alloc(p: CPrinter, op: loop.AllocOp) -> None:
    t, name = storage_type(op.result.type.element_type), p.name(op.result)
    if on_heap(op):
        p.line(f"{t} *restrict {name} = ({t} *)malloc({p.bytes(op)});")
        p.line(f"if (!{name}) return -1;")
    else:
        p.line(f"{t} {name}[{max(math.prod(op.result.type.get_shape()), 1)}];")
    p.line(_poison(p, op.result))


def _table(p: CPrinter, op: loop.TableOp) -> None:
    element = op.result.type.element_type
    t, name, n = storage_type(element), p.name(op.result), max(math.prod(op.result.type.get_shape()), 1)
    data = ", ".join(str(b) for b in op.bytes())
    size = f"{n} * sizeof({t})"
    p.line(f"static const union {{ uint8_t bytes[{size}]; {t} values[{n}]; }} {name}_data = {{{{{data}}}}};")
    p.line(f"const {t} *{name} = {name}_data.values;")


def _load(p: CPrinter, op: loop.LoadOp) -> None:
    shape = loop.shape_of(op.result.type)
    at = access(p, op, op.buffer, op.map.data, op.indices, shape, masked=op.otherwise is not None)
    _read(p, op, at, mask_text(p, op.mask_exprs, op.indices, shape), op.otherwise)


def _gather(p: CPrinter, op: loop.GatherOp) -> None:
    by, shape = (op.at.value.data, p.at(op.by)), loop.shape_of(op.result.type)
    _read(p, op, access(p, op, op.buffer, op.map.data, op.indices, shape, masked=False, gathered=by), "", None)


def _read(
    p: CPrinter, op: loop.LoadOp | loop.GatherOp, at: CheckedElement, mask: str, otherwise: SSAValue | None
) -> None:
    result = op.results[0]
    t, shape = loop.element_of(result.type), loop.shape_of(result.type)
    value = f"mlc_from_{NARROW[type(t)]}({at.element})" if type(t) in NARROW else at.element
    steps = [at.check] if at.check else []
    steps.append(f"{p.race_of_read(op, op.buffer, at.element)}{p.at(result)} = {value};")
    if mask and otherwise is not None:
        steps = [f"if ({mask}) {{ {' '.join(steps)} }} else {p.at(result)} = {p.at(otherwise)};"]
    p.lanes(shape, *steps, before=at.before)


def _store(p: CPrinter, op: loop.StoreOp) -> None:
    shape = loop.tile_shape([*op.map.data, *op.mask_exprs], op.tile_sizes)
    at = access(p, op, op.buffer, op.map.data, op.indices, shape, masked=bool(op.mask_exprs))
    t = loop.element_of(op.value.type)
    value = f"mlc_to_{NARROW[type(t)]}({p.at(op.value)})" if type(t) in NARROW else p.at(op.value)
    write = f"{p.race_of_write(op, op.buffer, at.element, value)}{at.element} = {value};"
    steps = [at.check, write] if at.check else [write]
    if mask := mask_text(p, op.mask_exprs, op.indices, shape):
        steps = [f"if ({mask}) {{ {' '.join(steps)} }}"]
    p.lanes(shape, *steps, before=at.before)


def _if(p: CPrinter, op: scf.IfOp) -> None:
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


STATEMENTS: dict[type[Operation], Callable[[CPrinter, Any], None]] = {
    loop.ForOp: _for,
    loop.BlockOp: _block,
    loop.AllocOp: _alloc,
    loop.TableOp: _table,
    loop.LoadOp: _load,
    loop.StoreOp: _store,
    loop.GatherOp: _gather,
    loop.ExternCallOp: print_call,
    loop.YieldOp: lambda p, op: None,
    scf.IfOp: _if,
    scf.YieldOp: lambda p, op: None,
    **VALUES,
}
