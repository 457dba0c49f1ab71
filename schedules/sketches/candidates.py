"""Factor lists of the levels of a tiled axis."""

from __future__ import annotations

from itertools import product

MOST_INNER = 64
"""Points of the innermost tile along an axis, at most (Ansor: max_innermost_split_factor)."""
MOST_MIDDLE = 8
"""Tiles of a level in the next one out, at most."""
MOST_CANDIDATES = 128
"""Factor lists of an axis, at most: an even choice among all of them."""

Factors = tuple[int, ...]


def factor_lists(extent: int, levels: int, default: Factors, step: int = 1) -> tuple[Factors, ...]:
    """
    Lists of the extents of the `levels` inner levels of an axis, outer to inner, the default among them.

    The innermost is a multiple of `step` (the lanes of a vector) or a divisor of the extent; the others are small
    powers of two and divisors. Their product is at most the extent. A list of ones leaves the axis unsplit.
    """
    inner = sorted({f for f in (*_small(extent, MOST_INNER), *_vectors(step)) if f <= extent})
    outer = _small(extent, MOST_MIDDLE)
    found = [
        (*rest, last) for last in inner for rest in product(outer, repeat=levels - 1) if last * _product(rest) <= extent
    ]
    return tuple(sorted({*_thinned(found), (1,) * levels, default}))


def _small(extent: int, most: int) -> list[int]:
    """The divisors of an extent and the powers of two, up to a limit."""
    return [n for n in range(1, min(extent, most) + 1) if extent % n == 0 or n & (n - 1) == 0]


def _vectors(step: int) -> list[int]:
    return [step * n for n in (1, 2, 3, 4)] if step > 1 else []


def _thinned(found: list[Factors]) -> list[Factors]:
    """At most `MOST_CANDIDATES` of the lists, evenly spaced."""
    if len(found) <= MOST_CANDIDATES:
        return found
    return [found[k * len(found) // MOST_CANDIDATES] for k in range(MOST_CANDIDATES)]


def _product(factors: tuple[int, ...]) -> int:
    total = 1
    for one in factors:
        total *= one
    return total
