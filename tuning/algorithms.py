"""
The algorithms of a convolution in a task: one te.func each, one space over all, and two records for a choice.

    kernel of the graph level --forms_of--> direct | winograd2 | winograd4, each lowered to te: `Task.algorithms`

A kept candidate is found by the text of the te.func, as every record; that of the algorithm by `Task.question`, which
the pass graph-select-algorithm asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp

from mlc.passes.graph.select_algorithm.forms import (
    error_growth,
    function_with_algorithm,
    legal_algorithms,
    question,
    site_of,
    weight_of,
)
from mlc.support.records import ALGORITHM, KnobValues, Provider, RecordKey
from mlc.targets.target import Target
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.space import STRATEGY, Part, Space, Values
from mlc.tuning.task import PackedInput, Task


@dataclass(frozen=True)
class Form:
    """A kernel by one algorithm, still on the graph level."""

    algorithm: str
    source: FuncOp
    packed: PackedInput | None
    error_growth: float


@dataclass(frozen=True)
class Forms:
    """A kernel by all algorithms within the accuracy budget, the direct sum first."""

    chosen: str
    """The algorithm that the compiler chose."""
    question: str
    forms: list[Form]


def forms_of(source: FuncOp, target: Target, growth: float) -> Forms | None:
    """The forms of an outlined kernel; None where it has one algorithm only."""
    site = site_of(source.body.block)
    names = legal_algorithms(growth)
    if site is None or len(names) < 2:
        return None
    lanes = target.lanes("f32")
    forms: list[Form] = []
    for name in names:
        weight = weight_of(site, name, lanes)
        packed = None if weight is None else PackedInput(site.weight, weight.tile, weight.block_in, weight.block_out)
        forms.append(Form(name, function_with_algorithm(source, name, lanes), packed, error_growth(name)))
    return Forms(site.algorithm, question(site), forms)


def keep_choice(database: Database, task: Task, values: Values, comparison: Comparison) -> None:
    """Keep the winner of a task; of one with several algorithms also which one that is, and its schedule."""
    database.keep(task, values, comparison)
    form = task.alternative(values)
    if form is None:
        return
    choice = replace(task, name=f"{ALGORITHM} of {task.name}", kernel=task.question, algorithms=(), question="")
    names = {STRATEGY: ALGORITHM, ALGORITHM: form.algorithm}
    database.keep(replace(choice, space=Space((Part(ALGORITHM, ()),))), names, comparison)
    if form.kernel != task.kernel:
        parts = tuple(part for part in task.space.parts if part.algorithm == form.algorithm)
        database.keep(replace(choice, name=task.name, kernel=form.kernel, space=Space(parts)), values, comparison)


@dataclass(frozen=True)
class _WithoutAlgorithms:
    """A provider that leaves out records of algorithms."""

    provider: Provider

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The provider's answer, unless it is an algorithm."""
        values = self.provider.best(kernel_hash, target, threads)
        return None if values is None or values.get(STRATEGY) == ALGORITHM else values

    def answer(self, key: RecordKey) -> str:
        """The provider's."""
        return self.provider.answer(key)

    def note(self, name: str, key: RecordKey) -> str:
        """The provider's."""
        return self.provider.note(name, key)


def without_algorithms(provider: Provider | None) -> Provider | None:
    """
    The provider for extracting tasks: kernels have the algorithms that the compiler chooses by itself.

    So the tasks are the same ones, with the same default, whatever was tuned before.
    """
    return None if provider is None else _WithoutAlgorithms(provider)


__all__ = ["Form", "Forms", "forms_of", "keep_choice", "without_algorithms"]
