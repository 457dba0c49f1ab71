"""
How graph passes are written: rewrite rules in a table by op class, applied to a fixed point.

    RULES = Rules()

    @RULES.on(ClipOp)
    def clip_of_relu(op: ClipOp, rw: Rewriter) -> Replacement:
        \"""`clip(relu(x), a, b) == clip(x, 0, b)` where a <= 0 <= b.\"""
        relu = defining_op(op.operands[0], ReluOp)
        if relu is None or op.min > 0 or op.max < 0:
            return None
        return rw.make(ClipOp, relu.operands[0], min=0.0, max=op.max)

    apply_rules(module, RULES)

A rule gets an op and returns the values that replace its results, or None where it does not apply. Its docstring states
the rewrite, as an equation or as "before -> after". A rule makes new ops with the `Rewriter` and changes no op that
exists. `apply_rules` visits an op again only after an operand of it was replaced, so the cost of a pass grows with the
number of rewrites. New ops take the location of the op they replace; ops that become unused are erased.

Passes that are not local rewrites have tables of the same shape with other parameters: see `RuleTable`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from mlc.dialects.attributes import EXTERNAL_COMPILER
from mlc.dialects.graph import ControlOp, GraphOp
from mlc.dialects.graph.base import AttrValue
from mlc.dialects.graph.pointwise import lowers, own_rule
from mlc.dialects.graph.types import Dim, Tensor, shape_of
from mlc.passes.endless import GENERATIONS, Generations

OpT = TypeVar("OpT", bound=Operation)
P = ParamSpec("P")
R = TypeVar("R")

Values: TypeAlias = SSAValue | Sequence[SSAValue]
"""The value that replaces an op with one result, or the values of all results."""
Replacement: TypeAlias = Values | None
"""What a rewrite rule returns: values for the op's results, or None where the rule does not apply."""


class RuleTable(Generic[P, R]):
    """
    Rules by op class: functions of an op and further parameters P that return an R, or None where they do not apply.

    The layouts of graph-alter-op-layout: `RuleTable[[Versions, int], Result]`. `Rules` is the table of rewrite rules.
    Tables given to the constructor are merged; the rules of one op class keep their order.
    """

    def __init__(self, *tables: RuleTable[P, R]) -> None:
        # `Any`: a table holds rules for different op classes, and is asked only with ops of a rule's own class.
        self._rules: dict[type[Operation], list[Callable[Concatenate[Any, P], R | None]]] = {}
        self._own: dict[str, list[Callable[Concatenate[Any, P], R | None]]] = {}
        for table in tables:
            for cls, rules in table.items():
                self._rules.setdefault(cls, []).extend(rules)
            for name, rules in table.own_items():
                self._own.setdefault(name, []).extend(rules)

    def on(
        self, *classes: type[OpT]
    ) -> Callable[[Callable[Concatenate[OpT, P], R | None]], Callable[Concatenate[OpT, P], R | None]]:
        """Decorator `@RULES.on(AddOp, SubtractOp)`: enter a rule for these op classes; its op is of their union."""

        def enter(rule: Callable[Concatenate[OpT, P], R | None]) -> Callable[Concatenate[OpT, P], R | None]:
            for cls in classes:
                self._rules.setdefault(cls, []).append(rule)
            return rule

        return enter

    def on_own(
        self, *layout_rules: str
    ) -> Callable[[Callable[Concatenate[GraphOp, P], R | None]], Callable[Concatenate[GraphOp, P], R | None]]:
        """Decorator `@RULES.on_own("elementwise")`: a rule for ops of other dialects that declare this layout rule."""

        def enter(
            rule: Callable[Concatenate[GraphOp, P], R | None],
        ) -> Callable[Concatenate[GraphOp, P], R | None]:
            for name in layout_rules:
                self._own.setdefault(name, []).append(rule)
            return rule

        return enter

    def __contains__(self, cls: type[Operation]) -> bool:
        """Whether the op class has a rule."""
        return bool(self._of(cls))

    def _of(self, cls: type[Operation]) -> Sequence[Callable[Concatenate[Any, P], R | None]]:
        """The rules of an op class; an op of another dialect without rules gets the rules of its layout rule."""
        found = self._rules.get(cls)
        if found is not None or not self._own:
            return found or ()
        return self._own.get(own_rule(cls), ())

    def own_items(self) -> Iterable[tuple[str, Sequence[Callable[Concatenate[Any, P], R | None]]]]:
        """The layout rules of ops of other dialects, and the rules for them."""
        return self._own.items()

    def items(self) -> Iterable[tuple[type[Operation], Sequence[Callable[Concatenate[Any, P], R | None]]]]:
        """The op classes and their rules."""
        return self._rules.items()

    def rules(self, op: Operation) -> Sequence[Callable[Concatenate[Any, P], R | None]]:
        """The rules of an op's class, in the order in which they were entered."""
        return self._of(type(op))

    def first(self, op: Operation, *args: P.args, **kwargs: P.kwargs) -> R | None:
        """The answer of the first rule of the op's class that applies; None where none does."""
        for rule in self.rules(op):
            answer = rule(op, *args, **kwargs)
            if answer is not None and is_accepted(rule, op):
                return answer
        return None


