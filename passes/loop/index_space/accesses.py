"""Access functions: the indices at which the blocks of a kernel load and store, over the loops around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, dim
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.expressions import exprs_of
from mlc.passes.loop.index_space.predicates import without_division
from mlc.passes.loop.index_space.space import IndexSpace


@dataclass(frozen=True, slots=True)
class Access:
    """One load, gather or store in a block: its indices as expressions of the loops around the block."""

    block: loop.BlockOp
    op: Operation
    buffer: SSAValue
    exprs: tuple[Index, ...]
    is_store: bool


def block_of(op: Operation) -> loop.BlockOp | None:
    """The block that an op stands in."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, loop.BlockOp):
            return parent
        op = parent
    return None


def blocks_accessing(buffer: SSAValue, *, stores: bool) -> list[loop.BlockOp]:
    """The blocks that store to a buffer, or else the blocks that load from it; each once."""
    found: dict[loop.BlockOp, None] = {}
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, loop.StoreOp) is stores and (block := block_of(op)) is not None:
            found[block] = None
    return list(found)


def accesses(space: IndexSpace, block: loop.BlockOp) -> list[Access]:
    """All loads, gathers and stores of a block, the init region's included."""
    to = binding_of_argument(space, block)
    found: list[Access] = []
    for op in walk(block):
        if isinstance(op, loop.AccessOp):
            exprs = exprs_of(space, op, to)["map"]
            if isinstance(op, loop.GatherOp):
                exprs[op.at.value.data] = exprs[op.at.value.data] + space.dim(op.by)
            found.append(Access(block, op, op.buffer, tuple(exprs), isinstance(op, loop.StoreOp)))
    return found


def in_axes(space: IndexSpace, access: Access) -> list[Index]:
    """The indices of an access over the block's axes: axis k is dimension k; other values are numbered above them."""
    block = access.block
    n = len(block.extents.data)
    axes = {a: dim(k) for args in _axis_arguments(block) for k, a in enumerate(args)}
    first = 2 if access.is_store else 1
    over = [axes.get(v) or dim(n + space.number(v)) for v in access.op.operands[first:]]
    attr = access.op.properties["map"]
    assert isinstance(attr, IndexMapAttr)
    return [e.substitute(lambda d: over[d] if d >= 0 else dim(d)) for e in attr.data]


def extent_predicates(space: IndexSpace, block: loop.BlockOp) -> set[Index]:
    """The predicates that do no more than keep a block's axes within their extents."""
    exprs = exprs_of(space, block)
    found = {p for b, e in zip(exprs["bindings"], exprs["extents"], strict=True) for p in (b, e - b - 1)}
    return found if all(e.is_const for e in exprs["extents"]) else found | {without_division(space, p) for p in found}


def _axis_arguments(block: loop.BlockOp) -> Sequence[Sequence[SSAValue]]:
    """The arguments that stand for the axes, in the body and in the init region."""
    return [block.body.block.args] + ([block.init.block.args] if block.has_init else [])


def binding_of_argument(space: IndexSpace, block: loop.BlockOp) -> dict[SSAValue, Index]:
    """Each axis argument of a block -> its binding over the space."""
    bindings = exprs_of(space, block)["bindings"]
    return {a: b for args in _axis_arguments(block) for a, b in zip(args, bindings, strict=True)}


def retype(alloc: loop.AllocOp, t: MemRefType) -> None:
    """Give a buffer another shape; its symbolic sizes are kept."""
    sizes = [e for e, n in zip(alloc.shape, t.get_shape(), strict=True) if n < 0]
    new = loop.AllocOp.make(t, alloc.scope.data, alloc.result.name_hint, sizes, alloc.args)
    new.attributes.update(alloc.attributes)
    Rewriter.replace_op(alloc, new)
