"""
The values of knobs as numbers that cost models learn from.

A size becomes its logarithm to base 2, a list of factors one logarithm each, a name or an order one column for each
candidate. Columns have names, "matmul/tile/0" or "matmul/pack=whole", by which what was learned of one task is used for
another one. Columns of one knob form a group, whose distance is the sum over its columns: octaves, or 1 where names
differ. The product of two sizes is a group too: tiles of one area lie close together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from mlc.tuning.space import STRATEGY, Knob, KnobValue, Part, Space, Values
from mlc.tuning.tuners.genes import Genes

Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
Ints: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

_MOST_PRODUCTS = 15
"""Products of two sizes in a part: those of its first six sizes."""
_DIFFERENT = 0.5
"""The value of a name's column: two names differ in two columns, by 1 in all."""


class Encoding:
    """The features of a space's candidates, given as rows of digits (`Genes`)."""

    def __init__(self, space: Space) -> None:
        self.genes = Genes(space)
        self.names: list[str] = []
        """The columns."""
        self.groups: list[str] = []
        """The group of each column: a knob, the strategy, or a product of two sizes."""
        self._tables: list[list[tuple[int, Floats]]] = []
        """For each part, for each knob: its first column, and its columns by the knob's digit."""
        self._products: list[list[tuple[int, int, int]]] = []
        """For each part: the column of a product, and the two columns that it is the sum of."""
        if len(space.parts) > 1:
            for part in space.parts:
                self._column(f"{STRATEGY}={part.strategy}", STRATEGY)
        for part in space.parts:
            self._add_part(part)

    def _column(self, name: str, group: str) -> int:
        self.names.append(name)
        self.groups.append(group)
        return len(self.names) - 1

    def _add_part(self, part: Part) -> None:
        tables: list[tuple[int, Floats]] = []
        sizes: list[int] = []
        for knob in part.knobs:
            names, table = knob_table(knob)
            start, label = len(self.names), f"{part.strategy}/{knob.name}"
            for name in names:
                column = self._column(label + name, label)
                sizes += [column] if "=" not in name else []
            tables.append((start, table))
        products = list(combinations(sizes, 2))[:_MOST_PRODUCTS]
        names = [f"{self.names[a]}*{self.names[b]}" for a, b in products]
        self._tables.append(tables)
        self._products.append([(self._column(n, n), a, b) for n, (a, b) in zip(names, products, strict=True)])

    def digits(self, indices: Sequence[int]) -> Ints:
        """The digits of candidates, one row each."""
        rows = [self.genes.digits(index) for index in indices]
        return np.array(rows, np.int64).reshape(len(rows), len(self.genes.dims))

    def features(self, digits: Ints) -> Floats:
        """The features of candidates given by their digits: one row each; the columns of other parts are 0."""
        result = np.zeros((len(digits), len(self.names)))
        several = len(self._tables) > 1
        for number, (tables, products) in enumerate(zip(self._tables, self._products, strict=True)):
            mine = np.flatnonzero(digits[:, 0] == number) if several else np.arange(len(digits))
            if several:
                result[mine, number] = _DIFFERENT
            for at, (start, table) in enumerate(tables, self.genes.slices[number].start):
                result[mine, start : start + table.shape[1]] = table[digits[mine, at]]
            for column, a, b in products:
                result[mine, column] = result[mine, a] + result[mine, b]
        return result

    def of(self, indices: Sequence[int]) -> Floats:
        """The features of candidates."""
        return self.features(self.digits(indices))

    def of_values(self, values: Values) -> Floats | None:
        """The features of another task's candidate, by the names of columns; None where the strategy is unknown."""
        if values.get(STRATEGY) not in [part.strategy for part in self.genes.space.parts]:
            return None
        numbers = named_numbers(values)
        row = np.array([numbers.get(name, 0.0) for name in self.names])
        for products in self._products:
            for column, a, b in products:
                row[column] = row[a] + row[b]
        return row


def is_order(knob: Knob) -> bool:
    """Whether a knob chooses a permutation."""
    return all(isinstance(one, tuple) and sorted(one) == list(range(len(one))) for one in knob.candidates)


def is_size(knob: Knob) -> bool:
    """Whether a knob chooses sizes: numbers, or lists of one length of factors."""
    values = knob.candidates
    if all(isinstance(one, int) for one in values):
        return True
    return (
        all(isinstance(one, tuple) for one in values)
        and len({len(one) for one in values if isinstance(one, tuple)}) == 1
        and not is_order(knob)
    )


def octaves(size: int) -> float:
    """The logarithm of a size; 0 for 1, and a distance below it for 0 and for negative numbers, which mark a choice."""
    return float(np.log2(size)) if size > 0 else -1.0


def knob_table(knob: Knob) -> tuple[list[str], Floats]:
    """The ends of a knob's columns' names, and the columns for each of its candidates."""
    if is_size(knob):
        rows = [value if isinstance(value, tuple) else (value,) for value in knob.candidates]
        numbers = [[octaves(int(size)) for size in row] for row in rows]
        names = [f"/{at}" for at in range(len(rows[0]))]
        return names, np.array(numbers).reshape(len(rows), len(names))
    return [f"={text_of(value)}" for value in knob.candidates], _DIFFERENT * np.eye(len(knob.candidates))


def text_of(value: KnobValue) -> str:
    """A value in the name of a column."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def named_numbers(values: Values) -> Mapping[str, float]:
    """What the columns of any space may hold of these values, by the columns' names."""
    strategy = values.get(STRATEGY)
    numbers: dict[str, float] = {f"{STRATEGY}={strategy}": _DIFFERENT}
    for name, value in values.items():
        if name == STRATEGY:
            continue
        numbers[f"{strategy}/{name}={text_of(value)}"] = _DIFFERENT
        if not isinstance(value, str):
            for at, size in enumerate(value if isinstance(value, tuple) else (value,)):
                numbers[f"{strategy}/{name}/{at}"] = octaves(int(size))
    return numbers
