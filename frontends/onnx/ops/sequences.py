"""Sequences of lengths known at import, and optionals: both are resolved at import and leave no ops."""

from __future__ import annotations

import numpy as np

from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.movement import concat, reshape, slice_axis, stack
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node


def _items(node: Node, index: int) -> list[Value]:
    """The tensors of an input that is a sequence."""
    items = node.input(index).items
    if items is None:
        raise node.fail(f"expected input {index} ('{node.input(index).name}') to be a sequence, but got a tensor")
    return list(items)


def _sequence(node: Node, items: list[Value]) -> Value:
    return Value(None, None, node.path, items=tuple(items))


def _position(node: Node, index: int, length: int, last: int) -> int:
    """A position from 0 to `last` in a sequence (negative inputs count from the end); `last` if it is not given."""
    place = int(node.constant(index).reshape(())) if node.has(index) else last
    if not -length <= place <= last:
        raise node.fail(f"expected a position in [{-length}, {last}], but got {place}")
    return place + length if place < 0 else place


def _construct(node: Node) -> Value:
    return _sequence(node, [node.input(i) for i in range(len(node.inputs))])


def _empty(node: Node) -> Value:
    return _sequence(node, [])


def _insert(node: Node) -> Value:
    items = _items(node, 0)
    items.insert(_position(node, 2, len(items), len(items)), node.input(1))
    return _sequence(node, items)


def _erase(node: Node) -> Value:
    items = _items(node, 0)
    del items[_position(node, 1, len(items), len(items) - 1)]
    return _sequence(node, items)


def _at(node: Node) -> Value:
    items = _items(node, 0)
    return items[_position(node, 1, len(items), len(items) - 1)]


def _length(node: Node) -> Value:
    return node.array(np.array(len(_items(node, 0)), np.int64))


def _concat(node: Node) -> Value:
    items, axis = _items(node, 0), node.attr("axis")
    if not items:
        raise node.fail("expected a sequence of at least one tensor, but got an empty one")
    return stack(node, items, axis) if node.attr("new_axis", 0) else concat(node, items, axis)


def _split(node: Node) -> Value:
    x = node.input(0)
    axis = axis_of(node.attr("axis", 0), len(x.shape))
    size = x.shape[axis]
    if node.has(1):
        given = node.constant(1)
        each = int(given.reshape(-1)[0])
        sizes = given.tolist() if given.ndim else [min(each, size - start) for start in range(0, size, each)]
    else:
        sizes = [1] * size
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    parts = [slice_axis(node, x, axis, start, start + n) for start, n in zip(starts, sizes, strict=True)]
    if not node.has(1) and not node.attr("keepdims", 1):
        parts = [reshape(node, p, (*x.shape[:axis], *x.shape[axis + 1 :])) for p in parts]
    return _sequence(node, parts)


def _optional(node: Node) -> Value:
    """An optional that is present is represented by its content."""
    return node.input(0) if node.has(0) else Value(None, None, node.path, absent=True)


def _get_element(node: Node) -> Value:
    if not node.has(0):
        raise node.fail("expected an optional that holds something, but it is absent")
    return node.input(0)


def _has_element(node: Node) -> Value:
    return node.array(np.array(node.has(0)))


CONVERTERS: dict[str, Converter] = {
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _concat,
    "SplitToSequence": _split,
    "Optional": _optional,
    "OptionalGetElement": _get_element,
    "OptionalHasElement": _has_element,
}
