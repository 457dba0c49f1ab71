"""
The candidates of a template's entities, by the policies of TVM's ConfigSpace.

`split` enumerates the inner extents of an axis (the outermost is stored as -1), `reorder` permutations, `annotate` one
of none, unroll, vec for each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from math import factorial, prod
from typing import TypeVar

from mlc.support.errors import UserError
from mlc.tuning.templates.entities import AnnotateEntity, ReorderEntity, SplitEntity

T = TypeVar("T")

ANNOTATIONS = ("none", "unroll", "vec")
MOST_CANDIDATES = 1 << 17
"""Candidates of one entity beyond which a policy is refused, as its list is written into every schedule."""


def factors_of(extent: int) -> list[int]:
    """The divisors, ascending."""
    return [n for n in range(1, extent + 1) if extent % n == 0]


def powers_of_two(extent: int) -> list[int]:
    """1, 2, 4, ... up to the extent."""
    return [1 << k for k in range(extent.bit_length())]


def split_entities(
    extent: int,
    policy: str = "factors",
    *,
    num_outputs: int,
    filter: Callable[[SplitEntity], bool] | None = None,
    max_factor: int | None = None,
    no_tail: bool | None = None,
    candidate: Iterable[Sequence[int]] | None = None,
) -> list[SplitEntity]:
    """
    The ways to split an axis into `num_outputs` loops.

    The factors of the inner loops are divisors (`factors`), powers of two (`power2`) or both (`verbose`), at most
    `max_factor`; their product is at most the extent, and divides it with `no_tail` (the default of `factors` alone).
    `candidate` takes the list given. Raises UserError for another policy, and where nothing is left.
    """
    if num_outputs < 1:
        raise UserError(f"expected num_outputs of at least 1, but got {num_outputs}")
    if policy == "candidate":
        found = [SplitEntity(tuple(size)) for size in candidate or ()]
        for one in found:
            if len(one.size) != num_outputs:
                raise UserError(f"expected candidates of {num_outputs} factors, but got {list(one.size)}")
    else:
        inner = _factors(extent, policy, max_factor)
        _check_number(len(inner) ** (num_outputs - 1), "split")
        exact = policy == "factors" if no_tail is None else no_tail
        lists = (tuple(reversed(one)) for one in product(inner, repeat=num_outputs - 1))
        found = [SplitEntity((-1, *one)) for one in lists if _fits(prod(one), extent, exact)]
    return _some([one for one in found if filter is None or filter(one)], "split")


def _factors(extent: int, policy: str, max_factor: int | None) -> list[int]:
    known: dict[str, Callable[[int], list[int]]] = {
        "factors": factors_of,
        "power2": powers_of_two,
        "verbose": lambda n: sorted({*factors_of(n), *powers_of_two(n)}),
    }
    if policy not in known:
        raise UserError(f"expected a policy among {', '.join(known)}, candidate, but got {policy!r}")
    return [f for f in known[policy](extent) if max_factor is None or f <= max_factor]


def _fits(size: int, extent: int, exact: bool) -> bool:
    return extent % size == 0 if exact else size <= extent


def reorder_entities(
    names: Sequence[str],
    policy: str = "all",
    *,
    candidate: Iterable[Sequence[str]] | None = None,
    interval: tuple[int, int] | None = None,
    spatial: Sequence[Sequence[str]] = (),
    reduce: Sequence[Sequence[str]] = (),
) -> list[ReorderEntity]:
    """
    The orders of named loops: `identity`, `all`, `interval_all` (those of the interval, end excluded), `candidate`.

    `interleave` merges the outer loops of the spatial chains in all ways that keep each chain's order, and behind them
    in all such ways their last loops and the reduction chains.
    """
    number = {name: k for k, name in enumerate(names)}
    everything = tuple(range(len(names)))

    def numbers(chain: Sequence[str]) -> tuple[int, ...]:
        for name in chain:
            if name not in number:
                raise UserError(f"expected loops among {', '.join(names)}, but got '{name}'")
        return tuple(number[name] for name in chain)

    if policy == "identity":
        orders = [everything]
    elif policy == "all":
        _check_number(factorial(len(names)), "reorder")
        orders = list(permutations(everything))
    elif policy == "interval_all":
        begin, end = interval if interval is not None else (0, len(names))
        _check_number(factorial(max(0, end - begin)), "reorder")
        orders = [(*everything[:begin], *one, *everything[end:]) for one in permutations(everything[begin:end])]
    elif policy == "candidate":
        orders = [numbers(one) for one in candidate or ()]
    elif policy == "interleave":
        own, sums = [numbers(c) for c in spatial], [numbers(c) for c in reduce]
        outer, inner = merged([c[:-1] for c in own]), merged([*(c[-1:] for c in own), *sums])
        orders = [(*a, *b) for a in outer for b in inner]
    else:
        known = "identity, all, interval_all, candidate, interleave"
        raise UserError(f"expected a policy among {known}, but got {policy!r}")
    for one in orders:
        if sorted(one) != list(everything):
            raise UserError(f"expected each of {', '.join(names)} once, but got {[names[k] for k in one]}")
    return _some([ReorderEntity(one) for one in orders], "reorder")


def merged(chains: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """All ways to merge chains so that each keeps its order."""
    left = [tuple(one) for one in chains if one]
    if not left:
        return [()]
    found: list[tuple[int, ...]] = []
    for k, one in enumerate(left):
        found += [(one[0], *rest) for rest in merged([*left[:k], one[1:], *left[k + 1 :]])]
    return found


def annotate_entities(
    count: int, policy: str, candidate: Iterable[Sequence[str]] | None = None
) -> list[AnnotateEntity]:
    """
    What may be done with `count` loops: for each one of the policy's words, at most one of them a vector.

    A policy is words among none (or try), unroll and vec joined by "_": `try_unroll_vec`; or `candidate`. Those of
    TVM that bind the axes of a GPU are refused.
    """
    if policy == "candidate":
        found = [AnnotateEntity(tuple(one)) for one in candidate or ()]
    else:
        words = policy.replace("try", "none").split("_")
        if unknown := [w for w in words if w not in ANNOTATIONS]:
            raise UserError(f"expected words among try, {', '.join(ANNOTATIONS)}, but got '{unknown[0]}' in '{policy}'")
        _check_number(len(words) ** count, "annotate")
        found = [AnnotateEntity(one) for one in product(words, repeat=count)]
    for one in found:
        if len(one.anns) != count or any(w not in ANNOTATIONS for w in one.anns):
            raise UserError(f"expected {count} words among {', '.join(ANNOTATIONS)}, but got {list(one.anns)}")
    return _some([one for one in found if one.anns.count("vec") <= 1], "annotate")


def _check_number(count: int, kind: str) -> None:
    if count > MOST_CANDIDATES:
        raise UserError(f"expected at most {MOST_CANDIDATES} candidates of the {kind}, but the policy gives {count}")


def _some(found: list[T], kind: str) -> list[T]:
    """The candidates, each once; UserError where there is none."""
    if not found:
        raise UserError(f"expected at least one candidate of the {kind}, but the policy and the filter leave none")
    return list(dict.fromkeys(found))
