"""
Run passes over a module in a child process, and say whether the result is wrong, and how.

`Validated` compares function by function around every pass, as --validate-each does, and so names the pass itself.
`Compared` compares the outputs of the whole program, at whatever level the passes leave it, with a reference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from mlc.dialects.attributes import counted_outputs
from mlc.dialects.graph import CallOp
from mlc.interp.graph import Interpreter
from mlc.passes.pass_manager import BrokenByPass, apply_passes
from mlc.passes.rewrite_counter import RewriteCounter
from mlc.support.arithmetic import OWN
from mlc.support.diagnostics import one_line
from mlc.support.errors import UserError
from mlc.validation.bisection.failure import PipelineFailure, RuleFacts, blamed, facts_of_application, facts_of_op
from mlc.validation.execute import Facts, Module, types_of
from mlc.validation.inputs import RandomWeights, Recorded, fits, random_inputs
from mlc.validation.isolated import Note, ProcessDied, isolated, quiet
from mlc.validation.reduction.subject import Subject, name_of
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

RELATIVE_ERROR = 1e-3
"""The part of an output's largest value by which outputs of whole programs may differ."""


class NotComparable(UserError):
    """A module cannot be run, so that nothing can be compared."""


@dataclass
class Observation:
    """What a run showed: the failure, if any, the rewrites that were applied, and the inputs of functions."""

    failure: PipelineFailure | None = None
    applied: list[RuleFacts] = field(default_factory=list)
    recorded: dict[str, Recorded] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    """What could not be validated, a sentence each."""


@dataclass
class _Steps:
    """Passes, and the counter of the last one's rewrites."""

    passes: Sequence[ModulePass]
    counter: RewriteCounter

    def counting(self, index: int) -> AbstractContextManager[None]:
        """Count while the last pass runs."""
        return self.counter.watching() if index == len(self.passes) - 1 else nullcontext()


@dataclass
class Oracle(ABC):
    """Says what is wrong with a run of passes; `seconds` is the CPU time after which a run has failed."""

    ctx: Context
    seconds: float = 300.0

    def observe(self, subject: Subject, passes: Sequence[ModulePass], limit: int | None = None) -> Observation:
        """Run the passes over the subject and compare; of the last pass's rewrites only `limit` are applied."""
        note = Note()

        def run() -> Observation | str:
            counter = RewriteCounter(limit)
            try:
                with quiet():
                    found = self._run(subject, _Steps(passes, counter), note)
            except NotComparable as error:
                return str(error)
            found.applied = [facts_of_application(one, len(counter.applied)) for one in counter.applied]
            return found

        try:
            outcome = isolated(run, self.seconds)
        except RuntimeError as error:
            raise NotComparable(str(error)) from error
        if isinstance(outcome.value, str):
            raise NotComparable(outcome.value)
        if outcome.value is not None:
            return outcome.value
        index, _, running = note.read().partition(" ")
        at = int(index or 0)
        message = f"the process died of {outcome.died}"
        name = passes[at].name if at < len(passes) else ""
        return Observation(PipelineFailure("crash", at, name, message, signal=outcome.died, running=bool(running)))

    @abstractmethod
    def _run(self, subject: Subject, steps: _Steps, note: Note) -> Observation:
        """The observation, made inside the child process."""

    def _apply(self, module: ModuleOp, steps: _Steps, index: int, hooks: Sequence[Any]) -> PipelineFailure | None:
        """Apply a pass; what went wrong if it, or what the hooks compare, is wrong."""
        one = steps.passes[index]
        try:
            with steps.counting(index):
                apply_passes(module, self.ctx, [one], verify=True, instruments=hooks)
        except ResultChanged as error:
            failure = PipelineFailure("values", index, one.name, one_line(str(error)), error.function)
            if isinstance(died := error.__cause__, ProcessDied):
                failure = replace(failure, kind="crash", signal=died.died, running=True)
            return replace(failure, op=facts_of_op(error.op))
        except BrokenByPass as error:
            op = facts_of_op(error.op) if error.op is not None else None
            return PipelineFailure("invalid", index, one.name, one_line(str(error)), _function_of(error.op), op=op)
        except Exception as error:
            rule, op = blamed(error.__traceback__)
            said = getattr(error, "op", None)
            op = said if isinstance(said, Operation) else op
            message = f"pass '{one.name}' raised {type(error).__name__}: {one_line(str(error))}"
            facts = None if op is None else facts_of_op(op)
            kind = type(error).__name__
            return PipelineFailure("exception", index, one.name, message, _function_of(op), kind, op=facts, rule=rule)
        return None


