"""
The guards of torch.export on symbolic sizes, solved as substitutions of its symbols.

Tracing follows one branch of `if x.shape[1] > y.shape[1]`, and a view as rows of four requires a multiple of four.
Torch keeps each such condition (guard) with the program. A guard that does not hold for every size becomes

- one symbol in terms of others: `s1 + s2 == s1 + s3` gives s3 := s2;
- a multiple: `s % 4 == 0` gives s := 4 * t;
- a distance: `s1 > s2` gives s1 := s2 + 1 + t, t >= 0;
- a lower or upper bound.

Substituted into the sizes of the inputs, it is checked at run time. A guard without such a form is an import error.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import sympy  # pyright: ignore[reportMissingTypeStubs] sympy ships none
import torch
from torch.utils._sympy.printers import PythonPrinter

MAX_SAMPLES = 64
"""Sample sizes, from the least on, for which a guard of one symbol is tested; random samples of several symbols."""
SAMPLE_RANGE = 4096
"""The distance of the largest sample from the least size."""


@dataclass
class Assumptions:
    """Substitutions of torch's symbols, and the ranges and traced values of the symbols that remain."""

    ranges: dict[Any, tuple[int, int]] = field(default_factory=dict)
    traced: dict[Any, int] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    unmet: list[Any] = field(default_factory=list)
    """Guards that no substitution makes true."""

    def applied(self, expr: sympy.Basic) -> Any:
        """An expression after the substitutions."""
        return expr.subs(self.known) if self.known and expr.free_symbols & self.known.keys() else expr

    def take(self, conditions: Iterable[Any]) -> None:
        """Find substitutions that make the conditions true, equations first."""
        unique = [c for c in dict.fromkeys(conditions) if not isinstance(c, sympy.Ne)]
        for condition in sorted(unique, key=lambda c: not isinstance(c, sympy.Eq)):
            if not self._holds(self.applied(condition)):
                self._settle(self.applied(condition))
        self.unmet = [c for c in unique if not self._holds(self.applied(c))]

    def _settle(self, condition: sympy.Basic) -> None:
        """The first substitution, or range, that makes a condition true."""
        for symbol, expr, new in _candidates(condition, self):
            trial = Assumptions({**self.ranges, **new.ranges}, {**self.traced, **new.traced})
            trial.known = {} if symbol == expr else {symbol: expr}
            if trial._holds(trial.applied(condition)):
                self._adopt(trial)
                return

    def _adopt(self, trial: Assumptions) -> None:
        self.ranges, self.traced = trial.ranges, trial.traced
        self.known = {one: what.subs(trial.known) for one, what in self.known.items()} | trial.known
        for symbol, expr in trial.known.items():
            if expr.is_Symbol:
                (low, high), (least, greatest) = self.ranges[symbol], self.ranges[expr]
                self.ranges[expr] = max(low, least), min(high, greatest)

    def _holds(self, condition: sympy.Basic) -> bool:
        """Whether a condition is true for all sampled sizes."""
        if not condition.free_symbols:
            return bool(condition)
        if not condition.free_symbols <= self.ranges.keys():
            return True  # data-dependent sizes have no guards that could be checked
        try:
            return all(map(_function(condition), self._samples(condition.free_symbols)))
        except (ArithmeticError, NameError, TypeError, SyntaxError):
            return True

    def _samples(self, symbols: Iterable[Any]) -> Iterator[dict[str, int]]:
        names = sorted(symbols, key=str)
        pick = random.Random(0)
        spans = [(low, min(high, low + SAMPLE_RANGE)) for low, high in (self.ranges[s] for s in names)]
        yield {str(s): self.traced[s] for s in names}
        for k in range(MAX_SAMPLES):
            values = [min(low + (k if len(names) == 1 else pick.randrange(6)), high) for low, high in spans]
            yield dict(zip(map(str, names), values, strict=True))
            yield {str(s): pick.randint(*span) for s, span in zip(names, spans, strict=True)}


@dataclass(frozen=True)
class _New:
    ranges: dict[Any, tuple[int, int]] = field(default_factory=dict)
    traced: dict[Any, int] = field(default_factory=dict)


def _candidates(condition: sympy.Basic, taken: Assumptions) -> Iterator[tuple[Any, Any, _New]]:
    """(symbol, its substitution, the new symbols in it) to try; a symbol substituted by itself gets a new range."""
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


def _alone(difference: sympy.Expr) -> Iterator[tuple[Any, Any, int]]:
    """(s, e, sign) for each symbol s such that the sum is `sign * (s + e)`, the last symbol first."""
    total = _expanded(difference)
    terms = sympy.Add.make_args(total)
    for symbol in sorted(total.free_symbols, key=str, reverse=True):
        sign = next((k for k in (1, -1) if k * symbol in terms), 0)
        rest = _expanded(sign * total - symbol)
        if sign and symbol not in rest.free_symbols and _is_plain(rest):
            yield symbol, rest, sign


