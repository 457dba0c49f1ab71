"""
Translates a `loop.func` to one Python function over numpy buffers, one line per operation.

A bounds check `if not 0 <= i < 4: _oob(...)` is emitted only where the loop ranges do not prove the access in bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IndexType, IntegerAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, Range, render
from mlc.dialects.loop.private import private_buffers
from mlc.dialects.scalar import predicate_of
from mlc.interp import values as V
from mlc.interp.errors import NotInterpreted
from mlc.interp.extern_call import caller
from mlc.interp.loop_helpers import buffer_shape
from mlc.support.arithmetic import Arithmetic

# CPython refuses more than 20 nested loops in one function.
LOOPS_PER_FUNCTION = 16


# --- index expressions as text -----------------------------------------------------------------------------------


def _division(text: str, by: int, is_mod: bool) -> str:
    return f"(({text}) {'%' if is_mod else '//'} {by})"


# --- the translation ---------------------------------------------------------------------------------------------


@dataclass
class PythonEmitter:
    """Emits the Python source of one kernel."""

    arithmetic: Arithmetic
    observed: bool = False
    """Whether the program calls `_observe` after each op that computes or stores values."""
    lines: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    names: dict[SSAValue, str] = field(default_factory=dict)
    ranges: dict[SSAValue, Range] = field(default_factory=dict)
    depth: int = 0
    loops: int = 0
    in_parallel: bool = False

    def function(self, func: loop.FuncOp) -> None:
        """The whole kernel."""
        self.line(f"def _kernel({', '.join(self.name(a) for a in func.args)}):")
        self.block(func.body.block)

    def line(self, text: str) -> None:
        self.lines.append(" " * self.depth + text)

    def name(self, value: SSAValue) -> str:
        """The variable of a value."""
        if value not in self.names:
            hint = value.name_hint if value.name_hint and value.name_hint.isidentifier() else "v"
            self.names[value] = f"{hint}_{len(self.names)}"
        return self.names[value]

    def constant(self, value: object, hint: str = "k") -> str:
        """A name for a Python object in the program's scope."""
        name = f"_{hint}{len(self.constants)}"
        self.constants[name] = value
        return name

    def block(self, block: Block) -> None:
        """Every operation of a block, one level deeper."""
        self.depth += 1
        before = len(self.lines)
        for op in block.ops:
            handler = _STRUCTURE.get(type(op))
            if handler is not None:
                handler(self, op)
            else:
                self.line(f"{self.name(op.results[0])} = {self.value(op)}" if op.results else self.value(op))
            if self.observed:
                self.observe(op)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def observe(self, op: Operation) -> None:
        """Hand the results of an operation, or the value that it stores, to `_observe`."""
        seen = [op.value] if isinstance(op, loop.StoreOp) else [] if isinstance(op, loop.AllocOp) else op.results
        if seen:
            self.line(f"_observe({self.constant(op, 'op')}, [{', '.join(map(self.name, seen))}])")

    def value(self, op: Operation) -> str:
        """The expression of an operation that computes one value."""
        if (handler := _VALUES.get(type(op))) is not None:
            return handler(self, op)
        element = loop.element_of(op.results[0].type) if op.results else None
        args = [self.name(v) for v in op.operands]
        if op.name in V.INFIX:
            infix = V.INFIX_BIT if element is not None and V.dtype_of(element) == np.bool_ else V.INFIX
            return f"{args[0]} {infix[op.name]} {args[1]}"
        f = V.function(op.name, self.arithmetic)
        if f is not None:
            return f"{self.constant(f, 'f')}({', '.join(args)})"
        if op.name.removeprefix("arith.") in V.CAST:
            return self.cast(op, op.name.removeprefix("arith."))
        raise NotInterpreted(f"cannot execute '{op.name}': it has no meaning in a loop.func", op)

    def cast(self, op: Operation, kind: str) -> str:
        t, x = op.results[0].type, self.name(op.operands[0])
        if isinstance(t, IndexType):
            return f"int({x})"
        return f"{self.constant(V.cast(kind, t, self.arithmetic), 'f')}({x})"

    # --- indices

    def text(self, expr: Index, operands: Sequence[SSAValue]) -> str:
        """An index expression over operands."""
        return render(expr, lambda n: self.name(operands[n]), _division)

    def axes(self, sizes: Sequence[int]) -> list[str]:
        """The tile axes of an access as arrays."""
        rank = len(sizes)
        return [
            self.constant(np.arange(n).reshape([-1 if j == k else 1 for j in range(rank)]), "axis")
            for k, n in enumerate(sizes)
        ]

    def tiled(self, exprs: Sequence[Index], operands: Sequence[SSAValue], axes: Sequence[str]) -> list[str]:
        """Index expressions of a tile access."""
        return [render(e, lambda n: self.name(operands[n]) if n >= 0 else axes[-1 - n], _division) for e in exprs]

    def bounds(self, expr: Index, operands: Sequence[SSAValue]) -> Range | None:
        """The range of an expression; None if the range of an operand is unknown."""
        known: dict[int, Range] = {}
        for d in expr.dims():
            r = self.ranges.get(operands[d])
            if r is None:
                return None
            known[d] = r
        return expr.bounds(known)

    def outside(self, exprs: Sequence[Index], operands: Sequence[SSAValue], buffer: SSAValue) -> list[str]:
        """Bounds checks of a scalar access, each `not lo <= e < hi`; those that the loop ranges prove are omitted."""
        found: list[str] = []
        for k, (expr, n) in enumerate(zip(exprs, buffer_shape(buffer.type), strict=True)):
            r = self.bounds(expr, operands)
            if r is None or n < 0 or r[0] < 0 or r[1] >= n:
                size = n if n >= 0 else f"{self.name(buffer)}.shape[{k}]"
                found.append(f"not 0 <= {self.text(expr, operands)} < {size}")
        return found

    def condition(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> str:
        return " and ".join(f"{self.text(e, operands)} >= 0" for e in exprs) or "True"

    def tile_mask(self, exprs: Sequence[Index], operands: Sequence[SSAValue], axes: Sequence[str]) -> str:
        return " & ".join(f"np.asarray({e} >= 0)" for e in self.tiled(exprs, operands, axes))


def _for(e: PythonEmitter, op: loop.ForOp) -> None:
    parallel = op.kind.data == "parallel"
    outermost = parallel and not e.in_parallel
    carried = ", ".join(map(e.name, op.carried))
    if e.loops and e.loops % LOOPS_PER_FUNCTION == 0:
        _for_in_function(e, op)
        return
    if carried:
        e.line(f"{carried} = {', '.join(map(e.name, op.iter_args))}")
    lo, hi = e.bounds(op.lower, op.indices), e.bounds(op.upper, op.indices)
    if lo is not None and hi is not None:
        e.ranges[op.iv] = (lo[0], max(hi[1] - 1, lo[0]))
    span = "_span" if parallel else "range"
    e.line(f"for {e.name(op.iv)} in {span}({e.text(op.lower, op.indices)}, {e.text(op.upper, op.indices)}):")
    e.loops += 1
    if outermost:
        e.in_parallel = True
        for buffer in private_buffers(op):
            e.line(f" _poison({e.name(buffer)})")
    e.block(op.body.block)
    if outermost:
        e.in_parallel = False
    e.loops -= 1
    if carried:
        e.line(f" {carried} = {', '.join(map(e.name, op.yield_op.values))}")
        e.line(f"{', '.join(map(e.name, op.results))} = {carried}")


def _for_in_function(e: PythonEmitter, op: loop.ForOp) -> None:
    part, results = f"_part{len(e.lines)}()", ", ".join(map(e.name, op.results))
    e.line(f"def {part}:")
    e.loops, e.depth = e.loops + 1, e.depth + 1
    _for(e, op)
    e.line(f"return {results or None}")
    e.loops, e.depth = e.loops - 1, e.depth - 1
    e.line(f"{results} = {part}" if results else part)


def _block(e: PythonEmitter, op: loop.BlockOp) -> None:
    depth = e.depth
    if op.where_exprs:
        e.line(f"if {e.condition(op.where_exprs, op.args)}:")
        e.depth += 1
    args = op.body.block.args
    for k, (arg, extent, binding) in enumerate(zip(args, op.static_extents, op.bindings.data, strict=True)):
        e.line(f"{e.name(arg)} = {e.text(binding, op.args)}")
        r = e.bounds(binding, op.args)
        if r is None or r[0] < 0 or r[1] >= extent:
            check = f"if not 0 <= {e.name(arg)} < {extent}:"
            e.line(f"{check} _extent({e.constant(op, 'op')}, {k}, {e.name(arg)})")
        e.ranges[arg] = (0, max(extent - 1, 0))
    if op.has_init:
        first = [f"{e.name(a)} == 0" for a in args[op.num_spatial :]]
        for a, b in zip(op.init.block.args, args, strict=True):
            e.names[a] = e.name(b)
            e.ranges[a] = e.ranges[b]
        e.line(f"if {' and '.join(first)}:")
        e.block(op.init.block)
    e.depth -= 1
    e.block(op.body.block)
    e.depth = depth


def _alloc(e: PythonEmitter, op: loop.AllocOp) -> None:
    t = op.result.type
    dtype = V.dtype_for(t, e.arithmetic)
    fill, kind = e.constant(V.poison(dtype), "fill"), e.constant(dtype, "t")
    shape = ", ".join(e.text(n, op.args) for n in op.shape) + ","
    e.line(f"{e.name(op.result)} = np.full(({shape if op.shape else ''}), {fill}, {kind})")


def _table(e: PythonEmitter, op: loop.TableOp) -> None:
    e.line(f"{e.name(op.result)} = {e.constant(V.dense(op.value, e.arithmetic), 'table')}")


def _load_op(e: PythonEmitter, op: loop.LoadOp) -> None:
    result, buffer = e.name(op.result), e.name(op.buffer)
    if not op.tile_sizes:
        at = ", ".join(e.text(x, op.indices) for x in op.map.data)
        read = f"{result} = {buffer}[{at}]" if at else f"{result} = {buffer}[()]"
        check = _check(e, op, op.map.data, op.indices, op.buffer, at)
        if op.otherwise is None:
            for line in (*check, read):
                e.line(line)
            return
        e.line(f"if {e.condition(op.mask_exprs, op.indices)}:")
        for line in (*check, read):
            e.line(" " + line)
        e.line(f"else: {result} = {e.name(op.otherwise)}")
        return
    axes = e.axes(op.tile_sizes)
    t = op.result.type
    index = "".join(f"{i}, " for i in e.tiled(op.map.data, op.indices, axes))
    mask = ""
    if op.otherwise is not None:
        mask = f", {e.tile_mask(op.mask_exprs, op.indices, axes)}, {e.name(op.otherwise)}"
    e.line(f"{result} = _load({e.constant(op, 'op')}, {buffer}, ({index}), {loop.shape_of(t)}{mask})")


def _check(
    e: PythonEmitter, op: Operation, exprs: Sequence[Index], operands: Sequence[SSAValue], buffer: SSAValue, at: str
) -> list[str]:
    conditions = e.outside(exprs, operands, buffer)
    if not conditions:
        return []
    return [f"if {' or '.join(conditions)}: _oob({e.constant(op, 'op')}, ({at},), {e.name(buffer)}.shape)"]


def _store_op(e: PythonEmitter, op: loop.StoreOp) -> None:
    value, buffer = e.name(op.value), e.name(op.buffer)
    if not op.tile_sizes:
        at = ", ".join(e.text(x, op.indices) for x in op.map.data)
        pad = ""
        if op.mask_exprs:
            e.line(f"if {e.condition(op.mask_exprs, op.indices)}:")
            pad = " "
        for line in (
            *_check(e, op, op.map.data, op.indices, op.buffer, at),
            f"{buffer}[{at or '()'}] = {value}",
        ):
            e.line(pad + line)
        return
    axes = e.axes(op.tile_sizes)
    index = "".join(f"{i}, " for i in e.tiled(op.map.data, op.indices, axes))
    mask = f", {e.tile_mask(op.mask_exprs, op.indices, axes)}" if op.mask_exprs else ""
    shape = loop.shape_of(op.value.type)
    e.line(f"_store({e.constant(op, 'op')}, {value}, {buffer}, ({index}), {shape}{mask})")


def _gather_op(e: PythonEmitter, op: loop.GatherOp) -> None:
    axes = e.axes(op.tile_sizes)
    index = e.tiled(op.map.data, op.indices, axes)
    at = op.at.value.data
    index[at] = f"{index[at]} + {e.name(op.by)}"
    shape = loop.shape_of(op.result.type)
    e.line(f"{e.name(op.result)} = _load({e.constant(op, 'op')}, {e.name(op.buffer)}, ({', '.join(index)},), {shape})")


def _if(e: PythonEmitter, op: scf.IfOp) -> None:
    """`scf.if`, which occurs in the bodies of extern kernels."""
    for word, region in (("if " + e.name(op.cond) + ":", op.true_region), ("else:", op.false_region)):
        if not region.blocks:
            continue
        e.line(word)
        e.block(region.block)
        last = region.block.last_op
        if op.results and last is not None:
            e.line(f" {', '.join(map(e.name, op.results))} = {', '.join(map(e.name, last.operands))}")


def _index(e: PythonEmitter, op: loop.IndexOp) -> str:
    if not op.tile_sizes:
        return e.text(op.map.data[0], op.args)
    text = e.tiled(op.map.data, op.args, e.axes(op.tile_sizes))[0]
    return f"np.broadcast_to({text}, {loop.shape_of(op.result.type)})"


def _constant(e: PythonEmitter, op: arith.ConstantOp) -> str:
    value, t = op.value, op.result.type
    if isinstance(t, IndexType):
        assert isinstance(value, IntegerAttr)
        return str(value.value.data)
    if isinstance(value, DenseIntOrFPElementsAttr):
        data = np.array(list(value.get_values()))
        array = np.full(loop.shape_of(t), data[0]) if value.is_splat() else data.reshape(loop.shape_of(t))
        return e.constant(e.arithmetic.constant(array, V.element_dtype(t)))
    assert isinstance(value, IntegerAttr | FloatAttr)
    return e.constant(e.arithmetic.constant(value.value.data, V.dtype_of(t))[()])


def _fma(e: PythonEmitter, op: loop.FmaOp) -> str:
    t = op.result.type
    scalar = not isinstance(t, VectorType) and V.dtype_for(t, e.arithmetic) == np.float32
    return f"{'_fma32' if scalar else '_fma'}({', '.join(map(e.name, op.operands))})"


def _contract(e: PythonEmitter, op: loop.ContractOp) -> str:
    return f"_contract({', '.join(map(e.name, op.operands))}, {op.unsigned})"


def _broadcast(e: PythonEmitter, op: loop.BroadcastOp) -> str:
    return f"np.broadcast_to({e.name(op.value)}, {loop.shape_of(op.result.type)})"


def _concat(e: PythonEmitter, op: loop.ConcatOp) -> str:
    return f"np.concatenate(({', '.join(map(e.name, op.operands))},), {op.axis.value.data})"


def _slice(e: PythonEmitter, op: loop.SliceOp) -> str:
    at = op.at.value.data
    index = ", ".join([":"] * op.axis.value.data + [f"{at}:{at + 1}"])
    return f"{e.name(op.value)}[{index}]"


def _reduce(e: PythonEmitter, op: loop.ReduceOp) -> str:
    return f"_reduce({op.combiner.data!r}, {e.name(op.value)}, {tuple(op.axes.get_values())})"


def _compare(e: PythonEmitter, op: loop.CompareOp | arith.CmpfOp | arith.CmpiOp) -> str:
    predicate = op.predicate.data if isinstance(op, loop.CompareOp) else predicate_of(op)
    a, b = op.operands
    compare = V.comparison(predicate, e.arithmetic)
    if compare is None:
        raise NotInterpreted(f"cannot execute '{op.name}' {predicate}", op)
    return f"{e.constant(compare, 'f')}({e.name(a)}, {e.name(b)})"


def _select(e: PythonEmitter, op: Operation) -> str:
    c, a, b = (e.name(v) for v in op.operands)
    if isinstance(op.operands[0].type, VectorType):
        return f"np.where({c}, {a}, {b})"
    return f"{a} if {c} else {b}"


def _extern_call(e: PythonEmitter, op: loop.ExternCallOp) -> None:
    names = [e.name(v) for v in op.buffers]
    first = len(names) - op.num_outputs
    sizes = ", ".join(e.text(n, op.symbols) for n in op.sizes)
    given = f"[{', '.join(names[:first])}], [{', '.join(names[first:])}], [{sizes}]"
    e.line(f"{e.constant(caller(op), 'call')}({given})")


def _intrinsic(e: PythonEmitter, op: loop.CallIntrinsicOp) -> None:
    """What the intrinsic means, in line."""
    for inner, given in zip(op.means.block.args, op.args, strict=True):
        e.names[inner] = e.name(given)
    e.depth -= 1
    e.block(op.means.block)
    e.depth += 1
    e.line(f"{e.name(op.result)} = {e.name(op.yielded)}")


_STRUCTURE: dict[type[Operation], Callable[[PythonEmitter, Any], None]] = {
    loop.ForOp: _for,
    loop.BlockOp: _block,
    loop.AllocOp: _alloc,
    loop.TableOp: _table,
    loop.LoadOp: _load_op,
    loop.StoreOp: _store_op,
    loop.GatherOp: _gather_op,
    loop.ExternCallOp: _extern_call,
    loop.CallIntrinsicOp: _intrinsic,
    loop.YieldOp: lambda e, op: None,
    scf.IfOp: _if,
    scf.YieldOp: lambda e, op: None,
}

_VALUES: dict[type[Operation], Callable[[PythonEmitter, Any], str]] = {
    loop.IndexOp: _index,
    arith.ConstantOp: _constant,
    loop.FmaOp: _fma,
    loop.ContractOp: _contract,
    loop.BroadcastOp: _broadcast,
    loop.ConcatOp: _concat,
    loop.SliceOp: _slice,
    loop.ReduceOp: _reduce,
    loop.CompareOp: _compare,
    loop.SelectOp: _select,
    arith.SelectOp: _select,
    loop.CastOp: lambda e, op: e.cast(op, op.kind.data),
    arith.CmpfOp: _compare,
    arith.CmpiOp: _compare,
}
