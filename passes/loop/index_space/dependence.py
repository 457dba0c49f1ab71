"""Dependence tests: whether two iterations can touch one element, and whether subscripts determine an index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mlc.dialects.index import Div, Index, Range, Term, term_dims
from mlc.passes.loop.index_space.accesses import Access
from mlc.passes.loop.index_space.space import IndexSpace


def dependence_equalities(space: IndexSpace, a: Access, b: Access, apart: set[int], inner: set[int]) -> set[Index]:
    """
    Dependence test: expressions over `apart` that must be equal in two iterations in which a and b touch one element.

    Between the two iterations the values `apart` may differ, the values `inner` differ as they like, and all others
    are the same. Per dimension, equal subscripts `sum(c * t) + rest` of terms t over `apart` are solved as digits of a
    mixed radix: a term whose coefficient exceeds the distance that all smaller terms and `rest` can make up must be
    equal. Terms of `rest` with a larger coefficient must be equal by the same law, and do not count. Where these
    expressions determine all of `apart` (`recoverable`), the accesses are independent across it.
    """
    found: set[Index] = set()
    for e, f in zip(a.exprs, b.exprs, strict=True):
        x, y = _Subscript(space, e, apart, inner), _Subscript(space, f, apart, inner)
        if x.apart != y.apart or x.same != y.same or not x.apart:
            continue
        found |= {Index(0, ((t, 1),)) for t in _equal_terms(space, x, y)}
    return found


def _equal_terms(space: IndexSpace, x: _Subscript, y: _Subscript) -> list[Term]:
    """The terms over `apart` that must be equal where two subscripts are."""
    found = [t for t, _ in x.apart if not _width(space, t)]
    terms = {t: abs(c) for t, c in x.apart if t not in found}
    inner = {abs(c) for c, low, high in (*x.inner, *y.inner) if high > low}
    for size in sorted({*terms.values(), *inner}, reverse=True):
        (low, high), (first, last) = x.below(size), y.below(size)
        same = [t for t, c in terms.items() if c == size]
        twice = len(same) > 1 or (same and size in inner)
        smaller = sum(c * _width(space, t) for t, c in terms.items() if c < size)
        if twice or max(abs(last - low), abs(high - first)) + smaller >= size:
            break
        found += same
    return found


class _Subscript:
    """The terms of a subscript over `apart`, those that are the same in both iterations, and the bounds of the rest."""

    def __init__(self, space: IndexSpace, e: Index, apart: set[int], inner: set[int]) -> None:
        self.apart: list[tuple[Term, int]] = []
        self.same: list[tuple[Term, int]] = []
        self.const = e.const
        self.inner: list[tuple[int, int, int]] = []
        """(coefficient, lowest value, highest value) of each term over `inner`."""
        for t, c in e.terms:
            used = term_dims(t)
            if used & inner:
                self.inner.append((c, *Index(0, ((t, 1),)).bounds(space.ranges)))
            else:
                (self.apart if used & apart else self.same).append((t, c))

    def below(self, size: int) -> Range:
        """The bounds of the constant and of the terms over `inner` with smaller coefficients or of one value."""
        spans = [(low * c, high * c) for c, low, high in self.inner if low == high or abs(c) < size]
        return self.const + sum(map(min, spans)), self.const + sum(map(max, spans))


def _width(space: IndexSpace, term: Term) -> int:
    low, high = Index(0, ((term, 1),)).bounds(space.ranges)
    return high - low


def recoverable(expr: Index, known: Collection[Index], ranges: Mapping[int, Range], depth: int = 6) -> bool:
    """Injectivity test: whether the values of the `known` expressions determine that of `expr`."""
    if expr.is_const or expr in known:
        return True
    if depth == 0:
        return False
    divisors = {by for e in known for by in _divisors(e)}
    for by in sorted(divisors, reverse=True):
        q, r = expr.floordiv(by, ranges), expr.mod(by, ranges)
        if expr not in (q, r) and recoverable(q, known, ranges, depth - 1) and recoverable(r, known, ranges, depth - 1):
            return True
    return False


def parts_of(exprs: Iterable[Index], ranges: Mapping[int, Range]) -> set[Index]:
    """Expressions, and their quotients and remainders by their own coefficients: all that their values tell."""
    known = set(exprs)
    for e in list(known):
        for _, c in e.terms:
            if c > 1:
                known |= {e.floordiv(c, ranges), e.mod(c, ranges)}
    return known


def _divisors(expr: Index) -> set[int]:
    found: set[int] = set()
    for t, _ in expr.terms:
        if isinstance(t, Div):
            found |= {t.by} | _divisors(t.expr)
    return found
