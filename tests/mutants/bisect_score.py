"""
The score of `mlc bisect` on mutants: `make bisect-score SEED=0 COUNT=40`.

A mutant is a pass of a compilation that makes one bug in its result, at one kind of op of one function, and so also in
every smaller module. It counts if the bisection's comparison sees it. The bisection is right if it names the pass, and
an op of the mutated op's source node, stage or kind; the reduction is good if it ends at 10 ops or fewer.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "helpers"), str(TESTS / "models")]
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import rules
from campaign import Slot, plan, survey
from operators import DIALECTS, OPERATORS, Change, MutationOperator, function_of
from subjects import SUBJECTS
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Use
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.passes.graph.precision.fast_math import FastMathPass
from mlc.passes.graph.simplify.canonicalize import CanonicalizePass
from mlc.validation.bisection.failure import OpFacts, facts_of_op
from mlc.validation.bisection.oracle import Validated
from mlc.validation.bisection.search import Bisection, Culprit
from mlc.validation.isolated import isolated, quiet
from mlc.validation.reduction.subject import Subject, name_of

RIGHT, SMALL = 0.95, 0.9
"""The parts of the mutants of which pass and op must be right, and that must be reduced to MOST_OPS."""
MOST_OPS = 10
TRIES = 4
"""Places that are tried until the comparison sees the mutant."""


LOOP_OPS = {
    "masked_store": ("loop.store",),
    "store": ("loop.store", "loop.alloc"),
    "masked_load": ("loop.load",),
    "load": ("loop.load", "loop.gather"),
    "shufflevector": ("loop.load", "loop.store", "loop.broadcast", "loop.reduce", "loop.contract"),
    "insertelement": ("loop.broadcast", "loop.load", "loop.gather", "loop.cast"),
    "extractelement": ("loop.store", "loop.gather", "loop.reduce", "loop.cast"),
    "fadd": ("arith.addf", "loop.fma", "loop.reduce", "loop.contract"),
    "fmul": ("arith.mulf", "loop.fma", "loop.reduce", "loop.contract"),
    "fsub": ("arith.subf",),
    "fdiv": ("arith.divf",),
    "fcmp": ("loop.compare", "arith.cmpf", "loop.reduce", "arith.maximumf", "arith.minimumf"),
    "icmp": ("loop.compare", "arith.cmpi", "loop.for", "loop.load", "loop.store"),
    "select": ("loop.select", "arith.select", "arith.maximumf", "arith.minimumf", "loop.reduce", "loop.load"),
    "getelementptr": ("loop.load", "loop.store", "loop.gather"),
    "mlir.constant": ("arith.constant", "loop.for", "loop.load", "loop.store"),
    "call": ("loop.for", "math.exp", "math.tanh", "math.erf", "math.log", "loop.fma"),
}
"""Op of the llvm level -> the loop ops that it is made of."""


@dataclass(frozen=True)
class Site:
    """A place of a mutation that other modules have, too: a kind of op of one function, and the change there."""

    function: str
    op_name: str
    location: str
    number: int
    seed: int
    labels: tuple[str, ...]
    """The names of the stages and blocks around the op."""

    def find(self, module: ModuleOp, operator: MutationOperator) -> Change | None:
        """The change at the first such op of a module."""
        for op in ops_of(module, operator):
            if op.name != self.op_name or name_of(function_of(op)).partition(".")[0] != self.function:
                continue
            if operator.level in ("graph", "layout", "fusion", "quantisation") and str(op.location) != self.location:
                continue
            if self.labels and labels_of(op) != self.labels:
                continue
            changes = changes_of(op, operator, self.seed)
            if len(changes) > self.number:
                return changes[self.number]
        return None


def ops_of(module: ModuleOp, operator: MutationOperator) -> list[Operation]:
    """The ops in which an operator looks for places, as `MutationOperator.places` does."""
    ops = [op for op in module.walk() if op.name.startswith(DIALECTS[operator.level])]
    if operator.level in ("te", "loop", "schedule"):
        ops = [op for op in ops if function_of(op).name == ("te.func" if operator.level == "te" else "loop.func")]
    return ops


def changes_of(op: Operation, operator: MutationOperator, seed: int) -> list[Change]:
    """The changes of an operator at an op."""
    return list(operator.rule(op, Random(seed))) if operator.rule is not None else []


def labels_of(op: Operation | None) -> tuple[str, ...]:
    """The names of the stages and blocks in which an op is, or which it is."""
    found: list[str] = []
    if op is not None and op.name == "loop.for":
        found += [inner.block_name.data for inner in op.walk() if isinstance(inner, loop.BlockOp)]
    while op is not None:
        for key in ("stage", "block_name", "name"):
            value = op.properties.get(key)
            if value is not None and hasattr(value, "data"):
                found.append(str(value.data))
        op = op.parent_op()
    return tuple(found)


def sites(module: ModuleOp, operator: MutationOperator, seed: int) -> list[Site]:
    """One site for each kind of op of each function, at random changes, in random order."""
    random, found = Random(seed), dict[tuple[str, str, str], Site]()
    for op in ops_of(module, operator):
        function = name_of(function_of(op)).partition(".")[0]
        changes = changes_of(op, operator, seed)
        key = function, op.name, str(op.location)
        if changes and key not in found:
            number = random.randrange(len(changes))
            found[key] = Site(*key, number, seed, labels_of(op))
    return random.sample(list(found.values()), len(found))


def mutated(module_pass: ModulePass, operator: MutationOperator, site: Site) -> ModulePass:
    """A pass that does what another one does, and then makes the bug."""
    inner = type(module_pass)

    class Mutated(inner):  # type: ignore[misc, valid-type]
        """The pass with the bug."""

        def apply(self, ctx: Any, op: ModuleOp) -> None:
            inner.apply(self, ctx, op)
            if (change := site.find(op, operator)) is not None:
                change()

    made = copy(module_pass)
    object.__setattr__(made, "__class__", Mutated)
    return made


def exact_pass(module_pass: ModulePass) -> ModulePass:
    """The pass, or another one where it approximates: what is blamed must be the mutant."""
    return CanonicalizePass() if isinstance(module_pass, FastMathPass) else module_pass


@dataclass
class Score:
    """What the bisection of one mutant said."""

    slot: str
    status: str = "no place"
    """found, not seen, or no place."""
    right_pass: bool = False
    right_op: bool = False
    operations: int = -1
    named: str = ""
    mutant: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether pass and op are right."""
        return self.right_pass and self.right_op


