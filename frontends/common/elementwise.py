"""Elementwise ops, fills and reductions on values during import; numbers become constants like the other operand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp, tensor
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like


def binary(node: SourceNode, op: type[GraphOp], a: Value | float | Dim, b: Value | float | Dim) -> Value:
    """A binary op on values, or on a value and a number or a size of its type."""
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        a = node.array(a, like=b)
    return node.emit(op, a, b if isinstance(b, Value) else node.array(b, like=a))


def number(node: SourceNode, size: Dim, like: Value) -> Value | float:
    """A size as the other operand of an op on `like`: a float if it is known."""
    return float(size) if isinstance(size, int) else node.array(np.array(size, object), like)


def add(node: SourceNode, a: Value | float | Dim, b: Value | float | Dim) -> Value:
    """`a + b`."""
    return binary(node, g.AddOp, a, b)


def subtract(node: SourceNode, a: Value | float | Dim, b: Value | float | Dim) -> Value:
    """`a - b`."""
    return binary(node, g.SubtractOp, a, b)


def multiply(node: SourceNode, a: Value | float | Dim, b: Value | float | Dim) -> Value:
    """`a * b`."""
    return binary(node, g.MultiplyOp, a, b)


def divide(node: SourceNode, a: Value | float | Dim, b: Value | float | Dim) -> Value:
    """`a / b`."""
    return binary(node, g.DivideOp, a, b)


def cast(node: SourceNode, x: Value, dtype: DTypeLike) -> Value:
    """`x` with elements of another type."""
    return x if np.dtype(dtype_like(x)) == np.dtype(dtype) else node.emit(g.CastOp, x, dtype=np.dtype(dtype))


def iota(node: SourceNode, shape: Sequence[Dim], axis: int, dtype: DTypeLike = np.int64) -> Value:
    """Each element is its index along an axis."""
    return node.emit(g.IotaOp, result=tensor(tuple(shape), np.dtype(dtype).name), axis=axis)


def full(node: SourceNode, shape: Sequence[Dim], value: float, dtype: DTypeLike) -> Value:
    """A tensor filled with one value."""
    return node.emit(g.FullOp, shape=tuple(shape), value=value, dtype=np.dtype(dtype))


def select(node: SourceNode, condition: Value, a: Value | float, b: Value | float) -> Value:
    """`a if condition else b`, elementwise."""
    if not isinstance(a, Value):
        assert isinstance(b, Value)
        a = node.array(a, like=b)
    return node.emit(g.WhereOp, condition, a, b if isinstance(b, Value) else node.array(b, like=a))


def reduce(node: SourceNode, op: type[GraphOp], x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """A reduction over axes."""
    return node.emit(op, x, axes=tuple(axes), keepdims=keepdims) if axes else x
