"""Where reads of a stage may lie: the ends of affine indices as sizes, which open sizes leave open."""

from __future__ import annotations

from math import ceil, inf

from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.expressions import Bounded
from mlc.dialects.index import Index
from mlc.dialects.te_builder.indices import StageBuilder


def span_of(stage: StageBuilder, expr: Index) -> tuple[Dim, Dim]:
    """The smallest and the largest value of an affine index over the axes of a stage and sizes."""
    axes: dict[int, Dim] = dict(enumerate(stage.extents))
    axes |= {number: axis.extent for axis, number in stage.reduce.items()}
    sizes = {number: size for size, number in stage.open_sizes.items()}
    low: Dim = expr.const
    high: Dim = expr.const
    for number in expr.dims():
        c = expr.coefficient(number)
        if number in sizes:
            low, high = low + sizes[number] * c, high + sizes[number] * c
            continue
        last = (axes[number] - 1) * c
        low, high = (low, high + last) if c > 0 else (low + last, high)
    return low, high


def may_be_negative(stage: StageBuilder, size: Dim) -> bool:
    """
    Whether a size is negative for sizes that a kernel may be called with, at which each axis of the stage has elements.

    False where that is not known: of products and quotients of open sizes, and of kernels of a graph, whose sizes are
    checked when the program is called.
    """
    if isinstance(size, int):
        return size < 0
    if stage.symbols is not None:
        return False
    if any(len(product) > 1 or not all(isinstance(atom, str) for atom in product) for product, _ in size.terms):
        return False
    ends = {name: _ends(name) for name in size.symbols()}
    for extent in (*stage.extents, *(axis.extent for axis in stage.reduce)):
        if isinstance(extent, DimExpr) and (found := _single(extent)) is not None and found[0] in ends:
            name, c, const = found
            low, high = ends[name]
            ends[name] = max(low, ceil((1 - const) / c)), high
    least = sum(c * (ends[product[0]][c < 0] if product else 1) for product, c in _named(size))
    return least < 0


def _named(size: DimExpr) -> list[tuple[tuple[str, ...], int]]:
    return [(tuple(atom for atom in product if isinstance(atom, str)), c) for product, c in size.terms]


def _ends(name: str) -> tuple[float, float]:
    """The least and the greatest value of a symbol."""
    return (name.low, name.high) if isinstance(name, Bounded) else (1, inf)


def _single(size: DimExpr) -> tuple[str, int, int] | None:
    """(n, c, k) of a size `c * n + k`, c > 0; None of others."""
    terms = dict(_named(size))
    const = terms.pop((), 0)
    if len(terms) != 1:
        return None
    (product, c), *_ = terms.items()
    return (product[0], c, const) if len(product) == 1 and c > 0 else None
