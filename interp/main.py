"""
The reference interpreter of @main on buffers (lowering/graph_to_main): calls of kernels, control flow, copies.

A buffer is a range of bytes, a numpy array of uint8: views, parts and rows share memory exactly as in native code. The
workspace is filled with 0xff (NaN in every float type) before the run, which exposes reads of uninitialized memory.
What a kernel computes is the caller's affair: `call` receives the operation and the bytes of its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.graph.ops.structure import dense_array
from mlc.dialects.scalar import byte_size
from mlc.interp.errors import InterpreterError, NotInterpreted
from mlc.interp.values import dtype_of

Bytes = Any
"""A one-dimensional array of uint8, a view of the memory of an argument of @main."""
Call = Callable[[runtime.CallOp, Sequence[Bytes], Sequence[Bytes], Sequence[int]], None]
"""Runs a kernel: the call, the bytes of `ins` and `outs`, the values of `sizes`; it writes the bytes of `outs`."""

_BINARY: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivUIOp: lambda a, b: a // b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.AndIOp: lambda a, b: a & b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}


def as_bytes(array: object) -> Bytes:
    """The memory of an array as bytes: a copy unless its elements are contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def typed(memory: Bytes, shape: Sequence[int], dtype: Any) -> Any:
    """The first bytes of a buffer as an array of this shape; writing to it writes the buffer."""
    return memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


