"""
What torch.export took for granted about open sizes, as substitutions of its symbols.

Tracing takes one branch of `if x.shape[1] > y.shape[1]`, and a view as rows of four takes sizes that four divides.
Torch keeps each such condition beside the program. Here a condition that does not hold for every size becomes

- one symbol in terms of others: `s1 + s2 == s1 + s3` says s3 := s2;
- a multiple: `s % 4 == 0` says s := 4 * t;
- a distance: `s1 > s2` says s1 := s2 + 1 + t, with t from 0 on;
- a least size, or a greatest one.

Put into the sizes of the inputs, it is checked when the model runs. What has no such form is an error of the import.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sympy
from torch.utils._sympy.printers import PythonPrinter

MANY = 64
"""How many of the least sizes are tried, and how many combinations of several."""
FAR = 4096
"""Sizes are tried up to so many above the least one."""


@dataclass
class Taken:
    """Symbols of torch in terms of others, and the ranges and traced values of those that are left."""

    ranges: dict[Any, tuple[int, int]] = field(default_factory=dict)
    traced: dict[Any, int] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    unmet: list[Any] = field(default_factory=list)
    """Conditions that no substitution makes true."""

    def applied(self, expr: Any) -> Any:
        """An expression of torch's symbols in those that are left."""
        return expr.subs(self.known) if self.known and expr.free_symbols & self.known.keys() else expr

    def take(self, conditions: Iterable[Any]) -> None:
        """Make conditions true; those that say what a symbol is come first."""
        unique = [c for c in dict.fromkeys(conditions) if not isinstance(c, sympy.Ne)]
        for condition in sorted(unique, key=lambda c: not isinstance(c, sympy.Eq)):
            if not self._holds(self.applied(condition)):
                self._settle(self.applied(condition))
        self.unmet = [c for c in unique if not self._holds(self.applied(c))]

    def _settle(self, condition: Any) -> None:
        """The first substitution, or range, that makes a condition true."""
        for symbol, expr, new in _candidates(condition, self):
            trial = Taken({**self.ranges, **new.ranges}, {**self.traced, **new.traced})
            trial.known = {} if symbol == expr else {symbol: expr}
            if trial._holds(trial.applied(condition)):
                self._adopt(trial)
                return

    def _adopt(self, trial: Taken) -> None:
        self.ranges, self.traced = trial.ranges, trial.traced
        self.known = {one: what.subs(trial.known) for one, what in self.known.items()} | trial.known
        for symbol, expr in trial.known.items():
            if expr.is_Symbol:
                (low, high), (least, greatest) = self.ranges[symbol], self.ranges[expr]
                self.ranges[expr] = max(low, least), min(high, greatest)

    def _holds(self, condition: Any) -> bool:
        """Whether a condition is true for all of many sizes."""
        if not condition.free_symbols:
            return bool(condition)
        if not condition.free_symbols <= self.ranges.keys():
            return True  # of sizes that depend on data torch says nothing that could be checked
        try:
            return all(map(_function(condition), self._samples(condition.free_symbols)))
        except (ArithmeticError, NameError, TypeError, SyntaxError):
            return True

    def _samples(self, symbols: Iterable[Any]) -> Iterator[dict[str, int]]:
        names = sorted(symbols, key=str)
        pick = random.Random(0)
        spans = [(low, min(high, low + FAR)) for low, high in (self.ranges[s] for s in names)]
        yield {str(s): self.traced[s] for s in names}
        for k in range(MANY):
            values = [min(low + (k if len(names) == 1 else pick.randrange(6)), high) for low, high in spans]
            yield dict(zip(map(str, names), values, strict=True))
            yield {str(s): pick.randint(*span) for s, span in zip(names, spans, strict=True)}


@dataclass(frozen=True)
class _New:
    ranges: dict[Any, tuple[int, int]] = field(default_factory=dict)
    traced: dict[Any, int] = field(default_factory=dict)


def _candidates(condition: Any, taken: Taken) -> Iterator[tuple[Any, Any, _New]]:
    """Symbols, what they may be, and the new symbols in that; a symbol that is itself has another range."""
    parts: Sequence[Any] = condition.args if isinstance(condition, sympy.Or) else (condition,)
    equal: list[Any] = [part for part in parts if isinstance(part, sympy.Eq)]
    for part in equal:
        yield from ((symbol, -rest, _New()) for symbol, rest, _ in _alone(part.lhs - part.rhs))
    if len(condition.free_symbols) == 1:
        yield from _between(condition, taken)
    yield from _multiples(condition, taken)
    for part in parts:
        if isinstance(part, sympy.Gt | sympy.Ge | sympy.Lt | sympy.Le):
            yield from _distances(part, taken)


