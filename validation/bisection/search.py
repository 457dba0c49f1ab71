"""
The search: pass, rewrite application, function, op; then the reduction to a small module.

    before, wrong = module before the pass, the pass      the first pass with a failure
    n                                                      the first rewrite application with which it fails
    op                                                     the op that was rewritten; else the first one up to which
                                                           the function must go for the pass to fail
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator

from mlc.dialects import loop
from mlc.passes.pass_manager import apply_passes
from mlc.support.halving import first_bad
from mlc.validation.bisection.failure import OpFacts, PipelineFailure, RuleFacts, facts_of_op
from mlc.validation.bisection.oracle import Compared, NotComparable, Observation, Oracle, Sampled, Validated
from mlc.validation.isolated import isolated, quiet
from mlc.validation.reduction import edits, places
from mlc.validation.reduction.edits import edited
from mlc.validation.reduction.reduce import Reducer
from mlc.validation.reduction.subject import Subject, functions_of, name_of

LOCAL_CHANGES = 8
"""Ops of a function up to which a pass that changes them is thought to be local, so that the first is named."""

Report = Callable[[str], None]
"""Told of each step, for a person who waits."""


@dataclass
class Culprit:
    """Who is wrong: the pass, the rewrite application, the function, the op; and a small module that shows it."""

    failure: PipelineFailure
    passes: Sequence[ModulePass]
    """The wrong pass, behind those that must run before it for the failure to be seen."""
    before: Subject
    """The subject before these passes."""
    rule: RuleFacts | None = None
    op: OpFacts | None = None
    reduced: Subject | None = None
    oracle: Oracle | None = None
    """What found the reduced module wrong."""
    plain: bool = False
    """Whether the reduced module fails as a text alone, on random inputs and weights."""
    notes: list[str] = field(default_factory=list)

    @property
    def module_pass(self) -> ModulePass:
        """The wrong pass."""
        return self.passes[-1]


@dataclass
class Bisection:
    """One search; `oracle` says what is wrong, `seconds` bounds the reduction."""

    oracle: Oracle
    seconds: float = 60.0
    report: Report = lambda text: None
    unsure: list[str] = field(default_factory=list)
    """What could not be validated where nothing was found wrong, a sentence each."""

    def run(self, subject: Subject, passes: Sequence[ModulePass], reduce: bool = True) -> Culprit | None:
        """Who is wrong; None if nothing is."""
        self.report("passes")
        found = self.find_pass(subject, passes)
        if found.failure is None:
            self.unsure = found.unsure
            return None
        if isinstance(self.oracle, Validated):
            self.oracle = replace(self.oracle, inputs={**self.oracle.inputs, **found.recorded})
        elif isinstance(self.oracle, Compared):
            self.oracle = replace(self.oracle, expected=None)
        culprit = self._seen_again(subject, passes[: found.failure.index + 1], found.failure)
        self.find_function(culprit)
        self.find_rewrite(culprit)
        self.find_op(culprit)
        if reduce:
            self.reduce(culprit)
            if culprit.op is None and culprit.reduced is not None:
                culprit.op = self._left_op(culprit, culprit.reduced)
        return culprit

    def _seen_again(self, subject: Subject, passes: Sequence[ModulePass], failure: PipelineFailure) -> Culprit:
        """The wrong pass with as few passes before it as show the failure again."""
        count = 1
        while True:
            start = len(passes) - min(count, len(passes))
            before = self._before(subject, passes[:start])
            if isinstance(self.oracle, Validated) and start:
                before.inputs = None  # the recorded inputs have them
            culprit = Culprit(failure, passes[start:], before)
            if start == 0 or self._shows(culprit, before):
                return culprit
            count *= 2

    def find_function(self, culprit: Culprit) -> None:
        """The first function with which the pass fails, alone in its module, where the failure does not say."""
        if culprit.failure.function:
            self._find_callee(culprit)
            return
        for op in functions_of(culprit.before.module):
            named = replace(culprit, failure=replace(culprit.failure, function=name_of(op)))
            if self._alone(named) is not None:
                culprit.failure = named.failure
                return

    def _find_callee(self, culprit: Culprit) -> None:
        """A kernel is wrong, rather than the function that calls it, if it is wrong without its caller."""
        module = culprit.before.module
        kernels = [op for op in functions_of(module) if edits.is_called(op)]
        if not kernels or culprit.failure.function in map(name_of, kernels):
            return
        tops = {op: index for index, op in enumerate(module.walk()) if op.parent_op() is module}

        def is_bad(count: int) -> bool:
            kept = {name_of(op) for op in kernels[:count]}
            others = [edits.Edit(index, edits.erase) for op, index in tops.items() if name_of(op) not in kept]
            alone = edited(culprit.before, others)
            return alone is not None and self._shows(culprit, alone)

        if is_bad(len(kernels)):
            name = name_of(kernels[first_bad(len(kernels), is_bad) - 1])
            culprit.failure = replace(culprit.failure, function=name)

    def find_pass(self, subject: Subject, passes: Sequence[ModulePass]) -> Observation:
        """The first failure: seen where it happens, or by halving where only outputs are compared."""
        found = self.oracle.observe(subject, passes)
        if found.failure is None or found.failure.kind != "values" or not isinstance(self.oracle, Compared):
            return found
        if self.oracle.observe(subject, []).failure is not None:
            return found
        count = first_bad(len(passes), lambda n: self.oracle.observe(subject, passes[:n]).failure is not None)
        return self.oracle.observe(subject, passes[:count])

    def _before(self, subject: Subject, passes: Sequence[ModulePass]) -> Subject:
        """The subject after the passes that are right."""
        copy = subject.copy()
        with quiet():
            apply_passes(copy.module, self.oracle.ctx, passes)
        return copy

    def find_rewrite(self, culprit: Culprit) -> None:
        """Which rewrite application of the pass makes it wrong, if the pass consists of rules."""
        self.report(f"rewrites of {culprit.module_pass.name}")
        full = self._again(culprit)
        if not culprit.failure.is_like(full.failure):
            culprit.notes.append("a second run does not fail: it is not the same every time")
            return
        if not full.applied:
            return
        if self._fails(culprit, 0):
            culprit.notes.append(f"it fails with none of its {len(full.applied)} rewrite applications, too")
            return
        number = first_bad(len(full.applied), lambda n: self._fails(culprit, n))
        culprit.rule = full.applied[number - 1]
        culprit.op = culprit.rule.op

    def _again(self, culprit: Culprit, limit: int | None = None) -> Observation:
        return self.oracle.observe(culprit.before, culprit.passes, limit)

    def _fails(self, culprit: Culprit, limit: int) -> bool:
        try:
            return culprit.failure.is_like(self._again(culprit, limit).failure)
        except NotComparable:
            return False

    def find_op(self, culprit: Culprit) -> None:
        """The op: that of the rewrite, or of the exception, or the first end of the function that fails."""
        if culprit.op is not None:
            return
        self.report("operations")
        failure = culprit.failure
        if failure.kind == "exception" and failure.op is not None:
            culprit.op = failure.op
            return
        culprit.op = (
            self._first_end(culprit) or (failure.op if failure.kind == "invalid" else None) or self._changed_op(culprit)
        )

    def _left_op(self, culprit: Culprit, reduced: Subject) -> OpFacts | None:
        """The op of the reduced module that says most: all that is left is needed for the failure."""
        if (found := self._changed_op(culprit, reduced)) is not None:
            return found
        ops = inner_ops(reduced)
        return facts_of_op(max(reversed(ops), key=lambda op: telling(op.name, is_masked(op)))) if ops else None

    def _changed_op(self, culprit: Culprit, subject: Subject | None = None) -> OpFacts | None:
        """The first op that the pass changes or removes in the function, if it changes few."""
        if culprit.failure.kind == "exception" or (culprit.failure.signal and not culprit.failure.running):
            return None
        alone = subject or self._alone(culprit) or culprit.before

        def changed() -> list[OpFacts]:
            with quiet():
                apply_passes(alone.module, self.oracle.ctx, culprit.passes[:-1])
                before = [(signature_of(op), facts_of_op(op)) for op in inner_ops(alone)]
                culprit.module_pass.apply(self.oracle.ctx, alone.module)
            left = Counter(signature_of(op) for op in inner_ops(alone))
            left.subtract(signature for signature, _ in before)
            found = [facts for signature, facts in before if left[signature] < 0]
            most = max((telling(facts.name) for facts in found), default=0)
            told = [facts for facts in found if telling(facts.name) == most]
            return told if len(found) < len(before) or len(found) == 1 else []

        try:
            found = isolated(changed).value or []
        except RuntimeError:
            return None
        return found[0] if 0 < len(found) <= (LOCAL_CHANGES if subject is not None else 2) else None

    def _first_end(self, culprit: Culprit) -> OpFacts | None:
        """The first op up to which the function, alone in its module, must go for the pass to fail."""
        alone = self._alone(culprit) or culprit.before
        ends, ops = places.cuts(alone), list(alone.module.walk())
        if culprit.failure.function:
            ends = [one for one in ends if _is_in(ops[one.index], culprit.failure.function)]
        if not ends:
            return None

        def is_bad(count: int) -> bool:
            shorter = edited(alone, [edits.Edit(ends[count - 1].index, edits.end_behind)])
            return shorter is not None and self._shows(culprit, shorter, function=True)

        if not is_bad(len(ends)):
            return None
        number = first_bad(len(ends), is_bad)
        return facts_of_op(ops[ends[number - 1].index])

    def _alone(self, culprit: Culprit) -> Subject | None:
        """The module with only the function that is wrong, if that is enough."""
        module, name = culprit.before.module, culprit.failure.function
        ops = list(module.walk())
        others = [
            edits.Edit(index, edits.erase)
            for index, op in enumerate(ops)
            if op.parent_op() is module and name_of(op) != name
        ]
        alone = edited(culprit.before, others) if others and name else None
        return alone if alone is not None and self._shows(culprit, alone) else None

    def _shows(self, culprit: Culprit, subject: Subject, function: bool = False) -> bool:
        """Whether the failure is seen in a subject; with `function`, in the same function."""
        return self._is_seen_by(self.oracle, culprit, subject, function)

    @staticmethod
    def _is_seen_by(oracle: Oracle, culprit: Culprit, subject: Subject, function: bool = False) -> bool:
        """Whether an oracle sees the failure; with `function`, in the same function, where that is told."""
        try:
            seen = oracle.observe(subject, culprit.passes).failure
        except NotComparable:
            return False
        told = seen is not None and seen.function and culprit.failure.function
        if seen is not None and function and told and seen.function != culprit.failure.function:
            return False
        return culprit.failure.is_like(seen)

    def reduce(self, culprit: Culprit) -> None:
        """Make the module before the pass small; as a text alone, if it fails so, too."""
        self.report("reduction")
        start = self._alone(culprit) or culprit.before
        plain = Validated(self.oracle.ctx, self.oracle.seconds, with_weights=False)
        text = replace(start.copy(), weights=None, inputs=None)
        if self._is_seen_by(plain, culprit, text):
            start, culprit.plain, self.oracle = text, True, plain
        elif not self._shows(culprit, start):
            culprit.notes.append("not reduced: the module before the pass does not fail on its own")
            return
        culprit.oracle = self.oracle
        quick = self._quick(culprit)
        if culprit.plain and self._is_seen_by(quick, culprit, start):
            found = self._reduced(culprit, start, quick)
            if self._shows(culprit, found):
                culprit.reduced = found
                return
        culprit.reduced = self._reduced(culprit, start, self.oracle)

    def _quick(self, culprit: Culprit) -> Sampled:
        """An oracle that sees less, and is faster."""
        failure = culprit.failure
        runs = failure.kind == "values" or failure.running
        return Sampled(self.oracle.ctx, self.oracle.seconds, compares=runs)

    def _reduced(self, culprit: Culprit, start: Subject, oracle: Oracle) -> Subject:
        """The smallest subject that an oracle sees fail."""

        def told(phase: str, subject: Subject, checks: int) -> None:
            self.report(f"reduction: {subject.size[0]} operations, {checks} candidates")

        def check(one: Subject) -> bool:
            return self._is_seen_by(oracle, culprit, one)

        return Reducer(self.oracle.ctx, check, self.seconds, told).reduce(start)


_BODIES = ("te.compute", "loop.block")
_ORDER = ("arith.constant", "loop.broadcast", "loop.alloc", "loop.load", "loop.store", "loop.for")
"""Ops that a small kernel has in any case, those that say least about a bug first."""


def telling(name: str, masked: bool = False) -> int:
    """How much it says about a bug that an op of this name is needed for it."""
    if name in _BODIES:
        return len(_ORDER) + 2
    if masked:
        return len(_ORDER)
    return _ORDER.index(name) if name in _ORDER else len(_ORDER) + 1


def is_masked(op: Operation) -> bool:
    """Whether an op is an access with a mask."""
    return isinstance(op, loop.LoadOp | loop.StoreOp) and op.mask is not None


def inner_ops(subject: Subject) -> list[Operation]:
    """The ops in the functions of a module, without terminators."""
    module = subject.module
    return [op for op in module.walk() if op.parent_op() not in (None, module) and not op.has_trait(IsTerminator)]


def signature_of(op: Operation) -> str:
    """What an op is, apart from the names of its operands."""
    properties = {**op.properties, **op.attributes}
    facts = sorted(f"{name}={value}" for name, value in properties.items())
    types = [*map(str, op.operand_types), "->", *map(str, op.result_types)]
    return f"{op.name} {facts} {types}"


def _is_in(op: Operation, name: str) -> bool:
    at = op.parent_op()
    return at is not None and name_of(at) == name
