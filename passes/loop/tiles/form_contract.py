"""Blocks whose sums of narrow products become `loop.contract`, which sums the factors of one word."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.constants import narrow_arguments
from mlc.dialects.index import Index
from mlc.passes.loop.index_space.domain import body_ops

WIDENINGS = ("extf", "extsi", "extui")


def widened(v: SSAValue) -> SSAValue | None:
    """The narrow value of a cast that keeps it exactly."""
    owner = v.owner
    return owner.value if isinstance(owner, loop.CastOp) and owner.kind.data in WIDENINGS else None


def is_contraction(block: loop.BlockOp, sizes: Sequence[int], wide_axes: Sequence[int], where: Sequence[Index]) -> bool:
    """
    Whether a block `acc + widen(a) * widen(b)` sums, along the tile's last axis, the factors of a word.

    It may sum words along the axis before that one, too, as a matrix unit does. No predicate may use a summed axis: the
    accumulator has no lane for it that could be masked.
    """
    last = len(sizes) - 1
    if list(wide_axes) not in ([last], [last - 1, last]) or last < len(wide_axes):
        return False
    if any(e.uses(-1 - axis) for e in where for axis in wide_axes):
        return False
    sums = [op for op in body_ops(block.body.block) if isinstance(op, loop.FmaOp)]
    if len(sums) != 1:
        return False
    factors = [widened(v) for v in (sums[0].a, sums[0].b)]
    if any(v is None or not isinstance(v.owner, loop.LoadOp) for v in factors):
        return False
    elements = {v.type for v in factors if v is not None}
    return len(elements) == 1 and loop.word_factors(elements.pop()) == sizes[last]


def narrow_factor(v: SSAValue, rank: int) -> SSAValue | None:
    """The narrow tile behind a widened one of this rank."""
    source = widened(v)
    return source if source is not None and len(loop.shape_of(source.type)) == rank else None


def is_unsigned(v: SSAValue) -> bool:
    """Whether a widening zero-extends its value."""
    return isinstance(v.owner, loop.CastOp) and v.owner.kind.data == "extui"


def is_narrow(v: SSAValue) -> bool:
    """Whether a widening sign-extends bytes of an argument that the kernel's `mlc.narrow_bytes` names."""
    source = widened(v)
    if source is None or is_unsigned(v) or not isinstance(source.owner, loop.LoadOp):
        return False
    buffer = source.owner.buffer
    if not isinstance(buffer, BlockArgument) or not isinstance(func := buffer.block.parent_op(), loop.FuncOp):
        return False
    return buffer.index in narrow_arguments(func)


def drop_cast(v: SSAValue) -> None:
    """Erase a widening that has no uses."""
    owner = v.owner
    if isinstance(owner, Operation) and v.first_use is None:
        owner.detach()
        owner.erase()
