"""
Integer expressions over symbols in canonical form: sums of products of symbols, floor divisions and minima.

Expressions mix with `int` under `+ - * // %`, and a constant result is an `int`. Equal expressions are equal objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd, inf
from typing import TypeAlias

from xdsl.utils.exceptions import VerifyException

Atom: TypeAlias = "str | FloorDiv | Least"
Dim: TypeAlias = "int | DimExpr"


class UnequalSizes(VerifyException):
    """Sizes that must be equal, but are not provably so; an importer may restrict symbols to make `pairs` equal."""

    def __init__(self, message: str, *pairs: tuple[Dim, Dim]) -> None:
        super().__init__(message)
        self.pairs = [(a, b) for a, b in pairs if a != b]


class Bounded(str):
    """A symbol with bounds of its values; equal to the unbounded symbol of the same name."""

    low: int
    high: int

    def __new__(cls, name: str, low: int, high: int) -> Bounded:
        self = super().__new__(cls, name)
        self.low, self.high = low, high
        return self

    def __getnewargs__(self) -> tuple[str, int, int]:  # pyright: ignore[reportIncompatibleMethodOverride] - its own __new__
        return str(self), self.low, self.high


@dataclass(frozen=True)
class FloorDiv:
    """The atom `value floordiv divisor`, which cannot be simplified further."""

    value: DimExpr
    divisor: int

    @property
    def parts(self) -> tuple[DimExpr, ...]:
        """Its subexpressions."""
        return (self.value,)

    def of(self, value: Dim) -> Dim:
        """The same division of another expression."""
        return value // self.divisor

    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        low, high = (end if abs(end) == inf else end // self.divisor for end in self.value.bounds())
        return low, high

    def text(self, symbol: Callable[[str], str]) -> str:
        """The division as text; `symbol` gives the text of a symbol."""
        value = self.value.text(symbol)
        return f"{value if _is_symbol(self.value) else f'({value})'} floordiv {self.divisor}"

    def __str__(self) -> str:
        return self.text(str)


@dataclass(frozen=True)
class Least:
    """The atom `min(a, b)`, where the smaller one depends on the symbols."""

    a: DimExpr
    b: DimExpr

    @property
    def parts(self) -> tuple[DimExpr, ...]:
        """Its subexpressions."""
        return self.a, self.b

    def of(self, a: Dim, b: Dim) -> Dim:
        """The minimum of two other expressions."""
        return least(a, b)

    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        (low, high), (other_low, other_high) = self.a.bounds(), self.b.bounds()
        return min(low, other_low), min(high, other_high)

    def text(self, symbol: Callable[[str], str]) -> str:
        """The minimum as text; `symbol` gives the text of a symbol."""
        return f"min({self.a.text(symbol)}, {self.b.text(symbol)})"

    def __str__(self) -> str:
        return self.text(str)


class DimExpr:
    """
    A sum of integer multiples of products of atoms (symbols and floor divisions), plus a constant.

    `terms` maps a product (a sorted tuple of atoms; `()` is the constant) to its coefficient, never zero.
    """

    __slots__ = ("_hash", "terms")
    terms: tuple[tuple[tuple[Atom, ...], int], ...]

    def __init__(self, terms: Mapping[tuple[Atom, ...], int]):
        kept = [(product, c) for product, c in terms.items() if c]
        self.terms = tuple(sorted(kept, key=_order))
        self._hash = hash(self.terms)

    @staticmethod
    def symbol(name: str, low: int = 1, high: int | None = None) -> DimExpr:
        """The expression of one symbol, optionally with bounds."""
        return DimExpr({(name if high is None else Bounded(name, low, high),): 1})

    @staticmethod
    def of(value: int | DimExpr) -> DimExpr:
        """An integer as an expression."""
        return value if isinstance(value, DimExpr) else DimExpr({(): value})

    def symbols(self) -> Iterator[str]:
        """The names of the symbols used, perhaps several times."""
        for product, _ in self.terms:
            for atom in product:
                if isinstance(atom, str):
                    yield atom
                else:
                    for part in atom.parts:
                        yield from part.symbols()

    def evaluate(self, values: Mapping[str, int | DimExpr]) -> int | DimExpr:
        """The expression with symbols replaced by values; symbols without one are kept."""
        total: int | DimExpr = 0
        for product, coefficient in self.terms:
            part: int | DimExpr = coefficient
            for atom in product:
                part = part * _evaluate_atom(atom, values)
            total = total + part
        return total

    def __add__(self, other: int | DimExpr) -> int | DimExpr:
        if not isinstance(other, int | DimExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            return NotImplemented
        terms = dict(self.terms)
        for product, c in DimExpr.of(other).terms:
            terms[product] = terms.get(product, 0) + c
        return _reduced(terms)

    def __mul__(self, other: int | DimExpr) -> int | DimExpr:
        if not isinstance(other, int | DimExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            return NotImplemented
        terms: dict[tuple[Atom, ...], int] = {}
        for a, c in self.terms:
            for b, d in DimExpr.of(other).terms:
                product = tuple(sorted(a + b, key=str))
                terms[product] = terms.get(product, 0) + c * d
        return _reduced(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> int | DimExpr:
        return self * -1

    def __sub__(self, other: int | DimExpr) -> int | DimExpr:
        if not isinstance(other, int | DimExpr):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass anything
            return NotImplemented
        return self + -other

    def __rsub__(self, other: int | DimExpr) -> int | DimExpr:
        return -self + other

    def __floordiv__(self, divisor: int | DimExpr) -> int | DimExpr:
        if isinstance(divisor, DimExpr):
            return _exact_quotient(self, divisor)
        return floordiv(self, divisor, {})

    def __rfloordiv__(self, value: int) -> int | DimExpr:
        if value == 0:
            return 0
        raise VerifyException(f"expected a constant divisor, but got {value} floordiv {self}")

    def __mod__(self, divisor: int) -> int | DimExpr:
        # x mod d == x - d * (x floordiv d)
        return self - divisor * (self // divisor)

    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value, by the bounds of the symbols (unbounded ones are at least 1)."""
        low = high = 0.0
        for product, c in self.terms:
            least, most = _atoms_bounds(product)
            low, high = (low + c * least, high + c * most) if c > 0 else (low + c * most, high + c * least)
        return low, high

    def __lt__(self, other: int | DimExpr) -> bool:
        difference = self - other
        if isinstance(difference, int):
            return difference < 0
        if difference is NotImplemented:
            return NotImplemented
        low, high = difference.bounds()
        if high < 0 or low >= 0:
            return high < 0
        raise VerifyException(f"expected sizes that compare whatever they are, but got {self} and {other}")

    def __ge__(self, other: int | DimExpr) -> bool:
        return not self < other

    def __le__(self, other: int | DimExpr) -> bool:
        return self < other + 1

    def __gt__(self, other: int | DimExpr) -> bool:
        return not self < other + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimExpr) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __int__(self) -> int:
        raise VerifyException(f"expected a size that is known, but got {self}; give the inputs' sizes with shapes=")

    def __truediv__(self, other: object) -> int:
        return int(self)

    __index__ = __float__ = __int__
    __rtruediv__ = __truediv__

    def __str__(self) -> str:
        return self.text(str)

    def text(self, symbol: Callable[[str], str]) -> str:
        """The expression as text; `symbol` gives the text of a symbol."""
        text = ""
        for product, c in self.terms:
            names = [symbol(a) if isinstance(a, str) else a.text(symbol) for a in product]
            inner = [isinstance(a, FloorDiv) and len(product) > 1 for a in product]
            factor = " * ".join(f"({name})" if nested else name for name, nested in zip(names, inner, strict=True))
            if len(product) == 1 and isinstance(product[0], FloorDiv) and (abs(c) != 1 or (c < 0 and not text)):
                factor = f"({factor})"  # `-a floordiv b` is `(-a) floordiv b`
            size = str(abs(c)) if not product else factor if abs(c) == 1 else f"{factor} * {abs(c)}"
            text += (" - " if c < 0 else " + ") + size if text else f"-{size}" if c < 0 else size
        return text or "0"

    __repr__ = __str__


