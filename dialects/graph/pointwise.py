"""Pointwise graph ops of other dialects than `graph`: what passes may ask of them."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from mlc.dialects.graph.base import GraphOp

Query = Callable[[GraphOp], bool]
"""A question about an op that its te answers."""

_QUERIES: dict[type[Operation], tuple[Query, Query]] = {}
"""Class of a custom op with a te -> whether it gives finite results for finite operands, and whether it lowers."""


def set_queries(op: type[Operation], total: Query, lowers: Query) -> None:
    """Let `is_total` and `lowers` ask these functions about ops of this class."""
    _QUERIES[op] = total, lowers


def is_own(cls: type[Operation]) -> bool:
    """Whether an op class is a graph op of another dialect than mlc's own `graph`."""
    return issubclass(cls, GraphOp) and cls.name.partition(".")[0] != "graph"


def is_own_pointwise(op: Operation) -> bool:
    """
    Whether an op of another dialect computes each element of its one result at its place in the operands.

    Its class says so by `layout_rule`, elementwise or broadcast; convert-graph-to-te checks it.
    """
    return isinstance(op, GraphOp) and is_own(type(op)) and own_rule(type(op)) != "" and len(op.results) == 1


def is_own_unary(op: Operation) -> bool:
    """Whether `is_own_pointwise` holds of an op, and it has one operand, of its result's shape."""
    return is_own_pointwise(op) and len(op.operands) == 1 and own_rule(type(op)) == "elementwise"


def own_rule(cls: type[Operation]) -> str:
    """The rule of an own op class that is transparent to layouts: `elementwise`, `broadcast`; empty for others."""
    if not is_own(cls) or not issubclass(cls, GraphOp) or cls.result_given:
        return ""
    return cls.layout_rule if cls.layout_rule in ("elementwise", "broadcast") else ""


def is_total(op: GraphOp) -> bool:
    """Whether a custom op is known to give finite results for all finite operands."""
    queries = _QUERIES.get(type(op))
    return queries is not None and queries[0](op)


def lowers(op: GraphOp) -> bool:
    """Whether the te of a custom op takes its operands, of this rank; an op without a te has not been asked."""
    queries = _QUERIES.get(type(op))
    return queries is None or queries[1](op)
