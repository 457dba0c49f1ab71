"""What the loop passes share: the loops around an op, their ranges, index expressions over SSA values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.index import UNBOUNDED, Div, Index, Range, Term, dim
from mlc.dialects.loop import ForOp, FuncOp


def loops_around(op: Operation, within: Operation | None = None) -> list[ForOp]:
    """The loops around an op, outermost first, up to (not including) `within`."""
    found: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None and parent is not within:
        if isinstance(parent, ForOp):
            found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


def body_ops(block: Block) -> list[Operation]:
    """The ops of a block but its terminator."""
    return [op for op in block.ops if op.name != "loop.yield"]


class Numbering:
    """Numbers SSA index values across a function, so that expressions of different ops compare."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}
        self.values: list[SSAValue] = []

    def number(self, value: SSAValue) -> int:
        """The number of a value."""
        n = self.numbers.get(value)
        if n is None:
            n = self.numbers[value] = len(self.values)
            self.values.append(value)
        return n

    def expr(self, e: Index, operands: Sequence[SSAValue]) -> Index:
        """An expression over an op's operands as one over numbered values; tile axes stay."""
        return e.substitute(lambda d: dim(self.number(operands[d])) if d >= 0 else dim(d)) if e.terms else e

    def exprs(self, es: Iterable[Index], operands: Sequence[SSAValue]) -> tuple[Index, ...]:
        """Several expressions."""
        return tuple(self.expr(e, operands) for e in es)

    def ranges(self, tile: Sequence[int] = ()) -> Ranges:
        """Inclusive ranges of the numbered values, from the loops that define them, and of tile axes."""
        return Ranges(self.values, tile)


def at_worst(e: Index, values: Sequence[SSAValue], number: Callable[[SSAValue], int]) -> Index:
    """
    The least that an expression comes to, with indices of loops of symbolic extents replaced by their last values.

    `N - 1 - %i` in `for %i = 0 to N` is 0.
    """
    to: dict[int, Index] = {}
    for term, c in e.terms:
        for d in _rising(term) if c < 0 else ():
            f = loop_of(values[d]) if d >= 0 else None
            if f is not None and f.extent is None and all(map(is_symbol, f.indices)):
                to[d] = f.upper.substitute({k: dim(number(v)) for k, v in enumerate(f.indices)}) - 1
    return e.substitute(to) if to else e


def _rising(term: Term) -> list[int]:
    """The dimensions that a term grows with: itself, or those inside of floor divisions."""
    if isinstance(term, int):
        return [term]
    if not isinstance(term, Div) or term.is_mod:
        return []
    return [d for t, c in term.expr.terms if c > 0 for d in _rising(t)]


def loop_of(value: SSAValue) -> ForOp | None:
    """The loop whose index a value is."""
    f = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return f if isinstance(f, ForOp) and f.iv is value else None


def linear(e: Index, values: Sequence[SSAValue]) -> Index:
    """
    A predicate `e >= 0` without a division of symbols.

    Law: a floordiv n + r >= 0  ==  a + n * r >= 0.
    """
    for term, c in e.terms:
        if isinstance(term, Div) and not term.is_mod and c == 1 and all(is_symbol(values[d]) for d in term.expr.dims()):
            return linear(term.expr + (e - Index(0, ((term, 1),))) * term.by, values)
    return e


UNKNOWN: Range = (-(1 << 60), 1 << 60)


class Ranges(dict[int, Range]):
    """Ranges looked up when asked for."""

    def __init__(self, values: Sequence[SSAValue], tile: Sequence[int] = ()) -> None:
        super().__init__({-1 - k: (0, n - 1) for k, n in enumerate(tile)})
        self._values = values

    def __missing__(self, number: int) -> Range:
        r = self[number] = range_of(self._values[number]) if number >= 0 else UNKNOWN
        return r


def is_symbol(value: SSAValue) -> bool:
    """Whether an index value is a size that the kernel is given."""
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)


def least(func: FuncOp, symbol: SSAValue) -> int:
    """The smallest value of a kernel's symbol."""
    known = func.attributes.get("least")
    symbols = [a for a in func.args if not isinstance(a.type, MemRefType)]
    return known.get_values()[symbols.index(symbol)] if isinstance(known, DenseArrayBase) else 0


def range_of(value: SSAValue) -> Range:
    """The values that a loop's index and a kernel's symbol take; unknown for anything else."""
    owner = value.owner
    loop = owner.parent_op() if isinstance(owner, Block) else None
    if isinstance(loop, FuncOp):
        return least(loop, value), UNBOUNDED
    if not isinstance(loop, ForOp) or value is not loop.iv:
        return UNKNOWN
    lower, upper = loop.lower, loop.upper
    if lower.is_const and upper.is_const:
        return lower.const, upper.const - 1
    ranges = {k: range_of(v) for k, v in enumerate(loop.indices)}
    return lower.bounds(ranges)[0], upper.bounds(ranges)[1] - 1
