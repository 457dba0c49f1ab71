"""Where reads of a stage may lie: the ends of affine indices as sizes, which open sizes leave open."""

from __future__ import annotations

from math import ceil

from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.expressions import bounds_between
from mlc.dialects.index import UNBOUNDED, Index
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
    if not _is_affine(size):
        return False
    ends = {name: _ends(name) for name in size.symbols()}
    for extent in (*stage.extents, *(axis.extent for axis in stage.reduce)):
        if isinstance(extent, DimExpr) and _is_affine(extent) and len(names := set(extent.symbols())) == 1:
            terms, (name,) = dict(extent.terms), names
            if name in ends and (c := terms[(name,)]) > 0:
                least = ceil((1 - terms.get((), 0)) / c)
                ends[name] = max(ends[name][0], least), ends[name][1]
    return bounds_between(size, ends)[0] < 0


def _ends(name: str) -> tuple[int, int]:
    """The least and the greatest value of a symbol."""
    low, high = DimExpr({(name,): 1}).bounds()
    return int(low), int(min(high, UNBOUNDED))


def _is_affine(size: DimExpr) -> bool:
    """Whether a size is a sum of multiples of symbols, whose bounds it takes."""
    return all(len(product) < 2 and all(isinstance(atom, str) for atom in product) for product, _ in size.terms)
