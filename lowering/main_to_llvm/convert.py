"""
convert-main-to-llvm: @main on buffers becomes one native function; running the model is one call.

Goes in: what convert-graph-to-main leaves. Comes out, in place of @main and of the declarations of kernels:

    llvm.func @mlc_main(ptr io, ptr weights, ptr workspace, ptr rt) -> i32

io points to the pointers of the inputs, then of the outputs, and behind them are the values of the symbols. Each call
stores the pointers of its operands, and behind them the memory that kernels use while they run (at the end of the
workspace), into one array on the stack; calls `i32 @k(ptr args, ptr rt)`; and returns the status at once if it is not
0. Control flow (scf) becomes branches: control.py. Everything else in the module is left alone.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, llvm, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    SymbolRefAttr,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_PLAN, MAIN_SCRATCH
from mlc.dialects.llvm_ext import argument_attributes
from mlc.dialects.syntax.source_nodes import symbol_name
from mlc.lowering.complete import expect_converted
from mlc.lowering.graph_to_main.convert import find_function
from mlc.lowering.loop_to_llvm.builder import PTR, Builder
from mlc.lowering.main_to_llvm.control import ControlFlow
from mlc.support.errors import fail

MAIN = "mlc_main"


@dataclass(frozen=True)
class ConvertMainToLLVMPass(ModulePass):
    """
    Lower the calls, copies and control flow of @main to one native function.

    `runtime.call @k ins(%x) outs(%y)` -> `llvm.store` of both pointers, `llvm.call @k(%args, %rt)`, a check
    """

    name = "convert-main-to-llvm"

    function: str = "main"
    """The function to convert."""
    symbol: str = MAIN
    """The name of the native function."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = find_function(op, self.function)
        if MAIN_PLAN not in main.attributes:
            fail(main, "expected @main on buffers; run convert-graph-to-main first")
        block = op.body.block
        function = _Lowering(main, self.symbol).lower()
        expect_converted(function, self.name, "runtime", "memref", "scf", "arith", "func")
        for other in block.ops:
            if isinstance(other, func.FuncOp) and other.is_declaration and symbol_name(other) in callees(main):
                other.detach()
        present = {symbol_name(other): other for other in block.ops}
        declarations = {name: llvm.LLVMFunctionType([PTR, PTR], i32) for name in callees(main)}
        inside = {type(other) for other in main.walk()}
        uses = (({memref.CopyOp, runtime.CopyOp}, "memcpy", PTR), ({runtime.FillOp}, "memset", i32))
        for classes, name, argument in uses:
            if classes & inside:
                declarations[name] = llvm.LLVMFunctionType([PTR, argument, i64], PTR)
        for name, type_ in declarations.items():
            if name in present and not isinstance(present[name], llvm.FuncOp):
                fail(present[name], f"expected kernel @{name} to be an llvm.func; lower the kernels first")
            if name not in present:
                block.insert_op_before(llvm.FuncOp(name, type_, llvm.LinkageAttr("external")), main)
        block.insert_op_before(function, main)
        main.detach()
        main.erase(safe_erase=False)


def callees(main: func.FuncOp) -> list[str]:
    """The kernels that @main calls, in the order of their first call."""
    return list(dict.fromkeys(op.callee.string_value() for op in main.walk() if isinstance(op, runtime.CallOp)))


