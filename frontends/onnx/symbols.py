"""The symbolic sizes of a model's inputs: names, ranges and steps, and restrictions that nodes put on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, TensorType

from mlc.dialects.graph.dims import (
    Bounded,
    Dim,
    DimExpr,
    DimsAttr,
    SymbolAttr,
    UnequalSizes,
    bounds_between,
    least_extent,
)
from mlc.dialects.graph.types import sizes_at
from mlc.frontends.common.sizes import LARGEST_SIZE, Span, applied, identifier
from mlc.frontends.common.untyped import is_sequence
from mlc.frontends.onnx.equal_sizes import MAX_TRIED_SIZE, substitutions
from mlc.support.errors import UserError, warn

GENERATED = r"DynamicDimension|^unk_|^unknown|^dynamic_?ax|^Dynamic|^None$|^\?$|^-1$"
"""Names of sizes that exporters generate, and that say nothing."""
TYPICAL_PICTURE_SIDE = 640
"""Elements of an axis whose size has a step: the typical side of a picture, which schedules are chosen for."""


class InputSymbols:
    """
    The symbolic sizes of the inputs, with their ranges.

    A size with a step is a multiple of its symbol - `H` of (32, 2048, 32) becomes `H * 32`, H from 1 to 64 - so that
    all sizes that follow from it are exact. Sizes that a node requires to be equal become so in the same way: `equate`
    finds a substitution, and the import starts again with it.
    """

    def __init__(self, given: Mapping[str, Sequence[int]] | None) -> None:
        if not isinstance(given or {}, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise UserError(f"expected symbols as a dict of name -> (low, high, step), but got {type(given).__name__}")
        self.given = {name: _span(name, span) for name, span in (given or {}).items()}
        self.found: dict[str, SymbolAttr] = {}
        self.names: dict[str, None] = {}
        """The names of the inputs' symbolic sizes, in order."""
        self.spans: dict[str, Span] = {}
        """The range of each symbol that remains after substitutions."""
        self.sized: dict[str, Dim] = {}
        """Name of a size -> the size in the symbols that remain."""
        self.since: dict[str, Dim] = {}
        """Substitutions since the current import started."""
        self.called: dict[str, str] = {}
        self.counting: set[str] = set()
        """The symbols that are batch sizes: the first of several sizes of an input."""

    def begin(self) -> None:
        """Reset the state of one import; the substitutions stay."""
        self.found, self.names, self.since, self.counting = {}, {}, {}, set()

    def name(self, declared: str, own: str) -> str:
        """The symbol for a size that the file names `declared`: that name, or `own` if it is generated or taken."""
        if not declared or re.search(GENERATED, declared):
            return self.called.setdefault(declared, own) if declared.strip("?") else own
        name = identifier(declared)
        if name is None or self.called.setdefault(name, declared) != declared:
            return own
        return name

    def sizes(self, shape: Sequence[Any]) -> list[Any]:
        """A shape with each symbol times its step; the first of several sizes is noted as a batch size."""
        several = len(shape) > 1
        return [self._size(n, several and k == 0) if isinstance(n, DimExpr) else n for k, n in enumerate(shape)]

    def _size(self, size: DimExpr, counts: bool) -> Any:
        name = next(size.symbols())
        self.names[name] = None
        if name not in self.sized:
            low, high, step = self.given.get(name, (1, LARGEST_SIZE, 1))
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
        """Note a symbol's range and typical value: the least of batch sizes, a picture's side of sizes with a step."""
        (low, high), size = self.spans[name], DimExpr.of(self.sized[name])
        step = max((c for product, c in size.terms if product), default=1)
        usual = (
            max(low, 1)
            if name in self.counting
            else 0
            if step == 1
            else max(low, min(high, TYPICAL_PICTURE_SIDE // step))
        )
        self.found[name] = SymbolAttr(low, high, 1, usual)

    def equate(self, pairs: Iterable[tuple[Dim, Dim]]) -> bool:
        """Find substitutions that make sizes equal; whether there are any."""
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
        """Whether a size is at most a limit for all values of the symbols."""
        difference = size - limit
        return bool(bounds_between(DimExpr.of(difference), self.spans)[1] <= 0)

    def at_most(self, size: Dim, limit: Dim) -> bool:
        """Restrict the symbol of a size such that the size is at most a limit; whether that is possible."""
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
        """Restrict the symbol of a size of one symbol such that the size is at least a limit."""
        names: set[str] = set(size.symbols()) if isinstance(size, DimExpr) else set()
        if len(names) != 1 or (name := names.pop()) not in self.spans:
            return
        low, high = self.spans[name]
        while low <= min(high, MAX_TRIED_SIZE) and sizes_at([size], {name: low})[0] < limit:
            low += 1
        if low <= high and sizes_at([size], {name: low})[0] < limit:
            raise ValueError(
                f"expected a size {size} of at least {limit}, but got less for {name} up to {MAX_TRIED_SIZE}"
            )
        self._restrict(name, low, high, f"a size {size} of at least {limit}")

    def _restrict(self, name: str, low: int, high: int, what: str) -> None:
        if low > high:
            raise ValueError(f"expected {what}, but {name} is {self.spans[name][0]} to {self.spans[name][1]}")
        self.spans[name] = low, high
        if name in self.found:
            self._note(name)

    def hold_elements(self, types: Iterable[Any], source: str) -> None:
        """Restrict symbols such that no tensor is empty, except by symbols that may be 0."""
        shapes = {t.encoding: t for t in types if isinstance(t, TensorType) and isinstance(t.encoding, DimsAttr)}
        try:
            for size in dict.fromkeys(size for encoding in shapes for size in encoding.data):
                self.at_least(size, least_extent(size))
        except ValueError as error:
            raise UserError(f"{source}: {error}") from error

    def mended(self, error: BaseException, source: str) -> bool:
        """Whether an error is about sizes that must be equal, for which a substitution was found."""
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
        """UserError for a range of a symbol that no input has."""
        for name in self.given:
            if name not in self.names:
                has = ", ".join(self.names) or "none"
                raise UserError(f"{source}: expected symbols of the inputs' sizes ({has}), but got '{name}'")

    def used(self) -> DictionaryAttr | None:
        """The attribute graph.symbols of @main; None without symbols."""
        return DictionaryAttr(self.found) if self.found else None


def narrowed(spans: Mapping[str, Span], substitution: Mapping[str, Dim]) -> dict[str, Span] | None:
    """The ranges of symbols after a substitution; None if one is empty."""
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
        others = result.get(other, (0, LARGEST_SIZE))
        result[other] = max(others[0], -(-low // factor)), min(others[1], high // factor)
        if result[other][0] > result[other][1]:
            return None
    return result


def _span(name: str, span: Any) -> tuple[int, int, int]:
    values: tuple[Any, ...] = tuple(span) if is_sequence(span) else ()
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if len(values) not in (2, 3) or not whole or not 0 <= values[0] <= values[1] or values[-1] < 1:
        raise UserError(f"expected symbol '{name}' as (low, high) or (low, high, step) from 0 on, but got {span!r}")
    low, high, step = (*values, 1)[:3]
    if high // step < max(1, -(-low // step)):
        low = max(low, 1)
        raise UserError(f"expected a multiple of {step} from {low} to {high} for symbol '{name}', but there is none")
    return low, high, step


__all__ = ["InputSymbols", "narrowed"]
