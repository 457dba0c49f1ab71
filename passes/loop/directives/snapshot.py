"""A copy of a kernel in the middle of its schedule, to which a refused or undone directive goes back."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

from mlc.passes.loop.directives.kernel import Kernel, Payload
from mlc.passes.loop.index_space.space import IndexSpace

_OpT = TypeVar("_OpT", bound=Operation)


def snapshot(kernel: Kernel) -> Kernel:
    """An independent copy: its function is a clone, and the same handles stand for the cloned loops and blocks."""
    values: dict[SSAValue, SSAValue] = {}
    blocks: dict[Block, Block] = {}
    func = kernel.func.clone(values, blocks)
    for old, new in blocks.items():
        values.update(zip(old.args, new.args, strict=True))
    ops = dict(zip(kernel.func.walk(), func.walk(), strict=True))

    def now(op: _OpT) -> _OpT:
        found = ops.get(op, op)
        assert isinstance(found, type(op))
        return found

    def payload(found: Payload) -> Payload:
        return now(found) if isinstance(found, Operation) else found

    copy = Kernel.__new__(Kernel)
    copy.func, copy.directive = func, kernel.directive
    copy.space = _space(kernel.space, values)
    copy.blocks = {name: now(block) for name, block in kernel.blocks.items()}
    copy.handles = {handle: payload(found) for handle, found in kernel.handles.items()}
    copy.consumed, copy.intrinsics = dict(kernel.consumed), kernel.intrinsics
    copy.unchecked = {now(f): directive for f, directive in kernel.unchecked.items()}
    copy.partial = {now(block) for block in kernel.partial}
    return copy


def _space(space: IndexSpace, values: dict[SSAValue, SSAValue]) -> IndexSpace:
    """The same numbers and ranges, of the cloned values."""
    copy = IndexSpace()
    copy.values += [values.get(v, v) for v in space.values]
    copy.numbers |= {values.get(v, v): n for v, n in space.numbers.items()}
    copy.ranges.update(space.ranges)
    return copy
