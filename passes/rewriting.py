"""
Rewrite rules over graph ops: what the local passes share.

A rule is a function from an op to the values that replace its results, or None; its docstring is "before -> after".
A table maps an op class to its rules. `apply_rules` runs them to a fixed point over a worklist, so the cost is that
of the ops that change. New ops take the location of the op that they replace, and dead operands disappear.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from mlc.dialects.graph import ControlOp, GraphOp

Replacement = SSAValue | Sequence[SSAValue] | None
Rule = Callable[[Any, "Rewriter"], Replacement]
Rules = dict[type[Operation], list[Rule]]


def rules_table() -> tuple[Rules, Callable[..., Callable[[Rule], Rule]]]:
    """An empty table, and the decorator `@on(AddOp, ..)` that enters a rule into it."""
    table: Rules = {}

    def on(*classes: type[Operation]) -> Callable[[Rule], Rule]:
        def enter(rule: Rule) -> Rule:
            for cls in classes:
                table.setdefault(cls, []).append(rule)
            return rule

        return enter

    return table, on


def merged(*tables: Rules) -> Rules:
    """One table with the rules of all, in order."""
    result: Rules = {}
    for table in tables:
        for cls, rules in table.items():
            result.setdefault(cls, []).extend(rules)
    return result


def attributes(op: Any) -> dict[str, Any]:
    """An op's attributes as Python values."""
    return {name: getattr(op, name) for name in op.declared}


class Rewriter:
    """What a rule builds its ops with: they go before the op that is being rewritten, and take its location."""

    def __init__(self) -> None:
        self.at: Operation | None = None
        self.made: list[Operation] = []

    def make(self, cls: type[GraphOp], *operands: SSAValue | Operation, location: Any = None, **attrs: Any) -> SSAValue:
        """The (first) result of a new op of this class; constants are given by `insert`."""
        return self.insert(cls.make(*operands, location=location, **attrs))

    def again(self, op: Any, *operands: SSAValue, **changed: Any) -> SSAValue:
        """The same op on other operands, some of its attributes changed; the (first) result."""
        return self.make(type(op), *operands, location=op.location, **(attributes(op) | changed))

    def insert(self, op: GraphOp) -> SSAValue:
        """Insert an op that exists; its (first) result."""
        assert self.at is not None
        block = self.at.parent
        assert block is not None
        if isinstance(op.location, UnknownLoc):
            op.location = self.at.location
        block.insert_op_before(op, self.at)
        self.made.append(op)
        return op.results[0]

    def undo(self) -> None:
        """Erase what a rule has made so far: it does not apply after all."""
        for op in reversed(self.made):
            op.detach()
            op.erase()
        self.made = []


def functions(module: Operation) -> Iterator[FuncOp]:
    """The functions of a module that have a body."""
    for op in module.regions[0].block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


def blocks(module: Operation) -> Iterator[Block]:
    """Every block inside the module's functions, outer ones first."""
    for function in functions(module):
        yield from _blocks(function)


def _blocks(op: Operation) -> Iterator[Block]:
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if inner.regions:
                    yield from _blocks(inner)


def outer_blocks(function: Operation) -> Iterator[Block]:
    """The blocks of a function and of the control flow in it, but not of fused regions."""
    for region in function.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if isinstance(inner, ControlOp):
                    yield from outer_blocks(inner)


def apply_rules(module: ModuleOp, rules: Rules) -> int:
    """Apply the rules everywhere until none matches; how many times one did."""
    return sum(_rewrite_block(block, rules) for block in list(blocks(module)))


def _rewrite_block(block: Block, rules: Rules) -> int:
    rewriter = Rewriter()
    pending = deque(op for op in block.ops if type(op) in rules)
    queued = set(pending)
    count = 0

    def enqueue(ops: Iterable[Operation]) -> None:
        for op in ops:
            if type(op) in rules and op not in queued and op.parent is block:
                queued.add(op)
                pending.append(op)

    while pending:
        op = pending.popleft()
        queued.discard(op)
        if op.parent is not block:
            continue
        rewriter.at, rewriter.made = op, []
        values = _first_match(op, rules, rewriter)
        if values is None:
            assert not rewriter.made, f"a rule on {op.name} made ops, but gave no replacement"
            continue
        count += 1
        users = [use.operation for result in op.results for use in result.uses]
        replace(op, values)
        enqueue(rewriter.made)
        enqueue(users)
    return count


def _first_match(op: Operation, rules: Rules, rewriter: Rewriter) -> Sequence[SSAValue] | None:
    for rule in rules[type(op)]:
        found = rule(op, rewriter)
        if found is not None:
            return (found,) if isinstance(found, SSAValue) else found
    return None


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace an op's results and erase it, with the operands that it alone used."""
    for old, new in zip(op.results, values, strict=True):
        if new.name_hint is None:
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    erase_dead(op)


def erase_dead(op: Operation) -> None:
    """Erase an op without uses, then what only it used."""
    pending = [op]
    while pending:
        dead = pending.pop()
        if dead.parent is None or any(result.uses for result in dead.results) or not removable(dead):
            continue
        owners = {value.owner: None for value in dead.operands}
        dead.detach()
        dead.erase()
        pending += [owner for owner in owners if isinstance(owner, Operation)]


def removable(op: Operation) -> bool:
    """Whether an op may go once nobody uses its results."""
    return isinstance(op, GraphOp) or is_side_effect_free(op)


def producer(value: SSAValue, cls: type[Any]) -> Any:
    """The op of this class that gives the value, if one does."""
    owner = value.owner
    return owner if isinstance(owner, cls) else None
