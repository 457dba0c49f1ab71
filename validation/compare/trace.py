"""What an interpreted function computed, op by op: a summary of the values of each result over all its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import NameLoc
from xdsl.ir import Operation

from mlc.dialects import loop
from mlc.support.diagnostics import Place, place_of_op

FIRST = 4
"""Elements of the first run that are shown."""


@dataclass
class ArraySummary:
    """The values of arrays: extremes and mean of the finite ones, and how many are not."""

    runs: int = 0
    elements: int = 0
    finite: int = 0
    least: float = math.inf
    greatest: float = -math.inf
    total: float = 0.0
    nans: int = 0
    infinities: int = 0
    first: tuple[str, ...] = ()

    def add(self, value: Any) -> None:
        """Add the values of one run."""
        array = np.asarray(value)
        if not self.runs:
            shown = [f"{x:.6g}" if isinstance(x, float) else str(x) for x in _plain(array.ravel()[: FIRST + 1])]
            self.first = (*shown[:FIRST], "...") if len(shown) > FIRST else tuple(shown)
        self.runs += 1
        self.elements += array.size
        numbers = array if array.dtype.kind in "iub" else array.astype(np.float64)
        if numbers.dtype.kind == "f":
            is_finite = np.isfinite(numbers)
            self.nans += int(np.isnan(numbers).sum())
            self.infinities += int(np.isinf(numbers).sum())
            numbers = numbers[is_finite]
        self.finite += numbers.size
        if numbers.size:
            self.least = min(self.least, numbers.min().item())
            self.greatest = max(self.greatest, numbers.max().item())
            self.total += numbers.sum(dtype=np.float64).item()

    @property
    def mean(self) -> float:
        """The mean of the finite values."""
        return self.total / self.finite if self.finite else math.nan

    @property
    def is_finite(self) -> bool:
        """Whether there is neither NaN nor infinity."""
        return not self.nans and not self.infinities

    def text(self) -> str:
        """`min -1.5, max 2, mean 0.25, 1 NaN`."""
        if not self.elements:
            return "no elements"
        parts = [f"min {self.least:.6g}", f"max {self.greatest:.6g}", f"mean {self.mean:.6g}"] if self.finite else []
        parts += [f"{self.nans} NaN"] * bool(self.nans) + [f"{self.infinities} inf"] * bool(self.infinities)
        return ", ".join([*parts, *([f"{self.runs} runs"] if self.runs > 1 else [])])


@dataclass
class ValueSummary(ArraySummary):
    """The values of one result of an op, over all its runs."""

    op: Operation = field(kw_only=True)
    index: int = field(kw_only=True)
    type: str = field(kw_only=True)

    @property
    def title(self) -> str:
        """The op with the name of its result, or of what it writes: `%sum = te.compute`, `loop.store %sum`."""
        return title_of(self.op, self.index)


def _plain(values: Any) -> list[Any]:
    """Elements as Python's numbers; narrow floats as float."""
    return values.tolist() if values.dtype.kind in "iubf" else values.astype(np.float64).tolist()


@dataclass
class ValueTrace:
    """A summary for each result of each op, in the order in which the ops first ran: `trace=ValueTrace()`."""

    positions: dict[Operation, Place] = field(default_factory=dict[Operation, Place])
    values: dict[tuple[Operation, int], ValueSummary] = field(default_factory=dict[tuple[Operation, int], ValueSummary])

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        """Add what one run of an op computed."""
        for k, value in enumerate(results):
            if (summary := self.values.get((op, k))) is None:
                summary = self.values[op, k] = ValueSummary(op=op, index=k, type=_type(op, k, value))
            summary.add(value)

    def place(self, op: Operation) -> str:
        """Where an op stands in the text, or the one around it that does; empty if that is not known."""
        found = place_of_op(op, Place(""), self.positions)
        return str(found) if found.line else ""


def _type(op: Operation, index: int, value: Any) -> str:
    """The type of a result; for an op that writes, of the value."""
    if index < len(op.results):
        return str(op.results[index].type)
    array = np.asarray(value)
    return f"{'x'.join(map(str, array.shape))}{'x' * bool(array.shape)}{array.dtype}"


def title_of(op: Operation, index: int) -> str:
    """An op with the name of a result, or of what it writes or calls: `%sum = te.compute`, `runtime.call @softmax`."""
    if index < len(op.results):
        name = op.results[index].name_hint
        return f"%{name} = {op.name}" if name else op.name
    written = op.buffer if isinstance(op, loop.StoreOp) else None
    callee = op.properties.get("callee") or op.properties.get("sym_name")
    shown = f"%{written.name_hint}" if written is not None and written.name_hint else callee
    return f"{op.name} {shown}" if shown else op.name


def node_of(op: Operation) -> str:
    """The names of the source nodes in an op's attribute `origins`, or in its location; empty if there are none."""
    origins: Any = op.attributes.get("origins") or op.properties.get("origins")
    if origins is not None:
        return ", ".join(name.data for name in origins.data)
    return op.location.desc.data if isinstance(op.location, NameLoc) else ""


__all__ = ["ArraySummary", "ValueSummary", "ValueTrace", "node_of", "title_of"]
