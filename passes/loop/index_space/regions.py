"""
Access regions: the part of a buffer that a nest touches while some loops are fixed and the others run.

A region is a box: one `Interval` per dimension of the buffer. A read region is a bounding box, all that may be read; a
written region tells by `exact` whether all of it is written. TVM calls them read and write regions of a block.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlc.dialects.index import UNBOUNDED, ZERO, Div, Index, Range, dim, term_dims
from mlc.passes.loop.index_space.accesses import Access, extent_predicates, in_axes
from mlc.passes.loop.index_space.dependence import parts_of, recoverable
from mlc.passes.loop.index_space.expressions import exprs_of
from mlc.passes.loop.index_space.space import IndexSpace


@dataclass(frozen=True, slots=True)
class Interval:
    """`base`, `base + 1`, ...: `extent` points along a dimension; `exact` where every one of them is touched."""

    base: Index
    extent: int
    exact: bool = True

    def within(self, other: Interval, size: int) -> bool:
        """Whether the interval lies in another one, or the other is the whole dimension of this size."""
        if other.extent >= size:  # in bounds, so it starts at 0
            return True
        gap = self.base - other.base
        return gap.is_const and gap.const >= 0 and gap.const + self.extent <= other.extent

    def join(self, other: Interval) -> Interval | None:
        """The smallest interval that holds both, or None where the distance of their bases is not constant."""
        gap = other.base - self.base
        if not gap.is_const:
            return None
        low = min(0, gap.const)
        high = max(self.extent, gap.const + other.extent)
        return Interval(self.base + low, high - low, False)

    def shift(self, by: int) -> Interval:
        """The interval moved by a constant."""
        return Interval(self.base + by, self.extent, self.exact)


def whole(size: int) -> Interval:
    """A whole dimension."""
    return Interval(ZERO, size)


def fixed_terms(e: Index, fixed: Collection[int]) -> Index:
    """The terms of an expression that only `fixed` values occur in; the constant is left out."""
    return Index(0, tuple((t, c) for t, c in e.terms if all(d in fixed for d in term_dims(t))))


def running_terms(e: Index, fixed: Collection[int]) -> Index:
    """The other terms: those that change while the `fixed` values do not."""
    return Index(0, tuple((t, c) for t, c in e.terms if not all(d in fixed for d in term_dims(t))))


def interval_of(expr: Index, fixed: Collection[int], ranges: Mapping[int, Range]) -> Interval:
    """The values of an expression while the `fixed` dimensions stand still and all others run through their ranges."""
    base = fixed_terms(expr, fixed) + expr.const
    low, high, exact = 0, 0, True
    strides: list[tuple[int, int]] = []
    for term, c in running_terms(expr, fixed).terms:
        if isinstance(term, int):
            a, b = ranges[term]
        elif not any(d in fixed for d in term_dims(term)):
            a, b = Index(0, ((term, 1),)).bounds(ranges)
            exact = False
        else:
            assert isinstance(term, Div)
            start, b = _interval_of_division(term, fixed, ranges)
            base, a, exact = base + start * c, 0, False
        strides.append((abs(c), b - a + 1))
        low, high = (low + a * c, high + b * c) if c > 0 else (low + b * c, high + a * c)
    return Interval(base + low, high - low + 1, exact and _is_contiguous(strides))


def _interval_of_division(term: Div, fixed: Collection[int], ranges: Mapping[int, Range]) -> tuple[Index, int]:
    """A division of an expression with fixed and running parts: where it begins, and how far beyond that it reaches."""
    inner = interval_of(term.expr, fixed, ranges)
    if term.is_mod:
        return ZERO, term.by - 1
    start = inner.base.floordiv(term.by, ranges)
    low = inner.base.const % term.by if all(c % term.by == 0 for _, c in inner.base.terms) else term.by - 1
    return start, (low + inner.extent - 1) // term.by


def _is_contiguous(strides: Sequence[tuple[int, int]]) -> bool:
    """Whether sums of multiples (stride, how many) leave no gaps."""
    reach = 1
    for stride, count in sorted(strides):
        if count > 1 and stride > reach:
            return False
        reach += stride * (count - 1)
    return True


def read_region(space: IndexSpace, access: Access, fixed: set[int], sizes: Sequence[int]) -> list[Interval]:
    """A bounding box of what an access touches while the `fixed` values stand still, in a buffer of these sizes."""
    region = [interval_of(e, fixed, space.ranges) for e in access.exprs]
    return [whole(n) if s.extent >= n else s for s, n in zip(region, sizes, strict=True)]


def _reached(space: IndexSpace, expr: Index, size: int, *, alone: bool) -> Interval:
    """What an index of a store reaches in all iterations: the whole dimension, unless its bounds say otherwise."""
    found = interval_of(expr, frozenset(), space.ranges)
    if size >= UNBOUNDED or (found.base == ZERO and found.extent >= size):
        return whole(size)
    return Interval(found.base, min(found.extent, size), found.exact and alone)


def written_region(space: IndexSpace, access: Access, fixed: set[int], sizes: Sequence[int]) -> list[Interval]:
    """
    The box that a store covers while the `fixed` values stand still, in a buffer of these sizes.

    Relies on the block writing its whole domain when all its loops run, each point another element: dimensions that
    share no index with a fixed value, not even through other dimensions, are as wide as that domain.
    """
    clipped = extent_predicates(space, access.block)
    predicates = exprs_of(space, access.block).get("where", [])
    where = [p for p in predicates if p not in clipped]
    overhang = {d for p in predicates if p in clipped for d in p.dims()} - fixed
    region: list[Interval] = []
    axes = [sum(0 <= d < len(access.block.extents.data) for d in e.dims()) for e in in_axes(space, access)]
    for expr, size, group, used in zip(access.exprs, sizes, _coupled(access.exprs, fixed), axes, strict=True):
        if not any(d in fixed for e in group for d in e.dims()):
            region.append(_reached(space, expr, size, alone=len(group) == 1))
            continue
        interval = interval_of(expr, fixed, space.ranges)
        if len(group) > 1:
            interval = Interval(interval.base, interval.extent, _fills_box(group, fixed, space.ranges))
        if used > 1 and overhang & expr.dims():  # beyond the extent of one axis lie elements of the next point
            interval = Interval(interval.base, interval.extent, False)
        region.append(interval)
    return _restricted(access.exprs, region, where, fixed) if where else region


def _coupled(exprs: Sequence[Index], fixed: set[int]) -> list[list[Index]]:
    """For each subscript, those that are coupled with it by running values that both use, itself included."""
    running = [e.dims() - fixed for e in exprs]
    groups: list[list[Index]] = []
    for own in running:
        reach, size = set(own), -1
        while size != len(reach):
            size = len(reach)
            for other in running:
                if other & reach:
                    reach |= other
        groups.append([e for e, r in zip(exprs, running, strict=True) if r & reach or r is own])
    return groups


def _fills_box(group: Sequence[Index], fixed: set[int], ranges: Mapping[int, Range]) -> bool:
    """
    Whether coupled subscripts take all combinations of their values: `i floordiv 2, i mod 2` do.

    They do where they determine the running values, and their box has as many points as there are running values.
    """
    parts = [running_terms(e, fixed) for e in group]
    running = sorted({d for e in parts for d in e.dims()})
    if fixed & set(running):
        return False
    points = prod(ranges[d][1] - ranges[d][0] + 1 for d in running)
    places = prod(high - low + 1 for low, high in (e.bounds(ranges) for e in parts))
    known = parts_of(parts, ranges)
    return points == places and all(recoverable(dim(d), known, ranges) for d in running)


def _restricted(exprs: Sequence[Index], region: list[Interval], where: list[Index], fixed: set[int]) -> list[Interval]:
    """The region within predicates `K - running terms >= 0`; a predicate of another form makes it inexact."""
    found = list(region)
    for p in where:
        for k, (expr, interval) in enumerate(zip(exprs, region, strict=True)):
            slack = p + running_terms(expr, fixed)
            if slack.is_const and interval.extent > p.const + 1:
                found[k] = Interval(interval.base, p.const + 1, interval.exact)
            elif not slack.is_const and p.dims() & (expr.dims() - fixed):
                found[k] = Interval(interval.base, interval.extent, False)
    return found
