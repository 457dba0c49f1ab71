"""
Mutation testing of `--validate-each`: each mutant is one bug in one pass of a compilation that is validated.

A compilation runs once for all its mutants. At each pass, when the pass has run and before its result is validated, the
process forks for each mutant of the pass; the child makes the bug, proves that it changes what the program computes,
and goes on: its validation must blame the pass. The parent goes on without a bug, and must blame none.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import numpy as np
from operators import OPERATORS, Change, MutationOperator, WrongDecision
from program import Kernels, ProgramInterpreter, differ, drawn, kernel_runner, name_of
from races import Race
from subjects import SUBJECTS, Built
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects.graph.store import attach_store
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.interp.sizes import CASES, at_sizes, sizes_of
from mlc.passes.verifier import InvalidIR, verify
from mlc.validation.execute import types_of
from mlc.validation.validate_each import ValidateInstrument

TIME_LIMIT = 240
"""Seconds after which the validation of a mutant has failed."""
WHOLE_INDEX = -1
"""The index of the passes that only a whole compilation runs (whole.py)."""
DECISIONS = 16
"""Wrong decisions that are tried: most are legal, or stop the pass."""
TRIES = 6
"""Places that are tried until one of them changes what the program computes."""


@dataclass(frozen=True)
class Slot:
    """A mutant that is wanted: an operator at a pass of a compilation; the place is drawn with the seed."""

    subject: str
    index: int
    module_pass: str
    operator: str
    seed: int

    def __str__(self) -> str:
        return f"{self.subject}/{self.index}:{self.module_pass}/{self.operator}/{self.seed}"

    @staticmethod
    def parse(text: str) -> "Slot":
        """The slot that `str` gave."""
        subject, place, operator, seed = text.rsplit("/", 3)
        index, _, name = place.partition(":")
        return Slot(subject, int(index), name, operator, int(seed))


@dataclass
class Outcome:
    """What became of a mutant."""

    slot: Slot
    status: str = "no place"
    """caught, missed, blamed another, failed, or why it does not count: no place, same, invalid."""
    blamed: str = ""
    message: str = ""
    function: str = ""
    seconds: float = 0.0

    @property
    def counts(self) -> bool:
        """Whether the mutant computes something else."""
        return self.status in ("caught", "missed", "blamed another", "failed")


# --- truth -------------------------------------------------------------------------------------------------------


@dataclass
class Truth:
    """Runs a program before and after a bug, on inputs of its own."""

    built: Built
    seed: int
    kernels: Kernels = field(default_factory=Kernels)

    def outputs(self, module: ModuleOp, changed: str, scale: float = 1.0, races: bool = False) -> list[list[Any]]:
        """The outputs of the program in each case of sizes, the function `changed` run in the form that it has."""
        main = main_of(module)
        if main is None:
            return self.kernel_outputs(module, changed, scale, races)
        found: list[list[Any]] = []
        for case in CASES:
            sizes = sizes_of(main, case)
            types = types_of((at_sizes(main, sizes) if sizes else main).function_type.inputs.data)
            assert types is not None
            arrays = scaled(drawn(types, self.seed + case), scale)
            lowered = self.lowered(module, changed)
            program = ProgramInterpreter(self.built.weights, self.kernels, lowered, races)
            found.append(program.run(main, arrays, sizes or None))
            if not sizes:
                break
        return found

    def lowered(self, module: ModuleOp, changed: str) -> Operation | None:
        """The function of a kernel, if it is below the graph level."""
        found = next((op for op in module.body.block.ops if name_of(op) == changed), None)
        return None if found is None or isinstance(found, FuncOp) else found

    def kernel_outputs(self, module: ModuleOp, changed: str, scale: float, races: bool) -> list[list[Any]]:
        """The outputs of a kernel that stands alone."""
        func = next(op for op in module.body.block.ops if name_of(op) == changed)
        inputs, outputs = self.signature
        arrays = scaled(drawn(inputs, self.seed), scale)
        return [kernel_runner(func, races)(arrays, [(shape, np.dtype(name)) for shape, name in outputs], ())]

    def note(self, module: ModuleOp) -> None:
        """Keep what later levels lose: kernels of the graph level, the types of a kernel that stands alone."""
        self.kernels.note(module)
        if main_of(module) is None and not hasattr(self, "signature"):
            self.signature = signature_of(next(op for op in module.body.block.ops if name_of(op)))


def signature_of(func: Operation) -> tuple[Any, Any]:
    """The types of a kernel's inputs and outputs."""
    from mlc.dialects import loop, te
    from mlc.interp import loop as interpreter

    if isinstance(func, te.FuncOp):
        found = types_of([a.type for a in func.args]), types_of(func.function_type.outputs.data)
    else:
        assert isinstance(func, loop.FuncOp)
        ins, outs, _ = interpreter.arguments(func)
        found = types_of(ins), types_of(outs)
    assert None not in found
    return found


