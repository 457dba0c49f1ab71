"""
loop.call -> llvm: a C function is called by its symbol, a registered one through the function that stands for its name.

    i32 mlc_call_NAME(ptr rt, ptr tensors, i32 inputs, i32 outputs)     codegen/functions.py, one object a program

The tensors are DLTensors on the stack. A status that is not 0 is returned from the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import NATIVE_CALLS, NATIVE_LIBRARIES
from mlc.dialects.external import Argument, SizeArgument
from mlc.lowering.loop_to_llvm.builder import Builder
from mlc.support.abi import TENSOR_BYTES, call_symbol, tensor_type
from mlc.support.errors import fail

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering, NativeKernel


def lower_call(f: FunctionLowering, op: loop.ExternCallOp) -> None:
    """A call on whole buffers."""
    f.force()
    b, callee = f.b, op.called
    for v in op.buffers:
        if v in f.kernel.strided:
            fail(
                op, f"expects '{v.name_hint}' row by row, but binds gives its strides; pass a te.compute that copies it"
            )
    pointers = [f.buffers[v] for v in op.buffers]
    if callee.convention == "registered":
        first = len(pointers) - op.num_outputs
        arguments = [f.rt, _tensors(f, op, pointers), b.int(first, i32), b.int(op.num_outputs, i32)]
        call_status(b, call_symbol(callee.name), arguments)
        declare(f.kernel, call_symbol(callee.name), arguments, i32, {NATIVE_CALLS: StringAttr(callee.name)})
        return
    arguments = [_argument(f, op, a, pointers) for a in callee.buffers(len(pointers))]
    libraries: dict[str, Attribute] = {}
    if callee.libraries:
        libraries[NATIVE_LIBRARIES] = ArrayAttr(map(StringAttr, callee.libraries))
    result = i32 if callee.status else llvm.LLVMVoidType()
    declare(f.kernel, callee.name, arguments, result, libraries)
    if callee.status:
        call_status(b, callee.name, arguments)
    else:
        b.append(llvm.CallOp(SymbolRefAttr(callee.name), *arguments))


def call_status(b: Builder, symbol: str, arguments: Sequence[SSAValue]) -> None:
    """Call a function that returns a status, and return that from the caller if it is not 0."""
    op = llvm.CallOp(SymbolRefAttr(symbol), *arguments, return_type=i32)
    b.append(op)
    failed, after = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ne", op.results[0], b.int(0, i32)), failed, [], after, [])
    failed.add_op(llvm.ReturnOp(op.results[0]))
    b.block = after


def declare(
    kernel: NativeKernel, name: str, arguments: Sequence[SSAValue], result: Attribute, facts: dict[str, Attribute]
) -> None:
    """Declare an external function of the kernel, once; `facts` are attributes of the declaration."""
    kind = llvm.LLVMFunctionType([a.type for a in arguments], result)
    known = next((op for op in kernel.declared if op.sym_name.data == name), None)
    if known is not None:
        if known.function_type != kind:
            fail(None, f"expected all calls of '{name}' to have the types {known.function_type}, but got {kind}")
        return
    op = llvm.FuncOp(name, kind, llvm.LinkageAttr("external"))
    op.attributes |= facts
    kernel.declared.append(op)


def _argument(f: FunctionLowering, op: loop.ExternCallOp, argument: Argument, pointers: Sequence[SSAValue]) -> SSAValue:
    """An argument of a C function; small integers are passed as an int."""
    b = f.b
    if isinstance(argument, SizeArgument):
        size = f.addresses.value(f.addresses.resolve(op.sizes[argument.number.data], op.symbols))
        return size if argument.type == i64 else b.cast("trunc", size, i32)
    if isinstance(argument, FloatAttr):
        return b.number(argument.value.data, cast(Attribute, argument.type))
    number = argument.value.data
    if isinstance(argument.type, IndexType):
        return pointers[number]
    assert isinstance(argument.type, IntegerType)
    return b.int(number, i64 if argument.type.width.data == 64 else i32)


def _tensors(f: FunctionLowering, op: loop.ExternCallOp, pointers: Sequence[SSAValue]) -> SSAValue:
    """The DLTensors of the buffers, and behind them their shapes, on the stack."""
    b = f.b
    types, shapes = [cast("MemRefType[Any]", v.type) for v in op.buffers], op.shapes()
    words = TENSOR_BYTES // 8
    place = on_stack(b, words * len(types) + sum(t.get_num_dims() for t in types))
    at = words * len(types)
    for k, (t, pointer) in enumerate(zip(types, pointers, strict=True)):
        code, bits = tensor_type(str(t.element_type), k in op.called.unsigned)
        shape = b.gep(place, at, i64)
        fields = [pointer, b.int(1), b.int(t.get_num_dims() | (code | bits << 8 | 1 << 16) << 32)]
        fields += [shape, b.int(0), b.int(0)]  # strides: NULL, for row-major; the offset in bytes
        for n, value in enumerate(fields):
            b.store(value, b.gep(place, k * words + n, i64), 8)
        for n, size in enumerate(shapes[k]):
            value = f.addresses.value(f.addresses.resolve(size, op.symbols))
            b.store(value, b.gep(place, at + n, i64), 8)
        at += t.get_num_dims()
    return place


def on_stack(b: Builder, slots: int) -> SSAValue:
    """An alloca of n pointers or integers, in the entry block."""
    size = b.int(max(slots, 1))
    op = llvm.AllocaOp(size, i64, alignment=8)
    assert b.last_constant is not None
    b.entry.insert_op_after(op, b.last_constant)
    return op.results[0]


__all__ = ["lower_call", "on_stack"]