def _expanded(expr: sympy.Expr) -> Any:
    """An expression multiplied out."""
    return sympy.expand(expr)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] sympy has no types


def _is_plain(expr: sympy.Expr) -> bool:
    """Whether an expression is a sum of products of symbols."""
    polynomial = bool(expr.is_polynomial())  # pyright: ignore[reportUnknownMemberType] sympy has no types
    return polynomial and all(number.is_Integer for number in expr.atoms(sympy.Number))


def _between(condition: sympy.Basic, taken: Assumptions) -> Iterator[tuple[Any, Any, _New]]:
    """The range in which a condition on one symbol holds, around its traced value."""
    (symbol,) = condition.free_symbols
    low, high = taken.ranges[symbol]
    holds = _function(condition)
    least, greatest = taken.traced[symbol], high if isinstance(condition, sympy.Eq) else taken.traced[symbol]
    while least > low and holds({str(symbol): least - 1}):
        least -= 1
    while greatest < high and holds({str(symbol): greatest + 1}):
        greatest = greatest + 1 if greatest < taken.traced[symbol] + MAX_SAMPLES else high
    yield symbol, symbol, _New({symbol: (least, greatest)})


def _multiples(condition: sympy.Basic, taken: Assumptions) -> Iterator[tuple[Any, Any, _New]]:
    """A symbol that is divided by a constant, as a multiple of it plus the remainder of its traced value."""
    for part in sorted(condition.atoms(sympy.Function), key=str):
        if type(part).__name__ not in ("FloorDiv", "Mod", "PythonMod", "CleanDiv") or len(part.free_symbols) != 1:
            continue
        (symbol,), (divided, by) = part.free_symbols, arguments(part)
        factor = divided.coeff(symbol, 1)
        if by.is_Integer and factor.is_Integer and (step := int(by) // math.gcd(int(by), int(factor))) > 1:
            (low, high), (count, rest) = taken.ranges[symbol], divmod(taken.traced[symbol], step)
            new = sympy.Symbol(f"{symbol}_by_{step}", integer=True, positive=True)
            span = max(-((rest - low) // step), 0), (high - rest) // step
            yield symbol, step * new + rest, _New({new: span}, {new: count})


def arguments(expr: sympy.Basic) -> Sequence[Any]:
    """The arguments of an expression, which sympy declares too widely."""
    return expr.args


def _distances(order: Any, taken: Assumptions) -> Iterator[tuple[Any, Any, _New]]:
    """`a > b` as a := b + 1 + t, t >= 0."""
    less, more = (order.lhs, order.rhs) if order.rel_op in ("<", "<=") else (order.rhs, order.lhs)
    between = more - less - int(order.rel_op in ("<", ">"))
    for symbol, rest, sign in _alone(between):
        if sign == 1:
            new = sympy.Symbol(f"{symbol}_beyond", integer=True, nonnegative=True)
            count = taken.traced[symbol] + int(rest.subs(taken.traced))
            yield symbol, new - rest, _New({new: (0, taken.ranges[symbol][1])}, {new: count})


@cache
def _function(condition: sympy.Basic) -> Callable[[Mapping[str, int]], bool]:
    """A condition as a function of the sizes by their names."""
    code = compile(renamed(condition, {}), "<condition>", "eval")
    return lambda sizes: bool(eval(code, {"math": math}, dict(sizes)))  # torch's own text of its own condition


def renamed(condition: sympy.Basic, names: Mapping[Any, str]) -> str:
    """The text of a condition, with some symbols renamed."""
    own = condition.subs({symbol: sympy.Symbol(name) for symbol, name in names.items()})
    return PythonPrinter().doprint(own)  # pyright: ignore[reportUnknownMemberType] sympy has no types


def symbolic(number: torch.SymInt | torch.SymFloat) -> Any:
    """What torch knows of a symbolic number, which it does not type: its expression and its environment."""
    return cast("Any", number).node


def traced(size: torch.SymInt) -> Mapping[Any, Any]:
    """The sizes that a program was traced with, by torch's symbols; `size` is any symbolic size of the program."""
    return symbolic(size).shape_env.backed_var_to_val


def was_traced_here(sizes: Iterable[Any]) -> bool:
    """Whether the program was traced in this process, so that torch still has its guards."""
    return any(size.node.shape_env.var_to_sources for size in sizes if hasattr(size, "node"))


def conditions(sizes: Iterable[Any]) -> list[Any]:
    """The guards on the symbols of these sizes."""
    environments = {id(s.node.shape_env): s.node.shape_env for s in sizes if hasattr(s, "node")}
    return [guard.expr for environment in environments.values() for guard in environment.guards]


__all__ = ["Assumptions", "arguments", "conditions", "renamed", "symbolic", "traced", "was_traced_here"]
