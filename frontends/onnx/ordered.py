"""
Topological order of nodes.

ONNX requires it of files; those of some tools do not have it, since onnxruntime accepts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Sequence

import onnx


def in_order(nodes: Sequence[onnx.NodeProto], known: Container[str]) -> list[tuple[int, onnx.NodeProto]]:
    """
    Nodes with their indices in the file, in topological order; `known` has names that are defined before them.

    Nodes that are in order already, or have a cycle, are left as they are.
    """
    producer = {name: k for k, one in enumerate(nodes) for name in one.output if name and name not in known}
    needs = [{producer[name] for name in read_names(one) if name in producer} - {k} for k, one in enumerate(nodes)]
    places = list(range(len(nodes)))
    if any(before > k for k in places for before in needs[k]):
        found = _sorted(needs)
        places = found if len(found) == len(nodes) else places
    return [(k, nodes[k]) for k in places]


def _sorted(needs: list[set[int]]) -> list[int]:
    """The topological order, the first of the file first among ready nodes; nodes in or after a cycle are left out."""
    readers: list[list[int]] = [[] for _ in needs]
    for k, before in enumerate(needs):
        for one in before:
            readers[one].append(k)
    missing = [len(before) for before in needs]
    ready = [k for k, count in enumerate(missing) if not count]
    order: list[int] = []
    while ready:
        order.append(k := heapq.heappop(ready))
        for reader in readers[k]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, including those that its bodies read from outside."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {item.name for item in (*graph.input, *graph.initializer)}
            own.update(name for one in graph.node for name in one.output)
            read = [name for one in graph.node for name in read_names(one)]
            yield from (name for name in (*read, *(info.name for info in graph.output)) if name not in own)
