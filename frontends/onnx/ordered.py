"""
Nodes behind those that give what they read.

ONNX wants files to have them so; those of some tools have not, since onnxruntime does not mind.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Sequence

import onnx


def in_order(nodes: Sequence[onnx.NodeProto], known: Container[str]) -> list[tuple[int, onnx.NodeProto]]:
    """
    Nodes with their places in the file, each behind those that give its inputs; `known` are names that stand before.

    Where the file has them in an order, or where there is none, they stay as they are.
    """
    giver = {name: k for k, one in enumerate(nodes) for name in one.output if name and name not in known}
    needs = [{giver[name] for name in _read(one) if name in giver} - {k} for k, one in enumerate(nodes)]
    places = list(range(len(nodes)))
    if any(before > k for k in places for before in needs[k]):
        found = _sorted(needs)
        places = found if len(found) == len(nodes) else places
    return [(k, nodes[k]) for k in places]


def _sorted(needs: list[set[int]]) -> list[int]:
    """What needs nothing that is not before it, the first of the file first; without what needs itself."""
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


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, and its bodies from what stands round them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            graph = attribute.g
            own = {item.name for item in (*graph.input, *graph.initializer)}
            own.update(name for one in graph.node for name in one.output)
            read = [name for one in graph.node for name in _read(one)]
            yield from (name for name in (*read, *(info.name for info in graph.output)) if name not in own)
