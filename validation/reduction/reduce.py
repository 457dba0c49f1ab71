"""
The order of a reduction: what removes much comes first, and everything is tried again until nothing gets smaller.

    functions, outputs, ends of functions -> operations, in halves -> loops, arguments -> sizes, attributes

A candidate is verified before the check sees it, and taken only if it is smaller than what it replaces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.passes import ModulePass

from mlc.passes.graph.cleanup.inline import InlinePass
from mlc.passes.graph.fusion.defuse_ops import DefuseOpsPass
from mlc.support.errors import UserError
from mlc.support.halving import shrink
from mlc.validation.reduction import edits, places
from mlc.validation.reduction.edits import Edit, edited, tidied
from mlc.validation.reduction.resize import resized, resizings
from mlc.validation.reduction.subject import Subject, count_operations

Check = Callable[[Subject], bool]
"""Whether a candidate is still interesting."""

EXHAUSTIVE_OPS = 40
"""Operations up to which each of them is tried as the end of its function; above, ends are found by halving."""


@dataclass
class Reducer:
    """
    Makes a subject small while `check` holds; the result is never larger.

    `seconds` bounds the time (None: none), `report` is called with the phase, the subject and the number of checks.
    """

    ctx: Context
    check: Check
    seconds: float | None = None
    report: Callable[[str, Subject, int], None] = lambda phase, subject, checks: None
    checks: int = 0
    """How many candidates were checked."""
    _seen: set[str] = field(default_factory=set)
    _phase: str = ""
    _end: float = float("inf")

    def reduce(self, subject: Subject) -> Subject:
        """The smallest subject that was found; UserError if the check does not hold for the subject itself."""
        self._end = float("inf") if self.seconds is None else time.monotonic() + self.seconds
        if not self.check(subject):
            raise UserError("expected the check to hold for the input itself, but it does not")
        before: tuple[int, int, int] | None = None
        while before is None or (subject.size < before and not self.late):
            before = subject.size
            for phase in (self._structure, self._operations, self._shapes, self._details):
                subject = phase(subject)
        return self._embedded(subject)

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end

    def accept(self, subject: Subject, candidate: Subject | None) -> Subject | None:
        """The candidate, if it is valid, new, smaller than the subject, and the check holds for it."""
        if candidate is None or self.late or candidate.size >= subject.size or candidate.text in self._seen:
            return None
        self._seen.add(candidate.text)
        self.checks += 1
        good = self.check(candidate)
        self.report(self._phase, candidate if good else subject, self.checks)
        return candidate if good else None

    def _attempt(self, subject: Subject, some: Sequence[Edit]) -> Subject | None:
        return self.accept(subject, None if self.late else edited(subject, some))

    def _all(
        self, subject: Subject, phase: str, items: Callable[[Subject], list[Edit]], largest: int | None = None
    ) -> Subject:
        self._phase = phase
        return shrink(subject, items, self._attempt, largest)

    def _structure(self, subject: Subject) -> Subject:
        subject = self._all(subject, "functions", places.functions)
        subject = self._ends(subject)
        return self._all(subject, "outputs", places.outputs)

    def _operations(self, subject: Subject) -> Subject:
        subject = self._all(subject, "operations", places.erasures)
        subject = self._all(subject, "loops", places.inlinings)
        subject = self._all(subject, "loops", places.iterations)
        # each of these moves what the next one names by its number
        subject = self._all(subject, "buffers", places.buffers, largest=1)
        subject = self._all(subject, "directives", places.directives, largest=1)
        for change in (
            edits.by_output,
            edits.by_operand,
            edits.by_argument,
            edits.by_nearest,
            edits.by_earlier,
            edits.by_zeros,
        ):
            subject = self._all(subject, "operations", places.replacements(change))
        for module_pass in (InlinePass(), DefuseOpsPass()):
            subject = self.accept(subject, self._passed(subject, module_pass)) or subject
        return self._all(subject, "arguments", places.arguments)

    def _passed(self, subject: Subject, module_pass: ModulePass) -> Subject | None:
        copy = subject.copy()
        try:
            module_pass.apply(self.ctx, copy.module)
        except Exception:  # the pass does not take this module
            return None
        return tidied(copy)

    def _ends(self, subject: Subject) -> Subject:
        """Let functions end earlier: found by halving where there are many ops, then one by one."""
        self._phase = "outputs"
        while not self.late and count_operations(subject.module) > EXHAUSTIVE_OPS:
            shorter = self._halved(subject)
            if shorter is None:
                break
            subject = shorter
        if count_operations(subject.module) > EXHAUSTIVE_OPS:
            return subject
        for one in places.cuts(subject):
            if (found := self._attempt(subject, [one])) is not None:
                return found
        return subject

    def _halved(self, subject: Subject) -> Subject | None:
        """The subject with an end in its middle, or else in a later part."""
        ends = places.cuts(subject)
        at = len(ends) // 2
        while at < len(ends) - 1:
            if (found := self._attempt(subject, [ends[at]])) is not None:
                return found
            at = (at + len(ends)) // 2
        return None

    def _shapes(self, subject: Subject) -> Subject:
        self._phase = "sizes"
        tried: set[object] = set()
        progress = True
        while progress and not self.late:
            progress = False
            for one in resizings(subject):
                if one in tried or self.late:
                    continue
                tried.add(one)
                if (found := self.accept(subject, resized(subject, one, self.ctx))) is not None:
                    subject, progress = found, True
                    break
        return subject

    def _details(self, subject: Subject) -> Subject:
        return self._all(subject, "attributes", places.defaults)

    def _embedded(self, subject: Subject) -> Subject:
        """Weights as constants in the text, where they are small and the check allows it."""
        for one in places.embeddings(subject):
            candidate = edited(subject, [one])
            if candidate is not None and self.check(candidate):
                subject = candidate
        return subject
