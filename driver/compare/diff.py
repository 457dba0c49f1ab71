"""`mlc diff`: two sides compared as text, and by the values that they compute from the same inputs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlc.driver.compare.sides import ExecutableSide, ModuleSide, Side
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.validation.compare.structure_diff import StructureDifference, compare_structure
from mlc.validation.compare.value_diff import (
    TOLERANCE,
    TensorDifference,
    compare_outputs,
    compare_tensor,
    compare_values,
)

_HASH = re.compile(r"_[0-9a-f]{8}\b")


@dataclass
class StructureReport:
    """How the sides differ as text: functions, calls of kernels (of compiled models), weights."""

    functions: StructureDifference = field(default_factory=StructureDifference)
    calls: list[str] = field(default_factory=list[str])
    """A unified diff of the calls of kernels; empty if they are the same."""
    weights: list[str] = field(default_factory=list[str])
    """One sentence for each weight that differs."""

    @property
    def differs(self) -> bool:
        """Whether there is a difference."""
        return bool(self.functions.functions or self.calls or self.weights)


@dataclass
class ValueReport:
    """How the values of a function differ: the tensors inside, and the outputs."""

    function: str
    tensors: list[TensorDifference]
    outputs: list[TensorDifference]

    @property
    def differs(self) -> bool:
        """Whether an output differs; a rewrite may move a factor from one tensor inside to the next."""
        return any(one.differs for one in self.outputs)


def structure(a: Side, b: Side) -> StructureReport:
    """Compare two sides as text."""
    if a.module is not None and b.module is not None:
        found = StructureReport(compare_structure(a.module, b.module))
        if isinstance(a, ModuleSide) and isinstance(b, ModuleSide):
            found.weights = weights_differ(a.loaded.weights, b.loaded.weights)
        return found
    if isinstance(a, ExecutableSide) and isinstance(b, ExecutableSide):
        left, right = ([_HASH.sub("", line) for line in side.lines()] for side in (a, b))
        calls = list(difflib.unified_diff(left, right, lineterm="", n=2))[2:]
        return StructureReport(calls=["..." if line.startswith("@@") else line for line in calls][1:])
    raise UserError(f"expected two modules or two compiled models, but got {a.name} and {b.name}; add --values")


def weights_differ(a: WeightStore | None, b: WeightStore | None) -> list[str]:
    """A sentence for each weight that only one store has, or that differs; nothing unless both sides have weights."""
    if a is None or b is None:
        return []
    found = [f"only in the first: weight '{name}'" for name in a if name not in b]
    found += [f"only in the second: weight '{name}'" for name in b if name not in a]
    for name in a:
        if name not in b or a.hash(name) == b.hash(name):
            continue
        x, y = a.array(name), b.array(name)
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            found.append(f"differs: weight '{name}': {x.shape} {x.dtype} and {y.shape} {y.dtype}")
        elif (one := compare_tensor(name, x, y, 0.0)).error:
            found.append(f"differs: weight '{name}': max |a-b| {one.error:.3g} ({one.relative:.3g} of the largest)")
    return found


def values(
    a: Side,
    b: Side,
    aligned: StructureDifference,
    given: Mapping[str, Any],
    function: str | None = None,
    tolerance: float = TOLERANCE,
) -> list[ValueReport]:
    """Run @main, or else each function that both sides have, on the same inputs, and compare what it computes."""
    names = [function] if function is not None else [n for n in a.functions() if n in b.functions()]
    if not names:
        first, second = (", ".join(f"@{n}" for n in side.functions()) or "none" for side in (a, b))
        raise UserError(f"expected a function that both have to compare values, but got {first} and {second}")
    found: list[ValueReport] = []
    for name in names:
        inputs = a.inputs(given, name)
        one = a.run(_copies(inputs), name)
        other = b.run(_copies(_for_other(b, name, inputs)), name)
        tensors = compare_values(one.tensors, other.tensors, aligned.pairs, tolerance)
        if len(one.outputs) != len(other.outputs):
            raise UserError(f"expected as many outputs of @{name}, but got {len(one.outputs)} and {len(other.outputs)}")
        found.append(ValueReport(name, tensors, compare_outputs(one.outputs, other.outputs, tolerance)))
    return found


def _copies(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in inputs.items()}


def _for_other(side: Side, function: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of the first side by the names of the second: the same, or in the same order."""
    names = side.names(function)
    if set(names) == set(inputs):
        return dict(inputs)
    if len(names) != len(inputs):
        first, second = ", ".join(inputs) or "none", ", ".join(names) or "none"
        raise UserError(f"expected the same inputs of @{function}, but got {first} and {second}")
    return dict(zip(names, inputs.values(), strict=True))


__all__ = ["StructureReport", "ValueReport", "structure", "values", "weights_differ"]
