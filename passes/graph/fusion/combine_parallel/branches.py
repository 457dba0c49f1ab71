"""
Parallel branches: contractions of the same data, and the pointwise chains behind them, merged into one.

    %a = conv2d %x, %u          %c = conv2d %x, (concatenate %u, %v)
    %b = conv2d %x, %v    ->    %d = relu %c
    %c = relu %a                %a = slice %d [0 : O1]
    %d = relu %b                %b = slice %d [O1 : O1 + O2]

A family (convolutions, dense layers, matrix products) defines which ops can be merged, how, and at what cost. Chains
are merged as far as all branches have the same op with the same attributes, and constants that can be concatenated
along the axis of the branches. Only groups that are expected to be faster as one are merged: costs.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    BiasAddOp,
    BinaryOp,
    BroadcastToOp,
    CastOp,
    ConcatenateOp,
    GraphOp,
    PreluOp,
    ReshapeOp,
    SliceOp,
    UnaryOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.pointwise import is_own_pointwise
from mlc.dialects.graph.types import Dim, axis_of
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter, blocks, erase_dead
from mlc.targets.cost.branches import BranchCosts, Contraction
from mlc.targets.cost.thresholds import COMBINED_GAIN

Pointwise: TypeAlias = UnaryOp | BinaryOp | BiasAddOp | PreluOp | CastOp
OpT = TypeVar("OpT", bound=GraphOp)


@dataclass
class Branch:
    """A contraction and the pointwise ops behind it, each the only reader of the one before."""

    root: GraphOp
    chain: list[GraphOp] = field(default_factory=list[GraphOp])

    @property
    def ops(self) -> list[GraphOp]:
        """All ops, the contraction first."""
        return [self.root, *self.chain]


class Family(ABC, Generic[OpT]):
    """Contractions that can be merged: which, how, along which axis of the result, and at what cost."""

    root: type[OpT]

    @abstractmethod
    def key(self, op: OpT) -> Hashable | None:
        """The key that the ops of one group share; None for an op that cannot be merged."""

    @abstractmethod
    def axis(self, op: OpT) -> int:
        """The axis of the result along which branches are concatenated."""

    @abstractmethod
    def combine(self, rw: Rewriter, ops: Sequence[OpT]) -> SSAValue:
        """The merged contraction."""

    @abstractmethod
    def work(self, ops: Sequence[OpT], machine: BranchCosts) -> Contraction:
        """The sizes of the contraction that some ops are merged into; of one op, its own."""

    def copies(self, op: OpT, machine: BranchCosts, block: int) -> float:
        """Cycles of the slice that gives one op's part of the merged result: none where the part is contiguous."""
        shape, axis = static_shape(op.type), self.axis(op)
        return 0.0 if prod(shape[:axis]) == 1 else machine.copy(prod(shape))

    def costs(self, ops: Sequence[OpT], machine: BranchCosts) -> tuple[float, float]:
        """The cycles of the separate contractions, and of the merged one with its slices."""
        apart = sum(machine.contraction(self.work([op], machine)) for op in ops)
        work = self.work(ops, machine)
        return apart, machine.contraction(work) + sum(self.copies(op, machine, work.block) for op in ops)


@dataclass(frozen=True)
class CombineParallelPass(ModulePass):
    """
    Merge contractions of one tensor into one, together with the pointwise ops behind them.

    At least `min-branches` of them, and only where the merged one is expected to be faster on `target` with `threads`.
    """

    family: ClassVar[type[Family[Any]]]

    min_branches: int = 3
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        combine_parallel(op, self.family(), self.min_branches, BranchCosts.of(self.target, self.threads))


def combine_parallel(module: Operation, family: Family[OpT], min_branches: int, machine: BranchCosts) -> int:
    """Merge every group of a module for which that is faster; the number of groups."""
    return sum(_combine_block(block, family, min_branches, machine) for block in list(blocks(module)))


