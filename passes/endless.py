"""
Rewrites that never end, `a + b -> b + a`, are stopped, and named.

An op that a rewrite makes, or changes in place, is one generation younger than the op that was rewritten. Rewrites that
end have few generations: an op moves at most over all others. A pattern that applies to its own result has no last one.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation, Region
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriterListener, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint

from mlc.support.diagnostics import Place, place_of_op

GENERATIONS = 1000
"""Generations that ops may have, besides one for each op of the block; no pass of mlc comes near it."""

_LAST = 16
"""The number of rewrites before the end of whose rules a message names those that differ."""


class EndlessRewrite(Exception):
    """Rewrites that apply to their own results: their names, and the op that the last one rewrote."""

    def __init__(self, rules: Iterable[str], op: Operation, generations: int) -> None:
        names = list(dict.fromkeys(rules))
        what = f"rewrite {names[0]!r}" if len(names) == 1 else f"rewrites {', '.join(map(repr, names))}"
        again = "applies to its own result" if len(names) == 1 else "undo each other"
        place = str(place_of_op(op, Place(""), {}))
        at = f" at {place}" if place else ""
        super().__init__(f"does not end: {what} {again}; stopped after {generations} times, at '{op.name}'{at}")
        self.op = op


@dataclass
class Generations:
    """The generations of ops, while rewrites are applied."""

    limit: int
    of: dict[Operation, tuple[int, Operation]] = field(default_factory=dict)
    """The generation of an op, and the op of the first generation that it comes from."""
    rules: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))

    def next(self, op: Operation, made: Iterable[Operation], rule: str) -> None:
        """Note a rewrite of `op` that made these ops; EndlessRewrite where it must be one of an endless chain."""
        age, first = self.of.get(op, (0, op))
        self.rules.append(rule)
        if age >= self.limit:
            raise EndlessRewrite(self.rules, first, age)
        self.of[op] = age + 1, first
        for new in made:
            self.of[new] = age + 1, first


class _NotingRewriter(PatternRewriter):
    """A rewriter that knows which pattern changed something last."""

    pattern: str = ""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "has_done_action" and value is True:
            self.pattern = _pattern_above() or self.pattern
        super().__setattr__(name, value)


def _pattern_above() -> str:
    """The class of the innermost pattern whose `match_and_rewrite` is running."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name in ("match_and_rewrite", "impl"):
            owner = frame.f_locals.get("self")
            if isinstance(owner, RewritePattern):
                return type(owner).__name__
        frame = frame.f_back
    return ""


class _Guarded(PatternRewriteWalker):
    """Has the loop that `guard_walkers` gives to xDSL's own class."""

    def _process_worklist(self, listener: PatternRewriterListener) -> bool:
        """xDSL's loop, which also counts generations."""
        changed, made = False, list[Operation]()
        known = vars(self).setdefault("_generations", Generations(GENERATIONS))
        worklist = self._worklist
        rewriter: _NotingRewriter | None = None
        while worklist:
            op = worklist.pop()
            if rewriter is None:
                rewriter = _NotingRewriter(op)
                rewriter.extend_from_listener(listener)
                rewriter.operation_insertion_handler = [*rewriter.operation_insertion_handler, made.append]
            rewriter.has_done_action, rewriter.current_operation, rewriter.name_hint = False, op, None
            rewriter.insertion_point = InsertPoint.before(op)
            try:
                self.pattern.match_and_rewrite(op, rewriter)
            except EndlessRewrite:
                raise
            except Exception as error:
                op.emit_error(f"Error while applying pattern: {error}", underlying_error=error)
            if rewriter.has_done_action:
                changed = True
                known.next(op, made, rewriter.pattern or type(self.pattern).__name__)
            made.clear()
        return changed


def _rewrite_region(self: PatternRewriteWalker, region: Region) -> bool:
    vars(self)["_generations"] = Generations(GENERATIONS + sum(1 for _ in region.walk()))
    return _upstream_rewrite_region(self, region)


_upstream_rewrite_region = PatternRewriteWalker.rewrite_region


def guard_walkers() -> None:
    """Let xDSL's walkers, which the user's passes have too, stop endless rewrites; again is the same."""
    setattr(PatternRewriteWalker, "_process_worklist", vars(_Guarded)["_process_worklist"])  # noqa: B010 - is protected
    if PatternRewriteWalker.rewrite_region is _upstream_rewrite_region:
        PatternRewriteWalker.rewrite_region = _rewrite_region
