"""Predicates `e >= 0` over an index space: which of them always hold, and which follow from others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mlc.dialects.index import Div, Index, Range, Term, term_dims
from mlc.passes.loop.index_space.space import IndexSpace


def always_holds(space: IndexSpace, e: Index) -> bool:
    """Whether `e >= 0` in the whole domain: by the ranges, or in the last iterations of loops of symbolic extents."""
    if e.bounds(space.ranges)[0] >= 0:
        return True
    last = at_last_iterations(e, space.last_value)
    return any(one.bounds(space.ranges)[0] >= 0 for one in (last, without_floors(last)))


def without_floors(e: Index) -> Index:
    """
    A lower bound of an expression without the quotients that it subtracts a multiple of the divisor of.

    Law: n * (a floordiv n) <= a.
    """
    for term, c in e.terms:
        if isinstance(term, Div) and not term.is_mod and c < 0 and c % term.by == 0:
            return without_floors(e - Index(0, ((term, c),)) + term.expr * (c // term.by))
    return e


def unproved(space: IndexSpace, where: Iterable[Index]) -> list[Index]:
    """The predicates that may fail, each once; over symbols, also without those that another one implies."""
    found = [p for p in dict.fromkeys(where) if p.bounds(space.ranges)[0] < 0]
    if not any(space.is_symbolic([d]) for p in found for d in p.dims()):
        return found
    found = list(dict.fromkeys(without_division(space, p) for p in found))
    kept = [p for p in found if not always_holds(space, p)]
    for p in list(kept):  # of several that imply each other, one stays
        if any(q is not p and implies(q, p, space.ranges) for q in kept):
            kept.remove(p)
    return kept


def implies(known: Index, e: Index, ranges: Mapping[int, Range]) -> bool:
    """
    Whether `e >= 0` follows from `known >= 0`, as `2 * n - 7 * i - 1` does from `4 * n - 14 * i - 1`.

    Law: known <= k * e + k - 1 for a positive k, and known >= 0  ->  e > -1.
    """
    own = dict(e.terms)
    times = {c // own[t] for t, c in known.terms if t in own and c % own[t] == 0 and c // own[t] > 0} | {1}
    return any((e * k + (k - 1) - known).bounds(ranges)[0] >= 0 for k in times)


def at_last_iterations(e: Index, last_value: Callable[[int], Index | None]) -> Index:
    """
    A lower bound of an expression: indices in which it decreases are replaced by their `last_value`, if there is one.

    `N - 1 - %i` in `for %i = 0 to N` is 0. An index that occurs in an increasing term, too, stays.
    """
    to: dict[int, Index] = {}
    for d in {d for t, c in e.terms if c < 0 for d in term_dims(t)}:
        if _increases(-e, d) and (last := last_value(d)) is not None:
            to[d] = last
    return e.substitute(to) if to else e


def _increases(e: Index, d: int) -> bool:
    """Whether an expression increases monotonically in a dimension, in each term that uses it."""
    return all(c > 0 and _term_increases(t, d) for t, c in e.terms if d in term_dims(t))


def _term_increases(term: Term, d: int) -> bool:
    return isinstance(term, int) or (isinstance(term, Div) and not term.is_mod and _increases(term.expr, d))


def without_division(space: IndexSpace, e: Index) -> Index:
    """
    A predicate `e >= 0` without floor divisions of symbols.

    Law: a floordiv n + r >= 0  ==  a + n * r >= 0.
    """
    for term, c in e.terms:
        if isinstance(term, Div) and not term.is_mod and c == 1 and space.is_symbolic(term_dims(term)):
            return without_division(space, term.expr + (e - Index(0, ((term, 1),))) * term.by)
    return e
