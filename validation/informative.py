"""
Random inputs on which a function says something. Where nearly all of an op's results are not finite, or do not move
when the inputs do (a saturated sigmoid, a clip that is always at its bound), a wrong rewrite of it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlc.support.arithmetic import OWN, perturbed
from mlc.support.dtypes import is_float_dtype
from mlc.validation.execute import RunnableFunction, types_of
from mlc.validation.inputs import random_inputs

SILENT_SHARE = 0.9
"""Share of an op's results that are not finite, or do not move, above which the op says nothing. A relu leaves half."""
STEP = 1e-3
"""Relative change of the inputs that every op should show."""
SMALL_FUNCTION = 1_000_000
"""Elements that a function computes up to which it is run on a further draw of inputs."""
SAMPLES = 4096
"""Elements of a result that are looked at, evenly spread."""
FACTORS = (1.0, 0.1, 10.0)
"""Factors of the inputs that are tried, each for signed and for positive inputs."""


@dataclass
class _Samples:
    """Samples of the float results of a function's ops, in the order in which they ran."""

    found: list[tuple[Operation, Any]] = field(default_factory=list)

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        for result in results:
            values = np.asarray(result)
            if is_float_dtype(values.dtype) and values.size:
                flat = values.reshape(-1)
                self.found.append((op, flat[:: max(1, values.size // SAMPLES)].astype(np.float64)))


def informative_inputs(executable: RunnableFunction, seed: int) -> tuple[list[list[Any]], list[Operation]]:
    """
    Draws of random inputs of a function, and the ops that say nothing on any of them.

    One draw if there is one on which all ops say something, else the best and the one that adds most to it; for small
    functions also inputs times 10, which reach the bounds of clips and the ends of activations.
    """
    draws, silent = _talkative(executable, seed)
    is_small = executable.level in ("graph", "te") and _elements(executable.op) <= SMALL_FUNCTION
    if is_small and any(is_float_dtype(a.dtype) for a in draws[0]):
        draws.append([_adjusted(a, 10.0, False) for a in random_inputs(executable.op, executable.inputs, seed + 1)])
    return draws, silent


def _elements(func: Operation) -> int:
    """The elements of all static tensors that a function computes."""
    types = (r.type for op in func.walk() for r in op.results)
    return sum(math.prod(shape) for t in types for shape, _ in types_of([t]) or ())


def _talkative(executable: RunnableFunction, seed: int) -> tuple[list[list[Any]], list[Operation]]:
    """The best draw, or the best two, and the ops that say nothing on them."""
    tried: list[tuple[list[Any], list[Operation]]] = []
    for positive in (False, True):
        for factor in FACTORS:
            arrays = random_inputs(executable.op, executable.inputs, seed)
            arrays = [_adjusted(a, factor, positive) for a in arrays]
            tried.append((arrays, silent_ops(executable, arrays, seed)))
            if not tried[-1][1]:
                return [arrays], []
    best, silent = min(tried, key=lambda draw: len(draw[1]))
    other, others = min(tried, key=lambda draw: len(set(draw[1]) & set(silent)))
    both = [op for op in silent if op in set(others)]
    return ([best], silent) if len(both) == len(silent) else ([best, other], both)


def _adjusted(array: Any, factor: float, positive: bool) -> Any:
    if not is_float_dtype(array.dtype):
        return array
    held = np.abs(array.astype(np.float64)) if positive else array.astype(np.float64)
    return (held * factor).astype(array.dtype)


def silent_ops(executable: RunnableFunction, arrays: Sequence[Any], seed: int) -> list[Operation]:
    """The ops that depend on the inputs and whose results say nothing on these inputs."""
    moved = [_moved(a, seed + k) for k, a in enumerate(arrays)]
    if not any(is_float_dtype(a.dtype) for a in arrays):
        moved = random_inputs(executable.op, executable.inputs, seed + 1)
    first, second = _Samples(), _Samples()
    with np.errstate(all="ignore"):
        _observe(executable, arrays, first)
        _observe(executable, moved, second)
    depends = dependent_values(executable.op)
    counts: dict[Operation, tuple[int, int]] = {}
    for (op, a), (same, b) in zip(first.found, second.found, strict=False):
        inner = op is executable.op or op.parent is not executable.op.regions[0].block
        if op is same and (inner or any(r in depends for r in op.results)):
            nothing, elements = counts.get(op, (0, 0))
            counts[op] = nothing + int(np.sum(~np.isfinite(a) | (a == b))), elements + a.size
    return [op for op, (nothing, elements) in counts.items() if nothing > SILENT_SHARE * elements]


def _moved(array: Any, seed: int) -> Any:
    return perturbed(array, STEP, seed).astype(array.dtype) if is_float_dtype(array.dtype) else array


def _observe(executable: RunnableFunction, arrays: Sequence[Any], samples: _Samples) -> None:
    """Run a function; below the graph level, only its results are looked at."""
    given = [a.copy() for a in arrays]
    if executable.observed is not None:
        executable.observed(given, samples)
    else:
        samples(executable.op, executable.run(given, OWN))


def dependent_values(func: Operation) -> set[SSAValue]:
    """The values of a function's outermost block that depend on its arguments."""
    block = func.regions[0].block
    found: set[SSAValue] = set(block.args)
    for op in block.ops:
        if any(v in found for v in op.operands):
            found.update(op.results)
    return found
