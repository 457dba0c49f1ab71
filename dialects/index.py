"""
Index arithmetic: quasi-affine expressions with integer coefficients, and the attribute that holds a list of them.

An `Index` is `const + sum(coefficient * term)`; a term is a dimension (an int: `0, 1, ...` name the index operands of
the op, `-1, -2, ...` name the tile axes d0, d1, ...) or a `Div` (floordiv or mod of an `Index` by a positive int).
Expressions are canonical: equal values built in different orders compare and hash equal.

    grammar   map    ::= `[` (expr (`,` expr)*)? `]`
              expr   ::= term ((`+` | `-`) term)*
              term   ::= factor ((`*` | `floordiv` | `mod`) int)*
              factor ::= int | %operand | dN | `-` factor | `(` expr `)`
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Union

from xdsl.ir import Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

Term = Union[int, "Div", "Product"]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Div:
    """`expr floordiv by` (or `expr mod by`), a term of an `Index` that could not be simplified."""

    expr: Index
    by: int
    is_mod: bool


@dataclass(frozen=True, slots=True)
class Product:
    """`expr * factor`, the factor a dimension: a dynamic stride. It occurs in addresses, not in the IR."""

    expr: Index
    factor: int


def term_dims(term: Term) -> set[int]:
    """The dimensions that occur in a term, inside floordiv and mod too."""
    return {term} if isinstance(term, int) else term.expr.dims()


def _key(term: Term) -> tuple[int, int, str]:
    return (0, term, "") if isinstance(term, int) else (1, 0, repr(term))


@dataclass(frozen=True, slots=True)
class Index:
    """A canonical quasi-affine expression; build it with `dim`, `const` and arithmetic."""

    const: int
    terms: tuple[tuple[Term, int], ...]

    @staticmethod
    def of(const: int, coefficients: Mapping[Term, int]) -> Index:
        """The expression with these coefficients; zero ones are dropped."""
        items: list[tuple[Any, int]] = [(t, c) for t, c in coefficients.items() if c]
        if len(items) > 1:
            if all(type(t) is int for t, _ in items):  # the common case, sorted without keys
                items.sort()
                return Index(const, tuple(items))
            for t, c in items:
                if isinstance(t, Div) and t.is_mod and coefficients.get(Div(t.expr, t.by, False)) == c * t.by:
                    # (e floordiv n) * n + e mod n == e
                    rest = {u: k for u, k in items if u != t and u != Div(t.expr, t.by, False)}
                    return Index.of(const, rest) + t.expr * c
            items.sort(key=lambda item: _key(item[0]))
        return Index(const, tuple(items))

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.const + other, self.terms)
        if not other.terms:
            return Index(self.const + other.const, self.terms)
        if not self.terms:
            return Index(self.const + other.const, other.terms)
        merged = dict(self.terms)
        for term, c in other.terms:
            merged[term] = merged.get(term, 0) + c
        return Index.of(self.const + other.const, merged)

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other if isinstance(other, int) else other * -1)

    def __mul__(self, k: int) -> Index:
        if k == 0:
            return ZERO
        return Index(self.const * k, tuple((t, c * k) for t, c in self.terms))

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def _split(self, by: int) -> tuple[Index, Index]:
        """(q, r) with self == q * by + r, where q takes every coefficient that `by` divides."""
        q = {t: c // by for t, c in self.terms if c % by == 0}
        r = {t: c for t, c in self.terms if c % by}
        return Index.of(self.const // by, q), Index.of(self.const % by, r)

    def floordiv(self, by: int, ranges: Ranges | None = None) -> Index:
        """`self floordiv by`, by > 0; `ranges` lets it prove that a part vanishes."""
        if by == 1:
            return self
        q, r = self._split(by)
        if not r.terms:
            return q + r.const // by
        if ranges is not None:
            lo, hi = r.bounds(ranges)
            if lo // by == hi // by:
                return q + lo // by
            if (parts := r._digits(by, ranges)) is not None:
                g, high, _ = parts
                return q + high.floordiv(by // g, ranges)
        return q + Index(0, ((Div(r, by, False), 1),))

    def _digits(self, by: int, ranges: Ranges) -> tuple[int, Index, Index] | None:
        """(g, high, low) with self == high * g + low, g > 1 a divisor of `by` and low in [0, g); None without one."""
        for g in {math.gcd(c, by) for _, c in self.terms}:
            if 1 < g < by:
                high = Index.of(self.const // g, {t: c // g for t, c in self.terms if c % g == 0})
                low = Index.of(self.const % g, {t: c for t, c in self.terms if c % g})
                first, last = low.bounds(ranges)
                if first >= 0 and last < g:
                    return g, high, low
        return None

    def mod(self, by: int, ranges: Ranges | None = None) -> Index:
        """`self mod by`, by > 0, the result in [0, by)."""
        if by == 1:
            return ZERO
        _, r = self._split(by)
        if not r.terms:
            return Index(r.const % by, ())
        if ranges is not None:
            lo, hi = r.bounds(ranges)
            if lo // by == hi // by:
                return r - (lo // by) * by
            if (parts := r._digits(by, ranges)) is not None:
                g, high, low = parts
                return high.mod(by // g, ranges) * g + low
        return Index(0, ((Div(r, by, True), 1),))

    @property
    def is_const(self) -> bool:
        return not self.terms

    def scaled(self, factor: int) -> Index:
        """`self * factor`, the factor a dimension."""
        terms: dict[Term, int] = {Product(Index(0, ((t, 1),)), factor): c for t, c in self.terms}
        return Index.of(0, terms | {factor: self.const})

    def coefficient(self, dim: int) -> int:
        """The coefficient of a dimension outside of floordiv and mod."""
        for t, c in self.terms:
            if t == dim and isinstance(t, int):
                return c
        return 0

    def dims(self) -> set[int]:
        """Every dimension that occurs, inside floordiv and mod too."""
        found: set[int] = set()
        for t, _ in self.terms:
            if isinstance(t, int):
                found.add(t)
            else:
                found |= t.expr.dims()
        return found

    def uses(self, dim: int) -> bool:
        """Whether a dimension occurs anywhere."""
        return any(t == dim if isinstance(t, int) else t.expr.uses(dim) for t, _ in self.terms)

    @property
    def is_affine(self) -> bool:
        """Whether the expression has no floordiv and no mod."""
        return all(isinstance(t, int) for t, _ in self.terms)

    def substitute(self, to: Mapping[int, Index] | Callable[[int], Index], ranges: Ranges | None = None) -> Index:
        """Each dimension replaced by an expression; dimensions without one are kept."""
        if not self.terms:
            return self
        get: Callable[[int], Index] = to if callable(to) else (lambda d: to[d] if d in to else dim(d))
        d, c = self.terms[0]
        if len(self.terms) == 1 and isinstance(d, int):
            part = get(d)
            return part if c == 1 and self.const == 0 else part * c + self.const
        const = self.const
        merged: dict[Term, int] = {}
        for t, c in self.terms:
            if isinstance(t, int):
                part = get(t)
            else:
                inner = t.expr.substitute(get, ranges)
                if isinstance(t, Product):
                    part = inner.scaled(t.factor)
                else:
                    part = inner.mod(t.by, ranges) if t.is_mod else inner.floordiv(t.by, ranges)
            const += part.const * c
            for u, k in part.terms:
                merged[u] = merged.get(u, 0) + k * c
        return Index.of(const, merged)

    def evaluate(self, values: Mapping[int, Any] | Sequence[Any]) -> Any:
        """The value at given dimensions (Python ints or broadcastable numpy arrays)."""
        total: Any = self.const
        for t, c in self.terms:
            if isinstance(t, int):
                total = total + values[t] * c
            else:
                inner = t.expr.evaluate(values)
                if isinstance(t, Product):
                    total = total + inner * values[t.factor] * c
                    continue
                total = total + (inner % t.by if t.is_mod else inner // t.by) * c
        return total

    def bounds(self, ranges: Ranges) -> Range:
        """The smallest and the largest value if each dimension d lies in ranges[d] (inclusive)."""
        lo = hi = self.const
        for t, c in self.terms:
            if isinstance(t, int):
                a, b = ranges[t]
            elif isinstance(t, Product):
                a, b = -UNBOUNDED * UNBOUNDED, UNBOUNDED * UNBOUNDED
            else:
                a, b = t.expr.bounds(ranges)
                if not t.is_mod:
                    a, b = a // t.by, b // t.by
                elif a // t.by == b // t.by:
                    a, b = a % t.by, b % t.by
                else:
                    a, b = 0, t.by - 1
            lo, hi = (lo + a * c, hi + b * c) if c >= 0 else (lo + b * c, hi + a * c)
        return lo, hi

    def text(self, name: Callable[[int], str]) -> str:
        """The expression as written in the IR; `name` gives the text of a dimension."""
        if not self.terms:
            return str(self.const)
        parts: list[str] = []
        for t, c in self.terms:
            if isinstance(t, int):
                body = name(t)
            elif isinstance(t, Product):
                body = f"({t.expr.text(name)}) * {name(t.factor)}"
            else:
                inner = t.expr.text(name)
                if len(t.expr.terms) + (t.expr.const != 0) > 1 or t.expr.terms[0][1] != 1:
                    inner = f"({inner})"
                body = f"{inner} {'mod' if t.is_mod else 'floordiv'} {t.by}"
                if c != 1 or t.is_mod:  # `-x floordiv 2` would read as `(-x) floordiv 2`
                    body = f"({body})"
            parts.append(("- " if c < 0 else "+ ") + (body if abs(c) == 1 else f"{body} * {abs(c)}"))
        if self.const:
            parts.append(f"{'-' if self.const < 0 else '+'} {abs(self.const)}")
        first = parts[0]
        parts[0] = first[2:] if first[0] == "+" else "-" + first[2:]
        return " ".join(parts)

    def __str__(self) -> str:
        return self.text(dim_name)


Ranges = Mapping[int, Range] | Sequence[Range]
ZERO = Index(0, ())

UNBOUNDED = 1 << 40
"""
The one meaning of "unbounded": an upper bound of every size that is known at run time only.

