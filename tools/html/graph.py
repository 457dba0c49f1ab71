"""The graph that is drawn: calls of kernels with the operations in them, and what stands between the calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import CallOp, ConstantOp, ParamOp, YieldOp
from mlc.dialects.graph.base import location_name
from mlc.dialects.graph.dims import DimsAttr
from mlc.dialects.syntax.source_nodes import origins_of
from mlc.tools.html.layers import Box, draw

CHARACTER = 7.1
"""Width of a character of the labels, in pixels."""
LINE = 17.0
"""Height of a line of a label, in pixels."""
PADDING = 10.0
LONGEST = 40
"""Characters of a label."""


@dataclass
class GraphNode:
    """A box: a call of a kernel (`call` is its number), an operation on views, an input or an output."""

    kind: str
    label: str
    lines: list[str]
    call: int = -1
    source: str = ""
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def box(self) -> Box:
        """Its size."""
        longest = max(map(len, (self.label, *self.lines)))
        width = min(longest, LONGEST) * CHARACTER + 2 * PADDING
        return Box(max(width, 54.0), LINE * (1 + len(self.lines)) + PADDING)


@dataclass
class GraphEdge:
    """A tensor from one box to another, and where it is drawn."""

    source: int
    target: int
    type: str
    points: list[tuple[float, float]]


class _Reader:
    """Finds the boxes and edges of @main."""

    def __init__(self, lines: list[list[str]]) -> None:
        self.lines = lines
        self.nodes: list[GraphNode] = []
        self.edges: list[tuple[int, int, str]] = []
        self.producer: dict[SSAValue, int] = {}
        self.calls = 0

    def node(self, node: GraphNode, operands: Iterable[SSAValue], results: Iterable[SSAValue] = ()) -> None:
        """Add a box, and an edge from each producer of an operand."""
        number = len(self.nodes)
        self.nodes.append(node)
        known: set[int] = set()
        for value in operands:
            source = self.producer.get(value)
            if source is not None and source not in known:
                known.add(source)
                self.edges.append((source, number, type_label(value)))
        for value in results:
            self.producer[value] = number

    def block(self, ops: Iterable[Operation]) -> None:
        """The boxes of a block's operations; those in regions stand before the operation that has the regions."""
        for op in ops:
            if isinstance(op, ParamOp | ConstantOp | YieldOp | ReturnOp):
                continue
            if isinstance(op, CallOp):
                name = op.callee.string_value()
                origins = ", ".join(origins_of(op))
                self.node(
                    GraphNode("kernel", name, self.lines[self.calls], self.calls, origins), op.operands, op.results
                )
                self.calls += 1
                continue
            inner: list[SSAValue] = []
            for region in op.regions:
                for block in region.blocks:
                    self.block(block.ops)
                    inner += block.last_op.operands if block.last_op is not None else ()
            source = location_name(op) or ""
            name = op.name.removeprefix("graph.")
            self.node(
                GraphNode("control" if op.regions else "view", name, [], -1, source), (*op.operands, *inner), op.results
            )


def graph_facts(main: FuncOp, lines: list[list[str]], inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    """The boxes and edges of @main as JSON; `lines` are the operations in each call's box."""
    reader = _Reader(lines)
    for name, value in zip(inputs, main.body.block.args, strict=False):
        reader.node(GraphNode("input", name, [type_label(value)]), (), [value])
    reader.block(main.body.block.ops)
    last = main.body.block.last_op
    for name, value in zip(outputs, last.operands if last is not None else (), strict=False):
        reader.node(GraphNode("output", name, [type_label(value)]), [value])
    drawing = draw([node.box() for node in reader.nodes], [(a, b) for a, b, _ in reader.edges])
    for node, box in zip(reader.nodes, drawing.boxes, strict=True):
        node.x, node.y, node.width, node.height = (round(n, 1) for n in (box.x, box.y, box.width, box.height))
    edges = [
        asdict(GraphEdge(a, b, label, [(round(x, 1), round(y, 1)) for x, y in points]))
        for (a, b, label), points in zip(reader.edges, drawing.edges, strict=True)
    ]
    nodes = [asdict(node) for node in reader.nodes]
    return {"nodes": nodes, "edges": edges, "width": round(drawing.width), "height": round(drawing.height)}


def type_label(value: SSAValue) -> str:
    """`1x64x55x55 f32`; a symbolic size is `?`, or its expression where the type has one."""
    t = value.type
    if not isinstance(t, TensorType):
        return str(t)
    dims = t.encoding.data if isinstance(t.encoding, DimsAttr) else t.get_shape()
    sizes = ["?" if size == DYNAMIC_INDEX else str(size) for size in dims]
    return f"{'x'.join(f'({n})' if ' ' in n else n for n in sizes)} {t.element_type}".strip()


__all__ = ["GraphEdge", "GraphNode", "graph_facts", "type_label"]