def _function_of(op: Operation | None) -> str:
    """The name of the function that an op is in, or is."""
    while op is not None:
        if name := name_of(op):
            return name
        op = op.parent_op()
    return ""


@dataclass
class _Noting:
    """Notes that the pass has ended and functions are run."""

    note: Note
    index: int

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self.note.write(f"{self.index} running")


@dataclass
class Validated(Oracle):
    """Every function before and after every pass: the comparison of --validate-each."""

    inputs: Mapping[str, Recorded] = field(default_factory=dict[str, Recorded])
    """The inputs of functions by name; others get random ones."""
    with_weights: bool = True
    """Whether functions run with the subject's weights; else with random ones, as a text without a store."""

    def _run(self, subject: Subject, steps: _Steps, note: Note) -> Observation:
        weights = subject.weights if self.with_weights else None
        given: dict[str, Any] = dict(self.inputs)
        if subject.inputs is not None:
            given[subject.entry] = Recorded(list(subject.inputs))
        instrument = ValidateInstrument(weights=weights, inputs=given)
        for index in range(len(steps.passes)):
            note.write(str(index))
            failure = self._apply(subject.module, steps, index, [instrument, _Noting(note, index)])
            if failure is not None:
                return Observation(failure, recorded=_recorded(instrument))
        return Observation(recorded=_recorded(instrument), unsure=instrument.unsure)


def _recorded(instrument: ValidateInstrument) -> dict[str, Recorded]:
    try:
        return instrument.recorded()
    except Exception:  # nothing was run yet
        return {}


class ProgramInterpreter(Interpreter):
    """Interprets @main on the graph level, and runs the kernels that it calls on whatever level they are."""

    def __init__(self, module: ModuleOp, weights: Any = None) -> None:
        super().__init__(weights)
        self.module = module

    def _run_op(self, op: Operation, operands: list[Any]) -> Sequence[Any]:
        if isinstance(op, CallOp):
            callee = SymbolTable.lookup_symbol(self.module, op.callee)
            if callee is not None and not isinstance(callee, FuncOp):
                return self._run_kernel(op, callee, operands)
        return super()._run_op(op, operands)

    def _run_kernel(self, call: CallOp, kernel: Operation, operands: list[Any]) -> Sequence[Any]:
        name = name_of(kernel)
        ins, outs = types_of(call.operand_types), types_of(call.result_types)
        if ins is None or outs is None:
            raise NotComparable(f"expected static sizes in the call of @{name}")
        if not hasattr(self, "_kernels"):
            known = {name_of(op): Facts(*_types_of_calls(self.module, name_of(op))) for op in self.module.body.ops}
            self._kernels = {one.name: one for one in Module(self.module, known, self.weights).executables()}
        return self._kernels[name].run(operands, OWN)


def _types_of_calls(module: ModuleOp, name: str) -> tuple[Any, Any]:
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.string_value() == name:
            return types_of(op.operand_types) or (), types_of(op.result_types) or ()
    return (), ()


def inputs_or_random(subject: Subject) -> list[Any] | None:
    """The subject's inputs, or else random ones; None where the sizes are symbolic."""
    function = subject.entry_function
    if subject.inputs is not None or not isinstance(function, FuncOp):
        return subject.inputs
    types = types_of(function.function_type.inputs.data)
    return None if types is None else random_inputs(function, types, 0)


def run_program(subject: Subject, weights: Any = None) -> list[Any]:
    """The outputs of the entry function on the subject's inputs, or on random ones; `weights` stand in for its own."""
    function, inputs = subject.entry_function, inputs_or_random(subject)
    if not isinstance(function, FuncOp) or inputs is None:
        raise NotComparable(
            f"expected a function @{subject.entry} on the graph level with static sizes, or inputs for it; "
            "give sizes with --shape"
        )
    weights = weights or subject.weights or RandomWeights(subject.module)
    return [np.asarray(a) for a in ProgramInterpreter(subject.module, weights).run(function, inputs)]


def counts_of(subject: Subject) -> list[list[int]]:
    """[output, axis, output that is its count] for each output of a data-dependent length of the entry function."""
    function = subject.entry_function
    return counted_outputs(function) if isinstance(function, FuncOp) else []