def score_of(slot: Slot, seconds: float) -> Score:
    """Bisect one mutant."""
    start, score = time.monotonic(), Score(str(slot))
    operator, built = OPERATORS[slot.operator], SUBJECTS[slot.subject].build()
    subject = Subject(built.module, built.weights)
    correct = [exact_pass(one) for one in built.passes]
    after = subject.copy()
    with quiet():
        run_passes(after.module, make_context(), correct[: slot.index + 1])
    for site in sites(after.module, operator, slot.seed)[:TRIES]:
        passes = list(correct)
        passes[slot.index] = mutated(passes[slot.index], operator, site)
        score.mutant = f"{site.op_name} {'/'.join(site.labels)} {site.location} in @{site.function}"
        culprit = Bisection(Validated(make_context(), seconds=120), seconds).run(subject, passes)
        score.status = "not seen"
        if culprit is not None:
            judge(score, culprit, slot, site)
            break
    score.seconds = time.monotonic() - start
    return score


def judge(score: Score, culprit: Culprit, slot: Slot, site: Site) -> None:
    """Fill in whether the culprit is the mutant."""
    score.status, score.message = "found", culprit.failure.message[:300]
    score.right_pass = culprit.failure.index == slot.index
    score.named = "nothing" if culprit.op is None else f"{culprit.op} {culprit.op.text[:80]}"
    function = culprit.failure.function.partition(".")[0].partition("@")[0]
    score.right_op = culprit.op is not None and (
        is_right(culprit.op, site, function)
        or ((function == site.function or is_outlined(culprit, site)) and holds(culprit, culprit.op, site))
    )
    if slot.module_pass == "convert-graph-to-te" and culprit.reduced is not None:
        score.right_op |= bool(set(site.labels) & lowered_labels(culprit.reduced))
    if OPERATORS[slot.operator].level == "native" and culprit.reduced is not None:
        score.right_op |= function == site.function and is_still_made(culprit, slot, site)
    score.operations = -1 if culprit.reduced is None else culprit.reduced.size[0]


def is_right(op: OpFacts, site: Site, function: str) -> bool:
    """Whether an op is of the mutated op's source node, stage or kind."""
    if op.node and f'"{op.node}"' in site.location:
        return True
    if op.place and op.place in site.location.replace('"', ""):
        return True
    made_of = LOOP_OPS.get(site.op_name.partition(".")[2], ())
    if (op.name == site.op_name or op.name in made_of) and function == site.function:
        return True
    return any(f'"{label}"' in op.text or op.name.partition(".")[2] == label for label in site.labels)


def holds(culprit: Culprit, op: OpFacts, site: Site) -> bool:
    """Whether the named op has the mutated one, or what that is made of, in its body, or reads or yields its value."""
    kinds = {site.op_name, *LOOP_OPS.get(site.op_name.partition(".")[2], ())}
    kinds |= {f"{dialect}.{site.op_name.partition('.')[2]}" for dialect in ("arith", "math", "loop", "te")}
    for subject in (culprit.before, culprit.reduced):
        for one in subject.module.walk() if subject is not None else ():
            if facts_of_op(one).text == op.text and (
                any(inner.name in kinds for inner in one.walk())
                or any(str(operand.owner.location) == site.location for operand in one.operands if is_op(operand.owner))
                or (site.op_name.endswith(".yield") and any(u.operation.name == site.op_name for u in uses_of(one)))
            ):
                return True
    return False