def _alone(difference: Any) -> Iterator[tuple[Any, Any, int]]:
    """(s, e, sign) for each symbol s of a sum that is `sign * (s + e)`, the last one first."""
    total = sympy.expand(difference)
    terms = sympy.Add.make_args(total)
    for symbol in sorted(total.free_symbols, key=str, reverse=True):
        sign = next((k for k in (1, -1) if k * symbol in terms), 0)
        rest = sympy.expand(sign * total - symbol)
        if sign and symbol not in rest.free_symbols and _is_plain(rest):
            yield symbol, rest, sign


def _is_plain(expr: Any) -> bool:
    """Whether an expression is a sum of products of symbols."""
    return expr.is_polynomial() and all(number.is_Integer for number in expr.atoms(sympy.Number))


def _between(condition: Any, taken: Taken) -> Iterator[tuple[Any, Any, _New]]:
    """A condition on one symbol that is true from some size on; of an order also to some size."""
    (symbol,) = condition.free_symbols
    low, high = taken.ranges[symbol]
    holds = _function(condition)
    least, greatest = taken.traced[symbol], high if isinstance(condition, sympy.Eq) else taken.traced[symbol]
    while least > low and holds({str(symbol): least - 1}):
        least -= 1
    while greatest < high and holds({str(symbol): greatest + 1}):
        greatest = greatest + 1 if greatest < taken.traced[symbol] + MANY else high
    yield symbol, symbol, _New({symbol: (least, greatest)})


def _multiples(condition: Any, taken: Taken) -> Iterator[tuple[Any, Any, _New]]:
    """What is divided by a number is a multiple of it and the rest that it had."""
    for part in sorted(condition.atoms(sympy.Function), key=str):
        if type(part).__name__ not in ("FloorDiv", "Mod", "PythonMod", "CleanDiv") or len(part.free_symbols) != 1:
            continue
        (symbol,), by = part.free_symbols, part.args[1]
        factor = part.args[0].coeff(symbol, 1)
        if by.is_Integer and factor.is_Integer and (step := int(by) // math.gcd(int(by), int(factor))) > 1:
            (low, high), (count, rest) = taken.ranges[symbol], divmod(taken.traced[symbol], step)
            new = sympy.Symbol(f"{symbol}_by_{step}", integer=True, positive=True)
            span = max(-((rest - low) // step), 0), (high - rest) // step
            yield symbol, step * new + rest, _New({new: span}, {new: count})


def _distances(order: Any, taken: Taken) -> Iterator[tuple[Any, Any, _New]]:
    """`a > b` says that a is b and 1 and what is between them."""
    less, more = (order.lhs, order.rhs) if order.rel_op in ("<", "<=") else (order.rhs, order.lhs)
    between = more - less - int(order.rel_op in ("<", ">"))
    for symbol, rest, sign in _alone(between):
        if sign == 1:
            new = sympy.Symbol(f"{symbol}_beyond", integer=True, nonnegative=True)
            count = taken.traced[symbol] + int(rest.subs(taken.traced))
            yield symbol, new - rest, _New({new: (0, taken.ranges[symbol][1])}, {new: count})


@cache
def _function(condition: Any) -> Callable[[Mapping[str, int]], bool]:
    """A condition of sizes by their names."""
    code = compile(renamed(condition, {}), "<condition>", "eval")
    return lambda sizes: bool(eval(code, {"math": math}, dict(sizes)))  # torch's own text of its own condition


def renamed(condition: Any, names: Mapping[Any, str]) -> str:
    """The text of a condition, some of its symbols by other names."""
    return PythonPrinter().doprint(condition.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()}))


def traced(size: Any) -> Mapping[Any, Any]:
    """The sizes that a program was traced with, by torch's symbols; `size` is any symbolic one of it."""
    environment = size.node.shape_env
    return environment.backed_var_to_val


def was_traced_here(sizes: Iterable[Any]) -> bool:
    """Whether the conditions on these sizes are at hand: torch knows which inputs its symbols come from."""
    return any(size.node.shape_env.var_to_sources for size in sizes if hasattr(size, "node"))


def conditions(sizes: Iterable[Any]) -> list[Any]:
    """What torch took for granted about the symbols of these sizes."""
    environments = {id(s.node.shape_env): s.node.shape_env for s in sizes if hasattr(s, "node")}
    return [guard.expr for environment in environments.values() for guard in environment.guards]


__all__ = ["Taken", "conditions", "renamed", "traced", "was_traced_here"]
