"""What `mlc.build` and `mlc.lower` take as one operator: te, loop IR, text, tensors, or a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.dialects import loop, sched, te
from mlc.driver.operator.arguments import Kernel
from mlc.frontends.te.schedule import Schedule
from mlc.frontends.te.tensors import func_of_tensors
from mlc.passes.loop.directives.intrinsics import used_intrinsics
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.dialects.te_builder.builder import Tensor

OperatorLike: TypeAlias = "Kernel | ModuleOp | str | Tensor | Sequence[Tensor] | Schedule"


@dataclass
class OperatorSource:
    """One operator: its kernel, the schedule if one is given, and the intrinsics that this one uses."""

    kernel: Kernel
    schedule: sched.ScheduleOp | None = None
    intrinsics: list[sched.IntrinsicOp] = field(default_factory=list)
    target: str | None = None
    """The target of an mlc.Schedule."""

    @property
    def ops(self) -> list[Operation]:
        """All of these as the ops of one module."""
        return [*self.intrinsics, self.kernel, *([] if self.schedule is None else [self.schedule])]


def operator_source(func: OperatorLike, schedule: sched.ScheduleOp | str | None = None) -> OperatorSource:
    """The operator that the arguments of mlc.build describe; UserError for anything else."""
    if isinstance(func, Schedule):
        return OperatorSource(func.func, func.op, list(func.intrinsics), func.target)
    intrinsics: list[sched.IntrinsicOp] = []
    if isinstance(func, str | ModuleOp):
        func = _parsed(func) if isinstance(func, str) else func
        intrinsics = [op for op in func.body.block.ops if isinstance(op, sched.IntrinsicOp)]
    kernel, found = _kernel_of(func)
    if schedule is not None:
        found = _schedule_of(schedule)
    if found is not None and found.kernel.string_value() != kernel.sym_name.data:
        raise UserError(f"expected a schedule of @{kernel.sym_name.data}, but got one of {found.kernel}")
    if found is not None:
        intrinsics = used_intrinsics(found, {op.intrin.data: op for op in intrinsics})
    return OperatorSource(kernel, found, intrinsics)


def _kernel_of(
    func: Kernel | ModuleOp | str | Tensor | Sequence[Tensor],
) -> tuple[Kernel, sched.ScheduleOp | None]:
    """The kernel, and the schedule beside it in a text or module."""
    if isinstance(func, str):
        func = _parsed(func)
    if isinstance(func, ModuleOp):
        ops = [op for op in func.body.block.ops if not isinstance(op, sched.IntrinsicOp)]
        kernels = [op for op in ops if isinstance(op, te.FuncOp | loop.FuncOp)]
        schedules = [op for op in ops if isinstance(op, sched.ScheduleOp)]
        if len(kernels) != 1 or len(schedules) > 1 or len(ops) != len(kernels) + len(schedules):
            names = ", ".join(op.name for op in ops) or "nothing"
            raise UserError(f"expected one te.func or loop.func, and at most one sched.schedule, but got {names}")
        return kernels[0], schedules[0] if schedules else None
    if isinstance(func, te.FuncOp | loop.FuncOp):
        return func, None
    return func_of_tensors(func), None


def _parsed(text: str) -> ModuleOp:
    """The module of an IR text; an error names its line and column."""
    from mlc.driver.models.load import parse_module

    return parse_module(text, "<build>")


def _schedule_of(schedule: sched.ScheduleOp | str) -> sched.ScheduleOp:
    if isinstance(schedule, str):
        ops = list(_parsed(schedule).body.block.ops)
        if len(ops) != 1 or not isinstance(ops[0], sched.ScheduleOp):
            raise UserError("expected the text of one sched.schedule as schedule")
        return ops[0]
    if not isinstance(schedule, sched.ScheduleOp):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a sched.schedule op or its text as schedule, but got {type(schedule).__name__}")
    return schedule
