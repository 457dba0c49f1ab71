"""The protocol between a tuner and the machines that build and measure its candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mlc.tuning.results import MeasureInput, MeasureResult


@dataclass(frozen=True)
class Evaluation:
    """How a candidate is timed; the fields are those of TVM's time_evaluator."""

    number: int = 1
    """Calls in one timed loop, at least."""
    repeat: int = 3
    """Timed loops, one number each."""
    min_repeat_ms: float = 2.0
    """The least length of a timed loop: `number` grows until it is reached."""
    stop_factor: float = 2.0
    """A candidate whose first loop takes so many times the best one's seconds is not timed further; 0: never."""
    cooldown_s: float = 0.0
    """A pause between two loops."""
    flush_cache: bool = False
    """Whether every array but the first is driven from the caches before a loop."""
    build_timeout_s: float = 10.0
    run_timeout_s: float = 10.0
    memory_bytes: int = 4 << 30
    """What the process of a candidate may take, beyond its arrays."""


class Farm(Protocol):
    """Builds and measures candidates: on this machine in processes, or on the workers of a cluster."""

    def measure(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, device: str | None = None
    ) -> Iterator[tuple[int, MeasureResult]]:
        """
        Build all candidates, then run them one after another on a machine of that device key.

        Gives each one's number in `inputs` and its result as soon as it is known, in any order; every candidate gets
        one. A candidate that crashes, hangs or takes too much memory costs itself only. Closing the iterator cancels
        the rest.
        """
        ...

    def compare(
        self, inputs: Sequence[MeasureInput], evaluation: Evaluation, rounds: int, device: str | None = None
    ) -> list[list[MeasureResult]]:
        """Measure a few candidates in turns, `rounds` times: for each one its result in each round."""
        ...

    def close(self) -> None:
        """End all processes; a farm is a context manager that closes itself."""
        ...