A symbol lies in [0, UNBOUNDED], or in [n, UNBOUNDED] where its smallest value n is given; a symbolic extent counts as
UNBOUNDED, so that an axis of it runs over [0, UNBOUNDED - 1]. A bound derived from one of these is UNBOUNDED divided
by a constant at least, so analyses take what reaches UNBOUNDED >> 10 for the whole of a symbolic axis.
"""

UNKNOWN: Range = (-(1 << 62), 1 << 62)
"""The range of an unconstrained index, such as one that is read from memory: 64 bits, with room for sums."""

TYPICAL = 256
"""The typical value of an unbounded symbol: a multiple of every tile."""


def size_of(extent: Index) -> int:
    """A static size; UNBOUNDED of a symbolic one."""
    return extent.const if extent.is_const else UNBOUNDED


def axis_range(extent: int) -> Range:
    """The values of an axis: [0, extent - 1]. An axis without points counts as one of one point: no range is empty."""
    return 0, max(extent, 1) - 1


def tile_ranges(tile: Sequence[int]) -> dict[int, Range]:
    """The ranges of the tile axes d0, d1, ... of these sizes, which are the dimensions -1, -2, ..."""
    return {-1 - k: axis_range(n) for k, n in enumerate(tile)}


def at_least(e: Index) -> Index:
    """1 where `e >= 0`, else 0, for any e that lies within UNBOUNDED of 0."""
    return e.floordiv(UNBOUNDED) + 1


@lru_cache(maxsize=1024)
def dim(number: int) -> Index:
    """The expression that is one dimension."""
    return Index(0, ((number, 1),))


def tile(axis: int) -> Index:
    """The expression that is tile axis d<axis>."""
    return Index(0, ((-1 - axis, 1),))


def const(value: int) -> Index:
    """The expression that is one integer."""
    return Index(value, ())


def dim_name(number: int) -> str:
    """The name of a dimension without a printer: `%0` for an operand, `d0` for a tile axis."""
    return f"%{number}" if number >= 0 else f"d{-1 - number}"


@irdl_attr_definition
class IndexMapAttr(Data[tuple[Index, ...]]):
    """A list of index expressions over the op's index operands and tile axes: `#te.map<"%0 * 2 + d0, %1">`."""

    name = "te.map"

    @classmethod
    def get(cls, attr: Iterable[Index] | Data[tuple[Index, ...]]) -> IndexMapAttr:
        """The attribute of these expressions."""
        return IndexMapAttr(attr.data if isinstance(attr, Data) else tuple(attr))

    @property
    def arity(self) -> int:
        """The number of index operands to which the expressions refer."""
        return 1 + max((max(e.dims(), default=-1) for e in self.data), default=-1)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Index, ...]:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal(" as index expressions")
        return parse_text(text, parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(", ".join(map(str, self.data)))


def parse_text(text: str, parser: AttrParser | None = None) -> tuple[Index, ...]:
    """Expressions from the text that `IndexMapAttr` prints: operands are `%0`, `%1`, ..."""
    source = re.sub(r"%(\d+)", r"p\1", text).replace("floordiv", "//")
    source = re.sub(r"\bmod\b", "%", source)

    def walk(node: ast.AST) -> Index:
        match node:
            case ast.Constant(value=int(v)):
                return const(v)
            case ast.Name(id=name) if re.fullmatch(r"[pd]\d+", name):
                return dim(int(name[1:])) if name[0] == "p" else tile(int(name[1:]))
            case ast.UnaryOp(op=ast.USub(), operand=a):
                return -walk(a)
            case ast.BinOp(left=a, op=ast.Add(), right=b):
                return walk(a) + walk(b)
            case ast.BinOp(left=a, op=ast.Sub(), right=b):
                return walk(a) - walk(b)
            case ast.BinOp(left=a, op=ast.Mult(), right=ast.Constant(value=int(k))):
                return walk(a) * k
            case ast.BinOp(left=a, op=ast.FloorDiv(), right=ast.Constant(value=int(k))) if k > 0:
                return walk(a).floordiv(k)
            case ast.BinOp(left=a, op=ast.Mod(), right=ast.Constant(value=int(k))) if k > 0:
                return walk(a).mod(k)
            case _:
                raise SyntaxError(text)

    try:
        tree = ast.parse(f"[{source}]", mode="eval").body
        assert isinstance(tree, ast.List)
        return tuple(walk(e) for e in tree.elts)
    except (SyntaxError, RecursionError, ValueError):
        if parser is None:
            raise ValueError(f"expected index expressions, but got '{text}'") from None
        parser.raise_error(f"expected index expressions, but got '{text}'")


def compact(exprs: Sequence[Index], operands: Sequence[SSAValue]) -> tuple[tuple[Index, ...], list[SSAValue]]:
    """The same expressions over only the operands that occur, each operand once."""
    used: dict[SSAValue, int] = {}
    renumber: dict[int, Index] = {}
    for d in sorted({d for e in exprs for d in e.dims() if d >= 0}):
        number = used.setdefault(operands[d], len(used))
        renumber[d] = dim(number)
    return tuple(e.substitute(renumber) for e in exprs), list(used)


def render(expr: Index, name: Callable[[int], str], division: Callable[[str, int, bool], str]) -> str:
    """An index expression as source text; `division` writes `text floordiv n`, or with its flag `text mod n`."""
    parts: list[str] = []
    for term, c in expr.terms:
        if isinstance(term, Div):
            text = division(render(term.expr, name, division), term.by, term.is_mod)
        else:
            assert isinstance(term, int)
            text = name(term)
        parts.append(text if c == 1 else f"{text} * {c}" if c > 0 else f"{text} * ({c})")
    if expr.const or not parts:
        parts.append(str(expr.const))
    return " + ".join(parts).replace("+ -", "- ")