def shown_outputs(outputs: Sequence[Any], counts: Sequence[Sequence[int]]) -> list[Any]:
    """Outputs as who calls the model sees them: cut to their counts, which are left out."""
    found = list(outputs)
    for index, axis, count in counts:
        if not index < count < len(found) or np.size(found[count]) != 1 or np.ndim(found[index]) <= axis:
            return list(outputs)  # a reduction has changed what the function returns
        found[index] = found[index][(slice(None),) * axis + (slice(int(found[count])),)]
    return found[: len(found) - len(counts)]


@dataclass
class Compared(Oracle):
    """The outputs of the program after all passes, compared with a reference."""

    expected: Sequence[Any] | None = None
    """The outputs of a reference, cut to their counts; without them, those of the subject before the passes."""
    allowed: float = RELATIVE_ERROR

    def _run(self, subject: Subject, steps: _Steps, note: Note) -> Observation:
        subject.inputs = inputs_or_random(subject)  # drawn once: what is drawn depends on the form of the function
        drawn = None if subject.weights is not None else RandomWeights(subject.module.clone())
        counts = counts_of(subject)
        if (expected := self.expected) is None:
            expected = shown_outputs(run_program(subject.copy(), drawn), counts)
        for index in range(len(steps.passes)):
            note.write(str(index))
            failure = self._apply(subject.module, steps, index, [])
            if failure is not None:
                return Observation(failure)
        last = len(steps.passes) - 1
        note.write(f"{max(last, 0)} running")
        found = first_difference(expected, shown_outputs(run_program(subject, drawn), counts), self.allowed)
        name = steps.passes[last].name if steps.passes else ""
        return Observation(PipelineFailure("values", last, name, found, subject.entry) if found else None)


@dataclass
class Sampled(Oracle):
    """
    Every function once before and once after the passes, in its own precision, with a coarse bound.

    It is several times as fast as `Validated`, and sees less: reductions run on it and end with the other. Without
    `compares`, functions are not run at all, which is enough for exceptions and invalid IR.
    """

    compares: bool = True

    def _run(self, subject: Subject, steps: _Steps, note: Note) -> Observation:
        module, inputs, known = subject.module, dict[str, Any](), dict[str, Facts]()
        weights = RandomWeights(module.clone())
        before = self._results(module, weights, inputs, known) if self.compares else {}
        for index in range(len(steps.passes)):
            note.write(str(index))
            failure = self._apply(module, steps, index, [])
            if failure is not None:
                return Observation(failure)
        last = len(steps.passes) - 1
        note.write(f"{last} running")
        for name, got in (self._results(module, weights, inputs, known) if self.compares else {}).items():
            if name not in before:
                continue
            defined = [_where_defined(a, b) for a, b in zip(before[name], got, strict=True)]
            if found := first_difference(before[name], defined):
                return Observation(PipelineFailure("values", last, steps.passes[last].name, found, name))
        return Observation()

    def _results(
        self, module: ModuleOp, weights: Any, inputs: dict[str, Any], known: dict[str, Facts]
    ) -> dict[str, list[Any]]:
        """The results of each function by name; its inputs and types are kept for the next form of it."""
        found: dict[str, list[Any]] = {}
        for one in Module(module, dict(known), weights).executables():
            if one.name not in inputs or not fits(inputs[one.name], one.inputs):
                inputs[one.name] = random_inputs(one.op, one.inputs, 0)
            known[one.name] = Facts(one.inputs, one.outputs, one.symbols)
            with np.errstate(all="ignore"):
                found[one.name] = one.run([a.copy() for a in inputs[one.name]], OWN)
        return found


def _where_defined(expected: Any, got: Any) -> Any:
    """`got`, with NaN where NaN is expected: of an element that nobody wrote, nothing can be said."""
    if expected.dtype.kind in "biu" or expected.shape != got.shape:
        return got
    return np.where(np.isnan(expected.astype(np.float64)), np.asarray(np.nan, got.dtype), got)


def first_difference(expected: Sequence[Any], got: Sequence[Any], allowed: float = RELATIVE_ERROR) -> str:
    """Where outputs differ by more than a part of their largest value; empty if nowhere."""
    for number, (a, b) in enumerate(zip(expected, got, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"output {number}: expected shape {a.shape}, but got {b.shape}"
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            finite = np.abs(x[np.isfinite(x)])
            bound = allowed * float(finite.max(initial=0.0)) if a.dtype.kind not in "biu" else 0.0
            wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound))
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            at = ", ".join(map(str, index))
            return f"output {number} at [{at}]: expected {a[index]}, but got {b[index]} (allowed {bound:.3g})"
    return ""
