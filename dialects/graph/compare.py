"""
Decides whether two sizes are equal for all values of their symbols, even if their canonical forms differ.

`n - n floordiv 2` and `(n + 1) floordiv 2` are equal, but differ in canonical form. A size without minima is a
quasi-polynomial: in each symbol, a polynomial on each residue class modulo a period. A polynomial of degree d that is 0
at d + 1 values is 0 everywhere, so a difference that is 0 at (d + 1) * period values of each symbol is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from mlc.dialects.graph.dims import SymbolAttr
from mlc.dialects.graph.expressions import Atom, Bounded, Dim, DimExpr, FloorDiv, Least

MAX_POINTS = 1 << 13
"""Limit of the points at which sizes are compared: about 0.1 s; sizes in models need less than 100."""
SAMPLED_POINTS = 256
"""Values of a symbol at which sizes with minima are compared if its range is too long to enumerate."""


class Verdict(NamedTuple):
    """Whether two sizes are equal everywhere; if not, a counterexample `at`, if one was found."""

    equal: bool
    at: dict[str, int] | None = None


def compare_sizes(a: Dim, b: Dim, ranges: Mapping[str, SymbolAttr]) -> Verdict:
    """Whether two sizes are equal for all values of the symbols in their `ranges` (without a range: from 1 on)."""
    difference = a - b
    if isinstance(difference, int):
        return Verdict(difference == 0, None if difference == 0 else {})
    symbols = {str(name): name for name in _symbols(difference)}
    grid = {name: _values(difference, symbol, ranges.get(name)) for name, symbol in symbols.items()}
    count, sufficient = 1, True
    for values, enough in grid.values():
        count, sufficient = count * len(values), sufficient and enough
    if count > MAX_POINTS:
        grid, sufficient = {name: (values[:2], False) for name, (values, _) in grid.items()}, False
    at = next(_nonzero(difference, [(name, values) for name, (values, _) in grid.items()]), None)
    return Verdict(at is None and sufficient, at)


def _symbols(size: DimExpr) -> Iterator[str]:
    """The symbols of a size; bounded ones first."""
    return iter(sorted(size.symbols(), key=lambda name: isinstance(name, Bounded)))


def _values(size: DimExpr, symbol: str, known: SymbolAttr | None) -> tuple[range, bool]:
    """Values of a symbol at which to compare, and whether agreement at all of them is a proof."""
    low, high, step = (known.low.data, known.high.data, known.step.data) if known is not None else (1, None, 1)
    if isinstance(symbol, Bounded):
        low, high = max(low, symbol.low), symbol.high if high is None else min(high, symbol.high)
    low = -(-low // step) * step
    decided = (_degree(size, symbol) + 1) * _period(size, symbol)
    total = decided + 1 if high is None else max((high - low) // step + 1, 1)
    if total > decided and _has_minimum(size):
        decided, sufficient = (total, True) if high is not None and total <= MAX_POINTS else (SAMPLED_POINTS, False)
    else:
        decided, sufficient = min(total, decided), True
    return range(low, low + decided * step, step), sufficient


def _nonzero(size: Dim, grid: Sequence[tuple[str, range]]) -> Iterator[dict[str, int]]:
    """The points of a grid at which a size is not 0."""
    if isinstance(size, int) or not grid:
        if size != 0:
            yield {name: values[0] for name, values in grid}
        return
    (name, values), rest = grid[0], grid[1:]
    for value in values:
        for point in _nonzero(size.evaluate({name: value}), rest):
            yield {name: value, **point}


def _atoms(size: DimExpr) -> Iterator[Atom]:
    for product, _ in size.terms:
        yield from product


def _has_minimum(size: DimExpr) -> bool:
    """Whether a size contains a minimum."""
    return any(
        isinstance(atom, Least) or (isinstance(atom, FloorDiv) and _has_minimum(atom.value)) for atom in _atoms(size)
    )


def _degree(size: DimExpr, symbol: str) -> int:
    """The degree of a size as a polynomial in a symbol."""
    return max((sum(_atom_degree(atom, symbol) for atom in product) for product, _ in size.terms), default=0)


def _atom_degree(atom: Atom, symbol: str) -> int:
    return int(atom == symbol) if isinstance(atom, str) else max(_degree(part, symbol) for part in atom.parts)


def _period(size: DimExpr, symbol: str) -> int:
    """A period of a size as a quasi-polynomial in a symbol: a polynomial on each residue class modulo it."""
    return lcm(*(_atom_period(atom, symbol) for atom in _atoms(size)))


def _atom_period(atom: Atom, symbol: str) -> int:
    if isinstance(atom, str) or not any(symbol in part.symbols() for part in atom.parts):
        return 1
    inner = lcm(*(_period(part, symbol) for part in atom.parts))
    return inner * atom.divisor if isinstance(atom, FloorDiv) else inner


__all__ = ["Verdict", "compare_sizes"]
