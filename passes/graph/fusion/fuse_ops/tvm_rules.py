"""
Operator fusion by TVM's rules: post-dominators, groups with a kind, three phases.

A node is merged into the group of its sink, so a group's root is its output. A group holds at most one op of kind
out-elementwise-fusable: its anchor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, INJECTIVE, OPAQUE, OUT_FUSABLE, REDUCTION, TUPLE
from mlc.passes.graph.fusion.fuse_ops.dataflow import DataflowNode


@dataclass(eq=False, slots=True)
class Dominator:
    """A node's place in the post-dominator tree; `kind` is the highest edge kind on the paths to its parent."""

    node: DataflowNode
    parent: Dominator | None
    depth: int
    kind: int


def post_dominators(nodes: list[DataflowNode]) -> list[Dominator]:
    """The post-dominator tree, in one reverse pass; extern nodes are roots."""
    tree: dict[int, Dominator] = {}
    for node in reversed(nodes):
        if node.extern or not node.outputs:
            tree[node.index] = Dominator(node, None, 1, OPAQUE if node.extern else ELEMENTWISE)
            continue
        (first, kind), *others = node.outputs
        parent: Dominator | None = tree[first.index]
        for consumer, edge in others:
            parent, kind = _common_ancestor(parent, tree[consumer.index], max(kind, edge))
        tree[node.index] = Dominator(node, parent, 1 if parent is None else parent.depth + 1, kind)
    return [tree[node.index] for node in nodes]


def _common_ancestor(a: Dominator | None, b: Dominator | None, kind: int) -> tuple[Dominator | None, int]:
    while a is not b:
        if a is None or b is None:
            return None, kind
        if a.depth <= b.depth:
            kind, step_b = max(kind, b.kind), b.parent
            if a.depth == b.depth:
                kind, a = max(kind, a.kind), a.parent
            b = step_b
        else:
            kind, a = max(kind, a.kind), a.parent
    return a, kind


@dataclass(eq=False, slots=True)
class PatternGroup:
    """Union-find element of one node; kind and anchor hold for the root."""

    index: int
    kind: int
    anchored: bool
    parent: PatternGroup | None = None
    size: int = 1

    def root(self) -> PatternGroup:
        """The representative; its index is the group's output node."""
        top = self
        while top.parent is not None:
            top = top.parent
        if self is not top:
            self.parent = top
        return top


class Partitioner:
    """Runs the three phases over a dataflow graph."""

    def __init__(self, nodes: list[DataflowNode], max_depth: int = 256):
        self.nodes = nodes
        self.max_depth = max_depth
        self.tree = post_dominators(nodes)
        self.groups = [PatternGroup(node.index, node.kind, node.kind == OUT_FUSABLE) for node in nodes]

    def run(self) -> list[int]:
        """For each node, the index of its group's output node."""
        for phase in range(3):
            for node in self.nodes:
                self.visit(node, phase)
        return [group.root().index for group in self.groups]

    def visit(self, node: DataflowNode, phase: int) -> None:
        """Try to fuse a node with its post-dominator."""
        group, dominator = self.groups[node.index], self.tree[node.index]
        if group.kind == OPAQUE or dominator.parent is None:
            return
        sink = dominator.parent.node
        if self.size_with(node, sink) > self.max_depth:
            return
        into, root = self.groups[sink.index], self.groups[sink.index].root()
        if phase == 2:
            fields = into.kind == TUPLE and root.kind <= INJECTIVE
            if group.kind <= INJECTIVE and fields and self.path(node, sink, _injective):
                self.merge(node, sink)
            return
        if group.root() is root or into.kind == TUPLE:
            return
        condition = self.condition(group.kind, dominator.kind, phase)
        if condition is not None and self.path(node, sink, condition):
            self.merge(node, sink)

    @staticmethod
    def condition(kind: int, edges: int, phase: int) -> Callable[[int, bool], bool] | None:
        """The condition on every node on the paths to the sink; None if this phase does not fuse the kind."""
        if kind == OUT_FUSABLE:
            return _broadcast if phase == 0 and edges == ELEMENTWISE else None
        if kind <= BROADCAST:
            return _side_chain if edges <= INJECTIVE or edges == REDUCTION else None
        if kind in (INJECTIVE, TUPLE):
            return _injective if phase == 1 else None
        return None

    def path(self, source: DataflowNode, sink: DataflowNode, condition: Callable[[int, bool], bool]) -> bool:
        """Whether every node after `source`, up to the sink, is in a group of a kind that the condition allows."""
        seen: set[DataflowNode] = set()
        pending = [node for node, _ in source.outputs]
        while pending:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            if not condition(self.groups[node.index].root().kind, node is sink):
                return False
            if node is not sink:
                pending += [consumer for consumer, _ in node.outputs]
        return True

    def between(self, source: DataflowNode, sink: DataflowNode) -> list[DataflowNode]:
        """`source` and all nodes on its paths to the sink, without the sink."""
        seen: dict[DataflowNode, None] = {}
        pending = [source]
        while pending:
            node = pending.pop()
            if node is not sink and node not in seen:
                seen[node] = None
                pending += [consumer for consumer, _ in node.outputs]
        return list(seen)

    def size_with(self, source: DataflowNode, sink: DataflowNode) -> int:
        """How many nodes the sink's group would have."""
        own = sum(self.groups[node.index].size for node in self.between(source, sink))
        return self.groups[sink.index].root().size + own

    def merge(self, source: DataflowNode, sink: DataflowNode) -> None:
        """Merge a node, and all nodes on its paths to the sink, into the sink's group."""
        into = self.groups[sink.index]
        for node in self.between(source, sink):
            child, root = self.groups[node.index].root(), into.root()
            if child is root:
                continue
            root.size += child.size
            child.parent = root
            if child.anchored:
                assert not root.anchored, "two heavy ops in one group"
                root.anchored, root.kind = True, max(child.kind, root.kind)


def _broadcast(kind: int, is_sink: bool) -> bool:
    return kind <= BROADCAST


def _injective(kind: int, is_sink: bool) -> bool:
    return kind <= INJECTIVE


def _side_chain(kind: int, is_sink: bool) -> bool:
    """Injective in between; the sink may be a reduction, or be in a group that has an anchor already."""
    return kind <= INJECTIVE or (is_sink and kind in (REDUCTION, OUT_FUSABLE))
