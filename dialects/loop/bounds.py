"""
Which indices of an access lie outside of its buffer, whatever the kernel is given?

An index is judged where it is an affine expression of the indices of loops whose bounds are constants, of axes of
blocks that such expressions bind, and of tile axes. Each of these takes all of its values, independently of the others,
so the expression takes its smallest and its largest value too. In a loop that may have no iteration an access is
refused only if no value of its index is inside; under a condition or the predicate of a block it is not judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.index import Index, Range
from mlc.dialects.loop.structure import BlockOp, ForOp, FuncOp


def verify_bounds(
    op: Operation,
    buffer: MemRefType[Attribute],
    exprs: Sequence[Index],
    operands: Sequence[SSAValue],
    tile: Sequence[int],
) -> None:
    """VerifyException for the first axis of the buffer on which an index of this access is certainly outside."""
    for axis, (expr, size) in enumerate(zip(exprs, buffer.get_shape(), strict=True)):
        span = _span(expr, operands, tile)
        if span is None or _is_inside(span, size):
            continue
        low, high = span
        runs = _runs_always(op)
        if runs or (runs is False and (high < 0 or low >= size >= 0)):
            got = f"it is {low}" if low == high else f"it spans {low}..{high}"
            limit = "of at least 0" if size < 0 else f"in 0..{size - 1}"
            raise VerifyException(f"expected an index {limit} on axis {axis} of {buffer}, but {got}")


def _is_inside(span: Range, size: int) -> bool:
    return span[0] >= 0 and (size < 0 or span[1] < size)


def _runs_always(op: Operation) -> bool | None:
    """Whether an op runs whenever its kernel does; False if a loop around may be empty, None under a condition."""
    always = True
    block = op.parent
    while block is not None and not isinstance(around := block.parent_op(), FuncOp):
        if isinstance(around, ForOp):
            if (extent := around.extent) == 0:
                return None
            always = always and extent is not None
        elif not isinstance(around, BlockOp) or around.where is not None or block is not around.body.block:
            return None
        block = around.parent
    return always if block is not None else None


def _span(expr: Index, operands: Sequence[SSAValue], tile: Sequence[int]) -> Range | None:
    """The smallest and the largest value that an expression takes; None where that is not known."""
    if expr.is_const:
        return expr.const, expr.const
    factors: Counter[SSAValue | int] = Counter()
    constant = _collect(expr, 1, operands, factors)
    if constant is None:
        return None
    low = high = constant
    for index, factor in factors.items():
        values = (0, tile[-1 - index] - 1) if isinstance(index, int) else _values(index)
        if values is None:
            return None
        ends = values[0] * factor, values[1] * factor
        low, high = low + min(ends), high + max(ends)
    return low, high


def _collect(expr: Index, scale: int, operands: Sequence[SSAValue], factors: Counter[SSAValue | int]) -> int | None:
    """Add the expression, times `scale`, to the factors of the indices and tile axes; its constant, None if unknown."""
    constant = expr.const * scale
    for term, factor in expr.terms:
        if not isinstance(term, int):
            return None
        if term < 0:
            factors[term] += factor * scale
            continue
        value = operands[term]
        around = value.block.parent_op() if isinstance(value, BlockArgument) else None
        if isinstance(around, BlockOp) and isinstance(value, BlockArgument) and value.block is around.body.block:
            binding = around.bindings.data[value.index]
            inner = _collect(binding, factor * scale, around.args, factors)
            if inner is None:
                return None
            constant += inner
        else:
            factors[value] += factor * scale
    return constant


def _values(index: SSAValue) -> Range | None:
    """The first and the last value of the index of a loop between constants; None of other values."""
    block = index.owner
    loop = block.parent_op() if isinstance(block, Block) else None
    if not isinstance(loop, ForOp) or loop.iv is not index:
        return None
    lower, upper = loop.bounds.data
    if not (lower.is_const and upper.is_const) or lower.const >= upper.const:
        return None
    return lower.const, upper.const - 1
