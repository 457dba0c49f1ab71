"""
Mutation operators: each injects one realistic bug of a rewrite at one place of a module.

An operator is a generator `rule(op, random)`: for each place in the operation `op` it yields a function that makes the
bug there. `@mutation(level)` registers it by its name, `dropped_activation` as "dropped-activation". The bug leaves
valid IR: what the verifier refuses is no mutant.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

Change = Callable[[], None]
Rule = Callable[[Operation, Random], Iterator[Change]]
Level = Literal["graph", "layout", "fusion", "quantisation", "te", "schedule", "loop", "memory", "native"]
Evidence = Literal["values", "scaled", "race", "native"]

DIALECTS: dict[Level, tuple[str, ...]] = {
    "graph": ("graph.",),
    "layout": ("graph.",),
    "fusion": ("graph.",),
    "quantisation": ("graph.",),
    "te": ("te.", "arith.", "math."),
    "schedule": ("loop.",),
    "loop": ("loop.", "arith.", "math."),
    "memory": ("memref.", "runtime.", "llvm."),
    "native": ("llvm.", "llvm_ext."),
}
"""The dialects in whose ops the operators of a level look for places."""


class WrongDecision(Protocol):
    """A bug in a decision that a pass takes."""

    def enter(self) -> bool:
        """Make the bug before the pass; False where it has no place."""
        ...

    def exit(self) -> bool:
        """Undo it after the pass; whether some decision was wrong."""
        ...


@dataclass(frozen=True)
class MutationOperator:
    """
    A kind of bug.

    `evidence` says what proves that a mutant is wrong: its values on ordinary inputs; its values on inputs scaled by
    100 (stability); or that parallel iterations depend on each other, which need not show in one run.
    """

    name: str
    level: Level
    doc: str
    rule: Rule | None = None
    evidence: Evidence = "values"
    around: Callable[[ModuleOp, Random], WrongDecision] | None = None
    """For a bug in a decision of a pass rather than in its result: what is wrong while the pass runs."""
    passes: tuple[str, ...] = ()
    """The passes that can have this bug; all where it is empty."""

    def places(self, module: ModuleOp, random: Random) -> list[Change]:
        """The places of a module at which the operator applies, in the order of the module's operations."""
        if self.rule is None:
            return []
        prefixes = DIALECTS[self.level]
        ops = [op for op in module.walk() if op.name.startswith(prefixes)]
        if self.level in ("te", "loop", "schedule"):
            ops = [op for op in ops if function_of(op).name == ("te.func" if self.level == "te" else "loop.func")]
        return [change for op in ops for change in self.rule(op, random)]


OPERATORS: dict[str, MutationOperator] = {}


def mutation(level: Level, evidence: Evidence = "values", passes: Sequence[str] = ()) -> Callable[[Rule], Rule]:
    """Register a rule as a mutation operator of this level."""

    def register(rule: Rule) -> Rule:
        name = rule.__name__.replace("_", "-")
        assert name not in OPERATORS
        doc = (rule.__doc__ or "").strip().splitlines()[0]
        OPERATORS[name] = MutationOperator(name, level, doc, rule, evidence, passes=tuple(passes))
        return rule

    return register


# --- helpers of rules --------------------------------------------------------------------------------------------


def function_of(op: Operation) -> Operation:
    """The operation of the module, a function, in which an operation stands; the operation itself at the top."""
    while (parent := op.parent_op()) is not None and not isinstance(parent, ModuleOp):
        op = parent
    return op


def erase(op: Operation) -> None:
    """Remove an operation without uses."""
    op.detach()
    op.erase()


def replace(op: Operation, value: SSAValue) -> None:
    """Let a value stand for an operation's result."""
    op.results[0].replace_all_uses_with(value)
    erase(op)


def insert_before(op: Operation, *new: Operation) -> SSAValue:
    """Insert operations; the first result of the last one."""
    block = op.parent
    assert block is not None
    for one in new:
        block.insert_op_before(one, op)
    return new[-1].results[0]


def replace_by(op: Operation, *new: Operation) -> None:
    """Insert operations in the place of one, whose result the last one's result stands for."""
    replace(op, insert_before(op, *new))


def wrapped(op: Operation, index: int, *new: Operation) -> None:
    """Insert operations in front of an operand: the last one's result becomes the operand."""
    op.operands[index] = insert_before(op, *new)


def swap_operands(op: Operation, a: int = 0, b: int = 1) -> None:
    """Exchange two operands."""
    operands = list(op.operands)
    operands[a], operands[b] = operands[b], operands[a]
    op.operands = operands


def same_types(op: Operation, a: int = 0, b: int = 1) -> bool:
    """Whether two operands differ and have one type."""
    x, y = op.operands[a], op.operands[b]
    return x is not y and x.type == y.type
