"""
Which data movements are views in @main on buffers: their results share memory with their operands.

    reshape           the same memory
    slice, split      a part of the operand's memory, if the axes before the one that is cut have size 1
    concatenate       each operand is written into its part of the result, if the axes before that axis have size 1

An operand that cannot be written in place - an input, a constant, a part of another value, an output of the model - is
copied into the result by a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.attributes import GRAPH_DEVICE
from mlc.dialects.graph import ConcatenateOp, FusedOp, GraphOp, ReshapeOp, SliceOp, SplitOp, TransposeOp
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.symbols import symbols_around
from mlc.dialects.graph.types import axis_of, is_static, product, shape_of, sizes_at
from mlc.dialects.index import TYPICAL
from mlc.passes.graph.shared.constants import SOURCES


def base_of(value: SSAValue) -> SSAValue:
    """The value that a chain of reshapes starts from."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.operands[0]
    return value


def elements(value: SSAValue) -> int:
    """The number of elements of a tensor, at typical sizes where they are symbolic."""
    return math.prod(typical_shape(value))


def typical_shape(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a tensor at typical values of the symbols of the function around it."""
    shape = shape_of(value.type)
    if is_static(shape):
        return shape
    names = {name for size in shape if isinstance(size, DimExpr) for name in size.symbols()}
    owner = value.owner
    ranges = symbols_around(owner.parent_op() if isinstance(owner, Block) else owner)
    values = {name: ranges[name].typical if name in ranges else TYPICAL for name in names}
    return sizes_at(shape, values)


def cuts_outside(shape: Sequence[Dim], axis: int) -> bool:
    """Whether parts along an axis follow one another in memory: all axes before it have size 1."""
    return all(size == 1 for size in shape[:axis])


def part_starts(op: Operation) -> list[Dim] | None:
    """The offsets of the results of a slice or split in the operand, in elements; None if they are not contiguous."""
    if not isinstance(op, SliceOp | SplitOp) or min(elements(v) for v in (op.operands[0], *op.results)) <= 0:
        return None
    shape = shape_of(op.operands[0].type)
    if isinstance(op, SplitOp):
        axis = axis_of(op.axis, len(shape))
        inner = product(shape[axis + 1 :])
        starts = [inner * sum(op.sections[:k]) for k in range(len(op.sections))]
        return starts if cuts_outside(shape, axis) and min(op.sections) > 0 else None
    if any(stride != 1 for stride in op.strides):
        return None
    cuts = list(zip(shape, shape_of(op.type), op.begin, strict=True))
    moved = [axis for axis, (size, kept, _) in enumerate(cuts) if size != kept]
    if len(moved) > 1 or not all(cuts_outside(shape, axis) for axis in moved):
        return None
    return [sum((_first(cuts[axis][0], cuts[axis][2]) * product(shape[axis + 1 :]) for axis in moved), start=0)]


def _first(size: Dim, begin: int) -> Dim:
    """The index of the first element of a slice of an axis."""
    if begin >= 0:
        return begin
    return size + begin if isinstance(size, DimExpr) else max(0, size + begin)


def reshape_groups(source: Sequence[Dim], target: Sequence[Dim]) -> list[tuple[list[int], list[int]]]:
    """The shortest runs of axes of both shapes that have equal products; axes of size 1 are in no run."""
    if 0 in source:
        return []
    left = [a for a, n in enumerate(source) if n != 1]
    right = [a for a, n in enumerate(target) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left or right:
        s, t = [left.pop(0)], [right.pop(0)]
        a, b = source[s[0]], target[t[0]]
        while a != b:
            grows = _smaller(a, b), _smaller(b, a)
            if not left and not right:
                raise VerifyException(f"expected shapes of equal products, but got {list(source)} and {list(target)}")
            if left and (grows[0] or not grows[1] or not right):
                s.append(left.pop(0))
                a *= source[s[-1]]
            if right and (grows[1] or not grows[0] or not left):
                t.append(right.pop(0))
                b *= target[t[-1]]
        groups.append((s, t))
    return groups


def _smaller(a: Dim, b: Dim) -> bool:
    """Whether a < b for two integers; of symbolic sizes, whether a divides b."""
    return a < b if isinstance(a, int) and isinstance(b, int) else divides(a, b)


def divides(a: Dim, b: Dim) -> bool:
    """Whether b is a multiple of a for all values of the symbols."""
    if isinstance(a, int) and isinstance(b, int):
        return b % a == 0
    try:
        return (b // a) * a == b
    except VerifyException:
        return False


def is_part(op: Operation) -> bool:
    """Whether a slice or split of a computed value or an input is a view."""
    return part_starts(op) is not None and not isinstance(base_of(op.operands[0]).owner, SOURCES)


def concatenates_in_place(block: Block) -> dict[ConcatenateOp, list[int]]:
    """The concatenations of a block that are views, and the numbers of the operands that must be copied."""
    last = block.last_op
    taken = set(map(base_of, last.operands if isinstance(last, ReturnOp) else ()))
    found: dict[ConcatenateOp, list[int]] = {}
    for op in block.ops:
        if not isinstance(op, ConcatenateOp) or not _in_one_piece(op):
            continue
        copied: list[int] = []
        own: set[SSAValue] = set()
        for index, value in enumerate(op.operands):
            base = base_of(value)
            if base in taken or base in own or not _is_computed(base):
                copied.append(index)
            own.add(base)
        if 2 * sum(elements(op.operands[i]) for i in copied) <= elements(op.results[0]):
            found[op] = copied
            taken |= own
    return found


def may_be_in_place(op: ConcatenateOp, value: SSAValue) -> bool:
    """Whether a kernel can write an operand into its part of the result of a concatenation."""
    return _in_one_piece(op) and _is_computed(base_of(value))


def _in_one_piece(op: ConcatenateOp) -> bool:
    shape = shape_of(op.type)
    sizes = [elements(v) for v in (*op.operands, op.results[0])]
    return min(sizes) > 0 and cuts_outside(shape, axis_of(op.axis, len(shape)))


def _is_computed(base: SSAValue) -> bool:
    """Whether a kernel writes all of a value, or the value is a concatenation."""
    owner = base.owner
    return isinstance(owner, GraphOp | FusedOp) and not isinstance(owner, SOURCES) and not is_part(owner)


def insert_copy(op: Operation, index: int) -> TransposeOp:
    """Replace an operand by a copy, made before the op that reads it: a transpose with the identity permutation."""
    value = op.operands[index]
    assert op.parent is not None
    copy = TransposeOp.make(value, axes=tuple(range(len(shape_of(value.type)))))
    copy.location = op.location
    if (device := op.attributes.get(GRAPH_DEVICE)) is not None:
        copy.attributes[GRAPH_DEVICE] = device
    op.parent.insert_op_before(copy, op)
    op.operands[index] = copy.results[0]
    return copy


__all__ = [
    "base_of",
    "concatenates_in_place",
    "elements",
    "insert_copy",
    "is_part",
    "may_be_in_place",
    "part_starts",
    "reshape_groups",
]