class _Lowering:
    """Lowers one @main."""

    def __init__(self, main: func.FuncOp, symbol: str) -> None:
        self.main = main
        self.entry = Block(arg_types=[PTR] * 4)
        attributes = [argument_attributes(nonnull=True) for _ in range(4)]
        self.function = llvm.FuncOp(
            symbol,
            llvm.LLVMFunctionType([PTR] * 4, i32),
            llvm.LinkageAttr("external"),
            body=Region(self.entry),
            other_props={"arg_attrs": ArrayAttr(attributes)},
        )
        self.builder = Builder(self.entry)
        self.io, self.weights, self.workspace, self.rt = self.entry.args
        self.pointers: dict[SSAValue, SSAValue] = {}

    def lower(self) -> llvm.FuncOp:
        """The native function of @main."""
        main, b = self.main, self.builder
        body = main.body.block
        most = max((len(op.operands) for op in main.walk() if isinstance(op, runtime.CallOp)), default=0) + 1
        array = llvm.AllocaOp(b.int(most), PTR, alignment=8)
        b.block.add_op(array)
        self.array = array.res
        self.failed = b.new_block([i32])
        plan = main.attributes[MAIN_PLAN]
        assert isinstance(plan, DictionaryAttr)
        self.scratch = b.gep(self.workspace, _integer(plan.data["bytes"]), i8)
        self.flow = ControlFlow(b, self.pointers, self.visit)
        for index, argument in enumerate(body.args[:-2]):
            if isinstance(argument.type, IndexType):
                self.flow.scalars[argument] = b.load(b.gep(self.io, index, PTR), i64, 8)
            else:
                self.pointers[argument] = b.load(b.gep(self.io, index, PTR), PTR, 8)
        self.pointers[body.args[-2]], self.pointers[body.args[-1]] = self.weights, self.workspace
        for op in body.ops:
            self.visit(op)
        b.block = self.failed
        b.block.add_op(llvm.ReturnOp(self.failed.args[0]))
        return self.function

    def visit(self, op: Operation) -> None:
        """Lower one operation of @main."""
        b = self.builder
        if isinstance(op, memref.ViewOp):
            offset = op.byte_shift.owner
            at = _integer(offset.value) if isinstance(offset, arith.ConstantOp) else self.flow.scalars[op.byte_shift]
            self.pointers[op.result] = b.gep(self.pointers[op.source], at, i8)
            if MAIN_SCRATCH in op.attributes:
                self.scratch = self.pointers[op.result]
        elif isinstance(op, memref.ReinterpretCastOp):
            self.pointers[op.result] = self.pointers[op.source]
        elif isinstance(op, runtime.PartOp):
            start = b.gep(self.pointers[op.source], _integer(op.offset), i8)
            self.pointers[op.result] = start if op.shift is None else b.gep(start, self.flow.scalars[op.shift], i8)
        elif isinstance(op, runtime.CallOp):
            self.call(op)
        elif isinstance(op, memref.CopyOp | runtime.CopyOp):
            self.copy(op)
        elif isinstance(op, runtime.FillOp):
            arguments = [self.pointers[op.target], b.int(0, i32), self.flow.bytes_of(op.target.type, op.bytes)]
            b.block.add_op(llvm.CallOp(SymbolRefAttr("memset"), *arguments, return_type=PTR))
        elif self.flow.visit(op):
            return
        elif isinstance(op, func.ReturnOp):
            b.block.add_op(llvm.ReturnOp(b.int(0, i32)))
        else:
            fail(op, "expected only views, calls, copies and control flow in @main on buffers")

    def call(self, op: runtime.CallOp) -> None:
        """Store the operands' pointers, call the kernel, return its status if it is not 0."""
        b = self.builder
        sizes = [self.flow.scalars[v] for v in op.sizes]
        for index, value in enumerate([*(self.pointers[v] for v in (*op.ins, *op.outs)), *sizes, self.scratch]):
            b.store(value, b.gep(self.array, index, PTR), 8)
        call = llvm.CallOp(SymbolRefAttr(op.callee.string_value()), self.array, self.rt, return_type=i32)
        b.block.add_op(call)
        status = call.results[0]
        good = b.new_block()
        b.cond_br(b.icmp("eq", status, b.int(0, i32)), good, [], self.failed, [status])
        b.block = good

    def copy(self, op: memref.CopyOp | runtime.CopyOp) -> None:
        """A memcpy."""
        b = self.builder
        count = self.flow.bytes_of(op.source.type, op.bytes if isinstance(op, runtime.CopyOp) else None)
        arguments = [self.pointers[op.destination], self.pointers[op.source], count]
        b.block.add_op(llvm.CallOp(SymbolRefAttr("memcpy"), *arguments, return_type=PTR))


def _integer(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return attribute.value.data


__all__ = ["MAIN", "ConvertMainToLLVMPass", "callees"]
