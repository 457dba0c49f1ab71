"""Lowers the control flow of @main on buffers, scf.if, scf.for and scf.while, to branches, with its scalar ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, llvm, memref, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, i1, i8, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import runtime
from mlc.lowering.graph_to_main.storage import bytes_of
from mlc.lowering.loop_to_llvm.builder import Builder

_BINARY: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.DivUIOp: "div",
    arith.FloorDivSIOp: "floordiv",
    arith.AndIOp: "and",
    arith.MinSIOp: "llvm.smin.i64",
    arith.MaxSIOp: "llvm.smax.i64",
}


class ControlFlow:
    """Lowers scf ops and their scalar arith ops at the builder's insertion point."""

    def __init__(
        self, builder: Builder, pointers: dict[SSAValue, SSAValue], visit: Callable[[Operation], None]
    ) -> None:
        self.builder = builder
        self.pointers = pointers
        self.lower = visit
        self.scalars: dict[SSAValue, SSAValue] = {}

    def visit(self, op: Operation) -> bool:
        """Lower one op; False if it is not handled here."""
        method = _METHODS.get(type(op))
        if method is None:
            return False
        method(self, op)
        return True

    def binary(self, op: Operation) -> None:
        """Arithmetic on indices and i1."""
        b, name = self.builder, _BINARY[type(op)]
        x, y = self.scalars[op.operands[0]], self.scalars[op.operands[1]]
        if name == "sub":
            value = b.op(llvm.SubOp, [x, y], x.type, {"overflowFlags": IntegerAttr(0, 32)})
        elif name == "mul":
            value = b.mul(x, y)
        elif name == "div":
            value = b.op(llvm.UDivOp, [x, y], i64)
        elif name == "floordiv":  # the divisor is positive
            below = b.icmp("slt", b.op(llvm.SRemOp, [x, y], i64), b.int(0))
            value = b.add(b.op(llvm.SDivOp, [x, y], i64), b.cast("sext", below, i64))
        elif name.startswith("llvm."):
            value = b.intrinsic(name, [x, y], i64)
        else:
            value = b.add(x, y) if name == "add" else b.and_(x, y)
        self.scalars[op.results[0]] = value

    def constant(self, op: arith.ConstantOp) -> None:
        """An integer or index constant."""
        assert isinstance(op.value, IntegerAttr)
        self.scalars[op.result] = self.builder.int(op.value.value.data, i64)

    def compare(self, op: arith.CmpiOp) -> None:
        """A comparison of indices."""
        self.scalars[op.result] = self.builder.icmp("slt", self.scalars[op.lhs], self.scalars[op.rhs])

    def same(self, op: arith.IndexCastOp) -> None:
        """index_cast: no operation, since an index is an i64."""
        self.scalars[op.result] = self.scalars[op.input]

    def load(self, op: memref.LoadOp) -> None:
        """Load from a buffer of one element; an i1 is a byte in memory."""
        b, pointer = self.builder, self.pointers[op.memref]
        if op.res.type == i1:
            self.scalars[op.res] = b.icmp("ne", b.load(pointer, i8, 1), b.int(0, i8))
        else:
            self.scalars[op.res] = b.load(pointer, _machine(op.res.type), 1)

    def store(self, op: memref.StoreOp) -> None:
        """Store to a buffer of one element."""
        self.builder.store(self.scalars[op.value], self.pointers[op.memref], 1)

    def row(self, op: runtime.RowOp) -> None:
        """The pointer to a row."""
        b = self.builder
        offset = b.mul(self.scalars[op.index], self.bytes_of(op.result.type, op.bytes))
        self.pointers[op.result] = b.gep(self.pointers[op.source], offset, i8)

    def bytes_of(self, type_: Attribute, given: SSAValue | None) -> SSAValue:
        """The bytes of a buffer: the operand `given`, or by its static type."""
        if given is not None:
            return self.scalars[given]
        assert isinstance(type_, MemRefType)
        return self.builder.int(bytes_of(type_), i64)

    def region(self, block: Block, arguments: Sequence[SSAValue] = ()) -> list[SSAValue]:
        """Lower a region's ops inline; returns the operands of its terminator."""
        self.scalars.update(zip(block.args, arguments, strict=True))
        last = block.last_op
        assert last is not None
        for op in block.ops:
            if op is not last:
                self.lower(op)
        return [self.scalars[v] for v in last.operands]

    def branch(self, op: scf.IfOp) -> None:
        """`scf.if`."""
        b = self.builder
        then, other, end = b.new_block(), b.new_block(), b.new_block()
        b.cond_br(self.scalars[op.cond], then, [], other, [])
        for start, region in ((then, op.true_region), (other, op.false_region)):
            b.block = start
            if region.blocks:
                self.region(region.block)
            b.br(end)
        b.block = end

    def count(self, op: scf.ForOp) -> None:
        """`scf.for` without iteration arguments."""
        b = self.builder
        head, body, end = b.new_block([i64]), b.new_block(), b.new_block()
        b.br(head, [self.scalars[op.lb]])
        b.block, index = head, head.args[0]
        b.cond_br(b.icmp("slt", index, self.scalars[op.ub]), body, [], end, [])
        b.block = body
        self.region(op.body.block, [index])
        b.br(head, [b.add(index, self.scalars[op.step])])
        b.block = end

    def repeat(self, op: scf.WhileOp) -> None:
        """`scf.while` over scalars."""
        b = self.builder
        types = [_machine(v.type) for v in op.arguments]
        head, body, end = b.new_block(types), b.new_block(), b.new_block()
        b.br(head, [self.scalars[v] for v in op.arguments])
        b.block = head
        more, *values = self.region(op.before_region.block, head.args)
        b.cond_br(more, body, [], end, [])
        b.block = body
        b.br(head, self.region(op.after_region.block, values))
        b.block = end
        self.scalars.update(zip(op.results, values, strict=True))


def _machine(t: Attribute) -> Attribute:
    return i64 if isinstance(t, IndexType) else t


_METHODS: dict[type[Operation], Callable[[ControlFlow, Any], None]] = {
    **dict.fromkeys(_BINARY, ControlFlow.binary),
    arith.ConstantOp: ControlFlow.constant,
    arith.CmpiOp: ControlFlow.compare,
    arith.IndexCastOp: ControlFlow.same,
    memref.LoadOp: ControlFlow.load,
    memref.StoreOp: ControlFlow.store,
    runtime.RowOp: ControlFlow.row,
    scf.IfOp: ControlFlow.branch,
    scf.ForOp: ControlFlow.count,
    scf.WhileOp: ControlFlow.repeat,
}