def _combine_block(block: Block, family: Family[OpT], min_branches: int, machine: BranchCosts) -> int:
    groups: dict[Hashable, list[OpT]] = {}
    for op in block.ops:
        if isinstance(op, family.root) and is_static(shape_of(op.results[0].type)):
            key = family.key(op)
            if key is not None:
                groups.setdefault((op.operands[0], key), []).append(op)
    count = 0
    for ops in groups.values():
        if len(ops) < max(2, min_branches):
            continue
        branches = [Branch(op, pointwise_chain(op.results[0])) for op in ops]
        steps = _common_steps(branches, family.axis(ops[0]))
        apart, together = family.costs(ops, machine)
        if together + _leftover_cost(branches, len(steps), machine) < COMBINED_GAIN * apart:
            _combine(block, family, ops, branches, steps)
            count += 1
    return count


def _common_steps(branches: Sequence[Branch], axis: int) -> list[ChainStep]:
    steps: list[ChainStep] = []
    while (step := _step(branches, len(steps), axis)) is not None:
        steps.append(step)
    return steps


def _leftover_cost(branches: Sequence[Branch], depth: int, machine: BranchCosts) -> float:
    """Cycles of the rests of chains, which fused with their contraction, but are kernels of their own after a slice."""
    return sum(machine.copy(prod(static_shape(b.root.type))) for b in branches if len(b.chain) > depth)


def _combine(
    block: Block, family: Family[OpT], roots: Sequence[OpT], branches: Sequence[Branch], steps: Sequence[ChainStep]
) -> None:
    """Merge the branches before the first of them."""
    place = {op: index for index, op in enumerate(block.ops)}
    rw, first, depth = Rewriter(), roots[0], len(steps)
    rw.at = first
    axis = family.axis(first)
    sizes = [shape_of(root.type)[axis] for root in roots]
    for root in roots:
        hoist(root.operands[1], first, place)
    value = family.combine(rw, roots)
    for step in steps:
        value = _apply(rw, step, value, axis, sizes, place)
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    parts = [slice_along(rw, value, axis, end - size, end) for end, size in zip(ends, sizes, strict=True)]
    for branch, part in zip(branches, parts, strict=True):
        last = branch.ops[depth]
        part.name_hint = last.results[0].name_hint
        last.results[0].replace_all_uses_with(part)
        erase_dead(last)


def pointwise_chain(value: SSAValue) -> list[GraphOp]:
    """The pointwise ops behind a value, each the only reader of the one before, with a result of its shape."""
    chain: list[GraphOp] = []
    while value.has_one_use():
        op = next(iter(value.uses)).operation
        if not isinstance(op, GraphOp) or not (isinstance(op, Pointwise) or is_own_pointwise(op)):
            break
        if shape_of(op.type) != shape_of(value.type):
            break
        chain.append(op)
        value = op.results[0]
    return chain


@dataclass
class ChainStep:
    """The pointwise ops at one depth of all branches, which become one op."""

    ops: list[GraphOp]
    index: int
    """The number of the operand that is the chain's value."""
    others: dict[int, list[SSAValue]]
    """Operand number -> the constants to concatenate; one value where all branches share it."""


def _step(branches: Sequence[Branch], depth: int, axis: int) -> ChainStep | None:
    """The ops of all branches at this depth, if they are equal up to constants that can be concatenated."""
    if any(len(branch.chain) <= depth for branch in branches):
        return None
    ops = [branch.chain[depth] for branch in branches]
    before = [branch.ops[depth].results[0] for branch in branches]
    first = ops[0]
    index = next(i for i, operand in enumerate(first.operands) if operand is before[0])
    for op, value in zip(ops, before, strict=True):
        same = type(op) is type(first) and op.properties == first.properties and op.operands[index] is value
        if not same or op.type.element_type != first.type.element_type:
            return None
    others: dict[int, list[SSAValue]] = {}
    for i in range(len(first.operands)):
        if i != index:
            values = _mergeable([op.operands[i] for op in ops], ops, axis)
            if values is None:
                return None
            others[i] = values
    return ChainStep(ops, index, others)


