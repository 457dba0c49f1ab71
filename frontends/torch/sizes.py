"""The symbolic sizes of a torch.export program, as symbols of the graph dialect or as the numbers given for them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import sympy  # pyright: ignore[reportMissingTypeStubs] sympy ships none
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.value_ranges import ValueRanges
from xdsl.dialects.builtin import DictionaryAttr, TensorType
from xdsl.ir import Block, Operation

from mlc.dialects.graph import Dim, DimExpr, SliceOp, SymbolAttr, shape_of
from mlc.dialects.graph.dims import greatest, least, least_extent
from mlc.dialects.graph.ops.movement import END
from mlc.frontends.torch.guards import Assumptions, arguments, renamed, symbolic, traced
from mlc.support.errors import UserError

MAX_SYMBOL = (1 << 31) - 1
"""The upper bound of a symbol that has none."""
MAX_DIVISOR = 1 << 20
"""The largest denominator of a scale of a size: a size times the numerator has to fit into 64 bits."""

Input: TypeAlias = "tuple[str, Sequence[Any], Sequence[int] | None]"
"""An input's name, its sizes in torch (integers or symbolic), and its sizes in `shapes=`."""


class TorchSizes:
    """The value of each of torch's symbols: a number, or a symbol of @main."""

    def __init__(self, source: str):
        self.source = source
        self.values: dict[Any, Dim] = {}
        self._ranges: dict[str, SymbolAttr] = {}
        self._assumptions = Assumptions()
        self._from_two: list[str] = []
        """Symbols without a declared range: torch takes them to be at least 2, though its programs run at 1 as well."""

    def bind(self, inputs: Sequence[Input], ranges: Mapping[Any, Any], conditions: Sequence[Any] = ()) -> None:
        """
        Bind the symbols in the sizes of inputs, those that are the whole size of an axis first.

        The conditions are the guards of the trace; they express some symbols by others.
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
                            self._note_batch(symbol)
        self._check_conditions(inputs)

    def _take(self, inputs: Sequence[Input], ranges: Mapping[Any, Any], conditions: Sequence[Any]) -> None:
        """Substitute symbols such that the conditions hold."""
        for size in [size for _, shape, _ in inputs for size in shape if not isinstance(expression(size), int)]:
            for symbol in expression(size).free_symbols:
                self._assumptions.ranges[symbol] = _range(ranges.get(symbol))
                if conditions:
                    self._assumptions.traced[symbol] = int(traced(size)[symbol])
        self._assumptions.take(conditions)

    def _check_conditions(self, inputs: Sequence[Input]) -> None:
        """UserError for a condition that can neither be checked at run time nor holds for the sizes given."""
        known = {symbol: size for symbol, size in self.values.items() if isinstance(size, int)}
        axes = [(f"{name}_{axis}", expression(size)) for name, shape, _ in inputs for axis, size in enumerate(shape)]
        names: dict[Any, str] = {expr: name for name, expr in reversed(axes) if not isinstance(expr, int)}
        for condition in self._assumptions.unmet:
            if self._assumptions.applied(condition).subs(known) != True:  # noqa: E712  (sympy's)
                text = renamed(condition, names)
                raise UserError(f"{self.source}: torch.export took for granted that {text}; fix it with shapes=")

    def _bind(self, symbol: sympy.Symbol, expr: sympy.Expr, name: str, axis: int, given: int | None) -> None:
        """Bind a symbol to the number that makes `expr` the given size, or else to a symbol named after the axis."""
        low, high = self._assumptions.ranges[symbol]
        if given is None:
            own = f"{name}_{axis}"
            self._ranges[own] = SymbolAttr(low, high)
            self.values[symbol] = DimExpr.symbol(own, *((0, high) if low == 0 else ()))
            if (low, high) == (2, MAX_SYMBOL):
                self._from_two.append(own)
            return
        found = [int(one) for one in _solutions(expr, symbol, given) if one.is_Integer and low <= one <= high]
        if not found:
            wanted = f"a size in {low}..{high}" if expr.is_Symbol else f"a size {expr} of a number in {low}..{high}"
            raise UserError(f"{self.source}: input '{name}': expected {wanted} on axis {axis}, but got {given}")
        self.values[symbol] = found[0]

    def _note_batch(self, symbol: sympy.Symbol) -> None:
        """The first of several axes is the batch: its typical size is 1, or the least that is allowed."""
        size = self.values[symbol]
        assert isinstance(size, DimExpr)
        (name,) = size.symbols()
        low, high = self._ranges[name].low.data, self._ranges[name].high.data
        self._ranges[name] = SymbolAttr(low, high, 1, max(low, 1))

    def admit_one(self, block: Block) -> None:
        """Extend symbols without a declared range to 1, where all sizes are then at least 1 and all slices fit."""
        lows: dict[str, int | DimExpr] = {name: known.low.data for name, known in self._ranges.items()}
        for name in self._from_two:
            values = {**lows, name: 1}
            if all(_fits(op, values) for op in block.walk()):
                known = self._ranges[name]
                self._ranges[name] = SymbolAttr(1, known.high.data, 1, min(known.usual.data, 1))

    def _expression(self, size: int | torch.SymInt) -> Any:
        """The number or the sympy expression of a size, after the substitutions of the conditions."""
        expr = expression(size)
        expr = expr if isinstance(expr, int) else self._assumptions.applied(expr)
        return int(expr) if getattr(expr, "is_Integer", False) else expr

    def size(self, value: int | torch.SymInt) -> Dim:
        """A size (an int, or torch's symbolic one) as the graph dialect's."""
        expr = expression(value)
        return expr if isinstance(expr, int) else self.size_of(expr)

    def size_of(self, expr: sympy.Expr) -> Dim:
        """A size by its sympy expression."""
        return self._evaluate(self._assumptions.applied(expr))

    def learn(self, sizes: Sequence[Any], found: Sequence[Dim]) -> None:
        """Bind torch's symbols of data-dependent sizes to the sizes of the op that computes them."""
        for size, one in zip(sizes, found, strict=False):
            if not isinstance(size, int) and free_unbacked_symbols(size):
                self.values.setdefault(expression(size), one)

    def shape(self, sizes: Sequence[Any]) -> tuple[Dim, ...]:
        """The sizes of a shape."""
        return tuple(self.size(size) for size in sizes)

    def attribute(self) -> DictionaryAttr | None:
        """The attribute of @main with the ranges of its symbols."""
        return DictionaryAttr(self._ranges) if self._ranges else None

    def _evaluate(self, expr: sympy.Expr) -> Any:
        args = arguments(expr)
        if expr.is_Integer:
            return int(expr)
        if type(expr).__name__ in _ROUND:
            given = expr.subs({symbol: size for symbol, size in self.values.items() if isinstance(size, int)})
            if given.is_Integer:
                return int(given)
            top, bottom = self._ratio(args[0])
            return _ROUND[type(expr).__name__](top, bottom)
        if expr in self.values:
            return self.values[expr]
        parts = [self._evaluate(part) for part in args]
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

    def _ratio(self, expr: sympy.Expr) -> tuple[Any, int]:
        """A sympy number as a fraction: (a size, an integer); a scale of a size is a float in torch."""
        kind, args = type(expr).__name__, arguments(expr)
        if expr.is_Float or (expr.is_Rational and not expr.is_Integer):
            top, bottom = float(expr).as_integer_ratio()
            if bottom <= MAX_DIVISOR:
                return top, bottom
        elif kind == "ToFloat":
            return self._ratio(args[0])
        elif kind in ("Mul", "IntTrueDiv", "FloatTrueDiv"):
            parts: list[tuple[Any, Any]] = [self._ratio(part) for part in args]
            if kind != "Mul" and isinstance(parts[1][0], int):
                parts[1] = (parts[1][1], parts[1][0])
            if kind == "Mul" or isinstance(parts[1][1], int):
                return math.prod(top for top, _ in parts), math.prod(bottom for _, bottom in parts)
        elif kind not in ("FloatPow", "Pow"):
            return self._evaluate(expr), 1
        raise UserError(f"{self.source}: mlc cannot express the size {expr}; fix it with shapes=")


def _fits(op: Operation, values: Mapping[str, int | DimExpr]) -> bool:
    """Whether, for some values of the symbols, no result of an op is empty and a slice is in bounds."""
    shapes = [shape_of(result.type) for result in op.results if isinstance(result.type, TensorType)]
    if any(isinstance(size, DimExpr) and size.evaluate(values) < least_extent(size) for s in shapes for size in s):
        return False
    if not isinstance(op, SliceOp):
        return True
    axes = zip(shape_of(op.operands[0].type), op.begin, op.end, strict=True)
    needed = [(size, max(-begin, begin + 1, 0 if end == END else abs(end))) for size, begin, end in axes]
    return all(size.evaluate(values) >= count for size, count in needed if isinstance(size, DimExpr))


def expression(value: float | torch.SymInt) -> Any:
    """The number or the sympy expression of a size."""
    if isinstance(value, int | float):
        return value
    expr = symbolic(value).expr
    return int(expr) if expr.is_Integer else expr


def _solutions(expr: sympy.Expr, symbol: sympy.Symbol, size: int) -> Any:
    """The values of a symbol that make an expression a size."""
    return sympy.solve(expr - size, symbol)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] sympy has no types