def is_outlined(culprit: Culprit, site: Site) -> bool:
    """Whether the pass made the mutated function: the op stands in the function that calls it then."""
    return all(name_of(op) != site.function for op in culprit.before.module.body.block.ops)


def is_still_made(culprit: Culprit, slot: Slot, site: Site) -> bool:
    """Whether the few ops that are left make the op that was mutated; ops of machine code have no names or sources."""
    assert culprit.reduced is not None
    lowered, right = culprit.reduced.copy(), copy(culprit.module_pass)
    object.__setattr__(right, "__class__", type(right).__mro__[1])  # without the bug, which may leave no such place
    run_passes(lowered.module, make_context(), [*culprit.passes[:-1], right])
    return culprit.reduced.size[0] <= MOST_OPS and site.find(lowered.module, OPERATORS[slot.operator]) is not None


def lowered_labels(reduced: Subject) -> set[str]:
    """The names of the stages that a reduced graph becomes."""
    lowered = reduced.copy()
    run_passes(lowered.module, make_context(), ["convert-graph-to-te"])
    return {label for op in lowered.module.walk() for label in labels_of(op)}


def uses_of(op: Operation) -> list[Use]:
    """The uses of an op's results."""
    return [use for result in op.results for use in result.uses]


def is_op(owner: object) -> bool:
    """Whether a value is an op's result, and no argument."""
    return isinstance(owner, Operation)


def run_slots(slots: Sequence[Slot], seconds: float) -> list[Score]:
    """Bisect mutants one after the other, each in a process of its own, and print a line for each."""
    found: list[Score] = []
    for slot in slots:
        try:
            outcome = isolated(lambda slot=slot: score_of(slot, seconds), 900.0)
            score = outcome.value or Score(str(slot), f"died: {outcome.died}")
        except RuntimeError as error:
            score = Score(str(slot), f"failed: {error}")
        found.append(score)
        marks = f"pass {'right' if score.right_pass else 'WRONG'}, op {'right' if score.right_op else 'WRONG'}"
        end = f"{marks}, {score.operations} operations, named {score.named}" if score.status == "found" else ""
        print(f"{score.slot}: {score.status} {end} (mutant: {score.mutant}) {score.seconds:.0f} s", flush=True)
    return found


def main() -> int:
    """The command; exit code 1 below the required scores."""
    parser = argparse.ArgumentParser(prog="make bisect-score", description="the score of mlc bisect on mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40, help="how many mutants (default: 40)")
    parser.add_argument("--seconds", type=float, default=60.0, help="time of each reduction (default: 60)")
    parser.add_argument("--subject", action="append", choices=sorted(SUBJECTS), metavar="MODEL", help="only this model")
    parser.add_argument("--one", metavar="MUTANT", help="one mutant, named as in the output")
    parser.add_argument("--json", metavar="FILE", help="write the scores there")
    options = parser.parse_args()
    names = options.subject or [name for name, one in SUBJECTS.items() if one.small]
    slots = [Slot.parse(options.one)] if options.one else slots_of(names, options.seed, options.count)
    scores = run_slots(slots, options.seconds)
    if options.json:
        Path(options.json).write_text(json.dumps([asdict(score) for score in scores], indent=1))
    return summed_up(scores)


def slots_of(names: Sequence[str], seed: int, count: int) -> list[Slot]:
    """Mutants of these models, whose bugs are in the results of passes."""
    surveys: dict[str, Any] = {}
    for name in names:
        outcome = isolated(lambda name=name: survey(name), 300.0)
        if outcome.value is not None:
            passes, table = outcome.value
            rows = {i: {n: k for n, k in row.items() if OPERATORS[n].rule is not None} for i, row in table.items()}
            surveys[name] = passes, rows
    return plan(surveys, (), [one.name for one in OPERATORS.values() if one.rule is not None], seed, count)


def summed_up(scores: Sequence[Score]) -> int:
    """Print the score; the exit code."""
    found = [score for score in scores if score.status == "found"]
    if not found:
        print("no mutant was seen")
        return 1
    right = sum(score.right for score in found) / len(found)
    passes = sum(score.right_pass for score in found) / len(found)
    small = sum(0 <= score.operations <= MOST_OPS for score in found) / len(found)
    print(
        f"{len(found)} of {len(scores)} mutants were seen: pass right {passes:.1%}, pass and op right {right:.1%} "
        f"(required {RIGHT:.0%}), {small:.1%} reduced to {MOST_OPS} operations or fewer (required {SMALL:.0%})"
    )
    return int(right < RIGHT or small < SMALL)


del rules

if __name__ == "__main__":
    sys.exit(main())
