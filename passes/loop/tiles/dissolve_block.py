"""A block that sched.tensorize wrote holds tile ops already: they take its place, over the loops around it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mlc.dialects import loop, scalar
from mlc.dialects.index import Index, dim
from mlc.passes.loop.index_space.domain import body_ops
from mlc.passes.loop.index_space.space import IndexSpace


def holds_tiles(block: loop.BlockOp) -> bool:
    """Whether a block computes on tiles, not on elements."""
    return any(isinstance(r.type, VectorType) for op in block.body.block.ops for r in op.results)


class DissolvedBlock:
    """The ops of a block with its axes replaced by what they are bound to; its predicate masks loads and stores."""

    def __init__(self, block: loop.BlockOp) -> None:
        self.block = self.anchor = block
        self.space = IndexSpace()
        bindings = self.space.exprs(block.bindings.data, block.args)
        self.axes: dict[SSAValue, Index] = {a: e for a, e in zip(block.body.block.args, bindings, strict=True)}
        self.where = list(self.space.exprs(block.where_exprs, block.args))
        self.values: dict[SSAValue, SSAValue] = {}

    def run(self) -> None:
        """Put the ops in the place of the block."""
        parent = self.block.parent_op()
        if isinstance(parent, loop.ForOp) and parent.kind.data == "vectorized":
            raise PassFailedException(
                f"expected no vectorized loop around block '{self.block.name_}', which works on tiles already"
            )
        for op in body_ops(self.block.body.block):
            if isinstance(op, loop.LoadOp):
                self._load(op)
            elif isinstance(op, loop.StoreOp):
                exprs, operands = self._place(op)
                value, mask = self._get(op.value), self._mask(op)
                self._insert(loop.StoreOp.make(value, op.buffer, exprs, operands, op.tile_sizes, mask), op)
            elif isinstance(op, loop.IndexOp | loop.GatherOp):
                raise PassFailedException(f"expected loads and stores in block '{self.block.name_}', but got {op.name}")
            else:
                self._insert(op.clone(self.values), op)

    def _load(self, op: loop.LoadOp) -> None:
        mask, otherwise = self._mask(op), None
        if mask:
            given = self._get(op.otherwise) if op.otherwise is not None else None
            otherwise = given if given is not None else self._zero(op)
        new = loop.LoadOp.make(op.buffer, *self._place(op), op.tile_sizes, mask, otherwise)
        self.values[op.result] = self._insert(new, op).results[0]

    def _zero(self, op: loop.LoadOp) -> SSAValue:
        zero = self._insert(scalar.constant(0, loop.element_of(op.result.type)), op).results[0]
        if not isinstance(op.result.type, VectorType):
            return zero
        return self._insert(loop.BroadcastOp.make(zero, op.result.type), op).results[0]

    def _insert(self, op: Operation, like: Operation) -> Operation:
        op.location = like.location
        parent = self.block.parent
        assert parent is not None
        parent.insert_op_before(op, self.block)
        return op

    def _get(self, value: SSAValue) -> SSAValue:
        return self.values.get(value, value)

    def _exprs(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> list[Index]:
        def one(d: int) -> Index:
            if d < 0:
                return dim(d)
            known = self.axes.get(operands[d])
            return self.space.dim(self._get(operands[d])) if known is None else known

        return [e.substitute(one, self.space.ranges) for e in exprs]

    def _place(self, op: loop.LoadOp | loop.StoreOp) -> tuple[list[Index], list[SSAValue]]:
        return self._exprs(op.map.data, op.indices), self.space.values

    def _mask(self, op: loop.LoadOp | loop.StoreOp) -> list[Index]:
        return [*self._exprs(op.mask_exprs, op.indices), *self.where]
