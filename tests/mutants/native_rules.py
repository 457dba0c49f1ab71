"""Bugs of the conversion to machine code: lanes, masks, casts, comparisons, constants, tasks of threads."""

from collections.abc import Iterator
from random import Random

from operators import Change, erase, mutation, replace, same_types, swap_operands
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.traits import SymbolTable

from mlc.dialects import llvm_ext

ARITHMETIC = ("llvm.fadd", "llvm.fmul", "llvm.fsub", "llvm.fdiv")
OPPOSITE = {"olt": "oge", "ogt": "ole", "ole": "ogt", "oge": "olt", "oeq": "one", "une": "oeq", "uno": "ord"}


def is_float(value: SSAValue) -> bool:
    """Whether a value is a float, or a vector of them."""
    t = value.type
    element = t.element_type if isinstance(t, VectorType) else t
    return not isinstance(element, IntegerType) and element.name.startswith(("f", "bf"))


@mutation("native")
def wrong_lane_order(op: Operation, random: Random) -> Iterator[Change]:
    """The lanes of a vector are put in another order."""
    if isinstance(op, llvm.ShuffleVectorOp):
        lanes = list(op.mask.get_values())
        if len(set(lanes)) > 1:
            for new in (lanes[::-1], [*lanes[1:], lanes[0]], [lanes[1], lanes[0], *lanes[2:]]):
                yield lambda new=new: op.properties.__setitem__("mask", DenseArrayBase.from_list(op.mask.elt_type, new))


@mutation("native")
def wrong_lane(op: Operation, random: Random) -> Iterator[Change]:
    """A scalar is put into, or taken from, the lane of another one."""
    if op.name == "llvm.insertelement" or isinstance(op, llvm_ext.ExtractElementOp):
        for other in neighbours(op):
            k = 2 if op.name == "llvm.insertelement" else 1
            if other.operands[k] is not op.operands[k]:
                yield lambda other=other, k=k: op.operands.__setitem__(k, other.operands[k])


def neighbours(op: Operation, reach: int = 12) -> Iterator[Operation]:
    """The nearest operations of the same kind before one."""
    before = op.prev_op
    for _ in range(reach):
        if before is None:
            return
        if before.name == op.name:
            yield before
            return
        before = before.prev_op


@mutation("native")
def wrong_mask(op: Operation, random: Random) -> Iterator[Change]:
    """A masked access uses the mask of another one."""
    if op.name in ("llvm_ext.masked_store", "llvm_ext.masked_load"):
        k = 2 if op.name == "llvm_ext.masked_store" else 1
        before = op.prev_op
        for _ in range(60):
            if before is None:
                return
            for r in before.results:
                if r is not op.operands[k] and r.type == op.operands[k].type:
                    yield lambda r=r, k=k: op.operands.__setitem__(k, r)
                    return
            before = before.prev_op


@mutation("native")
def missing_native_store(op: Operation, random: Random) -> Iterator[Change]:
    """A store of a result is left out."""
    if (op.name == "llvm.store" and is_float(op.operands[0])) or op.name == "llvm_ext.masked_store":
        yield lambda: erase(op)


@mutation("native")
def swapped_stores(op: Operation, random: Random) -> Iterator[Change]:
    """Two stores of one type are exchanged."""
    if op.name in ("llvm.store", "llvm_ext.masked_store") and is_float(op.operands[0]):
        for other in neighbours(op):
            if other.operands[0].type == op.operands[0].type and other.operands[0] is not op.operands[0]:
                if not isinstance(op.operands[0].owner, Operation) or precedes(op.operands[0].owner, other):

                    def change(other: Operation = other) -> None:
                        a, b = op.operands[0], other.operands[0]
                        op.operands[0], other.operands[0] = b, a

                    yield change


def precedes(a: Operation, b: Operation) -> bool:
    """Whether an operation stands before another one of its block, or in another block."""
    return a.parent is not b.parent or a.is_before_in_block(b)


@mutation("native")
def swapped_native_operands(op: Operation, random: Random) -> Iterator[Change]:
    """The operands of a difference or a quotient are exchanged."""
    if op.name in ("llvm.fsub", "llvm.fdiv") and same_types(op):
        yield lambda: swap_operands(op)


@mutation("native")
def dropped_native_op(op: Operation, random: Random) -> Iterator[Change]:
    """An arithmetic op is left out."""
    if op.name in ARITHMETIC or op.name == "llvm_ext.math":
        yield lambda: replace(op, op.operands[0])


@mutation("native")
def lost_native_accumulation(op: Operation, random: Random) -> Iterator[Change]:
    """A product is not added to its accumulator, or the product is lost."""
    if op.name == "llvm.intr.fma":
        yield lambda: replace(op, op.operands[2])


@mutation("native")
def wrong_accumulator(op: Operation, random: Random) -> Iterator[Change]:
    """A product is added to another accumulator."""
    if op.name == "llvm.intr.fma":
        for other in neighbours(op):
            if other.operands[2].type == op.operands[2].type and other.operands[2] is not op.operands[2]:
                yield lambda other=other: op.operands.__setitem__(2, other.operands[2])


