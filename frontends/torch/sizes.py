"""Sizes that torch.export leaves open: its symbols as those of the graph dialect, or as the numbers given for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr

from mlc.dialects.graph import Dim, DimExpr, SymbolAttr
from mlc.dialects.graph.dims import greatest, least
from mlc.driver.errors import UserError

MAX_SIZE = (1 << 31) - 1
"""The upper bound of a symbol that has none."""


Input: TypeAlias = "tuple[str, Sequence[Any], Sequence[int] | None]"
"""An input's name, the sizes that torch knows, and those that are given."""


class Sizes:
    """What each symbol of a program is: a number, or a symbol of the function."""

    def __init__(self, source: str):
        self.source = source
        self.values: dict[Any, Dim] = {}
        self._ranges: dict[str, SymbolAttr] = {}

    def bind(self, inputs: Sequence[Input], ranges: Mapping[Any, Any]) -> None:
        """Bind the symbols that are sizes of inputs, those that are the whole size of an axis first."""
        for derived in (False, True):
            for name, shape, given in inputs:
                for axis, size in enumerate(shape):
                    expr: Any = expression(size)
                    if isinstance(expr, int):
                        continue
                    free = expr.free_symbols - self.values.keys()
                    if len(free) == 1 and (derived or expr.is_Symbol):
                        self._bind(free.pop(), expr, name, axis, None if given is None else given[axis], ranges)

    def _bind(self, symbol: Any, expr: Any, name: str, axis: int, given: int | None, ranges: Mapping[Any, Any]) -> None:
        """A symbol is a number if a size is given that follows from it, otherwise a symbol named after the axis."""
        low, high = _range(ranges.get(symbol))
        if given is None:
            own = f"{name}_{axis}"
            self._ranges[own] = SymbolAttr(low, high)
            self.values[symbol] = DimExpr.symbol(own)
            return
        found = [int(one) for one in _solutions(expr, symbol, given) if one.is_Integer and low <= one <= high]
        if not found:
            wanted = f"a size in {low}..{high}" if expr.is_Symbol else f"a size {expr} of a number in {low}..{high}"
            raise UserError(f"{self.source}: input '{name}': expected {wanted} on axis {axis}, but got {given}")
        self.values[symbol] = found[0]

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
    """The number or the sympy expression of a size."""
    if isinstance(value, int | float):
        return value
    expr = value.node.expr
    return int(expr) if expr.is_Integer else expr


def _solutions(expr: Any, symbol: Any, size: int) -> Any:
    """The values of a symbol that make an expression a size."""
    import sympy

    return sympy.solve(expr - size, symbol)


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
    "Max": lambda *parts: reduce(greatest, parts),
    "Min": lambda *parts: reduce(least, parts),
}
"""sympy's name of a function of sizes -> its meaning on integers and size expressions."""
