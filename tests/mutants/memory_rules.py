"""Bugs of the conversions of @main: its buffers, its calls, and the machine code that makes them."""

from collections.abc import Iterator
from random import Random

from native_rules import neighbours
from operators import Change, mutation, same_types, swap_operands
from xdsl.dialects import arith, llvm, memref
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_SCRATCH

BUFFERS, MACHINE = ("convert-graph-to-main",), ("convert-main-to-llvm",)


def views(op: Operation, argument: int) -> list[memref.ViewOp]:
    """The other views of an argument of @main, counted from the end, of which an operation is one."""
    func = op.parent_op()
    if not isinstance(op, memref.ViewOp) or not isinstance(func, FuncOp) or MAIN_SCRATCH in op.attributes:
        return []
    source = func.body.block.args[argument]
    found = [v for v in func.body.block.ops if isinstance(v, memref.ViewOp) and v.source is op.source is source]
    return [v for v in found if v is not op and MAIN_SCRATCH not in v.attributes]


def offset(view: memref.ViewOp) -> int:
    """Where a view begins; -1 if it depends on sizes."""
    source = view.byte_shift.owner
    if isinstance(source, arith.ConstantOp) and isinstance(source.value, IntegerAttr):
        return source.value.value.data
    return -1


@mutation("memory", passes=BUFFERS)
def overlapping_slots(op: Operation, random: Random) -> Iterator[Change]:
    """A buffer is put where another one is."""
    for other in views(op, -1):
        if isinstance(op, memref.ViewOp) and offset(other) != offset(op) and other.is_before_in_block(op):
            yield lambda other=other: op.operands.__setitem__(1, other.byte_shift)


@mutation("memory", passes=BUFFERS)
def wrong_weight(op: Operation, random: Random) -> Iterator[Change]:
    """Another weight of the same type is put where a kernel reads one."""
    for other in views(op, -2):
        if isinstance(op, memref.ViewOp) and other.result.type == op.result.type and offset(other) != offset(op):
            if "param" in op.attributes and op.attributes.get("param") != other.attributes.get("param"):
                yield lambda other=other: op.attributes.__setitem__("param", other.attributes["param"])
                return


@mutation("memory", passes=BUFFERS)
def swapped_call_operands(op: Operation, random: Random) -> Iterator[Change]:
    """Two buffers of one type are exchanged in a call."""
    if isinstance(op, runtime.CallOp):
        for i in range(len(op.ins)):
            for j in range(i):
                if same_types(op, i, j):
                    yield lambda i=i, j=j: swap_operands(op, i, j)


@mutation("memory", passes=BUFFERS)
def call_too_early(op: Operation, random: Random) -> Iterator[Change]:
    """A call is made before the one that writes what it reads."""
    if isinstance(op, runtime.CallOp):
        before = op.prev_op
        while before is not None and not isinstance(before, runtime.CallOp):
            before = before.prev_op
        if before is not None and set(before.outs) & set(op.ins):

            def change(before: Operation = before) -> None:
                block = op.parent
                assert block is not None
                before.detach()
                block.insert_op_after(before, op)

            yield change


def in_main(op: Operation) -> bool:
    """Whether an operation stands in the function that runs the model."""
    func = op.parent_op()
    return isinstance(func, llvm.FuncOp) and func.sym_name.data == "mlc_main"


@mutation("memory", passes=MACHINE)
def swapped_pointers(op: Operation, random: Random) -> Iterator[Change]:
    """Two operands of a call are stored in each other's place."""
    if isinstance(op, llvm.StoreOp) and in_main(op):
        for other in neighbours(op):
            if op.operands[0] is not other.operands[0] and op.operands[0].type == other.operands[0].type:
                yield lambda other=other: op.operands.__setitem__(0, other.operands[0])


@mutation("memory", passes=MACHINE)
def wrong_byte_offset(op: Operation, random: Random) -> Iterator[Change]:
    """A buffer or a weight begins 64 bytes too early."""
    if isinstance(op, llvm.GEPOp) and in_main(op) and not op.ssa_indices:
        indices = list(op.rawConstantIndices.get_values())
        if len(indices) == 1 and indices[0] >= 128:
            new = DenseArrayBase.from_list(op.rawConstantIndices.elt_type, [indices[0] - 64])
            yield lambda: op.properties.__setitem__("rawConstantIndices", new)