def floordiv(value: DimExpr, divisor: int, multiples: Mapping[str, int]) -> int | DimExpr:
    """
    `value floordiv divisor` in canonical form; `multiples` maps a symbol to a known divisor of it.

    Laws: (c * a + b) floordiv c == a + b floordiv c;  (g * a + r) floordiv (g * c) == (a + r floordiv g) floordiv c;
    (x floordiv a + r) floordiv b == (x + r * a) floordiv (a * b);  x floordiv c == q where q * c <= x < q * c + c.
    """
    if divisor <= 0:
        raise VerifyException(f"expected a positive divisor, but got {value} floordiv {divisor}")
    whole: dict[tuple[Atom, ...], int] = {}
    rest: dict[tuple[Atom, ...], int] = {}
    unit = 0
    for product, c in value.terms:
        quotient, remainder = divmod(c, divisor)
        if product and remainder and _multiple(product, multiples) * remainder % divisor == 0:
            # remainder * product is a multiple of the divisor: it moves out of the division
            atom = FloorDiv(
                DimExpr({product: remainder // gcd(remainder, divisor)}), divisor // gcd(remainder, divisor)
            )
            whole[(atom,)] = whole.get((atom,), 0) + 1
        else:
            rest[product] = remainder
            unit = gcd(unit, remainder) if product and remainder else unit
        whole[product] = whole.get(product, 0) + quotient
    result = _reduced(whole)
    if not any(c for product, c in rest.items() if product):
        return result  # a constant below the divisor
    if (unit := gcd(unit, divisor)) > 1:
        rest = {product: c // unit for product, c in rest.items()}
        divisor //= unit
    left = DimExpr(rest)
    if divisor == 1:
        return result + left
    low, high = left.bounds()
    if -inf < low and high < inf and low // divisor == high // divisor:
        return result + int(low // divisor)
    if (atom := _quotient_in(left)) is not None:
        moved = DimExpr.of(atom.value + dict(left.terms).get((), 0) * atom.divisor)
        return result + floordiv(moved, atom.divisor * divisor, multiples)
    return result + DimExpr({(FloorDiv(left, divisor),): 1})


def _quotient_in(size: DimExpr) -> FloorDiv | None:
    """The quotient q if a size is q plus a constant; else None."""
    inner = [(p, c) for p, c in size.terms if p]
    (product, c) = inner[0]
    found = product[0] if len(inner) == 1 and c == 1 and len(product) == 1 else None
    return found if isinstance(found, FloorDiv) else None


def _multiple(product: tuple[Atom, ...], multiples: Mapping[str, int]) -> int:
    """A known divisor of a product of atoms, for all values of the symbols."""
    result = 1
    for atom in product:
        if isinstance(atom, str):
            result *= multiples.get(atom, 1)
    return result


def simplify(dim: int | DimExpr, multiples: Mapping[str, int]) -> int | DimExpr:
    """Canonical form, given divisors of the symbols: `(H + 1) floordiv 2 -> H floordiv 2` for even H."""
    if isinstance(dim, int):
        return dim
    total: int | DimExpr = 0
    for product, coefficient in dim.terms:
        part: int | DimExpr = coefficient
        for atom in product:
            if isinstance(atom, str):
                part = part * DimExpr({(atom,): 1})
            else:
                inner = [simplify(one, multiples) for one in atom.parts]
                if isinstance(atom, FloorDiv) and isinstance(inner[0], DimExpr):
                    part = part * floordiv(inner[0], atom.divisor, multiples)
                else:
                    part = part * atom.of(*inner)
        total = total + part
    return total


def _exact_quotient(value: DimExpr, divisor: DimExpr) -> int | DimExpr:
    """`value / divisor` for a divisor of one product that divides every term, as in reshapes."""
    if value == divisor:
        return 1
    if len(divisor.terms) == 1:
        product, c = divisor.terms[0]
        rest: dict[tuple[Atom, ...], int] = {}
        for atoms, k in value.terms:
            left = list(atoms)
            for atom in product:
                if atom not in left:
                    break
                left.remove(atom)
            else:
                rest[tuple(left)] = k
                continue
            break
        else:
            if all(k % c == 0 for k in rest.values()):
                return _reduced({atoms: k // c for atoms, k in rest.items()})
            raise UnequalSizes(f"expected {value} to be a multiple of {divisor}", (_reduced(rest) % c, 0))
    raise VerifyException(f"expected {value} to be a multiple of {divisor}")


def _atoms_bounds(product: tuple[Atom, ...]) -> tuple[float, float]:
    """The smallest and the largest value of a product of atoms."""
    least, most = 1.0, 1.0
    for atom in product:
        if isinstance(atom, str):
            low, high = (atom.low, atom.high) if isinstance(atom, Bounded) else (1, inf)
        else:
            low, high = atom.bounds()
        ends = [a and b and a * b for a in (least, most) for b in (low, high)]  # 0 * inf == 0
        least, most = min(ends), max(ends)
    return least, most


def bounds_between(size: DimExpr, ends: Mapping[str, tuple[int, int]]) -> tuple[float, float]:
    """The smallest and the largest value of a size, given the bounds of its symbols."""
    bounded = size.evaluate({name: DimExpr.symbol(name, *span) for name, span in ends.items()})
    return DimExpr.of(bounded).bounds()


def least_extent(size: Dim) -> int:
    """The lower bound that programs require of an axis's size: 0 if it uses a symbol that may be 0, else 1."""
    names = size.symbols() if isinstance(size, DimExpr) else ()
    return 0 if any(isinstance(name, Bounded) and name.low < 1 for name in names) else 1


def basis(sizes: Iterable[int | DimExpr]) -> list[DimExpr]:
    """
    The symbols and products of symbols, each once, in which sizes are quasi-affine.

    `[H * W, (H + 1) floordiv 2, batch] -> [H * W, H, batch]`
    """
    found: dict[DimExpr, None] = {}
    for size in sizes:
        for product, _ in size.terms if isinstance(size, DimExpr) else ():
            if len(product) == 1 and isinstance(product[0], FloorDiv):
                found.update(dict.fromkeys(basis([product[0].value])))
            elif product:
                found[DimExpr({product: 1})] = None
    return list(found)


def _evaluate_atom(atom: Atom, values: Mapping[str, int | DimExpr]) -> int | DimExpr:
    if isinstance(atom, str):
        return values[atom] if atom in values else DimExpr({(atom,): 1})
    return atom.of(*(part.evaluate(values) for part in atom.parts))


def _reduced(terms: Mapping[tuple[Atom, ...], int]) -> int | DimExpr:
    if not any(c for product, c in terms.items() if product):
        return terms.get((), 0)
    return DimExpr(terms)


def _order(term: tuple[tuple[Atom, ...], int]) -> tuple[bool, str]:
    return (not term[0], " * ".join(map(str, term[0])))  # the constant last


def least(a: Dim, b: Dim) -> Dim:
    """The minimum of two sizes."""
    difference = a - b
    if isinstance(difference, int):
        return a if difference <= 0 else b
    low, high = difference.bounds()
    if high <= 0 or low >= 0:
        return a if high <= 0 else b
    for one, other in ((a, b), (b, a)):
        if one in _parts_of_least(other):
            return other  # min(x, min(x, y)) == min(x, y)
    # min(x + c, y) == min(x, y - c) + c
    first, second = sorted((DimExpr.of(a), DimExpr.of(b)), key=lambda one: (not list(one.symbols()), str(one)))
    constant = dict(first.terms).get((), 0)
    pair = DimExpr.of(first - constant), DimExpr.of(second - constant)
    return DimExpr({(Least(*pair),): 1}) + constant


def _parts_of_least(size: Dim) -> tuple[Dim, ...]:
    """The operands of a size that is a minimum; else the size itself."""
    if isinstance(size, DimExpr) and len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1:
        (atom,) = size.terms[0][0]
        return tuple(part.evaluate({}) for part in atom.parts) if isinstance(atom, Least) else ()
    return ()


def greatest(a: Dim, b: Dim) -> Dim:
    """The maximum of two sizes."""
    # max(a, b) == a + b - min(a, b)
    return a + b - least(a, b)


def _is_symbol(value: DimExpr) -> bool:
    simple = len(value.terms) == 1 and len(value.terms[0][0]) == 1 and value.terms[0][1] == 1
    return simple and isinstance(value.terms[0][0][0], str)


def with_ends(symbol: str) -> str:
    """The text of a symbol in types, with its bounds if it has any."""
    return f"{symbol}<{symbol.low} to {symbol.high}>" if isinstance(symbol, Bounded) else symbol