def _range(known: ValueRanges[Any] | None) -> tuple[int, int]:
    """The range of a symbol, with infinities replaced by 0 and MAX_SYMBOL."""

    def bound(value: float | sympy.Expr, default: int) -> int:
        return int(value) if getattr(value, "is_Integer", isinstance(value, int)) else default

    if known is None:
        return 0, MAX_SYMBOL
    return max(bound(known.lower, 0), 0), min(bound(known.upper, MAX_SYMBOL), MAX_SYMBOL)


def _power(base: Dim, exponent: int) -> Dim:
    return math.prod([base] * exponent)


def _quotient(top: Dim, bottom: Dim) -> Dim:
    return top // bottom


def _sum(first: Dim, *others: Dim) -> Dim:
    return sum(others, first)


def _product(*parts: Dim) -> Dim:
    return math.prod(parts)


def _greatest(*parts: Dim) -> Dim:
    return reduce(greatest, parts)


def _least(*parts: Dim) -> Dim:
    return reduce(least, parts)


_ROUND: dict[str, Callable[[Any, Any], Any]] = {
    "TruncToInt": _quotient,
    "FloorToInt": _quotient,
    "CeilToInt": lambda top, bottom: -(-top // bottom),
}
"""The name of torch's sympy function -> its value for a fraction; sizes are not negative."""

_COMPUTE: dict[str, Callable[..., Any]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": _greatest,
    "Min": _least,
}
"""The name of the sympy function -> its value on integers and size expressions."""
