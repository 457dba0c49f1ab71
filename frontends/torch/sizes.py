"""Sizes that torch.export leaves open: its symbols as those of the graph dialect, or as the numbers given for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import DictionaryAttr

from mlc.dialects.graph import Dim, DimExpr, SymbolAttr
from mlc.driver.errors import UserError

MAX_SIZE = (1 << 31) - 1
"""The upper bound of a symbol that has none."""


class Sizes:
    """What each symbol of a program is: a number, or a symbol of the function."""

    def __init__(self, source: str):
        self.source = source
        self.values: dict[Any, Dim] = {}
        self._ranges: dict[str, SymbolAttr] = {}

    def bind(self, name: str, shape: Sequence[Any], given: Sequence[int] | None, ranges: Mapping[Any, Any]) -> None:
        """Bind the symbols that are sizes of an input: to the sizes given, or to symbols named after it."""
        for axis, size in enumerate(shape):
            symbol = expression(size)
            if isinstance(symbol, int) or not symbol.is_Symbol or symbol in self.values:
                continue
            low, high = _range(ranges.get(symbol))
            if given is None:
                own = f"{name}_{axis}"
                self._ranges[own] = SymbolAttr(low, high)
                self.values[symbol] = DimExpr.symbol(own)
            elif not low <= given[axis] <= high:
                raise UserError(
                    f"{self.source}: input '{name}': expected a size in {low}..{high} on axis {axis}, "
                    f"but got {given[axis]}"
                )
            else:
                self.values[symbol] = given[axis]

    def size(self, value: Any) -> Dim:
        """A size (an int, or torch's symbolic one) as the graph dialect's."""
        expr = expression(value)
        return expr if isinstance(expr, int) else self._evaluate(expr)

    def shape(self, sizes: Sequence[Any]) -> tuple[Dim, ...]:
        """The sizes of a shape."""
        return tuple(self.size(size) for size in sizes)

    def attribute(self) -> DictionaryAttr | None:
        """The ranges of the symbols that stay."""
        return DictionaryAttr(self._ranges) if self._ranges else None

    def _evaluate(self, expr: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        if expr in self.values:
            return self.values[expr]
        parts = [self._evaluate(part) for part in expr.args]
        compute = _COMPUTE.get(type(expr).__name__)
        if compute is None or (not parts):
            raise UserError(
                f"{self.source}: expected a size that follows from those of the inputs, but got {expr}; mlc has no "
                "sizes that depend on data"
            )
        try:
            return compute(*parts)
        except TypeError as error:
            raise UserError(f"{self.source}: mlc cannot express the size {expr}; fix it with shapes=") from error


def expression(value: Any) -> Any:
    """The int or the sympy expression of a size."""
    if isinstance(value, int):
        return int(value)
    expr = value.node.expr
    return int(expr) if expr.is_Integer else expr


def _range(known: Any) -> tuple[int, int]:
    """The bounds of a symbol; infinities become those of a size."""

    def bound(value: Any, default: int) -> int:
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            return default

    if known is None:
        return 0, MAX_SIZE
    return max(bound(known.lower, 0), 0), min(bound(known.upper, MAX_SIZE), MAX_SIZE)


def _power(base: Any, exponent: int) -> Any:
    return math.prod([base] * exponent)


_COMPUTE: dict[str, Any] = {
    "Add": lambda *parts: sum(parts[1:], parts[0]),
    "Mul": lambda *parts: math.prod(parts),
    "Pow": _power,
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "Max": max,
    "Min": min,
}
"""sympy's name of a function of sizes -> its meaning on integers and size expressions."""
