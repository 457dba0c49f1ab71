"""
Symbolic sizes as data: tensors of the values that the symbols have at run time.

    H  ->  max(iota : tensor<?xi64, #graph.dims<[H]>>) + 1

A size is arithmetic on symbols; the tensor of each symbol is made once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Bounded, Dim, DimExpr, FloorDiv, Least
from mlc.frontends.common.values import Array, Value

if TYPE_CHECKING:
    from mlc.frontends.common.builder import GraphBuilder


class SizeData:
    """The tensors of the symbolic sizes of one import."""

    def __init__(self, importer: GraphBuilder) -> None:
        self.importer = importer
        self.known: dict[str, Value] = {}

    def tensor(self, array: Array, location: str) -> SSAValue:
        """An i64 tensor of sizes; `array` holds at least one that is symbolic."""
        parts = [self.size(one, location) for one in array.reshape(-1)]
        whole = parts[0] if len(parts) == 1 else self._emit(g.ConcatenateOp, parts, location, axis=0)
        shape = tuple(array.shape)
        whole = whole if shape == tuple(whole.shape) else self._emit(g.ReshapeOp, [whole], location, shape=shape)
        return self.importer.materialize(whole, location)

    def size(self, size: Dim, location: str) -> Value:
        """One size, as a tensor of one element."""
        if not isinstance(size, DimExpr):
            return Value(None, np.array([size], np.int64), self.importer.fresh(location))
        total: Value | None = None
        for product, coefficient in size.terms:
            part = self.size(coefficient, location)
            for atom in product:
                value = self.symbol(atom, location) if isinstance(atom, str) else self._atom(atom, location)
                part = self._emit(g.MultiplyOp, [value, part], location)
            total = part if total is None else self._emit(g.AddOp, [total, part], location)
        assert total is not None
        return total

    def symbol(self, name: str, location: str) -> Value:
        """The run-time value of a symbol: the last index along its size, plus 1; if it may be 0, a sum of ones."""
        if name not in self.known and isinstance(name, Bounded) and name.low < 1:
            ones = self._emit(g.FullOp, [], location, value=1, shape=(DimExpr({(name,): 1}),), dtype=np.dtype(np.int64))
            self.known[name] = self._emit(g.SumOp, [ones], location, axes=(0,), keepdims=True)
        if name not in self.known:
            size = DimExpr({(name,): 1})
            places = self._emit(g.IotaOp, [], location, result=g.tensor((size,), "int64"), axis=0)
            last = self._emit(g.MaxOp, [places], location, axes=(0,), keepdims=True)
            self.known[name] = self._emit(g.AddOp, [last, self.size(1, location)], location)
        return self.known[name]

    def _atom(self, atom: FloorDiv | Least, location: str) -> Value:
        parts = [self.size(part.evaluate({}), location) for part in atom.parts]
        if isinstance(atom, Least):
            return self._emit(g.MinimumOp, parts, location)
        (value,), divisor = parts, self.size(atom.divisor, location)
        if atom.value.bounds()[0] < 0:  # where a division rounds towards 0
            rest = self._emit(g.ModOp, [value, divisor], location)
            value = self._emit(g.SubtractOp, [value, rest], location)
        return self._emit(g.DivideOp, [value, divisor], location)

    def _emit(self, op: type[GraphOp], operands: list[Value], location: str, **attrs: Any) -> Value:
        """An op in the outermost block, so that branches and loops read its result from outside."""
        outer, self.importer.block = self.importer.block, self.importer.root
        try:
            return self.importer.emit(op, operands, attrs, location)[0]
        finally:
            self.importer.block = outer
