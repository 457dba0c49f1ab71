"""
Operator fusion by mlc's rules: a producer joins the group of its consumers if all of its readers are in that group.

    group       ops                                                  producers that may join
    pointwise   elementwise and broadcast ops                        anything, if the result has the same size
    moving      transposes, slices, layout changes and pointwise     pointwise, moving
    reduction   one reduction, pointwise after it                    pointwise, moving but linear resizing
    rows        one softmax or layer norm, pointwise after it        cheap pointwise
    heavy       one convolution, product or pool, pointwise after    pointwise, read after the heavy op;
                                                                     cheap pointwise, computed in the padding copy
    attention   product, softmax over its rows, product              transposes, read through by the products
    joining     one concatenation behind an axis longer than one     slices and paddings along other axes than the last
    alone       other ops                                            none

Merging a producer whose readers are all in the group cannot make a cycle, so one rule serves chains and diamonds.
A reshape is a view and joins no group. Constants of one element, fills and iotas are copied to each group that reads
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.graph import (
    BandOp,
    ConcatenateOp,
    ConstantOp,
    Conv2dOp,
    Conv2dWinogradOp,
    CosOp,
    DivideOp,
    EluOp,
    ErfOp,
    ExpOp,
    FullOp,
    GeluOp,
    GraphOp,
    IotaOp,
    LayerNormOp,
    LogOp,
    LogSoftmaxOp,
    ModOp,
    PadOp,
    PowerOp,
    ReshapeOp,
    Resize2dOp,
    SigmoidOp,
    SiluOp,
    SinOp,
    SliceOp,
    SoftmaxOp,
    SoftplusOp,
    TakeOp,
    TanhOp,
    TransposeOp,
    shape_of,
)
from mlc.dialects.graph.base import BROADCAST, INJECTIVE, OUT_FUSABLE, REDUCTION
from mlc.dialects.graph.ops import trigonometry
from mlc.dialects.graph.types import axis_of
from mlc.passes.graph.fusion.fuse_ops.attention import joins_attention, leaves_attention, mixes
from mlc.passes.graph.shared.constants import SOURCES, is_static
from mlc.targets.cost.thresholds import LEAST_LANES, MOST_MOVED, RECOMPUTED_OPS, SMALL_RESULT

EXPENSIVE = {
    ExpOp, LogOp, TanhOp, SigmoidOp, ErfOp, EluOp, SoftplusOp, GeluOp, SiluOp, SinOp, CosOp, PowerOp, DivideOp, ModOp,
    *trigonometry.OPS,
}  # fmt: skip
ROWS = (SoftmaxOp, LogSoftmaxOp, LayerNormOp)


class Sort(IntEnum):
    """The kinds of groups; those from REDUCTION to HEAVY have an anchor."""

    POINTWISE = 0
    MOVING = 1
    REDUCTION = 2
    ROWS = 3
    HEAVY = 4
    ATTENTION = 5
    ALONE = 6


@dataclass(eq=False)
class KernelGroup:
    """Ops that become one kernel with one output, that of `ops[-1]`."""

    ops: list[Operation]
    sort: Sort
    anchor: Operation | None
    expensive: bool

    @property
    def output(self) -> Operation:
        """The op that computes the group's result."""
        return self.ops[-1]


def is_inlined(op: Operation) -> bool:
    """Whether a constant is copied into the groups that read it rather than passed to them."""
    if isinstance(op, FullOp | IotaOp | BandOp):
        return True
    return isinstance(op, ConstantOp) and math.prod(op.type.get_shape()) == 1


def sort_of(op: GraphOp) -> Sort:
    """The kind of a group of one op."""
    if len(op.results) != 1 or isinstance(op, ReshapeOp | ConcatenateOp) or not op.operands:
        return Sort.ALONE
    if isinstance(op, ROWS):
        return Sort.ROWS
    if op.kind <= BROADCAST:
        return Sort.POINTWISE
    return {INJECTIVE: Sort.MOVING, REDUCTION: Sort.REDUCTION, OUT_FUSABLE: Sort.HEAVY}.get(op.kind, Sort.ALONE)


