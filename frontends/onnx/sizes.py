"""
Arithmetic on sizes during import: what Shape gives, where sizes are symbols, is an array of size expressions.

Such an array has numpy's dtype `object`; its elements are integers and `DimExpr`s, and stand for int64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, TensorType

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import (
    Bounded,
    Dim,
    DimExpr,
    DimsAttr,
    SymbolAttr,
    UnequalSizes,
    bounds_between,
    greatest,
    least,
    least_extent,
)
from mlc.dialects.graph.types import sizes_at
from mlc.frontends.onnx.equal_sizes import MAX_SIZE, Span, applied, substitutions
from mlc.support.errors import UserError, warn

Array = Any
GENERATED = r"DynamicDimension|^unk_|^unknown|^dynamic_?ax|^Dynamic|^None$|^\?$|^-1$"
"""Names of sizes that exporters make up."""
PICTURE = 640
"""The usual elements of a size in steps."""
LARGEST = 10**9 - 1
"""No size is larger: what is, in a slice, stands for the end."""


class Symbols:
    """
    What the sizes that stay open may be.

    A size in steps is that many times its symbol - `H` of (32, 2048, 32) becomes `H * 32`, H from 1 to 64 - so that all
    that follows from the sizes is known exactly. Sizes that a node needs to be equal become so in the same way: the
    import begins anew with what `equate` says of them.
    """

    def __init__(self, given: Mapping[str, Sequence[int]] | None) -> None:
        if not isinstance(given or {}, Mapping):
            raise UserError(f"expected symbols as a dict of name -> (low, high, step), but got {type(given).__name__}")
        self.given = {name: _span(name, span) for name, span in (given or {}).items()}
        self.found: dict[str, SymbolAttr] = {}
        self.names: dict[str, None] = {}
        """The names of the inputs' sizes, in order."""
        self.spans: dict[str, Span] = {}
        """The lowest and the highest value of each symbol that is left."""
        self.sized: dict[str, Dim] = {}
        """What each size is, in symbols that are left."""
        self.since: dict[str, Dim] = {}
        """What symbols of the import at hand have become."""
        self.called: dict[str, str] = {}
        self.counting: set[str] = set()
        """The symbols that count things of one kind: the first of several sizes."""

    def begin(self) -> None:
        """Forget what an import found; what sizes have to be stays."""
        self.found, self.names, self.since, self.counting = {}, {}, {}, set()

    def name(self, declared: str, own: str) -> str:
        """What a size is called that its file calls `declared`: that, or `own` where that says nothing."""
        if not declared or re.search(GENERATED, declared):
            return self.called.setdefault(declared, own) if declared.strip("?") else own
        name = identifier(declared)
        if name is None or self.called.setdefault(name, declared) != declared:
            return own
        return name

    def sizes(self, shape: Sequence[Any]) -> list[Any]:
        """A shape with its symbols, each times its step; the first of several sizes counts things of one kind."""
        several = len(shape) > 1
        return [self._size(n, several and k == 0) if isinstance(n, DimExpr) else n for k, n in enumerate(shape)]

    def _size(self, size: DimExpr, counts: bool) -> Any:
        name = next(size.symbols())
        self.names[name] = None
        if name not in self.sized:
            low, high, step = self.given.get(name, (1, LARGEST, 1))
            self.spans[name] = -(-low // step), high // step
            self.sized[name] = size * step
        size_ = self.sized[name]
        if not isinstance(size_, DimExpr):
            return size_
        if name in size_.symbols():
            self.counting |= {name} if counts else set()
            self._note(name)
        from_0 = {n: self.spans[n] for n in size_.symbols() if n in self.spans and self.spans[n][0] == 0}
        return size_.evaluate({n: DimExpr.symbol(n, *span) for n, span in from_0.items()})

    def _note(self, name: str) -> None:
        """The values of a symbol; usual are one thing of a kind, and a picture's side where there are steps."""
        (low, high), size = self.spans[name], DimExpr.of(self.sized[name])
        step = max((c for product, c in size.terms if product), default=1)
        usual = max(low, 1) if name in self.counting else 0 if step == 1 else max(low, min(high, PICTURE // step))
        self.found[name] = SymbolAttr(low, high, 1, usual)

    def equate(self, pairs: Iterable[tuple[Dim, Dim]]) -> bool:
        """Make sizes equal, if there is a way: a larger step, one symbol for two, or a number."""
        for a, b in (tuple(self._now(size) for size in pair) for pair in pairs):
            if a != b and not self._equate(a, b):
                return False
        return True

    def _equate(self, a: Dim, b: Dim) -> bool:
        spans = {name: self.spans[name] for name in self.names if name in self.spans}
        for substitution in substitutions(a, b, spans, self.counting):
            if (left := narrowed(self.spans, substitution)) is not None:
                self.spans = left
                self.sized = {name: applied(size, substitution) for name, size in self.sized.items()}
                self.since = {
                    **{name: applied(size, substitution) for name, size in self.since.items()},
                    **{name: size for name, size in substitution.items() if name not in self.since},
                }
                return True
        return False

    def _now(self, size: Dim) -> Dim:
        return applied(size, self.since)

    def within(self, size: Dim, limit: Dim) -> bool:
        """Whether a size is never above a limit, as far as the values of the symbols say."""
        difference = size - limit
        return bool(bounds_between(DimExpr.of(difference), self.spans)[1] <= 0)

    def at_most(self, size: Dim, limit: Dim) -> bool:
        """Restrict the symbol of a size to what keeps it within a limit; whether it is within it then."""
        if self.within(size, limit):
            return True
        if not isinstance(size, DimExpr) or not isinstance(limit, int):
            return size <= limit
        terms = dict(size.terms)
        constant = terms.pop((), 0)
        ((product, factor),) = terms.items() if len(terms) == 1 else [((), 0)]
        if len(product) != 1 or not isinstance(name := product[0], str) or factor < 0 or name not in self.spans:
            return False
        low, high = self.spans[name]
        self._restrict(name, low, min(high, (limit - constant) // factor), f"a size {size} of at most {limit}")
        return True

    def at_least(self, size: Dim, limit: int) -> None:
        """Restrict the symbol of a size, if it is one, to what keeps it from being less."""
        names = set(size.symbols()) if isinstance(size, DimExpr) else set()
        if len(names) != 1 or (name := names.pop()) not in self.spans:
            return
        low, high = self.spans[name]
        while low <= min(high, MAX_SIZE) and sizes_at([size], {name: low})[0] < limit:
            low += 1
        if low <= high and sizes_at([size], {name: low})[0] < limit:
            raise ValueError(f"expected a size {size} of at least {limit}, but got less for {name} up to {MAX_SIZE}")
        self._restrict(name, low, high, f"a size {size} of at least {limit}")

    def _restrict(self, name: str, low: int, high: int, what: str) -> None:
        if low > high:
            raise ValueError(f"expected {what}, but {name} is {self.spans[name][0]} to {self.spans[name][1]}")
        self.spans[name] = low, high
        if name in self.found:
            self._note(name)

    def hold_elements(self, types: Iterable[Any], source: str) -> None:
        """Restrict symbols such that no tensor is without elements, save those of symbols that may be 0."""
        shapes = {t.encoding: t for t in types if isinstance(t, TensorType) and isinstance(t.encoding, DimsAttr)}
        try:
            for size in dict.fromkeys(size for encoding in shapes for size in encoding.data):
                self.at_least(size, least_extent(size))
        except ValueError as error:
            raise UserError(f"{source}: {error}") from error

    def mended(self, error: BaseException, source: str) -> bool:
        """Whether an error is about sizes that must be equal, which now they are."""
        text, cause = str(error).removeprefix(f"{source}: "), error
        while cause is not None and not isinstance(cause, UnequalSizes):
            cause = cause.__cause__
        if cause is None or not cause.pairs:
            return False
        before = self.sized
        if not self.equate(cause.pairs):
            return False
        for name, size in self.sized.items():
            if isinstance(size, int) and not isinstance(before[name], int):
                warn(None, f"{source}: the size {name} is fixed at {size}; for others, {text}")
        return True

    def check(self, source: str) -> None:
        """Refuse ranges of symbols that no input has."""
        for name in self.given:
            if name not in self.names:
                has = ", ".join(self.names) or "none"
                raise UserError(f"{source}: expected symbols of the inputs' sizes ({has}), but got '{name}'")

    def used(self) -> DictionaryAttr | None:
        """The attribute of @main; None without symbols."""
        return DictionaryAttr(self.found) if self.found else None


def narrowed(spans: Mapping[str, Span], substitution: Mapping[str, Dim]) -> dict[str, Span] | None:
    """The values that symbols may have after a substitution; None where none is left."""
    result = {name: span for name, span in spans.items() if name not in substitution}
    for name, size in substitution.items():
        low, high = spans[name]
        if isinstance(size, int):
            if not low <= size <= high:
                return None
            continue
        if len(size.terms) > 1:  # follows from others, whatever it is
            continue
        product, factor = next(iter(size.terms))
        if len(product) != 1 or factor < 0 or not isinstance(other := product[0], str):
            return None
        if isinstance(other, Bounded):
            low, high = max(low, other.low * factor), min(high, other.high * factor)
        others = result.get(other, (0, LARGEST))
        result[other] = max(others[0], -(-low // factor)), min(others[1], high // factor)
        if result[other][0] > result[other][1]:
            return None
    return result


def identifier(name: str) -> str | None:
    """A name as one that a value may have in the text; None if nothing is left of it."""
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return cleaned if re.fullmatch(r"[A-Za-z_]\w*", cleaned) else None


def _span(name: str, span: Any) -> tuple[int, int, int]:
    values: tuple[Any, ...] = tuple(span) if isinstance(span, tuple | list) else ()
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if len(values) not in (2, 3) or not whole or not 0 <= values[0] <= values[1] or values[-1] < 1:
        raise UserError(f"expected symbol '{name}' as (low, high) or (low, high, step) from 0 on, but got {span!r}")
    low, high, step = (*values, 1)[:3]
    if high // step < max(1, -(-low // step)):
        low = max(low, 1)
        raise UserError(f"expected a multiple of {step} from {low} to {high} for symbol '{name}', but there is none")
    return low, high, step


def size_array(sizes: Any) -> Array:
    """An array of sizes: of int64 where all are known; conditions stay what they are."""
    if isinstance(sizes, np.ndarray) and sizes.dtype == bool:
        return sizes
    array = np.array(sizes, object)
    return array if any(isinstance(v, DimExpr) for v in array.reshape(-1)) else array.astype(np.int64)


def holds_sizes(array: Array) -> bool:
    """Whether an array holds size expressions."""
    return array is not None and array.dtype == object


class Undecided(ValueError):
    """Sizes that compare in one way for some inputs, and in another way for others."""


def fold_sizes(op: Any, arrays: Sequence[Array], spans: Mapping[str, Span]) -> list[Array] | None:
    """
    The results of an op on arrays of which some hold sizes; None of an op that cannot do it.

    The spans of symbols decide what compares, or it is `Undecided`.
    """
    if isinstance(op, COMPARED):
        ends = {name: DimExpr.symbol(name, *span) for name, span in spans.items()}
        arrays = [np.asarray(np.frompyfunc(lambda size: applied(size, ends), 1, 1)(a)) for a in arrays]
    if isinstance(op, MOVES):
        return [size_array(a) for a in op.evaluate(np, *arrays)]
    if isinstance(op, g.CastOp) and not str(op.type.element_type).startswith(("i", "si", "ui")):
        return None
    rule = RULES.get(type(op))
    return None if rule is None else [size_array(rule(op, *arrays))]


def _divided(op: Any, x: Array, y: Array) -> Array:
    return np.asarray(np.frompyfunc(_quotient, 2, 1)(x, y))


def _quotient(a: Dim, b: Dim) -> Dim:
    """`a / b`, rounded towards 0; what may have either sign counts as not negative, as sizes are."""
    if isinstance(b, int) and b < 0:
        return -_quotient(a, -b)
    high = a.bounds()[1] if isinstance(a, DimExpr) else a
    return a // b if high > 0 else -(-a // b)


def _compared(decide: Callable[[float, float], bool | None]) -> Callable[..., Array]:
    def decided(a: Dim, b: Dim) -> bool:
        difference = a - b
        low, high = difference.bounds() if isinstance(difference, DimExpr) else (difference, difference)
        if (result := decide(low, high)) is None:
            raise Undecided(f"expected sizes that compare whatever they are, but got {a} and {b}")
        return result

    return lambda op, x, y: np.asarray(np.frompyfunc(decided, 2, 1)(x, y)).astype(bool)


def _less(low: float, high: float) -> bool | None:
    """Whether a difference is less than 0; None where that depends."""
    return True if high < 0 else False if low >= 0 else None


def _zero(low: float, high: float) -> bool | None:
    return low == 0 if low == high else None if low <= 0 <= high else False


def _chosen(choose: Callable[[Dim, Dim], Dim]) -> Callable[..., Array]:
    return lambda op, x, y: np.asarray(np.frompyfunc(choose, 2, 1)(x, y))


def _clipped(op: Any, x: Array) -> Array:
    def clip(size: Dim) -> Dim:
        size = size if op.min == -np.inf else greatest(size, int(op.min))
        return size if op.max == np.inf else least(size, int(op.max))

    return np.asarray(np.frompyfunc(clip, 1, 1)(x))


def _reduced(choose: Callable[[Dim, Dim], Dim]) -> Callable[..., Array]:
    fold = np.frompyfunc(choose, 2, 1)
    return lambda op, x: np.asarray(fold.reduce(x.reshape(-1))).reshape(g.static_shape(op.type))


def _remainder(op: Any, x: Array, y: Array) -> Array:
    return np.asarray(np.frompyfunc(lambda a, b: _left(a, b, op.truncated), 2, 1)(x, y))


def _left(a: Dim, b: Dim, truncated: bool) -> Dim:
    """`a % b`; of a number by a size that is never less than it, as in `roll`, too."""
    if isinstance(b, int):
        return a - _quotient(a, b) * b if truncated else a % b
    low = b.bounds()[0]
    if not isinstance(a, int) or not (-low < a < low or (a == -low and not truncated)):
        raise ValueError(f"expected a remainder that is the same for all sizes, but got {a} % ({b})")
    return a if a >= 0 or truncated else a + b


def _where(op: Any, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition.astype(bool), x, y)


MOVES = (
    g.TakeOp, g.ConcatenateOp, g.SliceOp, g.TransposeOp, g.BroadcastToOp, g.SplitOp, g.TileOp,
)  # fmt: skip
COMPARED = (g.EqualOp, g.LessOp, g.LessEqualOp, g.GreaterOp, g.GreaterEqualOp)
RULES: dict[type[Any], Callable[..., Array]] = {
    g.AddOp: lambda op, x, y: x + y,
    g.SubtractOp: lambda op, x, y: x - y,
    g.MultiplyOp: lambda op, x, y: x * y,
    g.DivideOp: _divided,
    g.ModOp: _remainder,
    g.NegOp: lambda op, x: -x,
    g.MinimumOp: _chosen(least),
    g.MaximumOp: _chosen(greatest),
    g.ClipOp: _clipped,
    g.EqualOp: _compared(_zero),
    g.LessOp: _compared(_less),
    g.LessEqualOp: _compared(lambda low, high: _less(low - 1, high - 1)),
    g.GreaterOp: _compared(lambda low, high: _less(-high, -low)),
    g.GreaterEqualOp: _compared(lambda low, high: _less(-high - 1, -low - 1)),
    g.LogicalNotOp: lambda op, x: ~x.astype(bool),
    g.WhereOp: _where,
    g.CastOp: lambda op, x: x,
    g.ReshapeOp: lambda op, x: x.reshape(g.static_shape(op.type)),
    g.ProdOp: lambda op, x: np.prod(x, axis=tuple(op.reduced_axes), keepdims=op.keepdims),
    g.SumOp: lambda op, x: np.sum(x, axis=tuple(op.reduced_axes), keepdims=op.keepdims),
    g.MinOp: _reduced(least),
    g.MaxOp: _reduced(greatest),
}
"""The ops that sizes are computed by."""


__all__ = ["Symbols", "Undecided", "fold_sizes", "holds_sizes", "identifier", "size_array"]
