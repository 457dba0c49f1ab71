"""Wrong answers of legality checks: an illegal directive that the pass applies all the same."""

from random import Random
from typing import Any

from operators import OPERATORS, Evidence, MutationOperator
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects import sched
from mlc.passes.loop.directives.kernel import Kernel

PASS = "loop-apply-schedule"


class WrongAnswer:
    """While the pass runs, one directive, which is put into a schedule, is legal whatever the checks say."""

    def __init__(self, kind: str, module: ModuleOp, random: Random) -> None:
        self.kind, self.module, self.random = kind, module, random
        self.directive: Operation | None = None
        self.lied = False
        self.check = Kernel.check

    def enter(self) -> bool:
        """Put the directive into a schedule; False where it has no place."""
        schedules = [op for op in self.module.walk() if isinstance(op, sched.ScheduleOp)]
        self.random.shuffle(schedules)
        for schedule in schedules:
            if self._insert(schedule):
                Kernel.check = self._checked()
                return True
        return False

    def exit(self) -> bool:
        """Let checks be checks again; whether the directive was illegal."""
        Kernel.check = self.check
        return self.lied

    def _checked(self) -> Any:
        def check(kernel: Kernel, reason: str | None) -> None:
            if reason is not None and kernel.directive is self.directive:
                self.lied = True
                return
            self.check(kernel, reason)

        return check

    def _insert(self, schedule: sched.ScheduleOp) -> bool:
        block = schedule.body.block
        if self.kind in ("compute_at", "decompose"):
            return self._other_loop(schedule)
        places = list(block.ops)
        self.random.shuffle(places)
        for at in places:
            loops = live_loops(schedule, at)
            if len(loops) < 2:
                continue
            made = self._directive(*self.random.sample(loops, 2))
            block.insert_op_after(made, at)
            self.directive = made
            return True
        return False

    def _directive(self, one: SSAValue, other: SSAValue) -> Operation:
        if self.kind == "parallel":
            return sched.ParallelOp.create(operands=[one])
        if self.kind == "vectorize":
            return sched.VectorizeOp.create(operands=[one])
        return sched.ReorderOp.create(operands=[other, one])

    def _other_loop(self, schedule: sched.ScheduleOp) -> bool:
        moving = (sched.ComputeAtOp, sched.ReverseComputeAtOp)
        kinds = (sched.DecomposeReductionOp,) if self.kind == "decompose" else moving
        found = [op for op in schedule.body.block.ops if isinstance(op, kinds)]
        if not found:
            return False
        self.directive = self.random.choice(found)
        loops = [v for v in live_loops(schedule, self.directive, before=True) if v is not self.directive.operands[1]]
        if loops:
            self.directive.operands[1] = self.random.choice(loops)
        return bool(loops)


def live_loops(schedule: sched.ScheduleOp, at: Operation, before: bool = False) -> list[SSAValue]:
    """The handles of loops that no directive has consumed behind an operation of a schedule, or in front of it."""
    found: dict[SSAValue, None] = {}
    for op in schedule.body.block.ops:
        if before and op is at:
            break
        if isinstance(op, sched.SplitOp | sched.FuseOp | sched.TileOp):
            for operand in op.operands:
                found.pop(operand, None)
        found |= {r: None for r in op.results if str(r.type) == "!sched.loop"}
        if op is at:
            break
    return list(found)


def register(name: str, kind: str, doc: str, evidence: Evidence) -> None:
    """Register an operator that lets a directive be legal."""
    OPERATORS[name] = MutationOperator(
        name, "schedule", doc, None, evidence, lambda module, random: WrongAnswer(kind, module, random), (PASS,)
    )


register("illegal-parallel", "parallel", "A loop is marked parallel that carries a dependence.", "race")
register("illegal-vectorize", "vectorize", "A loop becomes a register tile that must not.", "values")
register("illegal-reorder", "reorder", "Loops are exchanged over a dependence.", "values")
register("illegal-compute-at", "compute_at", "A block is computed at the wrong loop.", "values")
register("illegal-decompose", "decompose", "A reduction is initialised at the wrong loop.", "values")