class Fuser:
    """Partitions the ops of one block."""

    def __init__(self, block: Block, max_depth: int = 256):
        self.max_depth = max_depth
        self.position: dict[Operation, int] = {}
        self.group: dict[Operation, KernelGroup] = {}
        for index, op in enumerate(block.ops):
            self.position[op] = index
            if isinstance(op, GraphOp) and not isinstance(op, SOURCES):
                sort = sort_of(op)
                anchor = op if Sort.REDUCTION <= sort <= Sort.HEAVY else None
                self.group[op] = KernelGroup([op], sort, anchor, type(op) in EXPENSIVE)

    def run(self) -> list[list[Operation]]:
        """The groups, each as its ops in order, the output last."""
        for op in list(self.group):
            while self.absorb(self.group[op]):
                pass
        return [group.ops for group in dict.fromkeys(self.group.values())]

    def absorb(self, into: KernelGroup) -> bool:
        """Merge one producer into a group, the latest one first; False if none may join."""
        for producer in self.producers(into):
            if self.read_only_by(producer, into) and self.fits(producer, into):
                self.merge(producer, into)
                return True
        return False

    def producers(self, into: KernelGroup) -> list[KernelGroup]:
        """The groups that give operands to this one."""
        found: dict[KernelGroup, None] = {}
        for op in into.ops:
            for operand in op.operands:
                group = self.group_of(operand)
                if group is not None and group is not into:
                    found[group] = None
        return sorted(found, key=lambda group: -self.position[group.output])

    def group_of(self, value: SSAValue) -> KernelGroup | None:
        """The group of the op that gives a value, if one does."""
        return self.group.get(value.owner) if isinstance(value.owner, Operation) else None

    def read_only_by(self, producer: KernelGroup, into: KernelGroup) -> bool:
        """Whether every use of the producer's result is inside the group."""
        return all(self.group.get(use.operation) is into for use in producer.output.results[0].uses)

    def merge(self, producer: KernelGroup, into: KernelGroup) -> None:
        """Put the producer's ops into the group."""
        into.ops = sorted(producer.ops + into.ops, key=self.position.__getitem__)
        both = producer.anchor is not None and into.anchor is not None
        into.sort = Sort.ATTENTION if both else max(producer.sort, into.sort)
        into.anchor = into.anchor or producer.anchor
        into.expensive |= producer.expensive
        for op in producer.ops:
            self.group[op] = into

    def fits(self, producer: KernelGroup, into: KernelGroup) -> bool:
        """Whether the table at the top of this file allows the merge."""
        if len(producer.ops) + len(into.ops) > self.max_depth:
            return False
        if isinstance(into.output, ConcatenateOp):
            return _joins(producer, into.output)
        if Sort.ALONE in (producer.sort, into.sort):
            return False
        result = producer.output.results[0]
        if into.sort == Sort.ATTENTION:
            return joins_attention(producer, into)
        if producer.sort == Sort.ATTENTION:
            return leaves_attention(into)
        if mixes(producer, into, self.group_of):
            return True
        if producer.anchor is not None:
            return into.sort == Sort.POINTWISE and shape_of(result.type) == shape_of(into.output.results[0].type)
        if into.anchor is not None and any(operand is result for operand in into.anchor.operands):
            return _prologue(producer, into)
        if into.sort >= Sort.REDUCTION and producer.sort == Sort.MOVING:
            return into.sort == Sort.REDUCTION and self.before_anchor(producer, into)
        if into.sort == Sort.ROWS and producer.expensive:
            return False
        if _splits_rows(producer.output):
            return False
        repeats = into.sort == Sort.MOVING and len(producer.ops) > RECOMPUTED_OPS
        return not (producer.expensive or repeats) or not _expands(result)

    def before_anchor(self, producer: KernelGroup, into: KernelGroup) -> bool:
        """Whether all readers of the producer in the group come before the anchor."""
        assert into.anchor is not None
        readers = [use.operation for use in producer.output.results[0].uses]
        return all(self.position.get(op, 0) <= self.position[into.anchor] for op in readers)


def _prologue(producer: KernelGroup, into: KernelGroup) -> bool:
    """Whether a producer may be computed as the anchor reads it."""
    if into.sort == Sort.REDUCTION:
        return not any(isinstance(op, Resize2dOp) and op.mode != "nearest" for op in producer.ops)  # by rows
    cheap = producer.sort == Sort.POINTWISE and not producer.expensive
    return cheap and (into.sort == Sort.ROWS or _copies(into.anchor, producer.output.results[0]))


def _joins(producer: KernelGroup, into: ConcatenateOp) -> bool:
    """Whether slices and paddings may be read through by a concatenation, whose parts cannot lie in its result."""
    shape = shape_of(into.type)
    if set(shape[: axis_of(into.axis, len(shape))]) <= {1}:
        return False
    return all(isinstance(op, SliceOp | PadOp) and _keeps_last_axis(op) for op in producer.ops)


def _keeps_last_axis(op: SliceOp | PadOp) -> bool:
    """Whether runs along the last axis are copied as they are."""
    if shape_of(op.operands[0].type)[-1] != shape_of(op.type)[-1]:
        return False
    return op.strides[-1] == 1 if isinstance(op, SliceOp) else not any(op.pad_width[-2:])


def _copies(anchor: Operation | None, value: SSAValue) -> bool:
    """Whether the anchor copies the value before reading it, as a convolution with padding does."""
    if not isinstance(anchor, Conv2dOp | Conv2dWinogradOp) or not any(anchor.padding):
        return False
    return anchor.operands[0] is value and value not in list(anchor.operands)[1:]


def _splits_rows(op: Operation) -> bool:
    """
    Whether transposes read single elements of rows whose places are looked up: each would be an address of its own.

    Whole rows are copied first, and transposed as squares in registers.
    """
    if not isinstance(op, TakeOp):
        return False
    table, last = len(shape_of(op.operands[0].type)), len(shape_of(op.type)) - 1
    if axis_of(op.axis, table) == table - 1:
        return False
    if shape_of(op.type)[-1] in range(LEAST_LANES) or _elements(op.result) <= SMALL_RESULT:
        return False
    readers = [use.operation for use in op.results[0].uses]
    return all(isinstance(one, TransposeOp) and one.axes[-1] != last for one in readers)


def _expands(value: SSAValue) -> bool:
    """Whether readers would recompute elements of the value: a larger one, or several that move much of it each."""
    size = _elements(value)
    read = [(use.operation, _elements(result)) for use in value.uses for result in use.operation.results]
    largest = max((count for _, count in read), default=0)
    moved = sum(count for op, count in read if isinstance(op, GraphOp) and op.kind == INJECTIVE)
    again = largest > size or moved > MOST_MOVED * size
    return again and max(largest, moved) > SMALL_RESULT


def _elements(value: SSAValue) -> float:
    shape = shape_of(value.type)
    return math.prod(shape) if is_static(shape) else math.inf
