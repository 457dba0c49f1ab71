"""
`--validate-each`: run every function before and after each pass, stop at the first pass that changes its meaning.

The first run of a function is on inputs that its caller recorded, or on random ones. Name and inputs stay the same
while the function is lowered: `func.func -> te.func -> loop.func -> llvm.func`. A pass is asked two questions, of each
function that it changed: does the function mean the same (in wide arithmetic), and is it as stable (in its own)? The
bounds are measured: see validation/measure.py. A pass class may declare

    exact = True           results in the function's own precision are equal bit by bit
    error_growth = 30.0    the factor by which the rounding error may grow (4 without it)
    error_budget = 0.05    the pass approximates: a result may move by this part of its largest element. Where it casts
                           to narrower floats, results must mean the same once the rounding of casts is left out
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from mlc.dialects import graph, loop
from mlc.dialects.syntax.source import parse_module
from mlc.dialects.syntax.source_nodes import symbol_name
from mlc.interp.compare import Difference, difference, differences, epsilon
from mlc.interp.errors import NotInterpreted
from mlc.support.arithmetic import OWN, WIDE
from mlc.support.display.counts import counted
from mlc.support.display.progress import ProgressBar
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError, warn
from mlc.validation.execute import Facts, Module, RunnableFunction, Types
from mlc.validation.informative import informative_inputs
from mlc.validation.inputs import RandomWeights, Recorded, fitted
from mlc.validation.measure import (
    ERROR_GROWTH,
    LARGE_INPUTS,
    FunctionRunner,
    Measured,
    compare_meaning,
    compare_native,
    errors,
    grown_error,
    largest,
    lost_range,
)
from mlc.validation.plans.kernel_plan_check import check_kernel_plan
from mlc.validation.plans.plan_places import PlanError
from mlc.validation.report import ResultChanged, source_node

USELESS_SHARE = 0.1
"""Share of elements about which a comparison says nothing, above which that is reported."""


@dataclass
class Baseline:
    """What is known of a function: its types, its text, and what was measured of its present form."""

    inputs: Types
    outputs: Types
    text: str
    measured: Measured
    last: RunnableFunction
    """The present form."""
    others: list[Measured] = field(default_factory=list)
    """What was measured on further draws of inputs, where some ops say nothing on the first."""
    sizes: dict[str, int] = field(default_factory=dict)
    symbols: tuple[int, ...] = ()

    @property
    def epsilon(self) -> float:
        """Machine epsilon of the narrowest float type of the present form."""
        return self.last.epsilon

    @property
    def arrays(self) -> list[Any]:
        """The inputs on which the function is run."""
        return self.measured.arrays

    def with_signs_of(self, form: RunnableFunction) -> Baseline:
        """The same bits as the integers of another form, which has them without a sign; self if more differs."""
        if not _same_bits(self.inputs, form.inputs) or not _same_bits(self.outputs, form.outputs):
            return self
        ins, outs = form.inputs, form.outputs
        measured, *others = (_with_signs(draw, ins, outs) for draw in (self.measured, *self.others))
        return replace(self, inputs=ins, outputs=outs, measured=measured, others=others)


def _with_signs(draw: Measured, ins: Types, outs: Types) -> Measured:
    return replace(
        draw,
        arrays=_viewed(draw.arrays, ins),
        own=_viewed(draw.own, outs),
        large=_viewed(draw.large, outs),
        wide=None if draw.wide is None else _viewed(draw.wide, outs),
        real=None if draw.real is None else _viewed(draw.real, outs),
    )


def _same_bits(a: Types, b: Types) -> bool:
    """Whether types differ in the sign of integers only."""
    if [shape for shape, _ in a] != [shape for shape, _ in b]:
        return False
    pairs = [(dtype_of(m), dtype_of(n)) for (_, m), (_, n) in zip(a, b, strict=True)]
    return all(m == n or (m.kind in "iu" and n.kind in "iu" and m.itemsize == n.itemsize) for m, n in pairs)


def _types(arrays: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
    return [(np.asarray(a).shape, np.asarray(a).dtype) for a in arrays]


def _viewed(arrays: Sequence[Any], types: Types) -> list[Any]:
    """Arrays whose integers have the signs of these types."""
    pairs = zip(arrays, (dtype_of(name) for _, name in types), strict=True)
    return [a.view(d) if d.kind in "iu" and a.dtype.kind in "iu" and a.dtype != d else a for a, d in pairs]


@dataclass
class ValidateInstrument:
    """The instrument of `--validate-each`: `run_passes(..., instruments=[ValidateInstrument()])`."""

    weights: Any = None
    seed: int = 0
    inputs: dict[str, Sequence[Any] | Recorded] = field(default_factory=dict)
    """Inputs by function name (with symbolic sizes: name in a case); other functions get recorded or random ones."""
    known: dict[str, Baseline] = field(default_factory=dict)
    ran: int = 0
    """The number of runs of functions, for tests and reports."""
    compared: int = 0
    """The number of comparisons of a function before and after a pass."""
    unsure: list[str] = field(default_factory=list)
    """What could not be validated, a sentence each."""
    bar: ProgressBar = field(default_factory=ProgressBar, repr=False)
    """Shows which pass is being validated."""
    _refused: dict[str, str] = field(default_factory=dict)
    """The text of each function whose interpreter refuses it."""
    _recorded: dict[str, Recorded] = field(default_factory=dict)
    _sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    _module: ModuleOp | None = None
    _drawn: RandomWeights | None = None

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Run every function once, before a module's first pass."""
        if self._module is not module:
            self._module = module
            self.known.clear()
            self._refused.clear()
            self._recorded.clear()
            self._sizes.clear()
            self._visit(module, None)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Run the functions that the pass changed."""
        self._visit(module, module_pass)

    def recorded(self) -> dict[str, Recorded]:
        """The inputs on which functions were run, for another instrument that validates a later form of them."""
        return {name: Recorded(known.arrays, known.sizes) for name, known in self.known.items()}

    def summary(self) -> str:
        """How much was validated, in a line, and a line for each comparison that says nothing."""
        return summary(self.compared, self.unsure)

    def note(self, text: str) -> None:
        """Note what could not be validated, once."""
        if text not in self.unsure:
            self.unsure.append(text)

    def _visit(self, module: ModuleOp, module_pass: ModulePass | None) -> None:
        for name, one in self._given().items():
            self._sizes.setdefault(name, one.sizes)
        functions = Module(module, self._known(), self._weights(module), self._record, self._sizes)
        waiting: list[tuple[RunnableFunction, str]] = []
        seen: set[str] = set()
        for executable in functions.executables():
            seen.add(executable.name.partition(" #")[0])
            text = functions.text if executable.calls else str(executable.op)
            old = self.known.get(executable.name)
            if text in (old.text if old is not None else None, self._refused.get(executable.name)):
                continue
            if executable.level == "graph":
                self._show(module_pass, executable, 0, None)
                self._check(executable, text, module_pass)
            else:
                waiting.append((executable, text))
        self._precompile([executable for executable, _ in waiting])
        for k, (executable, text) in enumerate(waiting):
            self._show(module_pass, executable, k, len(waiting))
            self._check(executable, text, module_pass)
        for executable in (known.last for name, known in self.known.items() if name.partition(" #")[0] not in seen):
            self._note_lost(executable, module, module_pass)
        self.bar.close()

    def _note_lost(self, last: RunnableFunction, module: ModuleOp, module_pass: ModulePass | None) -> None:
        """Note a function that no interpreter takes any longer; a caller of lowered kernels is run with the program."""
        name = last.name.partition(" #")[0]
        found = next((op for op in module.body.block.ops if symbol_name(op) == name), None)
        if found is None or not found.regions[0].blocks or module_pass is None:
            return
        calls = (op.callee for op in found.walk() if isinstance(op, graph.CallOp))
        if all(isinstance(SymbolTable.lookup_symbol(found, callee), FuncOp) for callee in calls):
            self.note(f"@{last.name} after '{module_pass.name}': no interpreter runs its form, {found.name}")

    def _show(self, module_pass: ModulePass | None, executable: RunnableFunction, done: int, total: int | None) -> None:
        after = f"after {module_pass.name}" if module_pass is not None else "before the first pass"
        self.bar.update(f"validating @{executable.name} {after}", done, total)

    def _precompile(self, executables: Sequence[RunnableFunction]) -> None:
        """Compile all kernels that run as C99 in one call of the compiler."""
        from mlc.validation import c_run

        large = [(e.as_c, e.is_wide) for e in executables if e.as_c is not None]
        forms = [(func, form) for func, wide in large for form in ((OWN, WIDE) if wide else (OWN,))]
        if forms:
            with suppress(UserError, NotInterpreted):  # said of the kernel that has no C form, when it is run
                c_run.precompile(forms)

    def _check(self, executable: RunnableFunction, text: str, module_pass: ModulePass | None) -> None:
        """The first run of a function, or its comparison with the form before the pass."""
        old = self.known.get(executable.name)
        runner = FunctionRunner(executable)
        try:
            if old is not None and old.inputs + old.outputs != executable.inputs + executable.outputs:
                old = self.known[executable.name] = old.with_signs_of(executable)
            if old is None or (old.inputs, old.outputs) != (executable.inputs, executable.outputs):
                self._run_first(runner, text, module_pass)
            else:
                assert module_pass is not None
                draws = [old.measured, *old.others]
                restore = partial(self._restored, old)
                found = [_Comparison(self, module_pass, runner, draw, restore).run() for draw in draws]
                old.measured, old.others = found[0], found[1:]
                old.text, old.last = text, executable
                self.compared += 1
        except NotInterpreted as error:
            self._refuse(executable, text, error)
        finally:
            self.ran += runner.ran

    def _refuse(self, executable: RunnableFunction, text: str, error: Exception) -> None:
        """Tell, once for each function, that its interpreter refuses it."""
        name = executable.name
        if name not in self._refused:
            self.note(f"@{name} ({executable.level}), whose interpreter says: {error}")
            warn(executable.op, f"is not validated, for its interpreter says: {error}")
        self._refused[name] = text

    def _restored(self, old: Baseline) -> FunctionRunner | None:
        """The form of a function before the pass, read from its text."""
        module = parse_module(old.text, "<before the pass>")
        functions = Module(module, self._known(), old.last.weights, None, self._sizes)
        for executable in functions.executables():
            if executable.name == old.last.name and executable.inputs == old.inputs:
                return FunctionRunner(executable)
        return None

    def _known(self) -> dict[str, Facts]:
        """The types and symbols of the functions that have been run."""
        return {name: Facts(k.inputs, k.outputs, k.symbols) for name, k in self.known.items()}

    def _note_silent(self, executable: RunnableFunction, silent: Sequence[Operation]) -> None:
        """Note the ops about which no inputs that were tried say anything."""
        if silent:
            names = ", ".join(dict.fromkeys(op.name for op in silent[:3])) + (" and others" if len(silent) > 3 else "")
            count = f"{len(silent)} op{'s' if len(silent) > 1 else ''} of @{executable.name} ({names})"
            self.note(f"{count}: nearly all of the results are not finite, or stay the same when the inputs move")

    def _given(self) -> dict[str, Recorded]:
        """The given inputs, each as a `Recorded`."""
        return {n: v if isinstance(v, Recorded) else Recorded(list(v)) for n, v in self.inputs.items()}

    def _record(self, name: str, arrays: Sequence[Any], sizes: dict[str, int]) -> None:
        held = self._recorded.get(name)
        # at the same sizes, arrays of other types are those of a function whose types a pass changed
        if held is None or (held.sizes == sizes and _types(held.arrays) != _types(arrays)):
            self._recorded[name] = Recorded([np.asarray(a) for a in arrays], sizes)
            self._sizes[name] = sizes

    def _weights(self, module: ModuleOp) -> Any:
        from mlc.dialects.graph.store import store_of

        return self.weights or store_of(module) or self._random_weights(module)

    def _random_weights(self, module: ModuleOp) -> RandomWeights:
        if self._drawn is None or self._drawn.module is not module:
            self._drawn = RandomWeights(module, self.seed)
        return self._drawn

    def _run_first(self, runner: FunctionRunner, text: str, module_pass: ModulePass | None) -> None:
        """The first run of a function, or of one whose types a pass changed; ResultChanged if it no longer runs."""
        executable = runner.executable
        is_known = executable.name in self.known
        if is_known and module_pass is not None:
            about = f"@{executable.name} ({executable.level}) after '{module_pass.name}'"
            self.note(f"{about}, which changed the types of its operands or results")
        given = self._given().get(executable.name)
        if given is None or not given.arrays:
            given = self._recorded.get(executable.name, Recorded([]))
        arrays = fitted(given.arrays, executable.inputs)
        draws = [] if arrays is None else [arrays]
        try:
            if not draws:
                draws, silent = informative_inputs(executable, self.seed)
                self._note_silent(executable, silent)
            measured, *others = map(runner.measure, draws)
        except NotInterpreted:
            raise
        except Exception as error:
            # a new function is made of those of before the pass, which ran unless one was refused
            if module_pass is None or (self._refused and not is_known):
                self._refuse(executable, text, error)
                return
            types = ", whose operands or results have other types now" if is_known else ""
            raise ResultChanged(module_pass, executable, f"it no longer runs{types}: {error}", None) from error
        facts = executable, others, executable.sizes, executable.symbols
        self.known[executable.name] = Baseline(executable.inputs, executable.outputs, text, measured, *facts)


def summary(compared: int, unsure: Sequence[str]) -> str:
    """A line about the comparisons, and one for each that says nothing."""
    share = f"; {len(unsure)} not validated" if unsure else ""
    first = f"validated: {counted(compared, 'comparison')}{share}"
    return "\n".join([first, *(f"not validated: {text}" for text in unsure)])


@dataclass
class _Comparison:
    """One function before and after one pass."""

    instrument: ValidateInstrument
    module_pass: ModulePass
    runner: FunctionRunner
    before: Measured
    restore: Callable[[], FunctionRunner | None]
    """Makes the form before the pass anew."""

    def run(self) -> Measured:
        """Compare, and return what was measured of the new form; ResultChanged where it differs."""
        executable, arrays, before = self.runner.executable, self.before.arrays, self.before
        self.plan(executable.op)
        try:
            own, large = self.runner.run(arrays), self.runner.large(arrays)
            wide = self.runner.run(arrays, WIDE) if executable.is_wide else None
        except NotInterpreted:
            raise
        except Exception as error:
            raise self.changed(f"it no longer runs: {error}") from error
        if bool(getattr(self.module_pass, "exact", False)):
            self.fail(differences(before.own, own))
        if wide is None or before.wide is None:
            self.fail(compare_native(before, own, executable.epsilon))
            return replace(before, own=own, large=large)
        budget = float(getattr(self.module_pass, "error_budget", 0.0))
        if budget:
            self.precision(wide, budget)
            return self.runner.measure(arrays)
        self.meaning(before.wide, wide)
        growth = float(getattr(self.module_pass, "error_growth", ERROR_GROWTH))
        self.stability(own, large, wide, growth)
        found = zip(before.error + before.excess, errors(own, wide) + errors(own, wide, 1.0), strict=True)
        error = [min(a, b) if growth <= ERROR_GROWTH else b for a, b in found]
        halves = error[: len(own)], error[len(own) :]
        real = self.runner.real(arrays) if executable.epsilon > epsilon(np.dtype(np.float32)) else None
        return Measured(arrays, wide, own, large, before.moved, executable.constants, *halves, real)

    def plan(self, func: Operation) -> None:
        """Buffers of a loop function, which its interpreter keeps apart, do not share memory while both are in use."""
        if isinstance(func, loop.FuncOp):
            try:
                check_kernel_plan(func)
            except PlanError as error:
                raise self.changed(error.text) from error

    def stability(self, own: list[Any], large: list[Any], wide: list[Any], growth: float) -> None:
        """Results in their own precision stay finite, and about as exact as they were."""
        if lost := lost_range(self.before.own, own):
            raise self.changed(lost)
        if lost := lost_range(self.before.large, large):
            raise self.changed(f"on inputs times {LARGE_INPUTS:g}, {lost}")
        if grown := grown_error(self.before, own, wide, growth, self.runner.executable.epsilon):
            raise self.changed(grown)

    def meaning(self, reference: Sequence[Any], wide: Sequence[Any]) -> None:
        """The comparison in wide arithmetic, with the rounding of new constants where that is what differs."""
        verdict = compare_meaning(reference, wide, self.before.moved)
        if verdict.difference is not None and (made := self.new_constants()):
            slack = self.runner.rounding(self.before.arrays, wide, made)
            verdict = compare_meaning(reference, wide, self.before.moved, slack)
        if verdict.difference is not None and (slack := self.gone_rounding(reference)):
            verdict = compare_meaning(reference, wide, self.before.moved, slack)
        self.fail(verdict.difference)
        name, level = self.runner.executable.name, self.runner.executable.level
        about = f"@{name} ({level}) after '{self.module_pass.name}'"
        if verdict.useless > USELESS_SHARE:
            share = f"{100 * verdict.useless:.0f} % of its results"
            self.instrument.note(f"{about}: ill-conditioned, {share} move too much under rounding to be compared")
        if verdict.finite < 1 - USELESS_SHARE:
            self.instrument.note(f"{about}: {100 - 100 * verdict.finite:.0f} % of its results are not finite")

    def new_constants(self) -> frozenset[object]:
        """The constants that the pass made: their rounding is no change of meaning."""
        old = self.before.constants
        return frozenset(k for k, content in self.runner.executable.constants.items() if old.get(k) != content)

    def gone_rounding(self, reference: Sequence[Any]) -> list[float]:
        """How much the rounding of removed constants moves the results; empty where the old form no longer runs."""
        gone = self.gone_constants()
        try:
            form = self.restore() if gone else None
            return [] if form is None else form.rounding(self.before.arrays, reference, gone)
        except Exception:
            return []  # the weights that it read are gone, too: the difference counts as it is

    def gone_constants(self) -> frozenset[object]:
        """The constants that the pass removed: where 1.4142135 became the square root of 2, the rounding is gone."""
        new = self.runner.executable.constants
        return frozenset(key for key in self.before.constants if key not in new)

    def precision(self, wide: Sequence[Any], budget: float) -> None:
        """A pass that changes precision: the same meaning without the rounding of casts, and within budget with it."""
        arrays, before = self.before.arrays, self.before
        assert before.wide is not None
        if self.runner.executable.epsilon > epsilon(np.dtype(np.float32)):
            self.meaning(before.real or before.wide, self.runner.real(arrays))
        for k, (a, b) in enumerate(zip(before.wide, wide, strict=True)):
            self.fail(difference(a, b, budget * largest(a), k))

    def fail(self, found: Difference | None) -> None:
        """Raise ResultChanged for a difference."""
        if found is not None:
            old = self.before.own[found.output]
            was = f"; before the pass it was {old[found.index]}" if found.index else ""
            raise self.changed(f"{found}{was}", found)

    def changed(self, what: str, found: Difference | None = None) -> ResultChanged:
        """The error that blames the pass."""
        return ResultChanged(self.module_pass, self.runner.executable, what, found)


__all__ = ["Recorded", "ResultChanged", "ValidateInstrument", "source_node"]
