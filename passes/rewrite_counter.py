"""
Count the rewrite applications of a pass, and stop them behind the n-th: what a bisection needs.

    counter = RewriteCounter(limit=7)
    with counter.watching():
        apply_passes(module, ctx, [a_pass])
    counter.applied[-1]     the seventh application: its rule, its op, the op's location

An application is a rule of `apply_rules` or of another `RuleTable` that applied, or an xDSL `RewritePattern` that
changed something in a `PatternRewriteWalker`. The same IR gives the same applications in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.ir import Attribute, Operation, Region
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern

from mlc.passes.rewriting import listening
from mlc.support.diagnostics import place_in_kernel


@dataclass(frozen=True)
class RewriteApplication:
    """One application of a rewrite: its number, counted from 1, the rule's name, and the op that it was applied to."""

    number: int
    rule: str
    op_name: str
    location: Attribute
    op_text: str
    inside: str = ""
    """Where an op of a kernel stands (support/diagnostics.py)."""


@dataclass
class RewriteCounter:
    """Counts rewrite applications; those behind number `limit` are rejected (None: all are accepted)."""

    limit: int | None = None
    applied: list[RewriteApplication] = field(default_factory=list)

    def __call__(self, rule: Callable[..., Any], op: Operation) -> bool:
        """Accept and note a rewrite, or reject it: the listener of `mlc.passes.rewriting`."""
        if self.exhausted:
            return False
        self.applied.append(self.describe(rule_name(rule), op))
        return True

    @property
    def exhausted(self) -> bool:
        """Whether no more rewrites are accepted."""
        return self.limit is not None and len(self.applied) >= self.limit

    def describe(self, rule: str, op: Operation) -> RewriteApplication:
        """The application that would come next."""
        return RewriteApplication(
            len(self.applied) + 1, rule, op.name, op.location, first_line(op), place_in_kernel(op)
        )

    @contextmanager
    def watching(self) -> Generator[None]:
        """Count what is rewritten inside the `with` statement."""
        with listening(self), _counting_patterns(self):
            yield


def first_line(op: Operation) -> str:
    """The first line of an op's text; its name where it cannot be printed."""
    try:
        return str(op).partition("\n")[0]
    except Exception:  # an op in the middle of a rewrite may break every rule of its printer
        return op.name


def rule_name(rule: Callable[..., Any]) -> str:
    """The name of a rewrite rule, also of one with arguments bound to it."""
    for cell in getattr(rule, "__closure__", None) or ():
        inner = cell.cell_contents
        if rule.__name__ == "bound" and callable(inner) and hasattr(inner, "__name__"):
            return inner.__name__
    return getattr(rule, "__name__", type(rule).__name__)


@dataclass
class _CountedPattern(RewritePattern):
    """An xDSL pattern whose applications are counted."""

    pattern: RewritePattern
    counter: RewriteCounter

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Apply the pattern, unless the counter is exhausted."""
        if self.counter.exhausted:
            return
        done, rewriter.has_done_action = rewriter.has_done_action, False
        application = self.counter.describe(type(self.pattern).__name__, op)
        self.pattern.match_and_rewrite(op, rewriter)
        if rewriter.has_done_action:
            self.counter.applied.append(application)
        rewriter.has_done_action |= done


@dataclass
class _CountedCanonicalization(RewritePattern):
    """The canonicalization patterns of every op, each counted under its own name."""

    counter: RewriteCounter

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Apply the first of the op's patterns that changes something."""
        for trait in op.get_traits_of_type(HasCanonicalizationPatternsTrait):
            for pattern in trait.get_patterns(type(op)):
                _counted(pattern, self.counter).match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    return


def _counted(pattern: RewritePattern, counter: RewriteCounter) -> RewritePattern:
    if isinstance(pattern, CanonicalizationRewritePattern):
        return _CountedCanonicalization(counter)
    if isinstance(pattern, _CountedCanonicalization):
        return pattern
    if isinstance(pattern, GreedyRewritePatternApplier):
        return replace(pattern, rewrite_patterns=[_counted(one, counter) for one in pattern.rewrite_patterns])
    return pattern if isinstance(pattern, _CountedPattern) else _CountedPattern(pattern, counter)


@contextmanager
def _counting_patterns(counter: RewriteCounter) -> Generator[None]:
    """Let every PatternRewriteWalker count inside the `with` statement."""
    original = PatternRewriteWalker.rewrite_region

    def rewrite_region(self: PatternRewriteWalker, region: Region) -> bool:
        self.pattern = _counted(self.pattern, counter)
        return original(self, region)

    PatternRewriteWalker.rewrite_region = rewrite_region
    try:
        yield
    finally:
        PatternRewriteWalker.rewrite_region = original
