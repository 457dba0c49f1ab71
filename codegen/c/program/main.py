"""
@main on buffers as C99: `int32_t name(void *const *io, const void *weights, void *workspace, mlc_runtime *rt)`.

It does what convert-main-to-llvm lowers @main to, with the same arguments: views become pointers, calls of kernels an
array of pointers, control flow C's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DictionaryAttr, IndexType, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.codegen.c.program.kernel import LOCAL
from mlc.codegen.c.program.tidy import tidied
from mlc.codegen.c.types import element_bytes, value_type
from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_PLAN, MAIN_SCRATCH
from mlc.support.errors import fail

_BINARY: Mapping[type[Operation], str] = {
    arith.AddiOp: "{a} + {b}",
    arith.SubiOp: "{a} - {b}",
    arith.MuliOp: "{a} * {b}",
    arith.DivUIOp: "(int64_t)((uint64_t){a} / (uint64_t){b})",
    arith.FloorDivSIOp: "mlc_floordiv({a}, {b})",
    arith.AndIOp: "{a} & {b}",
    arith.MinSIOp: "{a} < {b} ? {a} : {b}",
    arith.MaxSIOp: "{a} > {b} ? {a} : {b}",
}


def print_main(main: func.FuncOp, name: str, rename: Mapping[str, str]) -> str:
    """
    The function, without declarations of the kernels; `rename` gives the C name of each kernel.

    Raises UserError for operations that @main on buffers does not have.
    """
    printer = _Printer(rename)
    printer.line(f"{LOCAL} int32_t {name}(void *const *io, const void *weights, void *workspace, mlc_runtime *rt) {{")
    printer.depth = 1
    printer.function(main)
    return tidied("\n".join([*printer.lines, "}"]) + "\n")


class _Printer:
    """The lines of one @main, and the C expression of each value."""

    def __init__(self, rename: Mapping[str, str]) -> None:
        self.rename = rename
        self.lines: list[str] = []
        self.names: dict[SSAValue, str] = {}
        self.depth = 0
        self.scratch = "workspace"

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def function(self, main: func.FuncOp) -> None:
        """All of @main."""
        arguments = main.body.block.args
        self.names[arguments[-2]], self.names[arguments[-1]] = "(char *)weights", "(char *)workspace"
        plan = main.attributes.get(MAIN_PLAN)
        if isinstance(plan, DictionaryAttr):  # of open sizes, a view says where the kernels' workspace begins
            self.scratch = f"(char *)workspace + {_integer(plan.data['bytes'])}"
        for k, argument in enumerate(arguments[:-2]):
            is_size = isinstance(argument.type, IndexType)
            self.names[argument] = f"*(const int64_t *)&io[{k}]" if is_size else f"(char *)io[{k}]"
        most = max((len(op.operands) for op in main.walk() if isinstance(op, runtime.CallOp)), default=0) + 1
        self.line(f"void *args[{most}];")
        self.line("int32_t status;")
        self.line("(void)io, (void)weights, (void)workspace, (void)rt, (void)args, (void)status;")
        self.block(main.body.block)

    def block(self, block: Block) -> list[SSAValue]:
        """Every operation but the terminator, whose operands are returned."""
        last = block.last_op
        assert last is not None
        for op in block.ops:
            if op is not last or isinstance(op, func.ReturnOp):
                self.visit(op)
        return list(last.operands)

    def visit(self, op: Operation) -> None:
        """The statements of one operation."""
        if type(op) in _BINARY:
            a, b = (self.names[v] for v in op.operands)
            self.scalar(op.results[0], _BINARY[type(op)].format(a=f"({a})", b=f"({b})"))
            return
        if type(op) not in _STATEMENTS:
            fail(op, "expected only views, calls, copies and control flow in @main on buffers")
        _STATEMENTS[type(op)](self, op)

    def scalar(self, value: SSAValue, expression: str) -> None:
        """A variable for a scalar."""
        name = f"v{len(self.names)}"
        self.names[value] = name
        self.line(f"const {value_type(value.type)} {name} = {expression};")

    def pointer(self, value: SSAValue, base: SSAValue, *offsets: str) -> None:
        """A view: the expression of an address."""
        parts = [o for o in offsets if o != "0"]
        self.names[value] = " + ".join([self.names[base], *parts])

    def bytes_of(self, type_: Attribute, given: SSAValue | None) -> str:
        """The bytes of a buffer: the operand `given`, or by its static type."""
        if given is not None:
            return f"({self.names[given]})"
        assert isinstance(type_, MemRefType)
        count = element_bytes(type_.element_type)
        for size in type_.get_shape():
            count *= size
        return str(count)

    def let(self, values: Sequence[SSAValue], initial: Sequence[SSAValue]) -> None:
        """Variables that change: the carried values of a loop."""
        for value, first in zip(values, initial, strict=True):
            name = f"v{len(self.names)}"
            self.line(f"{value_type(value.type)} {name} = {self.names[first]};")
            self.names[value] = name


def _constant(p: _Printer, op: arith.ConstantOp) -> None:
    p.names[op.result] = str(_integer(op.value))


def _compare(p: _Printer, op: arith.CmpiOp) -> None:
    p.scalar(op.result, f"({p.names[op.lhs]}) < ({p.names[op.rhs]})")


def _view(p: _Printer, op: memref.ViewOp) -> None:
    p.pointer(op.result, op.source, p.names[op.byte_shift])
    if MAIN_SCRATCH in op.attributes:
        p.scratch = p.names[op.result]


def _part(p: _Printer, op: runtime.PartOp) -> None:
    shift = [] if op.shift is None else [p.names[op.shift]]
    p.pointer(op.result, op.source, str(_integer(op.offset)), *shift)


def _row(p: _Printer, op: runtime.RowOp) -> None:
    p.pointer(op.result, op.source, f"({p.names[op.index]}) * {p.bytes_of(op.result.type, op.bytes)}")


def _cast(p: _Printer, op: memref.ReinterpretCastOp) -> None:
    p.names[op.result] = p.names[op.source]


def _same(p: _Printer, op: arith.IndexCastOp) -> None:
    p.names[op.result] = p.names[op.input]


def _load(p: _Printer, op: memref.LoadOp) -> None:
    p.scalar(op.res, f"*(const {value_type(op.res.type)} *)(void *)({p.names[op.memref]})")


def _store(p: _Printer, op: memref.StoreOp) -> None:
    type_ = value_type(op.value.type)
    p.line(f"*({type_} *)(void *)({p.names[op.memref]}) = ({type_})({p.names[op.value]});")


def _call(p: _Printer, op: runtime.CallOp) -> None:
    """The operands' pointers, the sizes, the workspace; a status that is not 0 is returned at once."""
    pointers = [p.names[v] for v in (*op.ins, *op.outs)]
    sizes = [f"(void *)(intptr_t)({p.names[v]})" for v in op.sizes]
    for k, text in enumerate([*pointers, *sizes, p.scratch]):
        p.line(f"args[{k}] = {text};")
    p.line(f"status = {p.rename[op.callee.string_value()]}(args, rt);")
    p.line("if (status) return status;")


