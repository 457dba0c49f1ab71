"""te-add-schedule: each kernel without a schedule gets one from the first strategy that accepts it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.dialects import sched, te
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.externs import joined, parts_between_externs
from mlc.schedules.registry import strategies
from mlc.targets.target import Target


def choose_schedule(func: te.FuncOp, target: Target, threads: int) -> sched.ScheduleOp:
    """
    The schedule of the first strategy that accepts the kernel; an empty one where none does.

    The stages between te.extern ops are scheduled apart, as if they were kernels of their own.
    """
    parts = parts_between_externs(func)
    if parts is not None:
        return joined(func.sym_name.data, [choose_schedule(part, target, threads) for part in parts])
    kernel = KernelInfo(func)
    for one in strategies():
        schedule = one.schedule(kernel, target, threads)
        if schedule is not None:
            schedule.attributes["strategy"] = StringAttr(one.name)
            return schedule
    return ScheduleBuilder(kernel.name).finish()


@dataclass(frozen=True)
class AddSchedulePass(ModulePass):
    """
    Write a `sched.schedule` behind every te.func that has none, by the strategies in schedules/registry.py.

    `te.func @f { ... }` -> `te.func @f { ... }  sched.schedule @f { %c = sched.block "dense" ... }`
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
                block.insert_op_after(choose_schedule(func, target, self.threads), func)
