"""
The dataflow graph that operator fusion partitions: a node for each op, tuple and projection, and its edges.

    node   index in topological order, kind, extern flag, consumers with the kind of the edge
    edge   the consumer's kind; a broadcast whose operand has the result's shape is elementwise

The operands of concatenate are the inputs of a tuple node; each result of an op with several results (split) is a
projection. Values that terminators, calls or regions read are extern.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import f32 as _f32
from xdsl.dialects.builtin import f64 as _f64
from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.graph import ConcatenateOp, ConstantOp, FullOp, GraphOp, ReshapeOp, shape_of
from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, INJECTIVE, OPAQUE, TUPLE
from mlc.dialects.graph.types import is_static

SCALARS = (_f32, _f64, i1, i32, i64)


@dataclass(eq=False, slots=True)
class DataflowNode:
    """One node; `op` is None for a tuple, and a projection's is the op whose result it is."""

    index: int
    kind: int
    op: Operation | None
    result: int | None = None
    extern: bool = False
    outputs: list[tuple[DataflowNode, int]] = field(default_factory=list)


def dataflow(block: Block) -> list[DataflowNode]:
    """The nodes of a block's ops in topological order; block arguments have none."""
    builder = _Builder()
    for op in block.ops:
        builder.visit(op)
    return builder.nodes


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[DataflowNode] = []
        self.node_of: dict[SSAValue, DataflowNode] = {}

    def add(self, kind: int, op: Operation | None, result: int | None = None) -> DataflowNode:
        """A new node, after all others."""
        node = DataflowNode(len(self.nodes), kind, op, result)
        self.nodes.append(node)
        return node

    def edge(self, value: SSAValue, consumer: DataflowNode | None, kind: int) -> None:
        """An edge to a value's consumer; without one, the value is extern."""
        node = self.node_of.get(value)
        if node is None:
            return
        if consumer is None:
            node.extern = True
        else:
            node.outputs.append((consumer, kind))

    def visit(self, op: Operation) -> None:
        """The nodes of one op and the edges to them."""
        if not isinstance(op, GraphOp):
            for operand in op.operands:
                self.edge(operand, None, OPAQUE)
            for region in op.regions:
                self.captured(region)
            return
        if isinstance(op, ConcatenateOp):
            items = self.add(TUPLE, None)
            for operand in op.operands:
                self.edge(operand, items, INJECTIVE)
            node = self.add(op.kind, op)
            items.outputs.append((node, op.kind))
        else:
            node = self.add(source_kind(op), op)
            shape = getattr(op.results[0].type, "shape", None) if len(op.results) == 1 else None
            for operand in op.operands:
                same = op.kind == BROADCAST and getattr(operand.type, "shape", None) == shape
                self.edge(operand, node, ELEMENTWISE if same else op.kind)
        if len(op.results) == 1:
            self.node_of[op.results[0]] = node
            return
        for index, result in enumerate(op.results):
            projection = self.add(INJECTIVE, op, index)
            node.outputs.append((projection, INJECTIVE))
            self.node_of[result] = projection

    def captured(self, region: Region) -> None:
        """Values that a region reads from outside are extern."""
        for inner in region.walk():
            for operand in inner.operands:
                self.edge(operand, None, OPAQUE)


def source_kind(op: GraphOp) -> int:
    """
    The op's kind; a constant of rank 0 is pulled into its consumers' groups, others are operands.

    A reshape of symbolic sizes is not fused: its index expressions would have products of symbols.
    """
    if isinstance(op, ConstantOp | FullOp) and not op.operands:
        simple = not op.type.shape.data and op.type.element_type in SCALARS
        return ELEMENTWISE if simple or isinstance(op, FullOp) else OPAQUE
    if isinstance(op, ReshapeOp) and not is_static(shape_of(op.type)):
        return OPAQUE
    return op.kind
