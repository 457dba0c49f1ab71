"""Sizes that torch.export leaves open: its symbols as those of the graph dialect, or as the numbers given for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.ir import Block

from mlc.dialects.graph import Dim, DimExpr, SliceOp, SymbolAttr, shape_of
from mlc.dialects.graph.dims import greatest, least, least_extent
from mlc.dialects.graph.ops.movement import END
from mlc.frontends.torch.guards import Taken, renamed, traced
from mlc.support.errors import UserError

MAX_SIZE = (1 << 31) - 1
"""The upper bound of a symbol that has none."""
MAX_DIVISOR = 1 << 20
"""The finest part of a size that a scale may be: a product with its numerator has to fit into 64 bits."""

Input: TypeAlias = "tuple[str, Sequence[Any], Sequence[int] | None]"
"""An input's name, the sizes that torch knows, and those that are given."""


class Sizes:
    """What each symbol of a program is: a number, or a symbol of the function."""

    def __init__(self, source: str):
        self.source = source
        self.values: dict[Any, Dim] = {}
        self._ranges: dict[str, SymbolAttr] = {}
        self._taken = Taken()
        self._from_two: list[str] = []
        """Symbols of which nothing is said: torch takes them to be 2 at least, but runs programs at 1, too."""

    def bind(self, inputs: Sequence[Input], ranges: Mapping[Any, Any], conditions: Sequence[Any] = ()) -> None:
        """
        Bind the symbols that are sizes of inputs, those that are the whole size of an axis first.

        The conditions are those under which the program was traced; they put some symbols in terms of others.
        """
        self._take(inputs, ranges, conditions)
        for derived in (False, True):
            for name, shape, given in inputs:
                for axis, size in enumerate(shape):
                    expr = self._expression(size)
                    if isinstance(expr, int):
                        continue
                    free = expr.free_symbols - self.values.keys()
                    if len(free) == 1 and (derived or expr.is_Symbol):
                        symbol = free.pop()
                        self._bind(symbol, expr, name, axis, None if given is None else given[axis])
                        if given is None and axis == 0 and len(shape) > 1:
                            self._count(symbol)
        self._check_conditions(inputs)

    def _take(self, inputs: Sequence[Input], ranges: Mapping[Any, Any], conditions: Sequence[Any]) -> None:
        """Take the conditions for granted: they say of some symbols what they are."""
        for size in [size for _, shape, _ in inputs for size in shape if not isinstance(expression(size), int)]:
            for symbol in expression(size).free_symbols:
                self._taken.ranges[symbol] = _range(ranges.get(symbol))
                if conditions:
                    self._taken.traced[symbol] = int(traced(size)[symbol])
        self._taken.take(conditions)

    def _check_conditions(self, inputs: Sequence[Input]) -> None:
        """UserError where a condition can be neither checked when the model runs, nor is true of the sizes given."""
        known = {symbol: size for symbol, size in self.values.items() if isinstance(size, int)}
        axes = [(f"{name}_{axis}", expression(size)) for name, shape, _ in inputs for axis, size in enumerate(shape)]
        names: dict[Any, str] = {expr: name for name, expr in reversed(axes) if not isinstance(expr, int)}
        for condition in self._taken.unmet:
            if self._taken.applied(condition).subs(known) != True:  # noqa: E712  (sympy's)
                text = renamed(condition, names)
                raise UserError(f"{self.source}: torch.export took for granted that {text}; fix it with shapes=")

    def _bind(self, symbol: Any, expr: Any, name: str, axis: int, given: int | None) -> None:
        """A symbol is a number if a size is given that follows from it, otherwise a symbol named after the axis."""
        low, high = self._taken.ranges[symbol]
        if given is None:
            own = f"{name}_{axis}"
            self._ranges[own] = SymbolAttr(low, high)
            self.values[symbol] = DimExpr.symbol(own, *((0, high) if low == 0 else ()))
            if (low, high) == (2, MAX_SIZE):
                self._from_two.append(own)
            return
        found = [int(one) for one in _solutions(expr, symbol, given) if one.is_Integer and low <= one <= high]
        if not found:
            wanted = f"a size in {low}..{high}" if expr.is_Symbol else f"a size {expr} of a number in {low}..{high}"
            raise UserError(f"{self.source}: input '{name}': expected {wanted} on axis {axis}, but got {given}")
        self.values[symbol] = found[0]

    def _count(self, symbol: Any) -> None:
        """The first of several axes counts things of one kind: usually there is one, or as few as may be."""
        (name,) = self.values[symbol].symbols()  # pyright: ignore[reportAttributeAccessIssue]
        low, high = self._ranges[name].low.data, self._ranges[name].high.data
        self._ranges[name] = SymbolAttr(low, high, 1, max(low, 1))

    def admit_one(self, block: Block) -> None:
        """Let symbols of which nothing is said be 1, where all sizes are then at least 1 and all slices fit."""
        lows: dict[str, int | DimExpr] = {name: known.low.data for name, known in self._ranges.items()}
        for name in self._from_two:
            values = {**lows, name: 1}
            if all(_fits(op, values) for op in block.walk()):
                known = self._ranges[name]
                self._ranges[name] = SymbolAttr(1, known.high.data, 1, min(known.usual.data, 1))

    def _expression(self, size: Any) -> Any:
        """The number or the sympy expression of a size in the symbols that are left."""
        expr = expression(size)
        expr = expr if isinstance(expr, int) else self._taken.applied(expr)
        return int(expr) if getattr(expr, "is_Integer", False) else expr

    def size(self, value: Any) -> Dim:
        """A size (an int, or torch's symbolic one) as the graph dialect's."""
        expr = expression(value)
        return expr if isinstance(expr, int) else self.size_of(expr)

    def size_of(self, expr: Any) -> Dim:
        """A size by its sympy expression."""
        return self._evaluate(self._taken.applied(expr))

    def learn(self, sizes: Sequence[Any], found: Sequence[Dim]) -> None:
        """Bind symbols of sizes that depend on data, once it is found what they are."""
        for size, one in zip(sizes, found, strict=False):
            if not isinstance(size, int) and free_unbacked_symbols(size):
                self.values.setdefault(expression(size), one)

    def shape(self, sizes: Sequence[Any]) -> tuple[Dim, ...]:
        """The sizes of a shape."""
        return tuple(self.size(size) for size in sizes)

    def attribute(self) -> DictionaryAttr | None:
        """The ranges of the symbols that stay."""
        return DictionaryAttr(self._ranges) if self._ranges else None

    def _evaluate(self, expr: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        if type(expr).__name__ in _ROUND:
            given = expr.subs({symbol: size for symbol, size in self.values.items() if isinstance(size, int)})
            if given.is_Integer:
                return int(given)
            top, bottom = self._ratio(expr.args[0])
            return _ROUND[type(expr).__name__](top, bottom)
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

    def _ratio(self, expr: Any) -> tuple[Any, int]:
        """A number as a size over a whole number: a scale of a size is a float."""
        kind = type(expr).__name__
        if expr.is_Float or (expr.is_Rational and not expr.is_Integer):
            top, bottom = float(expr).as_integer_ratio()
            if bottom <= MAX_DIVISOR:
                return top, bottom
        elif kind == "ToFloat":
            return self._ratio(expr.args[0])
        elif kind in ("Mul", "IntTrueDiv", "FloatTrueDiv"):
            parts: list[tuple[Any, Any]] = [self._ratio(part) for part in expr.args]
            if kind != "Mul" and isinstance(parts[1][0], int):
                parts[1] = (parts[1][1], parts[1][0])
            if kind == "Mul" or isinstance(parts[1][1], int):
                return math.prod(top for top, _ in parts), math.prod(bottom for _, bottom in parts)
        elif kind not in ("FloatPow", "Pow"):
            return self._evaluate(expr), 1
        raise UserError(f"{self.source}: mlc cannot express the size {expr}; fix it with shapes=")


def _fits(op: Any, values: Mapping[str, int | DimExpr]) -> bool:
    """Whether an op has no result without elements for some values of the symbols, and a slice lies inside."""
    shapes = [shape_of(result.type) for result in op.results if isinstance(result.type, TensorType)]
    if any(isinstance(size, DimExpr) and size.evaluate(values) < least_extent(size) for s in shapes for size in s):
        return False
    if not isinstance(op, SliceOp):
        return True
    axes = zip(shape_of(op.operands[0].type), op.begin, op.end, strict=True)
    needed = [(size, max(-begin, begin + 1, 0 if end == END else abs(end))) for size, begin, end in axes]
    return all(size.evaluate(values) >= count for size, count in needed if isinstance(size, DimExpr))


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
        return int(value) if getattr(value, "is_Integer", isinstance(value, int)) else default

    if known is None:
        return 0, MAX_SIZE
    return max(bound(known.lower, 0), 0), min(bound(known.upper, MAX_SIZE), MAX_SIZE)


def _power(base: Any, exponent: int) -> Any:
    return math.prod([base] * exponent)


_ROUND: dict[str, Any] = {
    "TruncToInt": lambda top, bottom: top // bottom,
    "FloorToInt": lambda top, bottom: top // bottom,
    "CeilToInt": lambda top, bottom: -(-top // bottom),
}
"""sympy's name of a rounding -> its meaning on a ratio; sizes are not negative."""

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
