"""Matrix products of tensors of any rank."""

from __future__ import annotations

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.movement import reshape, transpose
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value


def matmul(node: SourceNode, a: Value, b: Value) -> Value:
    """numpy's matmul: vectors are rows or columns, leading axes are batches; a constant matrix is a dense weight."""
    left, right = len(a.shape), len(b.shape)
    if left == 0 or right == 0:
        raise node.fail("expected operands of rank 1 or more, but got a scalar")
    if right == 2 and b.array is not None:
        return node.emit(g.DenseOp, a, transpose(node, b, (1, 0)))
    a = reshape(node, a, (1, *a.shape)) if left == 1 else a
    b = reshape(node, b, (*b.shape, 1)) if right == 1 else b
    y = node.emit(g.BatchMatmulOp, a, b)
    if left == 1 or right == 1:
        shape = list(y.shape)
        shape = shape[:-1] if right == 1 else shape
        y = reshape(node, y, [*shape[:-1], *shape[-1:]] if left != 1 else _without(shape, -2 if right != 1 else -1))
    return y


def _without(shape: list[Dim], axis: int) -> list[Dim]:
    axis %= len(shape)
    return shape[:axis] + shape[axis + 1 :]