def _mergeable(values: list[SSAValue], ops: Sequence[GraphOp], axis: int) -> list[SSAValue] | None:
    """The branches' operands: one that all share, or constants that differ in size on the axis only; else None."""
    rank = len(shape_of(ops[0].type))
    if isinstance(ops[0], BiasAddOp):
        along = axis_of(ops[0].axis, rank) == axis
        if not along:
            return values[:1] if all(v is values[0] for v in values) else None
        return values if all(is_constant(v) for v in values) else None
    shapes = [(1,) * (rank - len(shape_of(v.type))) + tuple(shape_of(v.type)) for v in values]
    if all(v is values[0] for v in values) and shapes[0][axis] == 1:
        return values[:1]
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(rest) != 1 or not all(is_constant(v) for v in values):
        return None
    return values


def _apply(
    rw: Rewriter, step: ChainStep, value: SSAValue, axis: int, sizes: Sequence[Dim], place: dict[Operation, int]
) -> SSAValue:
    first = step.ops[0]
    operands: list[SSAValue] = []
    for index in range(len(first.operands)):
        if index == step.index:
            operands.append(value)
            continue
        for other in step.others[index]:
            hoist(other, rw.at, place)
        operands.append(_concatenated_operand(rw, step, index, axis, sizes))
    if isinstance(first, CastOp):
        return rw.clone(first, *operands, dtype=first.type.element_type)
    return rw.clone(first, *operands)


def _concatenated_operand(rw: Rewriter, step: ChainStep, index: int, axis: int, sizes: Sequence[Dim]) -> SSAValue:
    """The constants of all branches concatenated along the axis, those of size 1 broadcast first."""
    values = step.others[index]
    first = step.ops[0]
    if isinstance(first, BiasAddOp):
        return values[0] if len(values) == 1 else concatenated(rw, values, 0)
    if len(values) == 1 and len(step.ops) > 1:
        return values[0]
    rank = len(shape_of(first.type))
    parts: list[SSAValue] = []
    for value, size in zip(values, sizes, strict=True):
        shape = (1,) * (rank - len(shape_of(value.type))) + tuple(shape_of(value.type))
        value = value if len(shape_of(value.type)) == rank else rw.insert(ReshapeOp.make(value, shape=shape))
        wide = (*shape[:axis], size, *shape[axis + 1 :])
        parts.append(value if shape == wide else rw.insert(BroadcastToOp.make(value, shape=wide)))
    return concatenated(rw, parts, axis)


def concatenated(rw: Rewriter, values: Sequence[SSAValue], axis: int) -> SSAValue:
    """The values concatenated along an axis."""
    return rw.make(ConcatenateOp, *values, axis=axis)


def slice_along(rw: Rewriter, value: SSAValue, axis: int, start: Dim, end: Dim) -> SSAValue:
    """A part of a value along an axis."""
    shape = shape_of(value.type)
    begin, stop = list[Dim]([0] * len(shape)), list(shape)
    begin[axis], stop[axis] = start, end
    return rw.make(SliceOp, value, begin=tuple(begin), end=tuple(stop), strides=(1,) * len(shape))


def hoist(value: SSAValue, anchor: Operation | None, place: dict[Operation, int]) -> None:
    """Move the ops that compute a constant before the anchor, if they are behind it."""
    op = value.owner
    if not isinstance(op, Operation) or anchor is None or op.parent is not anchor.parent or op not in place:
        return
    if place[op] < place[anchor]:
        return
    for operand in op.operands:
        hoist(operand, anchor, place)
    assert anchor.parent is not None
    op.detach()
    anchor.parent.insert_op_before(op, anchor)
    place[op] = place[anchor] - 1
