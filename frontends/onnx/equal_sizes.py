"""
Substitutions of symbols that make two sizes equal.

    (H + 15) floordiv 16 == ((H + 31) floordiv 32) * 2     H -> H * 32     the smallest step
    M == N                                                 M -> N          one symbol in place of two
    T == P + S                                             T -> P + S      a symbol that follows from others
    (H + 15) floordiv 48 == 1                              H -> H in 33 to 80   a range
    k * 2 == 6                                             k -> 3          a number

Applied to the sizes of the inputs, a substitution is checked at run time, and all sizes that follow are exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from mlc.dialects.graph.dims import Dim, DimExpr, FloorDiv
from mlc.frontends.common.sizes import Span

MAX_STEP = 128
"""The largest step of a symbol that is tried."""
MAX_TRIED_SIZE = 4096
"""The largest value of a symbol that is tried."""

Substitution = dict[str, Dim]


def substitutions(a: Dim, b: Dim, spans: Mapping[str, Span], counts: Collection[str] = ()) -> Iterator[Substitution]:
    """
    Substitutions that make two sizes equal, the least restrictive first.

    `spans` has the range of each symbol, in order; symbols in `counts` get steps only if the others do not suffice.
    """
    difference = without_common_factors(a - b)
    if not isinstance(difference, DimExpr):
        return
    used = set(difference.symbols())
    names = [name for name in spans if name in used]
    yield from _steps(difference, [name for name in names if name not in counts], spans)
    yield from _steps(difference, names, spans)
    yield from _solved(difference, names)
    if len(names) == 1:
        yield from _range(difference, names[0], spans[names[0]])
        yield from _number(difference, names[0], spans[names[0]])


def without_common_factors(size: Dim) -> Dim:
    """`x * a - x * b -> a - b`: for x == 0 the tensors are empty, and any sizes agree."""
    if not isinstance(size, DimExpr) or not size.terms[0][0]:
        return size
    terms = [(list(product), c) for product, c in size.terms]
    for atom in list(terms[0][0]):
        if all(atom in product for product, _ in terms):
            for product, _ in terms:
                product.remove(atom)
    total: Dim = 0
    for product, c in terms:
        total = total + DimExpr({tuple(product): c})
    return total if isinstance(total, int) else total.evaluate({})


def _steps(difference: DimExpr, names: list[str], spans: Mapping[str, Span]) -> Iterator[Substitution]:
    """The smallest step of the symbols for which the difference is 0."""
    for step in range(2, MAX_STEP + 1):
        several: Substitution = {
            name: DimExpr.symbol(name, *((0, spans[name][1] // step) if spans[name][0] == 0 else ())) * step
            for name in names
        }
        if difference.evaluate(several) == 0:
            yield several
            return


def _solved(difference: DimExpr, names: list[str]) -> Iterator[Substitution]:
    """The difference solved for a symbol, the last one first, that is in it once and as a term of its own."""
    terms = dict(difference.terms)
    for name in reversed(names):
        c = terms.get((name,))
        if c is None:
            continue
        rest = DimExpr.of(difference - DimExpr({(name,): c}))
        if name not in rest.symbols() and all(k % c == 0 for _, k in rest.terms):
            yield {name: DimExpr({product: -k // c for product, k in rest.terms}).evaluate({})}


def _range(difference: DimExpr, name: str, span: Span) -> Iterator[Substitution]:
    """The longest range of the symbol in which the difference is 0."""
    runs: list[list[int]] = []
    for n in _roots(difference, name, span):
        if runs and runs[-1][1] == n - 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    low, high = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    bounded = DimExpr.symbol(name, low, high)
    if low < high and difference.evaluate({name: bounded}) == 0:
        yield {name: bounded}


def _roots(difference: DimExpr, name: str, span: Span) -> list[int]:
    low, high = span
    return [n for n in range(low, min(high, MAX_TRIED_SIZE) + 1) if difference.evaluate({name: n}) == 0]


def _number(difference: DimExpr, name: str, span: Span) -> Iterator[Substitution]:
    """A value of the symbol for which the difference is 0, preferably a multiple of the divisors."""
    found = _roots(difference, name, span)
    whole = [n for n in found if all(n % d == 0 for d in _divisors(difference))]
    if found:
        yield {name: (whole or found)[0]}


def _divisors(size: DimExpr) -> Iterator[int]:
    for product, _ in size.terms:
        for atom in product:
            if not isinstance(atom, str):
                yield from (atom.divisor,) if isinstance(atom, FloorDiv) else ()
                yield from (divisor for part in atom.parts for divisor in _divisors(part))


__all__ = ["MAX_TRIED_SIZE", "Substitution", "substitutions"]