class Rewriter:
    """Makes the new ops of a rule: they are inserted before the op that is being rewritten, and take its location."""

    def __init__(self) -> None:
        self.at: Operation | None = None
        """The op that is being rewritten."""
        self.made: list[Operation] = []
        self.rule = ""
        """The name of the rule that applied last."""

    def make(
        self,
        cls: type[GraphOp],
        *operands: SSAValue | Operation,
        result: Tensor | None = None,
        location: LocationAttr | str | None = None,
        **attrs: AttrValue,
    ) -> SSAValue:
        """The (first) result of a new op of this class; `result` is the type of ops that are given theirs."""
        return self.insert(cls.make(*operands, result=result, location=location, **attrs))

    def try_clone(self, op: GraphOp, *operands: SSAValue, shape: Sequence[Dim] | None = None) -> SSAValue | None:
        """The same custom op on other operands; None where it does not take them, or its result has not this shape."""
        try:
            new = type(op).make(*operands, result=None, location=op.location, **attributes(op))
        except Exception:
            return None  # the program's own type inference may unpack a rank that it was not written for
        if (shape is not None and shape_of(new.type) != tuple(shape)) or not lowers(new):
            new.erase()
            return None
        return self.insert(new)

    def clone(self, op: GraphOp, *operands: SSAValue, result: Tensor | None = None, **changed: AttrValue) -> SSAValue:
        """The same op on other operands, some of its attributes changed; the (first) result, its type inferred anew."""
        return self.make(type(op), *operands, result=result, location=op.location, **(attributes(op) | changed))

    def insert(self, op: GraphOp) -> SSAValue:
        """Insert an op that `Op.make` has made; its (first) result."""
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


class Rules(RuleTable[[Rewriter], Values]):
    """Rewrite rules by op class, for `apply_rules`."""

    @classmethod
    def bound(cls, table: RuleTable[Concatenate[Rewriter, P], Values], *args: P.args, **kwargs: P.kwargs) -> Rules:
        """The rules of a table that have more parameters, a target or weights, with these arguments for them."""
        result = cls()
        for op_class, rules in table.items():
            for rule in rules:
                result.on(op_class)(_with_arguments(rule, *args, **kwargs))
        for name, rules in table.own_items():
            for rule in rules:
                result.on_own(name)(_with_arguments(rule, *args, **kwargs))
        return result


def _with_arguments(
    rule: Callable[Concatenate[OpT, Rewriter, P], Replacement], *args: P.args, **kwargs: P.kwargs
) -> Rule[OpT]:
    @wraps(rule)
    def bound(op: OpT, rw: Rewriter) -> Replacement:
        return rule(op, rw, *args, **kwargs)

    return bound


Rule: TypeAlias = Callable[[OpT, Rewriter], Replacement]
"""A rewrite rule for an op class."""

Listener: TypeAlias = Callable[[Rule[Any], Operation], bool]
"""Told of each rule that applies, and of the op, before its results are replaced; False rejects the rewrite."""

_LISTENERS: list[Listener] = []
"""The last one listens to all rewrites by rules that are given no listener of their own."""


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Let `listener` accept or reject every rewrite by rules inside the `with` statement, whatever pass it is of."""
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.pop()


def is_accepted(rule: Callable[..., Any], op: Operation) -> bool:
    """Whether whoever listens lets this rule rewrite this op; for passes that apply rules themselves."""
    return not _LISTENERS or _LISTENERS[-1](rule, op)


def attributes(op: GraphOp) -> dict[str, AttrValue]:
    """An op's attributes as Python values."""
    return {name: getattr(op, name) for name in op.declared}


def functions(module: Operation) -> Iterator[FuncOp]:
    """The functions of a module that have a body, but not those that an external compiler takes over."""
    for op in module.regions[0].block.ops:
        if isinstance(op, FuncOp) and op.body.blocks and EXTERNAL_COMPILER not in op.attributes:
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


def apply_rules(module: ModuleOp, rules: Rules, listener: Listener | None = None) -> int:
    """
    Apply the rules everywhere until none matches; the number of rewrites.

    The rules of an op are tried in the order of the table. A rewrite that `listener` rejects is undone, and the next
    rule is tried: so a tool can count rewrites, and find by bisection the one that makes a program wrong.
    """
    if listener is None and _LISTENERS:
        listener = _LISTENERS[-1]
    return sum(_rewrite_block(block, rules, listener) for block in list(blocks(module)))


def _rewrite_block(block: Block, rules: Rules, listener: Listener | None) -> int:
    rewriter = Rewriter()
    pending = deque(op for op in block.ops if type(op) in rules)
    queued = set(pending)
    count = 0
    generations = Generations(GENERATIONS + len(pending))

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
        values = _first_match(op, rules, rewriter, listener)
        if values is None:
            continue
        count += 1
        generations.next(op, rewriter.made, rewriter.rule)
        users = [use.operation for result in op.results for use in result.uses]
        replace_op(op, values)
        enqueue(rewriter.made)
        enqueue(users)
    return count


def _first_match(
    op: Operation, rules: Rules, rewriter: Rewriter, listener: Listener | None
) -> Sequence[SSAValue] | None:
    rewriter.at, rewriter.made = op, []
    for rule in rules.rules(op):
        found = rule(op, rewriter)
        if found is None:
            continue
        if listener is None or listener(rule, op):
            rewriter.rule = getattr(rule, "__name__", type(rule).__name__)
            return (found,) if isinstance(found, SSAValue) else found
        rewriter.undo()
    assert not rewriter.made, f"a rule on {op.name} made ops, but gave no replacement"
    return None


def replace_op(op: Operation, values: Sequence[SSAValue]) -> None:
    """Replace an op's results and erase it, with the operands that it alone used."""
    for old, new in zip(op.results, values, strict=True):
        if new.name_hint is None:
            new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    erase_dead(op)


def erase_dead(op: Operation) -> None:
    """Erase an op without uses, then the ops that only it used."""
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


def defining_op(value: SSAValue, cls: type[OpT]) -> OpT | None:
    """The op that defines a value, if it is of this class; None otherwise, and for block arguments."""
    owner = value.owner
    return owner if isinstance(owner, cls) else None