@mutation("native")
def wrong_coefficient(op: Operation, random: Random) -> Iterator[Change]:
    """A constant, such as a coefficient of a polynomial, is 2 % off."""
    if not isinstance(op, llvm.ConstantOp):
        return
    value = op.value
    if isinstance(value, FloatAttr) and value.value.data and abs(value.value.data) < 1e30:
        new = FloatAttr(value.value.data * 1.02, value.type)
        yield lambda: op.properties.__setitem__("value", new)
    elif isinstance(value, DenseIntOrFPElementsAttr) and is_float(op.results[0]):
        numbers = [float(v) for v in value.get_values()]
        if any(numbers) and max(map(abs, numbers)) < 1e30:
            made = DenseIntOrFPElementsAttr.from_list(value.type, [v * 1.02 for v in numbers])
            yield lambda: op.properties.__setitem__("value", made)


@mutation("native")
def trunc_for_round(op: Operation, random: Random) -> Iterator[Change]:
    """A value is truncated where it must be rounded to the nearest."""
    if op.name == "llvm_ext.intrinsic":
        name = op.properties["intrin"]
        if isinstance(name, StringAttr) and name.data in ("llvm.roundeven", "llvm.rint", "llvm.nearbyint"):
            yield lambda: replace(op, op.operands[0])


@mutation("native")
def wrong_cast_sign(op: Operation, random: Random) -> Iterator[Change]:
    """A cast takes signed integers for unsigned ones, or the other way round."""
    other = {"sitofp": "uitofp", "uitofp": "sitofp", "sext": "zext", "zext": "sext", "fptoui": "fptosi"}
    if op.name == "llvm_ext.cast":
        kind = op.properties["kind"]
        if isinstance(kind, StringAttr) and kind.data in other and isinstance(op.results[0].type, VectorType):
            yield lambda: op.properties.__setitem__("kind", StringAttr(other[kind.data]))


@mutation("native")
def wrong_native_comparison(op: Operation, random: Random) -> Iterator[Change]:
    """A comparison of floats with another predicate."""
    if op.name == "llvm_ext.fcmp":
        kind = op.properties["predicate"]
        if isinstance(kind, StringAttr) and kind.data in OPPOSITE:
            yield lambda: op.properties.__setitem__("predicate", StringAttr(OPPOSITE[kind.data]))


@mutation("native")
def swapped_native_select(op: Operation, random: Random) -> Iterator[Change]:
    """The values of a selection are exchanged."""
    if op.name == "llvm_ext.select" and same_types(op, 1, 2) and is_float(op.operands[1]):
        yield lambda: swap_operands(op, 1, 2)


@mutation("native")
def wrong_address(op: Operation, random: Random) -> Iterator[Change]:
    """A load reads the neighbour's address."""
    if op.name == "llvm.load" and is_float(op.results[0]):
        for other in neighbours(op):
            if other.results[0].type == op.results[0].type and other.operands[0] is not op.operands[0]:
                yield lambda other=other: op.operands.__setitem__(0, other.operands[0])


@mutation("native")
def missing_tasks(op: Operation, random: Random) -> Iterator[Change]:
    """A parallel loop runs one task less than it has."""
    if isinstance(op, llvm.CallOp) and op.callee is None and len(op.operands) >= 5:
        tasks = op.operands[4]
        block = op.parent
        assert block is not None

        def change() -> None:
            one = llvm.ConstantOp(IntegerAttr(1, tasks.type), tasks.type)
            less = llvm.SubOp(tasks, one.result)
            block.insert_ops_before([one, less], op)
            op.operands[4] = less.res

        yield change


def _is_read(value: SSAValue) -> bool:
    """Whether what a function does depends on a value; a function that it is only handed on to may not read it."""
    return any(_reads(use.operation, use.index) for use in value.uses)


def _reads(op: Operation, index: int) -> bool:
    """Whether what an op does, or what is done with its results, depends on an operand."""
    if isinstance(op, llvm.CallOp) and op.callee is not None:
        called = SymbolTable.lookup_symbol(op, op.callee)
        if isinstance(called, llvm.FuncOp) and (entry := called.body.first_block) is not None:
            return _is_read(entry.args[index])
    return not op.results or any(_is_read(result) for result in op.results)


@mutation("native", "race")
def scratch_of_one_thread(op: Operation, random: Random) -> Iterator[Change]:
    """All tasks use the scratch memory of the first thread: a race."""
    if not isinstance(op, llvm.FuncOp) or ".parallel" not in op.sym_name.data or not op.body.blocks:
        return
    first_block = op.body.first_block
    assert first_block is not None
    thread = first_block.args[3]
    if _is_read(thread):

        def change() -> None:
            first = op.body.first_block
            assert first is not None
            assert first.first_op is not None
            zero = llvm.ConstantOp(IntegerAttr(0, thread.type), thread.type)
            first.insert_op_before(zero, first.first_op)
            thread.replace_all_uses_with(zero.result)

        yield change


@mutation("native")
def short_loop(op: Operation, random: Random) -> Iterator[Change]:
    """A loop ends one iteration too early."""
    if op.name == "llvm.icmp" and any(use.operation.name == "llvm.cond_br" for use in op.results[0].uses):
        kind = op.properties.get("predicate")
        if isinstance(kind, IntegerAttr) and kind.value.data == 2:  # slt
            block = op.parent
            assert block is not None

            def change() -> None:
                one = llvm.ConstantOp(IntegerAttr(1, i64), i64)
                more = llvm.AddOp(op.operands[0], one.result)
                block.insert_ops_before([one, more], op)
                op.operands[0] = more.res

            if op.operands[0].type == i64:
                yield change