def _copy(p: _Printer, op: memref.CopyOp | runtime.CopyOp) -> None:
    count = p.bytes_of(op.source.type, op.bytes if isinstance(op, runtime.CopyOp) else None)
    p.line(f"memcpy({p.names[op.destination]}, {p.names[op.source]}, (size_t){count});")


def _fill(p: _Printer, op: runtime.FillOp) -> None:
    p.line(f"memset({p.names[op.target]}, 0, (size_t){p.bytes_of(op.target.type, op.bytes)});")


def _if(p: _Printer, op: scf.IfOp) -> None:
    for head, region in ((f"if ({p.names[op.cond]}) {{", op.true_region), ("else {", op.false_region)):
        if region.blocks:
            p.line(head)
            p.depth += 1
            p.block(region.block)
            p.depth -= 1
            p.line("}")


def _for(p: _Printer, op: scf.ForOp) -> None:
    """`scf.for` without iteration arguments."""
    name = f"i{len(p.names)}"
    p.names[op.body.block.args[0]] = name
    first, last, step = (p.names[v] for v in (op.lb, op.ub, op.step))
    p.line(f"for (int64_t {name} = {first}; {name} < {last}; {name} += {step}) {{")
    p.depth += 1
    p.block(op.body.block)
    p.depth -= 1
    p.line("}")


def _while(p: _Printer, op: scf.WhileOp) -> None:
    """`scf.while` over scalars: the carried values are variables that the end of the body assigns."""
    before, after = op.before_region.block, op.after_region.block
    p.let(before.args, op.arguments)
    carried = [p.names[v] for v in before.args]
    results = [f"r{len(p.names)}_{k}" for k in range(len(op.results))]
    for result, name in zip(op.results, results, strict=True):
        p.line(f"{value_type(result.type)} {name} = 0;")
        p.names[result] = name
    p.line("for (;;) {")
    p.depth += 1
    more, *values = p.block(before)
    for name, value in zip(results, values, strict=True):
        p.line(f"{name} = {p.names[value]};")
    p.line(f"if (!({p.names[more]})) break;")
    p.names.update(zip(after.args, results, strict=True))
    kept = [p.names[v] for v in p.block(after)]
    copies = [f"next{len(p.names)}_{k}" for k in range(len(kept))]
    for copy, value, argument in zip(copies, kept, before.args, strict=True):
        p.line(f"const {value_type(argument.type)} {copy} = {value};")
    for name, copy in zip(carried, copies, strict=True):
        p.line(f"{name} = {copy};")
    p.depth -= 1
    p.line("}")


def _return(p: _Printer, op: func.ReturnOp) -> None:
    p.line("return 0;")


def _integer(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


_STATEMENTS: dict[type[Operation], Callable[[_Printer, Any], None]] = {
    arith.ConstantOp: _constant,
    arith.CmpiOp: _compare,
    arith.IndexCastOp: _same,
    memref.ViewOp: _view,
    memref.ReinterpretCastOp: _cast,
    memref.LoadOp: _load,
    memref.StoreOp: _store,
    memref.CopyOp: _copy,
    runtime.PartOp: _part,
    runtime.RowOp: _row,
    runtime.CallOp: _call,
    runtime.CopyOp: _copy,
    runtime.FillOp: _fill,
    scf.IfOp: _if,
    scf.ForOp: _for,
    scf.WhileOp: _while,
    func.ReturnOp: _return,
}

__all__ = ["print_main"]
