"""An index space: numbers index values, so that expressions of different ops are over the same dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import SSAValue

from mlc.dialects.index import Index, Range, dim, tile_ranges
from mlc.dialects.loop import ForOp
from mlc.passes.loop.index_space.domain import LazyRanges, is_symbol, loop_of, range_of


class IndexSpace:
    """
    The index values of a kernel: `numbers[value]`, `values[number]`, `ranges[number]`.

    A range is looked up when it is first asked for and then kept: after a rewrite of the bounds of loops, a `copy` of
    the space has their new ranges. `tile`: the sizes of the tile axes, dimensions -1, -2, ...
    """

    def __init__(self, tile: Sequence[int] = ()) -> None:
        self.numbers: dict[SSAValue, int] = {}
        values: list[SSAValue] = []
        self.values = values
        self.ranges = LazyRanges(lambda number: range_of(values[number]), tile_ranges(tile))

    def copy(self) -> IndexSpace:
        """A space with the same numbers, to which others may be added; ranges are looked up anew."""
        other = IndexSpace()
        other.numbers |= self.numbers
        other.values += self.values
        return other

    def number(self, value: SSAValue) -> int:
        """The number of an index value; a new one where it has none yet."""
        n = self.numbers.get(value)
        if n is None:
            n = self.numbers[value] = len(self.values)
            self.values.append(value)
        return n

    def numbers_of(self, loops: Iterable[ForOp]) -> set[int]:
        """The numbers of the indices of these loops."""
        return {self.number(f.iv) for f in loops}

    def dim(self, value: SSAValue) -> Index:
        """The expression that is one index value."""
        return dim(self.number(value))

    def expr(self, e: Index, operands: Sequence[SSAValue]) -> Index:
        """An expression over an op's operands as one over the space; tile axes stay."""
        return e.substitute(lambda d: dim(self.number(operands[d])) if d >= 0 else dim(d)) if e.terms else e

    def exprs(self, es: Iterable[Index], operands: Sequence[SSAValue]) -> tuple[Index, ...]:
        """Several expressions."""
        return tuple(self.expr(e, operands) for e in es)

    def ranges_with(self, known: Mapping[int, Range]) -> LazyRanges:
        """The ranges, with the given ranges in place of those of some dimensions."""
        return LazyRanges(self.ranges.__getitem__, known)

    def is_symbolic(self, dimensions: Iterable[int]) -> bool:
        """Whether all these dimensions are symbols of the kernel."""
        return all(d >= 0 and is_symbol(self.values[d]) for d in dimensions)

    def last_value(self, dimension: int) -> Index | None:
        """The last value, over symbols and loops around, of a loop's index; None of known extents, and of no loop."""
        f = loop_of(self.values[dimension]) if dimension >= 0 else None
        if f is None or f.extent is not None or not all(is_symbol(v) or loop_of(v) for v in f.indices):
            return None
        return self.expr(f.upper, f.indices) - 1
