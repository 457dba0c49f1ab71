"""
Arithmetic on sizes during import: what Shape gives, where sizes are symbols, is an array of size expressions.

Such an array has numpy's dtype `object`; its elements are integers and `DimExpr`s, and stand for int64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import DimExpr, SymbolAttr
from mlc.driver.errors import UserError

Array = Any
LARGEST = 10**9 - 1
"""No size is larger: what is, in a slice, stands for the end."""


class Symbols:
    """
    What the sizes that stay open may be.

    A size in steps is that many times its symbol - `H` of (32, 2048, 32) becomes `H * 32`, H from 1 to 64 - so that all
    that follows from the sizes is known exactly.
    """

    def __init__(self, given: Mapping[str, Sequence[int]] | None) -> None:
        if not isinstance(given or {}, Mapping):
            raise UserError(f"expected symbols as a dict of name -> (low, high, step), but got {type(given).__name__}")
        self.given = {name: _span(name, span) for name, span in (given or {}).items()}
        self.found: dict[str, SymbolAttr] = {}

    def sizes(self, shape: Sequence[Any]) -> list[Any]:
        """A shape with its symbols, each times its step; the first of several sizes counts things of one kind."""
        several = len(shape) > 1
        return [self._size(n, several and k == 0) if isinstance(n, DimExpr) else n for k, n in enumerate(shape)]

    def _size(self, size: DimExpr, counts: bool) -> Any:
        name = next(size.symbols())
        low, high, step = self.given.get(name, (1, LARGEST, 1))
        low, high = max(1, -(-low // step)), high // step
        self.found[name] = SymbolAttr(low, high, 1, low if counts else 0)
        return size * step

    def check(self, source: str) -> None:
        """Refuse ranges of symbols that no input has."""
        for name in self.given:
            if name not in self.found:
                has = ", ".join(self.found) or "none"
                raise UserError(f"{source}: expected symbols of the inputs' sizes ({has}), but got '{name}'")

    def used(self) -> DictionaryAttr | None:
        """The attribute of @main; None without symbols."""
        return DictionaryAttr(self.found) if self.found else None


def _span(name: str, span: Any) -> tuple[int, int, int]:
    values = tuple(span) if isinstance(span, tuple | list) else ()
    whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if len(values) not in (2, 3) or not whole or not 1 <= values[0] <= values[1] or values[-1] < 1:  # pyright: ignore
        raise UserError(f"expected symbol '{name}' as (low, high) or (low, high, step) from 1 on, but got {span!r}")
    low, high, step = (*values, 1)[:3]
    if high // step < -(-low // step):
        raise UserError(f"expected a multiple of {step} from {low} to {high} for symbol '{name}', but there is none")
    return low, high, step


def size_array(sizes: Any) -> Array:
    """An array of sizes: of int64 where all are known."""
    array = np.array(sizes, object)
    return array if any(isinstance(v, DimExpr) for v in array.reshape(-1)) else array.astype(np.int64)


def holds_sizes(array: Array) -> bool:
    """Whether an array holds size expressions."""
    return array is not None and array.dtype == object


def fold_sizes(op: Any, arrays: Sequence[Array]) -> list[Array] | None:
    """The results of an op on arrays of which some hold sizes; None of an op that cannot do it."""
    if isinstance(op, MOVES):
        return [size_array(a) for a in op.evaluate(np, *arrays)]
    rule = RULES.get(type(op))
    return None if rule is None else [size_array(rule(op, *arrays))]


def _divided(op: Any, x: Array, y: Array) -> Array:
    return np.asarray(np.frompyfunc(lambda a, b: a // b, 2, 1)(x, y))


def _equal(op: Any, x: Array, y: Array) -> Array:
    return np.asarray(np.frompyfunc(lambda a, b: a == b, 2, 1)(x, y)).astype(bool)


def _where(op: Any, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition.astype(bool), x, y)


def _cast(op: Any, x: Array) -> Array:
    """To another integer type: the same sizes."""
    if not str(op.type.element_type).startswith(("i", "si", "ui")):
        raise ValueError(f"expected arithmetic on integers, where sizes are symbolic, but got a cast to {op.type}")
    return x


MOVES = (
    g.TakeOp, g.ConcatenateOp, g.SliceOp, g.TransposeOp, g.BroadcastToOp, g.SplitOp, g.TileOp,
)  # fmt: skip
RULES: dict[type[Any], Callable[..., Array]] = {
    g.AddOp: lambda op, x, y: x + y,
    g.SubtractOp: lambda op, x, y: x - y,
    g.MultiplyOp: lambda op, x, y: x * y,
    g.DivideOp: _divided,
    g.EqualOp: _equal,
    g.WhereOp: _where,
    g.CastOp: _cast,
    g.ReshapeOp: lambda op, x: x.reshape(g.static_shape(op.type)),
    g.ProdOp: lambda op, x: np.prod(x, axis=tuple(op.reduced_axes), keepdims=op.keepdims),
    g.SumOp: lambda op, x: np.sum(x, axis=tuple(op.reduced_axes), keepdims=op.keepdims),
}
"""The ops that sizes are computed by."""


__all__ = ["Symbols", "fold_sizes", "holds_sizes", "size_array"]