def main_of(module: ModuleOp) -> FuncOp | None:
    """@main on the graph level."""
    return next((f for f in module.body.block.ops if isinstance(f, FuncOp) and f.sym_name.data == "main"), None)


def scaled(arrays: Sequence[Any], scale: float) -> list[Any]:
    """Inputs, those of floats multiplied."""
    return [(a * scale).astype(a.dtype) if a.dtype.kind not in "iub" and scale != 1.0 else a for a in arrays]


def any_differ(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]]) -> bool:
    """Whether some output differs in some case."""
    return any(differ(a, b) for a, b in zip(expected, got, strict=True))


# --- one mutant --------------------------------------------------------------------------------------------------


@dataclass
class Injector:
    """
    The instrument that makes mutants; it stands behind the validating one, so that its `after` runs before.

    In the process of the mutant, `mutant` says which it is; it is None in the process of the correct compilation.
    """

    truth: Truth
    wanted: dict[int, list[Slot]]
    report: Callable[[Outcome], None]
    index: int = -1
    mutant: Outcome | None = None
    wrong: WrongDecision | None = None
    correct: ModuleOp | None = None

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Fork for the bugs in decisions of the pass."""
        self.index += 1
        if self.mutant is not None:
            return
        self.truth.note(module)
        for slot in self.slots(module_pass):
            operator = OPERATORS[slot.operator]
            if operator.around is None:
                continue
            for attempt in range(DECISIONS):
                if self.fork(slot):
                    self.correct = module.clone()
                    self.wrong = operator.around(module, Random(slot.seed + attempt))
                    if not self.wrong.enter():
                        self.leave("no place")
                    return
                if self.last.counts or self.last.status == "no place":
                    break
            self.report(self.last)

    def failed(self, module_pass: ModulePass, module: ModuleOp, error: Exception) -> None:
        """A pass that a wrong decision stops has noticed it."""
        if self.wrong is not None:
            self.leave("invalid", str(error))

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Fork for the bugs in the result of the pass."""
        if self.wrong is not None:
            self.decided(module_pass, module)
        if self.mutant is not None:
            return
        for slot in self.slots(module_pass):
            operator = OPERATORS[slot.operator]
            if operator.around is None:
                self.try_places(slot, operator, module)
                if self.mutant is not None:
                    return

    def decided(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """The pass has run with a wrong decision: end the process unless that changes what the program computes."""
        assert self.wrong is not None
        assert self.correct is not None
        assert self.mutant is not None
        lied, self.wrong = self.wrong.exit(), None
        if not lied:
            self.leave("same")
        module_pass.apply(make_context(), self.correct)
        self.settle(self.correct, module, texts(self.correct), OPERATORS[self.mutant.slot.operator])

    def slots(self, module_pass: ModulePass) -> list[Slot]:
        """The mutants of the pass that has run."""
        found = self.wanted.get(self.index, [])
        assert all(slot.module_pass == module_pass.name for slot in found)
        return found

    def try_places(self, slot: Slot, operator: MutationOperator, module: ModuleOp) -> None:
        """Make the mutant at places drawn at random until one computes something else."""
        random = Random(slot.seed)
        places = operator.places(module, random)
        for place in random.sample(places, min(TRIES, len(places))) or [None]:
            if self.fork(slot):
                if place is None:
                    self.leave("no place")
                self.make(place, operator, module)
                return
            if self.last.counts:
                break
        self.report(self.last)

    def make(self, place: Change, operator: MutationOperator, module: ModuleOp) -> None:
        """Make the bug, and end the process unless it changes what the program computes."""
        assert self.mutant is not None
        before = texts(module)
        reference = module.clone()
        place()
        self.settle(reference, module, before, operator)

    def settle(self, reference: ModuleOp, module: ModuleOp, before: dict[str, str], operator: MutationOperator) -> None:
        """End the process unless the module is valid and computes something else than its reference."""
        assert self.mutant is not None
        try:
            verify(module)
        except InvalidIR as error:
            self.leave("invalid", str(error))
        changed = [name for name, text in texts(module).items() if before.get(name) != text]
        if not changed:
            self.leave("same")
        self.mutant.function = changed[0].partition(".")[0]
        if not self.is_wrong(reference, module, self.mutant.function, operator):
            self.leave("same")
        self.mutant.status = "missed"

    def is_wrong(self, reference: ModuleOp, module: ModuleOp, changed: str, operator: MutationOperator) -> bool:
        """Whether a mutant computes something else than its reference."""
        if operator.evidence == "race":
            return self.races(module, changed)
        if operator.evidence == "native":
            reference, module = self.converted(reference, changed), self.converted(module, changed)
        weights = self.truth.built.weights
        if weights is not None:
            attach_store(reference, weights)
        scale = 100.0 if operator.evidence == "scaled" else 1.0
        expected = self.truth.outputs(reference, changed, scale)
        try:
            return any_differ(expected, self.truth.outputs(module, changed, scale))
        except Exception as error:
            assert self.mutant is not None
            self.mutant.message = f"does not run: {error}"
            return True

    def races(self, module: ModuleOp, changed: str) -> bool:
        """Whether a mutant's parallel iterations depend on each other; for machine code, its construction says so."""
        if any(op.name == "llvm.func" for op in module.body.block.ops):
            return True
        try:
            self.truth.outputs(module, changed, races=True)
        except Race:
            return True
        return False

    def converted(self, module: ModuleOp, changed: str) -> ModuleOp:
        """A copy of the module with one kernel as machine code, and no other kernel below the graph level."""
        found = module.clone()
        for op in found.body.block.ops:
            if op.name == "loop.func" and name_of(op) != changed:
                op.detach()
                op.erase()
        for module_pass in self.truth.built.passes:
            if module_pass.name == "convert-loop-to-llvm":
                module_pass.apply(make_context(), found)
        return found

    def leave(self, status: str, message: str = "") -> None:
        """End the process of a mutant that does not count."""
        assert self.mutant is not None
        self.mutant.status, self.mutant.message = status, message
        raise Finished

    def fork(self, slot: Slot) -> bool:
        """Whether this is the process of the mutant, which has just begun; the parent waits for its outcome."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            self.mutant, self.writer, self.started = Outcome(slot), writer, time.monotonic()
            return True
        os.close(writer)
        self.last = received(reader, child, slot)
        return False


def texts(module: ModuleOp) -> dict[str, str]:
    """The text of each function of a module."""
    return {name_of(op): str(op) for op in module.body.block.ops if name_of(op)}


class Finished(Exception):
    """The process of a mutant has nothing more to do."""


def received(reader: int, child: int, slot: Slot) -> Outcome:
    """What the process of a mutant reports; it is ended at the time limit."""
    end, parts = time.monotonic() + TIME_LIMIT, list[bytes]()
    with os.fdopen(reader, "rb") as file:
        while select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (part := os.read(file.fileno(), 1 << 16)):
                break
            parts.append(part)
        else:
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    try:
        facts = json.loads(b"".join(parts))
    except ValueError:
        code = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        why = (
            "took too long"
            if code == signal.SIGKILL
            else f"the process died: {signal.strsignal(code) if code else status}"
        )
        return Outcome(slot, "failed", message=why, seconds=TIME_LIMIT - max(0.0, end - time.monotonic()))
    return Outcome(slot, **facts)


# --- one compilation ---------------------------------------------------------------------------------------------


def run_subject(name: str, slots: Sequence[Slot], seed: int, report: Callable[[Outcome], None]) -> str:
    """Validate a compilation and its mutants; what the correct compilation was blamed for, or nothing."""
    built = SUBJECTS[name].build()
    wanted: dict[int, list[Slot]] = {}
    for slot in slots:
        wanted.setdefault(slot.index, []).append(slot)
    injector = Injector(Truth(built, seed), wanted, report)
    hooks = [ValidateInstrument(weights=built.weights, seed=seed), injector]
    problem: BaseException | None = None
    try:
        run_passes(built.module, make_context(), built.passes, instruments=hooks)
    except BaseException as error:
        problem = error
    if injector.mutant is not None:
        finish(injector, problem)
    if problem is not None and not isinstance(problem, Exception):
        raise problem
    return "" if problem is None else f"{type(problem).__name__}: {problem}"


def finish(injector: Injector, problem: BaseException | None) -> None:
    """Report the outcome of a mutant, and end its process."""
    outcome = injector.mutant
    assert outcome is not None
    if problem is not None and not isinstance(problem, Finished):
        blamed = getattr(problem, "module_pass", None)
        outcome.message = str(problem)[:600]
        if blamed is None:
            outcome.status = "failed"
            where = traceback.extract_tb(problem.__traceback__)[-1]
            outcome.message = f"{type(problem).__name__} at {where.filename}:{where.lineno}: {outcome.message}"
        else:
            outcome.blamed = blamed.name
            outcome.status = "caught" if blamed.name == outcome.slot.module_pass else "blamed another"
    outcome.seconds = time.monotonic() - injector.started
    facts = {key: value for key, value in asdict(outcome).items() if key != "slot"}
    with os.fdopen(injector.writer, "wb") as file:
        file.write(json.dumps(facts).encode())
    os._exit(0)


# --- what may be mutated where -----------------------------------------------------------------------------------


@dataclass
class Surveyor:
    """The instrument that counts, without validation, the places of each operator after each pass."""

    table: dict[int, dict[str, int]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Count places of bugs in decisions."""
        self.names.append(module_pass.name)
        self.table[len(self.names) - 1] = {
            name: 1 for name, one in OPERATORS.items() if one.around is not None and module_pass.name in one.passes
        }

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Count places of bugs in results."""
        text = str(module)
        if text not in self.seen:
            self.seen = {text: {name: len(one.places(module, Random(0))) for name, one in OPERATORS.items()}}
        found = self.seen[text]
        row = self.table[len(self.names) - 1]
        row |= {n: k for n, k in found.items() if k and allowed(OPERATORS[n], module_pass.name)}


def allowed(operator: MutationOperator, name: str) -> bool:
    """Whether a pass of this name can have the operator's bug."""
    if operator.level == "memory":
        return False  # @main is converted in whole compilations only
    if operator.level in ("graph", "layout", "fusion", "quantisation") and not name.startswith("graph-"):
        return False  # below the graph level, a pass sees one kernel
    return operator.around is None and (not operator.passes or name in operator.passes)


def survey(name: str) -> tuple[list[str], dict[int, dict[str, int]]]:
    """The passes of a subject's compilation, and by pass the operators that find places there."""
    built, surveyor = SUBJECTS[name].build(), Surveyor()
    run_passes(built.module, make_context(), built.passes, instruments=[surveyor])
    return surveyor.names, surveyor.table


Survey = tuple[list[str], dict[int, dict[str, int]]]


def plan(
    surveys: dict[str, Survey], whole: Sequence[str], operators: Sequence[str], seed: int, count: int
) -> list[Slot]:
    """Mutants such that each operator and each pass has its share: operators in turn, at the pass mutated least."""
    random = Random(seed)
    sites: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for subject, (names, table) in surveys.items():
        for index, row in table.items():
            for operator in row:
                sites.setdefault(operator, {}).setdefault(names[index], []).append((subject, index))
    for operator in (one for one in OPERATORS.values() if one.level == "memory" and whole):
        sites[operator.name] = {name: [(subject, WHOLE_INDEX) for subject in whole] for name in operator.passes}
    order = sorted(name for name in sites if name in operators)
    random.shuffle(order)
    used: dict[str, int] = {}
    slots: list[Slot] = []
    while len(slots) < count and order:
        operator = order[len(slots) % len(order)]
        at = sites[operator]
        fewest = min(used.get(name, 0) for name in at)
        name = random.choice([n for n in at if used.get(n, 0) == fewest])
        used[name] = used.get(name, 0) + 1
        subject, index = random.choice(at[name])
        slots.append(Slot(subject, index, name, operator, random.randrange(1 << 30)))
    return slots


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Warnings of compilations go nowhere."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    sys.stderr.flush()
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


__all__ = ["Outcome", "Slot", "plan", "quiet", "run_subject", "survey"]
