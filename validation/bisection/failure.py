"""What is wrong with a compilation: plain words, since they come from a child process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal

from xdsl.dialects.builtin import FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import RewritePattern

from mlc.passes.rewrite_counter import RewriteApplication, first_line, rule_name
from mlc.support.diagnostics import one_line, place_in_kernel, place_of_location

Kind = Literal["values", "invalid", "exception", "crash"]


@dataclass(frozen=True)
class OpFacts:
    """An op in words: its name, its text, its place in a file, the model's node that it comes from."""

    name: str
    text: str = ""
    place: str = ""
    node: str = ""
    inside: str = ""
    """For an op of a kernel, which has no place in the model's file: the kernel, and the stages, loops and blocks."""

    def __str__(self) -> str:
        place = f" at {self.place}" if self.place else ""
        inside = f" in {self.inside}" if self.inside else ""
        node = f", from node '{self.node}'" if self.node else ""
        return f"{self.name}{place}{inside}{node}"


@dataclass(frozen=True)
class RuleFacts:
    """A rewrite application in words: its number, how many there are, the rule's name, the op."""

    number: int
    count: int
    rule: str
    op: OpFacts


@dataclass(frozen=True)
class PipelineFailure:
    """
    What is wrong, and the pass after which it is.

    values: a function computes something else; invalid: the verifier rejects the IR; exception: the pass raised one;
    crash: the process died, of `signal`.
    """

    kind: Kind
    index: int
    pass_name: str
    message: str
    function: str = ""
    exception: str = ""
    signal: str = ""
    op: OpFacts | None = None
    rule: str = ""
    """The rule that was being tried, where an exception came from one."""
    running: bool = False
    """Whether the process died while functions were run, not in the pass."""

    def is_like(self, other: PipelineFailure | None) -> bool:
        """Whether the other one is the same bug, as far as one can tell: kind, pass, exception, signal."""
        return other is not None and self._bug == other._bug

    @property
    def _bug(self) -> tuple[str, ...]:
        return self.kind, self.pass_name, self.exception, self.signal


def facts_of_op(op: Operation) -> OpFacts:
    """An op in words."""
    return replace(_facts(op.name, first_line(op), op.location), inside=place_in_kernel(op))


def facts_of_application(application: RewriteApplication, count: int) -> RuleFacts:
    """A rewrite application in words."""
    op = replace(_facts(application.op_name, application.op_text, application.location), inside=application.inside)
    return RuleFacts(application.number, count, application.rule, op)


def _facts(name: str, text: str, location: Attribute) -> OpFacts:
    place = place_of_location(location)
    shown = "" if place is None or not place.line else str(place)
    return OpFacts(name, one_line(text)[:400], shown, node_of(location))


def node_of(location: Attribute) -> str:
    """The name of the model's node in a location; empty without one."""
    if isinstance(location, NameLoc):
        return location.desc.data
    if isinstance(location, FusedLoc):
        several: Any = location.locations
        return next((name for one in several if (name := node_of(one))), "")
    return ""


def blamed(trace: TracebackType | None) -> tuple[str, Operation | None]:
    """The rule that was tried when an exception was raised (empty: none), and the op that the innermost frame had."""
    rule, op = "", None
    while trace is not None:
        scope = trace.tb_frame.f_locals
        found = [one for one in scope.values() if isinstance(one, Operation) and one.parent_op() is not None]
        op = _preferred(scope.get("op"), found) or op
        own = scope.get("self")
        if trace.tb_frame.f_code.co_name == "match_and_rewrite" and isinstance(own, RewritePattern):
            name = type(own).__name__
            rule = rule if name.startswith(("_Counted", "Greedy", "Canonicalization")) else name
        elif trace.tb_frame.f_code.co_name == "_first_match" and callable(tried := scope.get("rule")):
            rule = rule_name(tried)
        trace = trace.tb_next
    return rule, op


def _preferred(named: object, found: list[Operation]) -> Operation | None:
    """The variable `op` of a frame where it is an op inside a module, else the last variable that is one."""
    return named if isinstance(named, Operation) and named in found else found[-1] if found else None
