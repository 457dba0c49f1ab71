"""Sizes in @main: emits size expressions as `arith` ops on the symbols, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.graph.dims import Dim, DimExpr, FloorDiv, Least, greatest, least
from mlc.dialects.scalar import INDEX


class SizeEmitter:
    """Emits size expressions into a block, each once."""

    def __init__(self, block: Block, symbols: Mapping[str, SSAValue]) -> None:
        self.block = block
        self.symbols = symbols
        self.known: dict[Any, SSAValue] = {}

    def __call__(self, size: Dim) -> SSAValue:
        """The SSA value of a size."""
        if size not in self.known:
            self.known[size] = self._constant(size) if isinstance(size, int) else self._sum(size)
        return self.known[size]

    def open(self, size: Dim) -> SSAValue | None:
        """The SSA value of a symbolic size; None for a static one."""
        return None if isinstance(size, int) else self(size)

    def add(self, op: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
        """The result of an operation on two indices."""
        made = op.create(operands=[x, y], result_types=[INDEX])
        self.block.add_op(made)
        return made.results[0]

    def _constant(self, number: int) -> SSAValue:
        op = arith.ConstantOp(IntegerAttr(number, INDEX))
        self.block.add_op(op)
        return op.result

    def _sum(self, size: DimExpr) -> SSAValue:
        total: SSAValue | None = None
        for product, c in size.terms:
            part = self(c) if c != 1 or not product else None
            for atom in product:
                value = self.symbols[atom] if isinstance(atom, str) else self._atom(atom)
                part = value if part is None else self.add(arith.MuliOp, part, value)
            assert part is not None
            total = part if total is None else self.add(arith.AddiOp, total, part)
        assert total is not None
        return total

    def _atom(self, atom: FloorDiv | Least) -> SSAValue:
        if atom not in self.known:
            if isinstance(atom, Least):
                self.known[atom] = self.add(arith.MinSIOp, self(_number(atom.a)), self(_number(atom.b)))
            else:
                divide = arith.DivUIOp if atom.value.bounds()[0] >= 0 else arith.FloorDivSIOp
                self.known[atom] = self.add(divide, self(atom.value), self(atom.divisor))
        return self.known[atom]


def _number(size: DimExpr) -> Dim:
    """An expression without symbols as an integer; others are returned unchanged."""
    return size.evaluate({})


_MEANING: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: lambda x, y: x + y,
    arith.SubiOp: lambda x, y: x - y,
    arith.MuliOp: lambda x, y: x * y,
    arith.DivUIOp: lambda x, y: x // y,
    arith.FloorDivSIOp: lambda x, y: x // y,
    arith.MaxSIOp: greatest,
    arith.MinSIOp: least,
}


class SizeReader:
    """Evaluates index values of @main, given a number or an expression for each symbol (a block argument)."""

    def __init__(self, symbols: Mapping[SSAValue, Dim]) -> None:
        self.known: dict[SSAValue, Dim | None] = dict(symbols)

    def __call__(self, value: SSAValue) -> Dim | None:
        """The number or expression that a value equals; None if it is not computed from symbols alone."""
        # An explicit stack: offsets are chained, so recursion would be as deep as the model.
        pending = [value]
        while pending:
            unread = [v for v in _operands(pending[-1]) if v not in self.known]
            if unread:
                pending += unread
            else:
                last = pending.pop()
                if last not in self.known:
                    self.known[last] = self._read(last)
        return self.known[value]

    def _read(self, value: SSAValue) -> Dim | None:
        """Evaluate a value whose operands have been evaluated."""
        op = value.owner
        if isinstance(op, arith.ConstantOp):
            return op.value.value.data if isinstance(op.value, IntegerAttr) else None
        sizes = [size for v in _operands(value) if (size := self.known[v]) is not None]
        return _MEANING[type(op)](*sizes) if isinstance(op, Operation) and len(sizes) == 2 else None


def _operands(value: SSAValue) -> Sequence[SSAValue]:
    """The operands of a value that is arithmetic on sizes; empty for other values."""
    op = value.owner
    return op.operands if isinstance(op, Operation) and type(op) in _MEANING else ()


__all__ = ["INDEX", "SizeEmitter", "SizeReader"]
