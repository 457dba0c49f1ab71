"""Inverse hyperbolic functions by logarithms."""

from __future__ import annotations

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, divide, multiply, subtract
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value


def asinh(node: SourceNode, x: Value) -> Value:
    """`asinh(x) == sign(x) * log(|x| + sqrt(x * x + 1))`"""
    size = node.emit(g.AbsOp, x)
    root = node.emit(g.SqrtOp, add(node, multiply(node, x, x), 1.0))
    return multiply(node, node.emit(g.SignOp, x), node.emit(g.LogOp, add(node, size, root)))


def acosh(node: SourceNode, x: Value) -> Value:
    """`acosh(x) == log(x + sqrt(x * x - 1))`"""
    root = node.emit(g.SqrtOp, subtract(node, multiply(node, x, x), 1.0))
    return node.emit(g.LogOp, add(node, x, root))


def atanh(node: SourceNode, x: Value) -> Value:
    """`atanh(x) == log((1 + x) / (1 - x)) / 2`"""
    quotient = divide(node, add(node, 1.0, x), subtract(node, 1.0, x))
    return multiply(node, node.emit(g.LogOp, quotient), 0.5)
