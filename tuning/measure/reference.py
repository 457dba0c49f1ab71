"""The reference of a task: inputs on which its default kernel says something, its outputs, and how exact they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlc.interp.compare import epsilon
from mlc.support.dtypes import is_float_dtype
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.artefact import Artefact, RunOutcome, Signature
from mlc.tuning.measure.check import Reference, allowances, silent_share
from mlc.tuning.measure.child import in_child
from mlc.tuning.measure.evaluator import Timer
from mlc.tuning.measure.fill import DRAWS, Draw, nudge, random_fill
from mlc.tuning.measure.regions import POISON, Array, ArrayRegion
from mlc.tuning.measure.trial import CrashNote, LoadedKernel, TaskArrays, failed, outcome_of
from mlc.validation.informative import SILENT_SHARE, STEP


@dataclass(frozen=True)
class _Verdict:
    """What the default kernel does with a draw of inputs."""

    silent: float
    """The share of its outputs that say nothing."""
    allowed: list[float]


def make_reference(
    artefact: Artefact, signature: Signature, evaluation: Evaluation, timer: Timer, note: CrashNote
) -> TaskArrays | RunOutcome:
    """The arrays of a task; the outcome of its default kernel where that fails."""
    inputs = [ArrayRegion(info) for info in signature.inputs]
    outputs = [ArrayRegion(info, shared=True) for info in signature.outputs]
    floats = any(is_float_dtype(r.dtype) for r in inputs)
    task = TaskArrays(signature, inputs, Reference([r.array for r in outputs], [], signature.epsilon > 0))
    verdicts: list[_Verdict] = []
    for draw in DRAWS[: len(DRAWS) if floats else 1]:
        verdict = _try(task, draw, artefact, outputs, evaluation, timer, note)
        if isinstance(verdict, RunOutcome):
            return verdict
        verdicts.append(verdict)
        if verdict.silent <= SILENT_SHARE:
            break
    best = min(range(len(verdicts)), key=lambda k: verdicts[k].silent)
    if best != len(verdicts) - 1:
        again = _try(task, DRAWS[best], artefact, outputs, evaluation, timer, note)
        if isinstance(again, RunOutcome):
            return again
    for region in inputs:
        region.freeze()
    allowed = verdicts[best].allowed
    reference = Reference(task.reference.outputs, allowed, signature.epsilon > 0)
    return TaskArrays(signature, inputs, reference, error_growth=artefact.error_growth)


def _try(
    task: TaskArrays,
    draw: Draw,
    artefact: Artefact,
    outputs: Sequence[ArrayRegion],
    evaluation: Evaluation,
    timer: Timer,
    note: CrashNote,
) -> _Verdict | RunOutcome:
    """Fill the inputs, and run the default kernel on them in a process of its own."""
    for number, (region, info) in enumerate(zip(task.inputs, task.signature.inputs, strict=True)):
        random_fill(region.array, info, number, draw)

    def run() -> _Verdict | RunOutcome:
        note.watch(timer)
        try:
            return _judge(task, artefact, outputs, note)
        except Exception as error:
            return failed(error)

    ended = in_child(run, evaluation.run_timeout_s, evaluation.memory_bytes)
    return ended.value or outcome_of(ended, evaluation, note.place)


def _judge(task: TaskArrays, artefact: Artefact, outputs: Sequence[ArrayRegion], note: CrashNote) -> _Verdict:
    """In the forked process: the outputs on the inputs, and how they move when these do."""
    signature = task.signature
    kernel = LoadedKernel(artefact, signature.symbols, task.inputs_of(artefact), outputs)
    note.regions(kernel.regions)
    arrays = [region.array for region in outputs]
    for region in outputs:
        region.bytes[:] = POISON
    kernel()
    base = [array.copy() for array in arrays]
    if not any(is_float_dtype(region.dtype) for region in task.inputs):
        return _Verdict(0.0, allowances(base, [], signature.epsilon))
    given = [region.array.copy() for region in task.inputs]

    def moved(seed: int, least: float) -> list[Array]:
        for number, (region, before) in enumerate(zip(task.inputs, given, strict=True)):
            region.array[...] = before
            if is_float_dtype(region.dtype):
                nudge(region.array, max(least, epsilon(region.dtype)), number + seed)
        task.pack_again()
        kernel()
        return [array.copy() for array in arrays]

    allowed = allowances(base, [moved(seed, 0.0) for seed in (1, 2)], signature.epsilon)
    silent = silent_share(base, moved(3, STEP))
    for array, first in zip(arrays, base, strict=True):
        array[...] = first
    return _Verdict(silent, allowed)
