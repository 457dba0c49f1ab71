"""
loop-apply-schedule: rewrite the loops by the directives of the schedules, and drop the schedules.

In:  `loop.func`s, and `sched.schedule`s that name them.
Out: the same functions, rewritten directive by directive; no sched op is left.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects import loop, sched
from mlc.passes.loop.directives import DIRECTIVES, FINDING
from mlc.passes.loop.directives.kernel import Kernel
from mlc.passes.loop.directives.legality import independent_iterations
from mlc.passes.verifier import InvalidIR, verify
from mlc.support.errors import did_you_mean, fail


@dataclass(frozen=True)
class ApplySchedulePass(ModulePass):
    """
    Apply each schedule to the kernel of its name, one directive at a time.

    loop.for %j = 0 to 64 { ... %j ... }   with   %o, %i = sched.split %j [?, 16]
    -> loop.for %o = 0 to 4 { loop.for %i = 0 to 16 { ... %o * 16 + %i ... } }

    until=n stops each schedule after n directives (ops that only find something do not count). print="split" shows
    the kernel after each directive of that name, print="all" after every one. verify=true checks the IR in between.
    """

    name = "loop-apply-schedule"

    until: int | None = None
    print: str | None = None
    verify: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Apply and drop all schedules of a module."""
        top = list(op.body.block.ops)
        declared = [op for op in top if isinstance(op, sched.IntrinsicOp)]
        kernels = {f.sym_name.data: f for f in top if isinstance(f, loop.FuncOp)}
        for schedule in (s for s in top if isinstance(s, sched.ScheduleOp)):
            name = schedule.kernel_name
            if name not in kernels:
                fail(schedule, f"expected a loop.func @{name} to schedule, but there is none{_hint(op, name, kernels)}")
            self._apply_one(kernels[name], schedule, declared)
            schedule.detach()
            schedule.erase()
        for intrinsic in declared:
            intrinsic.detach()
            intrinsic.erase()

    def _apply_one(self, func: loop.FuncOp, schedule: sched.ScheduleOp, declared: Sequence[sched.IntrinsicOp]) -> None:
        kernel, count = Kernel(func, schedule), 0
        kernel.intrinsics = {op.intrin.data: op for op in declared}
        for op in schedule.body.block.ops:
            if self.until is not None and count >= self.until:
                return
            kernel.directive = op
            DIRECTIVES[type(op)](kernel, op)
            if type(op) not in FINDING:
                count += 1
                self._print_and_verify(func, op, count)
        finish(kernel)

    def _print_and_verify(self, func: loop.FuncOp, op: Operation, count: int) -> None:
        """Print and verify the kernel after a directive, as the options say."""
        if self.print in ("all", op.name, op.name.removeprefix("sched.")):
            print(f"// -----// IR after directive {count}: {op.name} //----- //\n{func}\n", file=sys.stderr)
        if self.verify:
            try:
                verify(func)
            except InvalidIR as error:
                raise AssertionError(f"{op.name} left invalid IR: {error}") from error


def _hint(module: ModuleOp, name: str, kernels: dict[str, loop.FuncOp]) -> str:
    for op in module.body.block.ops:
        if op.name == "te.func" and op.properties["sym_name"] == StringAttr(name):
            return "; run convert-te-to-loop first"
    return did_you_mean(name, kernels)


def finish(kernel: Kernel) -> None:
    """Check the parallel loops again into which blocks were moved after they were marked."""
    for f, directive in kernel.unchecked.items():
        if f.parent is not None:
            kernel.directive = directive
            kernel.check(independent_iterations(kernel, f))
