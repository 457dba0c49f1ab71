"""
The candidates of a task: a number, values of knobs, JSON and sched IR name the same candidate.

A space has one part for each strategy that accepts the kernel, and a part is the product of that strategy's knobs. In a
part's index the knob that is declared first is least significant, as in AutoTVM's ConfigSpace. A kernel of several
algorithms has the parts of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from mlc.support.errors import UserError
from mlc.support.records import ALGORITHM

KnobValue: TypeAlias = int | str | tuple[int, ...]
"""A size, a name (a strategy, an algorithm, an annotation), or a list of factors or an order of loops."""

Values: TypeAlias = Mapping[str, KnobValue]
"""The values of a candidate's knobs by name; `STRATEGY`, and `ALGORITHM` if there are several, name the part."""

STRATEGY = "strategy"
"""The key of the strategy's name in the values of a candidate."""


@dataclass(frozen=True)
class Knob:
    """A choice of a strategy; its candidates depend on the kernel and the target, never on other knobs' values."""

    name: str
    candidates: tuple[KnobValue, ...]
    default: KnobValue
    """The choice of the analytic model, which is one of the candidates."""


@dataclass(frozen=True)
class Part:
    """The candidates of one strategy."""

    strategy: str
    knobs: tuple[Knob, ...]
    algorithm: str = ""
    """The algorithm of the kernel that the strategy schedules; empty where the kernel has one only."""

    @property
    def head(self) -> dict[str, KnobValue]:
        """What all of its candidates have in common: the names of the strategy and of the algorithm."""
        names: dict[str, KnobValue] = {STRATEGY: self.strategy}
        return names | ({ALGORITHM: self.algorithm} if self.algorithm else {})

    @property
    def name(self) -> str:
        """The strategy, and the algorithm if the kernel has several: `winograd (winograd4)`."""
        return f"{self.strategy} ({self.algorithm})" if self.algorithm else self.strategy

    @property
    def size(self) -> int:
        """The number of candidates."""
        return prod(len(knob.candidates) for knob in self.knobs)


@dataclass(frozen=True)
class Space:
    """All candidates of a task: `space[17]` gives their values, `space.index_of(values)` the number."""

    parts: tuple[Part, ...]
    """The strategies in the order in which they are tried: the first one is the compiler's choice."""

    @property
    def size(self) -> int:
        """The number of candidates."""
        return sum(part.size for part in self.parts)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[dict[str, KnobValue]]:
        return (self[index] for index in range(self.size))

    def __getitem__(self, index: int) -> dict[str, KnobValue]:
        """The values of the candidate of that number, 0 <= index < size."""
        if not 0 <= index < self.size:
            raise IndexError(f"expected a candidate from 0 to {self.size - 1}, but got {index}")
        for part in self.parts:
            if index < part.size:
                break
            index -= part.size
        else:
            raise AssertionError("the index is below the size of all parts")
        values = part.head
        for knob in part.knobs:
            index, digit = divmod(index, len(knob.candidates))
            values[knob.name] = knob.candidates[digit]
        return values

    def part(self, values: Values) -> Part:
        """The part that the values are of; without an algorithm, that of the compiler's choice."""
        name, algorithm = values.get(STRATEGY), values.get(ALGORITHM, self.parts[0].algorithm)
        for part in self.parts:
            if part.strategy == name and part.algorithm == algorithm:
                return part
        known = ", ".join(part.name for part in self.parts)
        got = f"{name!r} ({algorithm})" if algorithm else f"{name!r}"
        raise UserError(f"expected a strategy among {known}, but got {got}")

    def index_of(self, values: Values) -> int:
        """The number of a candidate; UserError where a knob is unknown, missing or outside its candidates."""
        part = self.part(values)
        unknown = set(values) - set(part.head) - {knob.name for knob in part.knobs}
        if unknown:
            raise UserError(f"strategy '{part.strategy}' has no knob '{min(unknown)}'")
        index, weight = 0, 1
        for knob in part.knobs:
            if knob.name not in values:
                raise UserError(f"expected a value of knob '{knob.name}' of strategy '{part.strategy}'")
            if values[knob.name] not in knob.candidates:
                known = ", ".join(map(str, knob.candidates))
                raise UserError(f"expected knob '{knob.name}' among {known}, but got {values[knob.name]!r}")
            index += weight * knob.candidates.index(values[knob.name])
            weight *= len(knob.candidates)
        return index + sum(one.size for one in self.parts[: self.parts.index(part)])

    @property
    def default(self) -> dict[str, KnobValue]:
        """The compiler's choice without records: the first strategy with the default of each knob."""
        return self.choices[0]

    @property
    def choices(self) -> list[dict[str, KnobValue]]:
        """What the compiler would choose by each algorithm, its own choice first."""
        first: dict[str, Part] = {}
        for part in self.parts:
            first.setdefault(part.algorithm, part)
        return [part.head | {knob.name: knob.default for knob in part.knobs} for part in first.values()]

    def is_default(self, values: Values) -> bool:
        """Whether values are those of the compiler's choice."""
        try:
            return self.index_of(values) == self.index_of(self.default)
        except UserError:
            return False


def from_json(values: Mapping[str, int | str | list[int]]) -> dict[str, KnobValue]:
    """The values that JSON holds, as `json_values` gives them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