class MainInterpreter:
    """Runs one @main; `param` gives the array of a weight by its name."""

    def __init__(self, call: Call, param: Callable[[str], Any]) -> None:
        self.call = call
        self.param = param
        self.scalars: dict[SSAValue, Any] = {}
        self.buffers: dict[SSAValue, Bytes] = {}

    def run(self, main: func.FuncOp, inputs: Sequence[Any], outputs: Sequence[Any], symbols: Sequence[int]) -> None:
        """Run on arrays, contiguous and in the order of the arguments; the outputs are written in place."""
        block = main.body.block
        arrays = [*inputs, *outputs]
        self.buffers.update(zip(block.args, map(as_bytes, arrays), strict=False))
        self.scalars.update(zip(block.args[len(arrays) : -2], symbols, strict=True))
        weights, workspace = block.args[-2], block.args[-1]
        for op in block.ops:  # sizes and offsets depend on the symbols only: they are needed to take memory
            if all(v in self.scalars for v in op.operands):
                self._scalar(op)
        for memory in (weights, workspace):
            self.buffers[memory] = np.full(self._extent(memory), 0xFF, np.uint8)
        for op in block.ops:
            if isinstance(op, memref.ViewOp) and op.source is weights:
                self._fill(op)
        self._block(block)

    def _extent(self, memory: SSAValue) -> int:
        """The bytes of the weights or of the workspace: to the end of the last view."""
        views = [use.operation for use in memory.uses if isinstance(use.operation, memref.ViewOp)]
        return max((self.scalars[v.byte_shift] + self._bytes(v.result.type, v.sizes) for v in views), default=0)

    def _bytes(self, t: Attribute, sizes: Sequence[SSAValue] = ()) -> int:
        """The bytes of a buffer; `sizes` are its dynamic sizes."""
        assert isinstance(t, MemRefType)
        dynamic = iter([self.scalars[v] for v in sizes])
        shape = [n if n >= 0 else next(dynamic, 0) for n in t.get_shape()]
        return byte_size(t.element_type) * math.prod(shape)

    def _fill(self, view: memref.ViewOp) -> None:
        """Write a weight, or a constant, at its place."""
        name, value = view.attributes.get("param"), view.attributes.get("value")
        if isinstance(name, StringAttr):
            array = self.param(name.data)
        elif isinstance(value, DenseIntOrFPElementsAttr):
            array = dense_array(value)
        else:
            raise InterpreterError("expected a view of the weights to name its parameter or to have a value", view)
        content, start = as_bytes(array), self.scalars[view.byte_shift]
        expected = self._bytes(view.result.type, view.sizes)
        if content.size != expected:
            what = name.data if isinstance(name, StringAttr) else value
            message = f"expected {expected} bytes of weight {what}, but got {content.size}"
            raise InterpreterError(message, view)
        self.buffers[view.source][start : start + expected] = content

    def _block(self, block: Block) -> list[Any]:
        """Run the ops of a block; the operands of its terminator."""
        for op in block.ops:
            if isinstance(op, func.ReturnOp | scf.YieldOp | scf.ConditionOp):
                return [self.scalars[v] for v in op.operands]
            if not self._scalar(op):
                self._memory(op)
        return []

    def _scalar(self, op: Operation) -> bool:
        """Run arithmetic on scalars; False for another op."""
        if (meaning := _BINARY.get(type(op))) is not None:
            self.scalars[op.results[0]] = meaning(*(self.scalars[v] for v in op.operands))
        elif isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            self.scalars[op.result] = op.value.value.data
        elif isinstance(op, arith.CmpiOp):
            self.scalars[op.result] = _compare(op, self.scalars[op.lhs], self.scalars[op.rhs])
        elif isinstance(op, arith.IndexCastOp):
            self.scalars[op.result] = int(self.scalars[op.input])
        else:
            return False
        return True

    def _memory(self, op: Operation) -> None:
        """Run an op on buffers, or control flow."""
        method = _METHODS.get(type(op))
        if method is None:
            raise NotInterpreted(f"the interpreter of @main on buffers has no meaning for {op.name}", op)
        method(self, op)

    def view(self, op: memref.ViewOp) -> None:
        """A range of the weights or of the workspace."""
        start = self.scalars[op.byte_shift]
        self.buffers[op.result] = self.buffers[op.source][start : start + self._bytes(op.result.type, op.sizes)]

    def alias(self, op: memref.ReinterpretCastOp) -> None:
        """The same bytes with other sizes."""
        self.buffers[op.result] = self.buffers[op.source]

    def part(self, op: runtime.PartOp) -> None:
        """A range of a buffer."""
        start = op.offset.value.data + (0 if op.shift is None else self.scalars[op.shift])
        size = self._bytes(op.result.type) if op.bytes is None else self.scalars[op.bytes]
        self.buffers[op.result] = self._within(op, self.buffers[op.source], start, size)

    def row(self, op: runtime.RowOp) -> None:
        """A row of a buffer."""
        size = self._bytes(op.result.type) if op.bytes is None else self.scalars[op.bytes]
        self.buffers[op.result] = self._within(op, self.buffers[op.source], self.scalars[op.index] * size, size)

    def _within(self, op: Operation, memory: Bytes, start: int, size: int) -> Bytes:
        if not 0 <= start <= start + size <= memory.size:
            message = f"expected bytes within a buffer of {memory.size}, but got {start} to {start + size}"
            raise InterpreterError(message, op)
        return memory[start : start + size]

    def copy(self, op: memref.CopyOp | runtime.CopyOp) -> None:
        """Copy bytes."""
        source, target = self.buffers[op.source], self.buffers[op.destination]
        size = self.scalars[op.bytes] if isinstance(op, runtime.CopyOp) else self._bytes(op.source.type)
        target[:size] = source[:size].copy()

    def fill(self, op: runtime.FillOp) -> None:
        """Make a buffer zero."""
        self.buffers[op.target][...] = 0

    def kernel(self, op: runtime.CallOp) -> None:
        """Call a kernel."""
        ins, outs = [self.buffers[v] for v in op.ins], [self.buffers[v] for v in op.outs]
        self.call(op, ins, outs, [self.scalars[v] for v in op.sizes])

    def load(self, op: memref.LoadOp) -> None:
        """A scalar of a buffer of one element."""
        self.scalars[op.res] = typed(self.buffers[op.memref], (1,), dtype_of(op.res.type))[0].item()

    def store(self, op: memref.StoreOp) -> None:
        """Write the one element of a buffer."""
        dtype = np.dtype(np.int64) if isinstance(op.value.type, IndexType) else dtype_of(op.value.type)
        typed(self.buffers[op.memref], (1,), dtype)[0] = self.scalars[op.value]

    def branch(self, op: scf.IfOp) -> None:
        """One of two regions."""
        region = op.true_region if self.scalars[op.cond] else op.false_region
        if region.blocks:
            self._block(region.block)

    def count(self, op: scf.ForOp) -> None:
        """A loop with a counter."""
        for index in range(self.scalars[op.lb], self.scalars[op.ub], self.scalars[op.step]):
            self.scalars[op.body.block.args[0]] = index
            self._block(op.body.block)

    def repeat(self, op: scf.WhileOp) -> None:
        """A loop with a condition."""
        values = [self.scalars[v] for v in op.arguments]
        while True:
            before, after = op.before_region.block, op.after_region.block
            self.scalars.update(zip(before.args, values, strict=True))
            more, *values = self._block(before)
            if not more:
                break
            self.scalars.update(zip(after.args, values, strict=True))
            values = self._block(after)
        self.scalars.update(zip(op.results, values, strict=True))


def _compare(op: arith.CmpiOp, a: int, b: int) -> bool:
    """`slt`, the only comparison that control flow is lowered to."""
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if name != "slt":
        raise InterpreterError(f"expected comparison slt in @main on buffers, but got {name}", op)
    return a < b


_METHODS: dict[type[Operation], Callable[[MainInterpreter, Any], None]] = {
    memref.ViewOp: MainInterpreter.view,
    memref.ReinterpretCastOp: MainInterpreter.alias,
    memref.CopyOp: MainInterpreter.copy,
    memref.LoadOp: MainInterpreter.load,
    memref.StoreOp: MainInterpreter.store,
    runtime.PartOp: MainInterpreter.part,
    runtime.RowOp: MainInterpreter.row,
    runtime.CopyOp: MainInterpreter.copy,
    runtime.FillOp: MainInterpreter.fill,
    runtime.CallOp: MainInterpreter.kernel,
    scf.IfOp: MainInterpreter.branch,
    scf.ForOp: MainInterpreter.count,
    scf.WhileOp: MainInterpreter.repeat,
}
