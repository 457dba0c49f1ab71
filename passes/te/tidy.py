"""Clean-up of scalar bodies after rewrites: equal ops, unused ops, masks that always hold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from xdsl.ir import SSAValue

from mlc.dialects import te
from mlc.dialects.index import Index, Ranges


def tidy_body(stage: te.ComputeOp) -> None:
    """Common subexpression and dead code elimination; all ops of a body are pure."""
    seen: dict[Hashable, SSAValue] = {}
    block = stage.body.block
    for op in list(block.ops):
        if isinstance(op, te.YieldOp):
            break
        key = (type(op), op.operands, tuple(op.properties.items()), op.results[0].type)
        first = seen.setdefault(key, op.results[0])
        if first is not op.results[0]:
            op.results[0].replace_all_uses_with(first)
            op.detach()
            op.erase()
    for op in reversed(list(block.ops)):
        if op.results and op.results[0].first_use is None:
            op.detach()
            op.erase()


def replace_read(read: te.ReadOp, new: te.ReadOp) -> None:
    """Replace a read by another one, which takes its place, location and name."""
    new.location = read.location
    new.result.name_hint = read.result.name_hint
    assert read.parent is not None
    read.parent.insert_op_before(new, read)
    read.result.replace_all_uses_with(new.result)
    read.detach()
    read.erase()


def drop_true(mask: Sequence[Index], ranges: Ranges) -> list[Index]:
    """A mask without repetitions and without expressions that are never negative."""
    return [e for e in dict.fromkeys(mask) if e.bounds(ranges)[0] < 0]
