"""What a session asks of a tuner, and the tuners by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, get_args

from mlc.support.errors import UserError
from mlc.tuning.results import MeasureResult
from mlc.tuning.space import Values
from mlc.tuning.task import Task

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

History: TypeAlias = Sequence[tuple[Task, Sequence[tuple[Values, MeasureResult]]]]
"""What was measured of other tasks, as `Database.history(like=task)` gives it."""

TunerKind: TypeAlias = Literal["model", "random", "grid", "ga", "evolution"]

# Kind -> "module:class", imported on first use: numpy stays out of the start-up.
_TUNERS: dict[str, str] = {
    "model": "mlc.tuning.tuners.model:ModelTuner",
    "random": "mlc.tuning.tuners.random:RandomTuner",
    "grid": "mlc.tuning.tuners.grid:GridTuner",
    "ga": "mlc.tuning.tuners.genetic:GeneticTuner",
    "evolution": "mlc.tuning.tuners.evolution:EvolutionTuner",
}
_LEARNS = ("model", "evolution")
"""The kinds that have a cost model."""


class Tuner(Protocol):
    """
    A search over the candidates of one task; two tuners of one seed that see the same results propose the same.

    The first candidate proposed is the default of the space, which is the compiler's choice without records.
    """

    def propose(self, count: int) -> list[int]:
        """
        Give at most `count` candidates to measure next, as numbers in the task's space.

        No number comes twice, nor one that `update` was told of. Fewer than `count` come at the end of the tuner's
        plan; none at all mean that the space is exhausted. A call may come before the results of the last one.
        """
        ...

    def update(self, results: Sequence[tuple[int, MeasureResult]]) -> None:
        """
        Learn what was measured, errors included; candidates that were not proposed by this tuner are welcome.

        So a search is resumed: the results in the database are told before the first proposal.
        """
        ...

    @property
    def best(self) -> tuple[int, float] | None:
        """The candidate of the least cost and its seconds; None before one ran without an error."""
        ...


Lower: TypeAlias = "Callable[[Task, Values], ModuleOp]"
"""Writes the module of a candidate: its te.func and its schedule; UserError where the strategy refuses the values."""


def make_tuner(kind: str, task: Task, seed: int = 0, history: History = (), lower: Lower | None = None) -> Tuner:
    """
    Make a tuner of that kind (TunerKind) for a task.

    `history` serves the kinds that learn from other tasks. With `lower` (`mlc.tuning.candidate_module`) the kinds that
    have a cost model look at the loops of candidates, too, and begin with the analytic model's estimates.
    """
    if kind not in _TUNERS:
        raise UserError(f"expected a tuner among {', '.join(get_args(TunerKind))}, but got '{kind}'")
    module, _, name = _TUNERS[kind].partition(":")
    tuner = getattr(import_module(module), name)
    if lower is None or kind not in _LEARNS:
        return tuner(task, seed, history)
    from mlc.tuning.tuners.lowered import LoweredFeatures

    return tuner(task, seed, history, LoweredFeatures(task, lower))
