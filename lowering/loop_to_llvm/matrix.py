"""
Lowers loop.contract to AMX: blocks of 16 x 16 sums in the registers of the matrix unit, which loops carry.

    vector<32x32xf32>  ->  2 x 2 values of !llvm_ext.x86_amx

One instruction multiplies 16 rows of up to 16 words by as many words of 16 lanes. LLVM gives the values registers, and
loads the configuration of their shapes in front of the loops ("Intel 64 and IA-32 Architectures Optimization Reference
Manual", chapter 20). Sums that something else reads go through the stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import MemRefType, VectorType, bf16, i8, i16, i64
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import llvm_ext, loop
from mlc.dialects.index import Index, const, dim
from mlc.dialects.scalar import byte_size
from mlc.dialects.walk import walk
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.access.address import strides_of
from mlc.lowering.loop_to_llvm.arithmetic.scalars import machine_type
from mlc.lowering.loop_to_llvm.call import on_stack
from mlc.lowering.loop_to_llvm.tiles import native_type
from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.tiles import even_split
from mlc.targets.matrix import MATRIX_INSTRUCTIONS, MATRIX_REGISTERS, MATRIX_ROWS, MATRIX_WORDS, WORD_BYTES

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

PRODUCTS: dict[tuple[Attribute, tuple[bool, bool]], str] = {
    (bf16, (False, False)): "llvm.x86.tdpbf16ps.internal",
    (i8, (False, False)): "llvm.x86.tdpbssd.internal",
    (i8, (False, True)): "llvm.x86.tdpbsud.internal",
    (i8, (True, False)): "llvm.x86.tdpbusd.internal",
    (i8, (True, True)): "llvm.x86.tdpbuud.internal",
}
"""(the factors' type, which of them are unsigned) -> LLVM's intrinsic."""
AMX = llvm_ext.X86AMXType()


class RegisterBlock(NamedTuple):
    """A block of an accumulator that one register holds."""

    row: int
    rows: int
    between: tuple[int, ...]
    """The coordinates on the axes between rows and lanes."""
    lane: int
    lanes: int


def parts(shape: Sequence[int]) -> list[RegisterBlock]:
    """The registers of an accumulator, as even in rows as they can be; those that share columns follow each other."""
    rows, *between, lanes = shape
    columns, high = product(product(*map(range, between)), range(0, lanes, MATRIX_WORDS)), even_split(rows, MATRIX_ROWS)
    return [
        RegisterBlock(row, min(high, rows - row), at, lane, min(MATRIX_WORDS, lanes - lane))
        for at, lane in columns
        for row in range(0, rows, high)
    ]


# --- which values the matrix unit holds ---


@dataclass
class MatrixValues:
    """The values of a kernel that the matrix unit holds."""

    factors: frozenset[SSAValue] = frozenset()
    """Tiles that are loaded where they are multiplied."""
    sums: frozenset[SSAValue] = frozenset()


def matrix_values(func: loop.FuncOp, instructions: Sequence[str]) -> MatrixValues:
    """The factors and sums of the contractions that the matrix unit computes."""
    products = [op for op in walk(func) if isinstance(op, loop.ContractOp) and _is_matrix_product(op, instructions)]
    found = _within_registers(products)
    factors = frozenset(v for op in found for v in (op.a, op.b))
    return MatrixValues(factors, _carried(found, func) if found else frozenset())


def _within_registers(products: Sequence[loop.ContractOp]) -> list[loop.ContractOp]:
    """
    The products whose operands fit the registers together, the largest first; vectors compute the others.

    A register has one shape throughout a function, as its configuration is loaded once, so that tiles of other shapes,
    at the end of an axis, need registers of their own.
    """
    taken, found = Counter[tuple[int, int]](), list[loop.ContractOp]()
    for op in sorted(products, key=lambda op: -prod(loop.shape_of(op.c.type)) * (op.steps or 1)):
        wanted = taken | _registers(op)
        if wanted.total() <= MATRIX_REGISTERS:
            taken = wanted
            found.append(op)
    return found


def _registers(op: loop.ContractOp) -> Counter[tuple[int, int]]:
    """(rows, words of a row) of the registers that a product needs at once -> how many."""
    assert op.steps is not None
    every = parts(loop.shape_of(op.c.type))
    sums = Counter((part.rows, part.lanes) for part in every)
    left = Counter((rows, op.steps) for _, rows in {(part.row, part.rows) for part in every})
    return sums + left + Counter({(op.steps, part.lanes) for part in every})


def _carried(found: Sequence[loop.ContractOp], func: loop.FuncOp) -> frozenset[SSAValue]:
    """The sums of products, and those that loops carry: what a loop carries, yields and results in is of one kind."""
    products = {op.result for op in found}
    sums = {*products, *(op.c for op in found)}
    loops, before = [op for op in walk(func) if isinstance(op, loop.ForOp) and op.results], -1
    while before != len(sums):
        before = len(sums)
        for op in loops:
            for arg, result, out in zip(op.carried, op.results, op.yield_op.values, strict=True):
                if arg in sums or result in sums or out in sums:
                    sums |= {arg, result}
    made = {v for op in loops for v in (*op.results, *op.carried)}
    return frozenset(v for v in sums if v in made or v in products)


def _is_matrix_product(op: loop.ContractOp, instructions: Sequence[str]) -> bool:
    """Whether rows of one factor, the first axis, meet lanes of the other, both in memory as the unit loads them."""
    element, shape = loop.element_of(op.a.type), loop.shape_of(op.c.type)
    if op.steps is None or len(shape) < 2 or op.steps > MATRIX_WORDS or (element, op.unsigned) not in PRODUCTS:
        return False
    if MATRIX_INSTRUCTIONS.get(str(element)) not in instructions:
        return False
    return any(_is_left(a, op, shape) and _is_right(b, op, shape) for a, b in ((op.a, op.b), (op.b, op.a)))


def _is_left(v: SSAValue, op: loop.ContractOp, shape: Sequence[int]) -> bool:
    """
    Whether a factor varies along rows only and its summed elements are contiguous.

    The matrix unit's left operand needs that.
    """
    last, count = len(shape), loop.word_factors(loop.element_of(v.type))
    steps = _steps(v, op)
    wanted = (shape[0], *(1 for _ in shape[1:]))
    return loop.shape_of(v.type)[:last] == wanted and steps is not None and steps[last:] == (count, 1)


def _is_right(v: SSAValue, op: loop.ContractOp, shape: Sequence[int]) -> bool:
    """
    Whether a factor varies along lanes only and the words of neighbouring lanes are contiguous.

    The matrix unit's right operand needs that.
    """
    last, count = len(shape), loop.word_factors(loop.element_of(v.type))
    steps = _steps(v, op)
    wanted = (1, *shape[1:])
    found = loop.shape_of(v.type)[:last] == wanted and steps is not None
    return found and steps is not None and steps[last - 1] == count and steps[last + 1] == 1


def _steps(v: SSAValue, op: loop.ContractOp) -> tuple[int, ...] | None:
    """The distance in elements along each axis of a plain load whose value is multiplied before anything is stored."""
    load = v.owner
    if not isinstance(load, loop.LoadOp) or load.mask_exprs or not _follows(load, op):
        return None
    t = load.buffer.type
    if not isinstance(t, MemRefType) or any(n < 0 for n in t.get_shape()[1:]):
        return None
    total = Index(0, ())
    for e, (stride, _) in zip(load.map.data, strides_of(t), strict=True):
        total = total + e * stride
    axes = [-1 - k for k in range(len(load.tile_sizes))]
    rest = total
    for axis in axes:
        rest = rest - dim(axis) * total.coefficient(axis)
    return None if any(rest.uses(axis) for axis in axes) else tuple(total.coefficient(axis) for axis in axes)


def _follows(load: Operation, op: Operation) -> bool:
    """Whether all uses of a load are this op, and only loads and arithmetic stand between the two."""
    if any(use.operation is not op for use in load.results[0].uses):
        return False
    between = load.next_op
    while between is not None and between is not op:
        if between.regions or isinstance(between, loop.StoreOp | loop.ExternCallOp):
            return False
        between = between.next_op
    return between is op


# --- lowering ---


def matrix_load(f: FunctionLowering, op: loop.LoadOp) -> bool:
    """Remember the place of a factor, which the multiplication loads; False of other loads."""
    if op.result not in f.kernel.matrices.factors:
        return False
    f.matrix_factors[op.result] = f.access(op.buffer, op.map.data, op)
    return True


def matrix_contract(f: FunctionLowering, op: loop.ContractOp) -> bool:
    """c + a * b in matrix registers; False of contractions that the matrix unit does not compute."""
    if op.a not in f.kernel.matrices.factors:
        return False
    shape, unsigned, steps = loop.shape_of(op.result.type), op.unsigned, op.steps
    assert steps is not None
    left, right = op.a, op.b
    if not _is_left(left, op, shape):
        left, right, unsigned = right, left, (unsigned[1], unsigned[0])
    b, name = f.b, PRODUCTS[loop.element_of(left.type), unsigned]
    depth, out, columns = b.int(WORD_BYTES * steps, i16), list[SSAValue](), dict[object, SSAValue]()
    rows: dict[int, SSAValue] = {}
    for part, total in zip(parts(shape), matrices(f, op.c), strict=True):
        at = (*part.between, part.lane)
        if part.row not in rows:
            rows[part.row] = _load(f, f.matrix_factors[left], [part.row], 0, (part.rows, WORD_BYTES * steps))
        if at not in columns:
            columns[at] = _load(f, f.matrix_factors[right], [0, *at], len(shape), (steps, WORD_BYTES * part.lanes))
        size = [b.int(part.rows, i16), b.int(WORD_BYTES * part.lanes, i16), depth]
        out.append(b.intrinsic(name, [*size, total, rows[part.row], columns[at]], AMX))
    define_matrices(f, op.result, out)
    return True


def _load(
    f: FunctionLowering, access: LoweredAccess, start: Sequence[int], along: int, size: tuple[int, int]
) -> SSAValue:
    """A register of `size` rows and bytes of a row, from the tile's element `start`; rows lie along a tile axis."""
    b = f.b
    given = [*start, *(0 for _ in range(access.rank - len(start)))]
    offset = access.offset.substitute({-1 - k: const(n) for k, n in enumerate(given)}, f.addresses.spans())
    step = access.offset.coefficient(-1 - along) * byte_size(access.element)
    shape = [b.int(n, i16) for n in size]
    return b.intrinsic("llvm.x86.tileloadd64.internal", [*shape, f.accesses.pointer(access, offset), b.int(step)], AMX)


def matrices(f: FunctionLowering, v: SSAValue) -> list[SSAValue]:
    """The matrix registers of a value: its own, zeros, or loaded from the stack where vectors hold it."""
    if (known := f.matrices.get(v)) is not None:
        return known
    b, t = f.b, v.type
    assert isinstance(t, VectorType)
    shape = loop.shape_of(t)
    if _is_zero(v):
        return [
            b.intrinsic("llvm.x86.tilezero.internal", [b.int(p.rows, i16), b.int(WORD_BYTES * p.lanes, i16)], AMX)
            for p in parts(shape)
        ]
    place = _stack(f, shape)
    for (outer, chunk), native in zip(f.positions(t), f.natives(v), strict=True):
        b.store(native, b.gep(place, WORD_BYTES * _offset(shape, (*outer, chunk.start)), i8), WORD_BYTES)
    return [
        b.intrinsic("llvm.x86.tileloadd64.internal", [*_shape(f, p), *_row(f, place, shape, p)], AMX)
        for p in parts(shape)
    ]


def define_matrices(f: FunctionLowering, v: SSAValue, registers: Sequence[SSAValue]) -> None:
    """Record a value by its matrix registers; if something else reads it, by vectors, too."""
    f.matrices[v] = list(registers)
    if all(_takes_matrices(f, use.operation, use.index) for use in v.uses):
        return
    b, t = f.b, v.type
    assert isinstance(t, VectorType)
    shape = loop.shape_of(t)
    place = _stack(f, shape)
    for part, register in zip(parts(shape), registers, strict=True):
        args = [*_shape(f, part), *_row(f, place, shape, part), register]
        b.call_void("llvm.x86.tilestored64.internal", args)
    element = machine_type(t.element_type)
    natives = [
        b.load(
            b.gep(place, WORD_BYTES * _offset(shape, (*outer, chunk.start)), i8),
            native_type(element, chunk),
            WORD_BYTES,
        )
        for outer, chunk in f.positions(t)
    ]
    f.define(v, natives)


def _takes_matrices(f: FunctionLowering, op: Operation, index: int) -> bool:
    """Whether a use takes the registers of the matrix unit: a contraction, and a loop that carries the value."""
    sums = f.kernel.matrices.sums
    if isinstance(op, loop.ContractOp):
        return index == 2 and op.result in sums
    if isinstance(op, loop.YieldOp):
        parent = op.parent_op()
        return isinstance(parent, loop.ForOp) and parent.results[index] in sums
    return isinstance(op, loop.ForOp) and index >= op.bounds.arity and op.carried[index - op.bounds.arity] in sums


def _is_zero(v: SSAValue) -> bool:
    while isinstance(v.owner, loop.BroadcastOp):
        v = v.owner.value
    value = getattr(getattr(v.owner, "value", None), "value", None)
    return getattr(value, "data", None) == 0


def _stack(f: FunctionLowering, shape: Sequence[int]) -> SSAValue:
    """Room on the stack for a tile of words, row-major, with a vector's room behind it."""
    bytes_ = WORD_BYTES * prod(shape) + LINE_BYTES
    return on_stack(f.b, -(-bytes_ // byte_size(i64)))


def _offset(shape: Sequence[int], at: Sequence[int]) -> int:
    """The number of an element of a row-major tile."""
    number = 0
    for n, i in zip(shape, at, strict=True):
        number = number * n + i
    return number


def _shape(f: FunctionLowering, part: RegisterBlock) -> list[SSAValue]:
    """Rows, and bytes of a row, of a register of sums."""
    return [f.b.int(part.rows, i16), f.b.int(WORD_BYTES * part.lanes, i16)]


def _row(f: FunctionLowering, place: SSAValue, shape: Sequence[int], part: RegisterBlock) -> list[SSAValue]:
    """The address of a part on the stack, and the bytes from one of its rows to the next."""
    first = _offset(shape, (part.row, *part.between, part.lane))
    return [f.b.gep(place, WORD_BYTES * first, i8), f.b.int(WORD_BYTES * prod(shape[1:]))]
