"""What the graph tuner found for a model."""

from __future__ import annotations

from dataclasses import dataclass

from mlc.support.records import KnobValues
from mlc.tuning.records.record import Comparison
from mlc.tuning.task import Task


@dataclass(frozen=True)
class LayoutReport:
    """What the graph tuner found for a model."""

    values: KnobValues | None
    """The blocks that were kept; None where the default stays."""
    comparison: Comparison | None
    """The whole model with these blocks against the default; of the best candidate where none was kept."""
    predicted: float
    """Seconds of the kernels and transforms of the chosen layouts, by their measurements."""
    sites: int
    """Convolutions and dense layers whose layout can be chosen."""
    task: Task
    """What the record is found by."""

    @property
    def changed(self) -> int:
        """Sites whose blocks a kept record names."""
        if self.values is None:
            return 0
        inner, outer = self.values["in_blocks"], self.values["out_blocks"]
        assert isinstance(inner, tuple)
        assert isinstance(outer, tuple)
        return sum(any(pair) for pair in zip(inner, outer, strict=True))
