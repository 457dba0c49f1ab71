"""
Parallel branches: contractions of the same data, and the pointwise chains behind them, made one.

    %a = conv2d %x, %u          %c = conv2d %x, (concatenate %u, %v)
    %b = conv2d %x, %v    ->    %d = relu %c
    %c = relu %a                %a = slice %d [0 : O1]
    %d = relu %b                %b = slice %d [O1 : O1 + O2]

A family (convolutions, dense layers, matrix products) says which ops may be one, how, and what that gains. The chains
follow as far as every branch has the same op there, with the same attributes, and with constants that can be
concatenated along the axis of the branches. Only groups that are faster as one are combined: branch_costs.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

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
    PreluOp,
    ReshapeOp,
    SliceOp,
    UnaryOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Rewriter, blocks, erase_dead
from mlc.targets.cost.branches import Machine, Work
from mlc.targets.cost.thresholds import COMBINED_GAIN

POINTWISE = (UnaryOp, BinaryOp, BiasAddOp, PreluOp, CastOp)


@dataclass
class Branch:
    """A contraction and the pointwise ops behind it, each the only reader of the one before."""

    root: Any
    chain: list[Any] = field(default_factory=list)

    @property
    def ops(self) -> list[Any]:
        """All ops, the contraction first."""
        return [self.root, *self.chain]


class Family(ABC):
    """Contractions that may be one: which, how, along which axis of the result, and what is gained."""

    root: type[Any]

    @abstractmethod
    def key(self, op: Any) -> Hashable | None:
        """What branches of one group share; None for an op that is in no group."""

    @abstractmethod
    def axis(self, op: Any) -> int:
        """The axis of the result along which the branches lie side by side."""

    @abstractmethod
    def combine(self, rw: Rewriter, ops: Sequence[Any]) -> SSAValue:
        """The one contraction."""

    @abstractmethod
    def work(self, ops: Sequence[Any], machine: Machine) -> Work:
        """The sizes of the one contraction of some ops; of one op, its own."""

    def copies(self, op: Any, machine: Machine, block: int) -> float:
        """Cycles of the slice that gives one op's part of the one: none where the part lies in one piece."""
        shape, axis = static_shape(op.type), self.axis(op)
        return 0.0 if prod(shape[:axis]) == 1 else machine.copy(prod(shape))

    def costs(self, ops: Sequence[Any], machine: Machine) -> tuple[float, float]:
        """The cycles of all contractions, and of the one with its slices."""
        apart = sum(machine.contraction(self.work([op], machine)) for op in ops)
        work = self.work(ops, machine)
        return apart, machine.contraction(work) + sum(self.copies(op, machine, work.block) for op in ops)


@dataclass(frozen=True)
class CombineParallelPass(ModulePass):
    """
    Make contractions of one tensor one contraction, and what is pointwise behind them with it.

    At least `min-branches` of them, and only where the one is expected to be faster on `target` with `threads`.
    """

    family: ClassVar[type[Family]]

    min_branches: int = 3
    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        combine_parallel(op, self.family(), self.min_branches, Machine.of(self.target, self.threads))


def combine_parallel(module: Operation, family: Family, min_branches: int, machine: Machine) -> int:
    """Combine every group of a module that pays; how many there were."""
    return sum(_combine_block(block, family, min_branches, machine) for block in list(blocks(module)))


def _combine_block(block: Block, family: Family, min_branches: int, machine: Machine) -> int:
    groups: dict[Hashable, list[Any]] = {}
    for op in block.ops:
        if isinstance(op, family.root) and is_static(shape_of(op.results[0].type)):
            key = family.key(op)
            if key is not None:
                groups.setdefault((op.operands[0], key), []).append(op)
    count = 0
    for ops in groups.values():
        if len(ops) < max(2, min_branches):
            continue
        branches = [Branch(op, follow(op.results[0])) for op in ops]
        steps = _common_steps(branches, family.axis(ops[0]))
        apart, together = family.costs(ops, machine)
        if together + _rest(branches, len(steps), machine) < COMBINED_GAIN * apart:
            _combine(block, family, branches, steps)
            count += 1
    return count


def _common_steps(branches: Sequence[Branch], axis: int) -> list[Step]:
    steps: list[Step] = []
    while (step := _step(branches, len(steps), axis)) is not None:
        steps.append(step)
    return steps


def _rest(branches: Sequence[Branch], depth: int, machine: Machine) -> float:
    """Cycles of what is left of chains: behind its contraction it cost nothing, behind a slice it is a kernel."""
    return sum(machine.copy(prod(static_shape(b.root.type))) for b in branches if len(b.chain) > depth)


def _combine(block: Block, family: Family, branches: Sequence[Branch], steps: Sequence[Step]) -> None:
    """Make the branches one, before the first of them."""
    place = {op: index for index, op in enumerate(block.ops)}
    roots = [branch.root for branch in branches]
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


def follow(value: SSAValue) -> list[Any]:
    """The pointwise ops behind a value, each the only reader of the one before, with a result of its shape."""
    chain: list[Any] = []
    while value.has_one_use():
        op = next(iter(value.uses)).operation
        if not isinstance(op, POINTWISE) or shape_of(op.type) != shape_of(value.type):
            break
        chain.append(op)
        value = op.results[0]
    return chain


@dataclass
class Step:
    """One pointwise op of every branch, which becomes one op: what its operands become."""

    ops: list[Any]
    index: int
    others: dict[int, list[SSAValue]]
    """Operand number -> the constants to concatenate; one value where all branches share it."""


def _step(branches: Sequence[Branch], depth: int, axis: int) -> Step | None:
    """The ops of all branches at this depth, if they are alike."""
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
            values = _alike([op.operands[i] for op in ops], ops, axis)
            if values is None:
                return None
            others[i] = values
    return Step(ops, index, others)


def _alike(values: list[SSAValue], ops: Sequence[Any], axis: int) -> list[SSAValue] | None:
    """The branches' operands: the one that all share, or constants that differ in size on the axis alone."""
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
    rw: Rewriter, step: Step, value: SSAValue, axis: int, sizes: Sequence[Any], place: dict[Operation, int]
) -> SSAValue:
    first = step.ops[0]
    operands: list[SSAValue] = []
    for index in range(len(first.operands)):
        if index == step.index:
            operands.append(value)
            continue
        for other in step.others[index]:
            hoist(other, rw.at, place)
        operands.append(_side_by_side(rw, step, index, axis, sizes))
    return rw.again(first, *operands, **({"dtype": first.type.element_type} if isinstance(first, CastOp) else {}))


def _side_by_side(rw: Rewriter, step: Step, index: int, axis: int, sizes: Sequence[Any]) -> SSAValue:
    """The constants of all branches along the axis, those of size 1 repeated."""
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
    """The values one behind the other."""
    return rw.make(ConcatenateOp, *values, axis=axis)


def slice_along(rw: Rewriter, value: SSAValue, axis: int, start: Any, end: Any) -> SSAValue:
    """A part of a value along an axis."""
    shape = shape_of(value.type)
    begin, stop = [0] * len(shape), list(shape)
    begin[axis], stop[axis] = start, end
    return rw.make(SliceOp, value, begin=tuple(begin), end=tuple(stop), strides=(1,) * len(shape))


def hoist(value: SSAValue, anchor: Operation | None, place: dict[Operation, int]) -> None:
    """Move what computes a constant before the anchor, where it is not there already."""
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
