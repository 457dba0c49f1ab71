"""te-add-schedule: each kernel without a schedule gets that of the selected strategy."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects import sched, te
from mlc.schedules.selection import choose_schedule
from mlc.support.errors import UserError, fail
from mlc.targets.target import Target


@dataclass(frozen=True)
class AddSchedulePass(ModulePass):
    """
    Write a `sched.schedule` behind every te.func that has none, by the strategies in schedules/registry.py.

    `te.func @f { ... }` -> `te.func @f { ... }  sched.schedule @f { %c = sched.block "dense" ... }`
    The choices of a strategy are the `sched.knob`s at the head of its schedule. A kernel's attribute
    `mlc.knobs = {strategy = "matmul", tile_rows = 8 : i64}` gives them other values than the cost model's.
    """

    name = "te-add-schedule"

    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.parse(self.target)
        block = op.body.block
        done = {o.kernel_name for o in block.ops if isinstance(o, sched.ScheduleOp)}
        for func in [o for o in block.ops if isinstance(o, te.FuncOp)]:
            if func.sym_name.data not in done:
                try:
                    schedule = choose_schedule(func, target, self.threads)
                except UserError as error:  # the values given for its knobs are wrong
                    fail(func, str(error))
                block.insert_op_after(schedule, func)


__all__ = ["AddSchedulePass", "choose_schedule"]
